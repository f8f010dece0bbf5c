"""The printed tables: what follows from them."""

import pytest

from sameloss.studies.local_signal_images.published import (
    TABLE_B_1,
    best_columns,
    columns_of,
    kept_table,
    long_table,
    loss_changes,
    size_gains,
)


def test_every_number_is_there_once():
    table = long_table()
    assert len(table) == 48
    assert not table.duplicated(["size", "model", "placement", "noise"]).any()
    assert TABLE_B_1["32-on-64", "NTK"]["fixed corner"][-1] == 82.9


def test_what_is_kept():
    kept = kept_table().set_index(["size", "model", "placement"])
    own = kept.loc[("16-on-32", "NTK", "random place")]
    assert own.tolist() == pytest.approx([100 * 76.9 / 89.9, 100 * 16.9 / 29.9])


def test_columns_are_counted_one_by_one():
    """In the order of the table: where each placement is strictly better than the next."""
    order = ("fixed corner", "random corner", "random place")
    counted = [0, 0]
    for own in TABLE_B_1.values():
        for fixed, corner, place in zip(*(own[name] for name in order), strict=True):
            counted[0] += fixed > corner > place
            counted[1] += fixed > max(corner, place)
    assert [columns_of(order), best_columns("fixed corner")] == counted == [10, 13]
    assert columns_of(("fixed corner", "random place")) == 15


def test_larger_images():
    gains = size_gains()
    assert len(gains) == 24
    assert (gains.gain > 0).all()
    changes = loss_changes().set_index(["model", "placement"])["less lost"]
    assert changes["NTK", "random place"] == pytest.approx(4.0)
    assert changes["WRN", "random place"] == pytest.approx(1.8)
