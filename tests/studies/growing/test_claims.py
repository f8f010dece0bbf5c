"""Results of growing and stacking, and their claims."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from cells import definitions
from scipy import stats

from sameloss.studies.growing.claims import EARLY, STACKING_TOPICS, TOPICS, Stacks
from sameloss.studies.verdict import in_words, judge, verdict_table

CHAPTER = definitions("ii5_growing")

# Growing once


def test_correlations_change_sign_at_the_planted_step(synthetic):
    assert synthetic.correlations(0) == pytest.approx([-1] * 3)
    assert synthetic.correlations(4) == pytest.approx([1] * 3)
    assert synthetic.correlations(0, synthetic.of("duplicate", "random")) == pytest.approx([-1] * 3)
    assert np.isnan(synthetic.correlations(0, synthetic.of("silent"))).all()  # one operator


def test_the_regret_is_one_for_the_worst_and_zero_for_the_best(synthetic):
    regrets = {name: synthetic.regret(choice) for name, choice in CHAPTER.choices_of(synthetic).items()}
    assert regrets["LAG@0"] == pytest.approx([1] * 3)
    assert regrets["LAG"] == pytest.approx([0] * 3)
    assert regrets["oracle"] == pytest.approx([0] * 3)
    assert synthetic.relative_regret(synthetic.final.mean(1)) == pytest.approx([0.5] * 3)
    assert synthetic.choice().tolist() == [0] * 3


def test_the_headroom_is_the_gain_of_the_best_over_the_model_not_grown(synthetic):
    ratios = synthetic.not_grown[:, -1] / synthetic.final[:, 0]
    assert synthetic.headroom().value == pytest.approx(np.log(ratios).mean())
    assert synthetic.headroom().low > 0


def test_the_curve_has_one_row_per_evaluation(synthetic):
    curve = CHAPTER.correlation_curve(synthetic)
    assert curve.step.tolist() == synthetic.steps
    assert curve["recall@1"].tolist() == [0.0] * 3 + [1.0] * (len(curve) - 3)
    assert curve.regret_value.tolist() == pytest.approx([1.0] * 3 + [0.0] * (len(curve) - 3), abs=1e-9)


def test_the_early_loss_is_that_of_the_thesis(synthetic):
    assert synthetic.steps[synthetic.early] == synthetic.nearest(EARLY * 40) == 2


def test_evaluations_are_predictive_from_the_planted_step(synthetic):
    assert synthetic.first_predictive_step().tolist() == [synthetic.steps[3]] * 3
    never = replace(synthetic, chosen_by=synthetic.chosen_by[..., ::-1])
    assert np.isnan(never.first_predictive_step()).all()
    assert never.ceiling() < -0.9 < 0.9 < synthetic.ceiling()


def test_a_choice_has_its_accuracy(synthetic):
    accuracies = synthetic.accuracies(synthetic.named(synthetic.choice()))
    assert accuracies.a.to_list() == pytest.approx([90] * 3)
    assert accuracies.b.to_list() == pytest.approx([89] * 3)
    assert synthetic.accuracy_above(synthetic.choice(0)).value == pytest.approx(10)


def test_the_headroom_is_not_biased_by_the_minimum_over_operators(synthetic):
    """Where all models differ by noise only, the best on the other half of the sentences gains nothing."""
    rng = np.random.default_rng(0)
    noisy = {name: np.exp(0.1 * rng.standard_normal((3, 10, 6))) for name in ("chosen_by", "kl")}
    assert replace(synthetic, **noisy, not_grown=np.ones((3, 10))).headroom().low < 0


# Growing in stages


def test_ways_are_compared_by_their_ends(stacks):
    assert stacks.final("last") == pytest.approx([0.12, 0.132, 0.144])
    assert stacks.below("adaptive", "last").value == pytest.approx(0.022)
    assert stacks.headroom().value == pytest.approx(np.log(0.3 / 0.12))


def test_claims_of_stacking_are_oriented(stacks):
    assert set(verdict_table(STACKING_TOPICS, stacks).direction) == {"supported"}
    flat = verdict_table(STACKING_TOPICS, replace(stacks, stages=stacks.stages.assign(kl=1.0)))
    assert set(flat.direction) == {"open"}


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        ((-0.001, 0.0, 0.002), "open: negligible"),
        ((-0.001, 0.0, 0.004), "open"),  # its 90 % interval ends at 0.0055
        ((0.001, 0.0011, 0.0012), "supported"),
        ((-0.001, -0.0011, -0.0012), "against"),
    ],
)
def test_stacks_that_end_within_the_margin_differ_negligibly(stacks, differences, said):
    """Of an effect with a direction nothing is said of its size."""
    ends = stacks.stages.way.eq("adaptive") & stacks.stages.step.eq(60)
    last = stacks.stages.kl[stacks.stages.way.eq("last") & stacks.stages.step.eq(60)].to_numpy()
    near = stacks.stages.kl.mask(ends, np.nan)
    near[ends] = last - differences
    found = verdict_table(STACKING_TOPICS, Stacks(stacks.stages.assign(kl=near))).set_index("id")
    assert in_words(*found.loc["stack-adaptive", ["direction", "size"]]) == said
    assert not found["size"].drop("stack-adaptive").any()


# Models of other ages


def test_results_at_every_age_are_those_of_its_runs(growing):
    assert set(growing.page.results.aged) == {8, 20}
    for age, own in growing.page.results.aged.items():
        table = growing.page.store.get(growing.aged(age, 0, growing.page.aged.operators))
        last = table[table.step == 12].set_index("operator").kl
        expected = last[[operator.name for operator in own.operators]]
        assert own.final == pytest.approx(expected.to_numpy()[None], rel=1e-5)


# Claims on growing once

CLAIMS = [claim for topic in TOPICS for claim in topic.claims]
BY_ID = {claim.id: claim for claim in CLAIMS}


def verdict(name, grown):
    claim = BY_ID[name]
    return in_words(*judge(claim.effect(grown), claim.value, tolerance=claim.tolerance)[:2])


def test_every_claim_has_a_unique_id():
    assert len(BY_ID) == len(CLAIMS)
    assert {claim.page for claim in CLAIMS} == {"ii5_growing"}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_claim_is_computed(claim, synthetic):
    assert np.isfinite(claim.effect(synthetic)).all()


OF_ORDER = {claim.id for claim in CLAIMS if claim.unit in ("Spearman", "relative regret")}


def test_without_headroom_no_claim_about_an_order_is_testable(synthetic):
    """Others compare KLs or accuracies, and need none."""
    flat = replace(synthetic, not_grown=synthetic.not_grown - 1.0)
    assert verdict("grow-headroom", flat) == "against"
    assert {claim.id for claim in CLAIMS if np.isnan(claim.effect(flat).value)} == OF_ORDER


def test_disruption_does_not_pay_by_necessity(synthetic):
    """The best operator's initial KL is never below the smallest one, but may be below the mean."""
    assert BY_ID["grow-disruption"].effect(synthetic).low > 0
    order = synthetic.final.argsort(1)[:, None]
    gentle = np.take_along_axis(np.sort(synthetic.kl, 2), order.argsort(2), 2)  # begin as they end
    assert verdict("grow-disruption", replace(synthetic, kl=gentle)) == "against"


def test_where_the_halves_disagree_no_claim_about_an_order_is_testable(synthetic):
    """There is headroom, but one half of the sentences orders operators by chance."""
    chance = np.random.default_rng(0).permuted(synthetic.chosen_by, axis=2)
    chance[:, -1, 0] = chance[:, -1].min(1) - 0.01  # the best is chosen all the same
    unordered = replace(synthetic, chosen_by=chance)
    assert unordered.headroom().low > 0
    assert {claim.id for claim in CLAIMS if np.isnan(claim.effect(unordered).value)} == OF_ORDER


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grow-headroom", "supported"),
        ("grow-scratch", "supported"),
        ("grow-initial", "supported: larger than published"),
        ("grow-lag", "supported"),
        ("grow-lag-lot", "supported"),
        ("grow-lag-initial", "supported: larger than published"),
        ("grow-knows-initial", "supported"),
        ("grow-age-tells", "supported"),
    ],
)
def test_planted_claims_are_supported(name, expected, synthetic):
    assert verdict(name, synthetic) == expected


def test_a_verdict_is_against_the_opposite_of_the_planted_claims(synthetic):
    """Where operators begin as they end, the initial loss predicts all, and choosing later is no better."""
    predictive = replace(synthetic, chosen_by=np.repeat(synthetic.chosen_by[:, -1:], len(synthetic.steps), 1))
    assert verdict("grow-initial", predictive) == "against: smaller than published"
    assert verdict("grow-lag-initial", predictive) != "supported: larger than published"


def test_without_preserving_operators_there_is_no_comparison_with_copies(synthetic):
    none = replace(synthetic.growth, preserving=())
    count = len(none.operators)
    fewer = replace(
        synthetic,
        growth=none,
        chosen_by=synthetic.chosen_by[..., :count],
        kl=synthetic.kl[..., :count],
    )
    assert np.isnan(BY_ID["grow-preserving"].effect(fewer).value)


def test_the_first_figure_has_the_curve(synthetic):
    curve = CHAPTER.how_early(synthetic)
    assert curve.equals(CHAPTER.correlation_curve(synthetic))
    left, right = plt.gcf().axes[:2]
    models, own = len(synthetic.final), {line.get_label(): line for line in left.lines}
    np.testing.assert_allclose(own["mean"].get_ydata(), curve.correlation_value)
    np.testing.assert_allclose(
        [line.get_ydata() for line in right.lines[:models]], [curve.regret_value] * models
    )
    assert not left.collections  # no band for three shallow models
    plt.close("all")


def test_a_band_is_drawn_for_five_models(synthetic):
    _, ax = plt.subplots()
    curve = CHAPTER.correlation_curve(synthetic)
    CHAPTER.draw_course(ax, curve, "regret", np.zeros((5, len(curve))))
    assert len(ax.collections) == 1
    plt.close("all")


def test_rankings_separate_at_the_planted_step(synthetic):
    """The correlations of evaluations are those of SciPy, mean over models."""
    correlations = CHAPTER.self_correlation(synthetic)
    assert CHAPTER.transition(correlations) == 3
    pairs = [stats.spearmanr(*model[[0, 4]]).statistic for model in synthetic.chosen_by]
    assert correlations[0, 4] == pytest.approx(np.mean(pairs))


def test_a_noisy_transition_is_found():
    """Six steps in one order, ten in another."""
    rng = np.random.default_rng(1)
    orders = np.array([rng.permutation(12)] * 6 + [rng.permutation(12)] * 10)
    noisy = orders + 0.3 * rng.standard_normal((16, 12))
    assert CHAPTER.transition(np.corrcoef(noisy.argsort(1).argsort(1))) == 6
