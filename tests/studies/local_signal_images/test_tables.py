"""Tables and sentences of the page."""

import pytest

from sameloss.studies.local_signal_images import claims as results
from sameloss.studies.local_signal_images import tables as shown


def test_every_table_has_a_row_for_what_it_is_about(found):
    assert shown.accuracy_table(found)["accuracy (%)"].tolist() == [
        *map(shown.SHOWN.get, shown.shown_in(found)),
        "chance",
    ]
    assert len(shown.kept_by(found)) == 4
    assert shown.activity_table(found).columns.tolist() == ["σ", "layer 1", "layer 2"]
    assert len(shown.sample_table(found)) == 3
    assert shown.lazy_table(found)["α"].tolist() == ["1", "100", "linearised"]
    assert shown.width_table(found).channels.tolist() == [1, 3]
    assert len(shown.published_table()) == 12
    assert len(shown.table_3_1()) == 4
    assert shown.by_seed(found).seed.nunique() == 2


def test_accuracies_are_means_over_seeds(found):
    table = shown.accuracy_table(found).set_index("accuracy (%)")
    own = 100 * found.accuracies("network", "random place")[0.5].mean()
    assert table.loc["network", "σ = 0.5"].startswith(f"{own:.1f} (")


def test_what_is_not_measured_is_a_dash(found, monkeypatch):
    monkeypatch.setattr(results, "ABOVE", -1.0)  # hardly trained
    table = shown.kept_by(found).set_index(["placement", "size"])
    assert table.loc[("fixed corner", "8-on-16"), "NTK, trained"] == "–"
    own = found.kept("network", "fixed corner").mean()
    assert table.loc[("fixed corner", "8-on-16"), "network"].startswith(f"{own:.1f} (")


def test_the_published_table_has_what_is_kept():
    row = (
        shown.published_table()
        .set_index(["size", "model", "placement"])
        .loc[("16-on-32", "WRN", "random place")]
    )
    assert row["σ = 2"] == 91.7
    assert row.kept == pytest.approx(96.83, abs=0.005)


def test_the_page_says_what_it_found(found):
    said = shown.in_words(found)
    assert "The claims, by verdict: " in said
    own = 100 * found.accuracies("network", "random place")[0.5].mean()
    assert f"at σ = 0.5 the network has {own:.1f} %" in said
