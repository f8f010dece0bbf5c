"""Every claim of growing is computed, gated, and judged as it is oriented."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.studies.growing.claims import CLAIMS, GAIN, TOPICS
from sameloss.studies.verdict import Verdict, judge

BY_ID = {claim.id: claim for claim in CLAIMS}


def verdict(name, grown):
    return judge(BY_ID[name].compute(grown), BY_ID[name])


def test_every_claim_has_an_id_of_its_own_and_a_topic():
    assert len(BY_ID) == len(CLAIMS) == sum(len(topic.claims) for topic in TOPICS)
    assert {claim.page for claim in CLAIMS} == {"ii5_growing"}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_claim_is_computed_of_what_was_made_up(claim, made_up):
    assert np.isfinite(claim.compute(made_up)).all() or claim.id == "grow-initial-copies"


def test_without_depth_to_gain_nothing_but_the_gate_is_testable(made_up):
    flat = replace(made_up, not_grown=made_up.not_grown - 1.0)
    assert judge(GAIN.claims[0].compute(flat), GAIN.claims[0]) == Verdict.CONTRADICTED
    for claim in CLAIMS[1:]:
        untestable = judge(claim.compute(flat), claim) == Verdict.NOT_TESTABLE
        assert untestable == claim.gated
    assert {claim.id for claim in CLAIMS if not claim.gated} == {
        "grow-headroom",
        "grow-age-spread",
        "grow-age-tells",
    }


def test_where_sentences_are_too_few_to_order_operators_nothing_about_order_is_testable(made_up):
    """The gate is open, but one half of the sentences orders operators by chance."""
    chance = np.random.default_rng(0).permuted(made_up.chosen_by, axis=2)
    chance[:, -1, 0] = chance[:, -1].min(1) - 0.01  # the best is found all the same
    blind = replace(made_up, chosen_by=chance)
    assert blind.headroom().low > 0
    untestable = {claim.id for claim in CLAIMS if np.isnan(claim.compute(blind).value)}
    assert untestable >= {claim.id for claim in CLAIMS if claim.ranks}
    assert untestable.isdisjoint({"grow-headroom", "grow-scratch", "grow-disruption", "grow-preserving"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grow-headroom", Verdict.DIRECTION),
        ("grow-scratch", Verdict.DIRECTION),
        ("grow-initial", Verdict.LARGER),
        ("grow-disruption", Verdict.DIRECTION),
        ("grow-lag", Verdict.DIRECTION),
        ("grow-lag-lot", Verdict.DIRECTION),
        ("grow-lag-initial", Verdict.LARGER),
        ("grow-shared", Verdict.DIRECTION),
        ("grow-knows-initial", Verdict.DIRECTION),
        ("grow-age-spread", Verdict.DIRECTION),
        ("grow-age-tells", Verdict.DIRECTION),
    ],
)
def test_claims_that_were_planted_are_found(name, expected, made_up):
    assert verdict(name, made_up) == expected


def test_the_opposite_of_what_was_planted_is_contradicted(made_up):
    """Operators that begin as they end: the initial loss tells all, and choosing later cannot be better."""
    tells = replace(made_up, chosen_by=np.repeat(made_up.chosen_by[:, -1:], len(made_up.steps), 1))
    assert verdict("grow-initial", tells) == Verdict.CONTRADICTED
    assert verdict("grow-lag-initial", tells) != Verdict.DIRECTION


def test_where_all_operators_preserve_or_none_does_they_are_not_compared(made_up):
    none = replace(made_up.settings, preserving=())
    kept = len(none.operators)
    fewer = replace(
        made_up,
        settings=none,
        chosen_by=made_up.chosen_by[..., :kept],
        kl=made_up.kl[..., :kept],
        landscape={name: own[:, :kept] for name, own in made_up.landscape.items()},
        accuracy=made_up.accuracy[:, :kept],
    )
    assert np.isnan(BY_ID["grow-preserving"].compute(fewer).value)
