"""The steps of the proofs in many cases, and assumptions dropped."""

import pytest

from sameloss.studies.decision_lists.experiment import PARTS, ListProofs


def test_every_kind_of_case_is_tried(page, tables):
    counts = tables.proofs.kind.value_counts()
    assert (counts == page.config.cases).all()
    assert len(counts) == 4
    exact = tables.proofs[tables.proofs.kind.isin(["V = cP", "rare, V = cP"])]
    assert exact.identity.notna().all()
    assert exact.light.max() <= 0
    assert tables.proofs[tables.proofs.kind == "V near cP"].identity.isna().all()


def test_other_seeds_are_other_cases():
    first, again, other = (list(ListProofs(2, seed).rows(lambda *_: None)) for seed in (0, 0, 1))
    assert first[0]["curvature"] == again[0]["curvature"] != other[0]["curvature"]


def test_every_part_is_followed(tables):
    assert set(tables.departures.what) == set(PARTS)


def test_repeats_take_longer_and_move_the_scores(tables):
    own = tables.dropped("repeats").set_index(["value", "name", "readout"]).number
    for readout in (100.0, 1000.0):
        assert own["repeated", "time", readout] > 100 * own["different", "time", readout]
        assert own["repeated", "spread", readout] == pytest.approx(1.386, rel=0.1)


def test_what_the_other_parts_hold(page, tables):
    starts = tables.dropped("start")
    assert starts.number.is_monotonic_increasing
    assert len(starts) == len(page.config.departures.starts)
    radius = tables.dropped("radius")
    assert radius[radius.value.astype(float) == 0].number.eq(1).all()
    assert radius.number.between(0, 1).all()
    assert tables.dropped("persistence").number.tolist()[2] == 1
    joint = tables.dropped("theorem 4.4").pivot(index="value", columns="name", values="number")
    assert len(joint) == 2
    assert (joint["move over radius"] > 0).all()
    assert (joint["move over radius"] < joint["time over promise"]).all()  # |∂L/∂V| is below 1
    assert (tables.dropped("theorem 4.4").number < 1e-3).all()
