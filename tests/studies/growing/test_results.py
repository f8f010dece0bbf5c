"""Effects on results that were made up."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.studies.growing.claims import EARLY, Grown
from sameloss.studies.growing.experiment import PRESETS

SEEDS_FIRST = ("chosen_by", "kl", "not_grown", "scratch", "accuracy")


def test_correlations_turn_at_the_planted_look(made_up):
    assert made_up.correlations(0) == pytest.approx([-1] * 3)
    assert made_up.correlations(4) == pytest.approx([1] * 3)
    assert made_up.correlations(0, made_up.of("duplicate", "random")) == pytest.approx([-1] * 3)
    assert np.isnan(made_up.correlations(0, made_up.of("silent"))).all()  # of one operator


def test_regrets_are_those_of_the_worst_and_of_the_best(made_up):
    assert made_up.regrets(0) == pytest.approx([1] * 3)
    assert made_up.regrets(4) == pytest.approx([0] * 3)
    assert made_up.regret_of(made_up.always(made_up.operators[0])) == pytest.approx([0] * 3)
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
    names = ("chosen_by", "kl", "not_grown", "scratch", "accuracy")
    alone = {name: getattr(made_up, name)[:1] for name in names}
    landscape = {name: own[:1] for name, own in made_up.landscape.items()}
    assert np.isnan(replace(made_up, **alone, landscape=landscape).shared_order().value)


def test_the_early_look_is_at_the_thesis_share(made_up):
    assert made_up.steps[made_up.early] == made_up.look(EARLY * 40) == 2


def test_operators_share_all_variance_where_shallow_models_agree(made_up):
    assert made_up.operator_share() == pytest.approx(1, abs=1e-3)
    rng = np.random.default_rng(0)
    alone = made_up.kl.copy()
    alone[:, -1] = np.exp(rng.standard_normal(alone[:, -1].shape))
    assert abs(replace(made_up, kl=alone).operator_share()) < 0.6


def test_the_share_is_that_of_a_two_way_layout():
    """Against the variances that were planted: operators 0.09, the rest 0.01."""
    rng = np.random.default_rng(1)
    settings = replace(PRESETS["laptop-long"].growing, seeds=40)
    shape = (40, len(settings.look_steps), len(settings.operators))
    kl = np.ones(shape)
    order, noise = 0.3 * rng.standard_normal(shape[2]), 0.1 * rng.standard_normal((shape[0], shape[2]))
    kl[:, -1] = np.exp(order + noise + rng.standard_normal((40, 1)))
    nothing = np.ones(shape[:2])
    planted = Grown(settings, kl, kl, nothing, nothing, {}, np.ones((40, shape[2])))
    expected = order.var(ddof=1) / (order.var(ddof=1) + 0.01)
    assert planted.operator_share() == pytest.approx(expected, abs=0.01)
    few = replace(planted, **{name: getattr(planted, name)[:1] for name in SEEDS_FIRST})
    assert np.isnan(few.operator_share())


def test_it_tells_the_end_from_the_planted_look(made_up):
    assert made_up.tells_from().tolist() == [made_up.steps[3]] * 3
    never = replace(made_up, chosen_by=made_up.chosen_by[..., ::-1])
    assert np.isnan(never.tells_from()).all()
    assert never.ceiling() < -0.9 < 0.9 < made_up.ceiling()


def test_what_was_picked_has_its_accuracy(made_up):
    assert made_up.accuracy_of(made_up.picked()) == pytest.approx([90] * 3)
    assert made_up.accuracy_of(made_up.picked(0)) == pytest.approx([80] * 3)


def test_the_gate_is_not_fooled_by_the_least_of_many(made_up):
    """Where all end like the one not grown, but for noise, the best by other sentences gains nothing."""
    rng = np.random.default_rng(0)
    noisy = {name: np.exp(0.1 * rng.standard_normal((3, 10, 6))) for name in ("chosen_by", "kl")}
    gate = replace(made_up, **noisy, not_grown=np.ones((3, 10))).headroom()
    assert gate.low < 0
