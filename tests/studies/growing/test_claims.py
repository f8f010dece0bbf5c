"""Results, stacks, records, and claims."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.growing.claims import CLAIMS, EARLY, FROM_NOTHING, STACKING_TOPICS, of_each
from sameloss.studies.verdict import Verdict, judge, verdict_table

# Effects on results that were made up.

SEEDS_FIRST = ("chosen_by", "kl", "not_grown", "scratch", "accuracy")


def test_correlations_turn_at_the_planted_look(made_up):
    assert made_up.correlations(0) == pytest.approx([-1] * 3)
    assert made_up.correlations(4) == pytest.approx([1] * 3)
    assert made_up.correlations(0, made_up.of("duplicate", "random")) == pytest.approx([-1] * 3)
    assert np.isnan(made_up.correlations(0, made_up.of("silent"))).all()  # of one operator


def test_regrets_are_those_of_the_worst_and_of_the_best(made_up):
    regrets = {name: made_up.regret_of(picked) for name, picked in made_up.choices.items()}
    assert regrets["LAG@0"] == pytest.approx([1] * 3)
    assert regrets["LAG@10"] == pytest.approx([0] * 3)
    assert regrets["oracle"] == pytest.approx([0] * 3)
    assert made_up.by_lot() == pytest.approx([0.5] * 3)
    assert made_up.chosen() == pytest.approx(made_up.final[:, 0])


def test_the_gate_is_what_the_best_gains_over_the_one_not_grown(made_up):
    ratios = made_up.not_grown[:, -1] / made_up.final[:, 0]
    assert made_up.headroom().value == pytest.approx(np.log(ratios).mean())
    assert made_up.headroom().low > 0


def test_the_curve_has_a_row_a_look(made_up):
    curve = made_up.correlation_curve()
    assert curve.step.tolist() == made_up.steps
    assert curve["recall@1"].tolist() == [0.0] * 3 + [1.0] * (len(curve) - 3)
    assert curve.regret_value.tolist() == pytest.approx([1.0] * 3 + [0.0] * (len(curve) - 3), abs=1e-9)


def test_seeds_that_agree_share_an_order_and_others_do_not(made_up):
    assert made_up.shared_order().value == pytest.approx(1, abs=1e-5)
    shuffled = made_up.kl.copy()
    shuffled[1, -1] = shuffled[1, -1, ::-1]
    assert replace(made_up, kl=shuffled).shared_order().value < 0
    alone = {name: getattr(made_up, name)[:1] for name in SEEDS_FIRST}
    landscape = {name: own[:1] for name, own in made_up.landscape.items()}
    assert np.isnan(replace(made_up, **alone, landscape=landscape).shared_order().value)


def test_the_early_look_is_at_the_thesis_share(made_up):
    assert made_up.steps[made_up.early] == made_up.look(EARLY * 40) == 2


def test_it_tells_the_end_from_the_planted_look(made_up):
    assert made_up.tells_from().tolist() == [made_up.steps[3]] * 3
    never = replace(made_up, chosen_by=made_up.chosen_by[..., ::-1])
    assert np.isnan(never.tells_from()).all()
    assert never.ceiling() < -0.9 < 0.9 < made_up.ceiling()


def test_what_was_picked_has_its_accuracy(made_up):
    assert of_each(made_up.accuracy, made_up.picked()) == pytest.approx([90] * 3)
    assert of_each(made_up.accuracy, made_up.picked(0)) == pytest.approx([80] * 3)


def test_the_gate_is_not_fooled_by_the_least_of_many(made_up):
    """Where all end like the one not grown, but for noise, the best by other sentences gains nothing."""
    rng = np.random.default_rng(0)
    noisy = {name: np.exp(0.1 * rng.standard_normal((3, 10, 6))) for name in ("chosen_by", "kl")}
    gate = replace(made_up, **noisy, not_grown=np.ones((3, 10))).headroom()
    assert gate.low < 0


# What stacking found, on tables that were made up.


def test_ways_are_compared_by_their_ends(stacked):
    assert stacked.final("last") == pytest.approx([0.12, 0.132, 0.144])
    assert stacked.below("adaptive", "last").value == pytest.approx(0.022)
    assert stacked.headroom().value == pytest.approx(np.log(0.3 / 0.12))


def test_at_equal_kl_what_a_smaller_loss_explains_is_gone(stacked):
    assert stacked.tasks == ["root", "span2"]
    assert stacked.at_equal_kl("last", FROM_NOTHING, "root").value == pytest.approx(2)
    assert stacked.at_equal_kl("last", FROM_NOTHING, "accuracy").value == pytest.approx(2)
    assert stacked.at_equal_kl("middle", FROM_NOTHING, "accuracy").value == pytest.approx(0, abs=1e-9)
    assert stacked.at_equal_kl(FROM_NOTHING, "last", "trace").value == pytest.approx(np.log(3))


def test_where_loss_ranges_do_not_meet_nothing_is_compared(stacked):
    far = stacked.known.assign(kl=stacked.known.kl.where(stacked.known.way != "last", 9 * stacked.known.kl))
    assert np.isnan(replace(stacked, known=far).at_equal_kl("last", FROM_NOTHING, "root").value)


def test_claims_are_judged_as_they_are_oriented(stacked):
    assert set(verdict_table(STACKING_TOPICS, stacked).verdict) == {Verdict.DIRECTION}
    flat = verdict_table(STACKING_TOPICS, replace(stacked, stages=stacked.stages.assign(kl=1.0)))
    assert set(flat.id[flat.ours.notna()]) == {"stack-headroom", "stack-knows", "stack-flatter"}


# Tables say the same whether they come from runs or were written and read again.


def written(tables, folder):
    """Return tables as they are read from files."""
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    return {name: pd.read_csv(folder / f"{name}.csv") for name in tables}


def test_what_is_read_again_says_the_same(page, tmp_path):
    again = page.read(written(page.tables(), tmp_path), page.config)
    assert again.kl == pytest.approx(page.results.kl, rel=1e-5)
    assert again.scratch == pytest.approx(page.results.scratch, rel=1e-5)
    assert again.accuracy == pytest.approx(page.results.accuracy, rel=1e-5)
    assert set(again.aged) == {8, 20}
    assert again.aged[8].kl.shape[0] == 1
    assert again.aged[20].kl[0] == pytest.approx(page.results.kl[0], rel=1e-5)
    assert again.diverged == ()


def test_so_do_stacks(stacking, tmp_path):
    again = stacking.read(written(stacking.tables(), tmp_path), stacking.config)
    assert again.final("middle") == pytest.approx(stacking.results.final("middle"), rel=1e-5)
    assert again.tasks == stacking.results.tasks


# Every claim of growing is computed, gated, and judged as it is oriented.

BY_ID = {claim.id: claim for claim in CLAIMS}


def verdict(name, grown):
    return judge(BY_ID[name].effect(grown), BY_ID[name])


def test_every_claim_has_an_id_of_its_own():
    assert len(BY_ID) == len(CLAIMS)
    assert {claim.page for claim in CLAIMS} == {"ii5_growing"}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_claim_is_computed_of_what_was_made_up(claim, made_up):
    assert np.isfinite(claim.effect(made_up)).all() or claim.id == "grow-initial-copies"


def test_without_depth_to_gain_nothing_but_the_gate_is_testable(made_up):
    flat = replace(made_up, not_grown=made_up.not_grown - 1.0)
    assert verdict("grow-headroom", flat) == Verdict.CONTRADICTED
    for claim in CLAIMS[1:]:
        untestable = judge(claim.effect(flat), claim) == Verdict.NOT_TESTABLE
        assert untestable == (claim.id not in ("grow-headroom", "grow-age-spread", "grow-age-tells"))


def test_where_sentences_are_too_few_to_order_operators_nothing_about_order_is_testable(made_up):
    """The gate is open, but one half of the sentences orders operators by chance."""
    chance = np.random.default_rng(0).permuted(made_up.chosen_by, axis=2)
    chance[:, -1, 0] = chance[:, -1].min(1) - 0.01  # the best is found all the same
    blind = replace(made_up, chosen_by=chance)
    assert blind.headroom().low > 0
    untestable = {claim.id for claim in CLAIMS if np.isnan(claim.effect(blind).value)}
    assert untestable >= {claim.id for claim in CLAIMS if claim.unit in ("Spearman", "relative regret")}
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
    assert np.isnan(BY_ID["grow-preserving"].effect(fewer).value)
