"""Effects on results that were made up."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.studies.growing.results import EARLY


def test_correlations_turn_at_the_planted_look(made_up):
    assert made_up.correlations(0) == pytest.approx([-1] * 3)
    assert made_up.correlations(4) == pytest.approx([1] * 3)
    assert made_up.correlations(0, made_up.of("duplicate", "random")) == pytest.approx([-1] * 3)
    assert np.isnan(made_up.correlations(0, made_up.of("silent"))).all()  # of one operator


def test_regrets_are_those_of_the_worst_and_of_the_best(made_up):
    assert made_up.regrets(0) == pytest.approx([1] * 3)
    assert made_up.regrets(4) == pytest.approx([0] * 3)
    assert made_up.regrets_of(made_up.operators[0]) == pytest.approx([0] * 3)
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
