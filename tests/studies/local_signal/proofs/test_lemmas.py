"""The lemmas: gradients' noise parts by simulation, bounds, recorded numbers and counter-examples."""

from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import chi2, norm

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.proofs.lemmas import (
    PARTS,
    ProofTable,
    alive,
    at_error,
    at_state,
    bias_turn,
    chains,
    counter_examples,
    error_ratio,
    error_where_bias_turns,
    gaussian_alpha,
    growth_rows,
    least_rows,
    log_large_entries,
    log_start_excess,
    loss_bound_on_c,
    maximum_excess,
    small_signal_gradient,
    small_signal_turn,
    states,
)
from sameloss.studies.local_signal.theory import Filter, Patches, population, soft_threshold

EXAMPLES = list(counter_examples())


def example(of):
    return next(row for row in EXAMPLES if row["of"] == of)


@pytest.mark.parametrize("b", [-0.2, 0.3])
def test_a_state_by_simulation(b):
    k, c, v, count = 50, 0.8, 0.4, 20_000
    random = np.random.default_rng(0)
    a, across = random.normal(0, Patches(k).sigma, (2, count, k))
    z = c * a + v * across
    s = soft_threshold(z, b)
    f = s.sum(1) + soft_threshold(c, b)
    kept = (z >= -b).astype(float) + (z <= b)
    parts = -(a * kept).sum(1) / (1 + np.exp(f)) / c / log(k) ** 2  # of y = 1; of y = -1 it is the same
    found = at_state(k, Filter(c, v, b))
    assert abs(parts.mean() - found["noise"]) < 4 * parts.std() / sqrt(count)
    total = s.sum(1)
    reach = c + b + 10
    assert abs((abs(total) <= reach).mean() - found["within"]) < 4 * sqrt(0.25 / count)
    assert abs(s).mean() / s.std() == pytest.approx(found["width"], rel=0.01)
    assert k * s.var() / (c + b) ** 2 == pytest.approx(found["spread"], rel=0.02)


def test_bounds_hold_at_every_state_and_ours_is_nearly_reached():
    found = states()
    assert (found.noise >= 0).all()
    assert (found.noise <= found.ours + 1e-12).all()
    assert (found.noise / found.ours).max() > 0.99
    below = found[found.b <= 0]
    assert (below.noise <= below.printed).all()
    assert below.noise.max() <= 0.25
    assert (alive(found).c + alive(found).b > 0).all()
    assert (found[found.loss <= 1].within_g >= 0.8).all()


def test_counter_examples_are_recorded():
    dead = example("lemB5")
    assert (dead["alpha"], 2 * sqrt(log(1000))) == pytest.approx((5.493, 5.257), abs=1e-3)
    assert 1 - dead["error"] == pytest.approx(1.97e-5, rel=0.01)
    assert dead["spread"] < 1e-4
    assert example("lemB8")["within"] == 0
    assert example("lemB8")["loss"] == pytest.approx(log(2))
    assert example("lem31")["by_c"] > 0
    assert example("lem31")["c"] < 1 / log(1000) ** 4
    assert example("lemB9")["error"] > 0.99
    assert all(row["by_b"] < -0.3 for row in EXAMPLES if row["of"] == "lem33")
    assert example("lemB7")["loss"] < 1
    assert example("noise-bound")["noise"] / example("noise-bound")["printed"] == pytest.approx(
        4.64, abs=0.01
    )


@pytest.mark.parametrize(
    ("k", "by_b"), [(1000, -0.389), (2000, -0.262), (5000, -0.079), (10_000, 0.096), (100_000, 1.167)]
)
def test_recorded_gradients_by_b_at_an_error_of_one_in_a_hundred(k, by_b):
    assert at_error(k)["by_b_1"] == pytest.approx(by_b, abs=1e-3)


def test_where_the_lemmas_begin():
    assert [round(x, 1) for x in chains().decades] == [3.2, 9.2, 70.8, 19.3]
    assert least_rows() == 788
    assert bias_turn(1.0) == pytest.approx(6987, rel=1e-3)
    assert small_signal_turn(lambda x: x**-4) / log(10) == pytest.approx(17.515, abs=1e-3)
    assert error_where_bias_turns(1000) == pytest.approx(0.1468, abs=1e-4)
    assert loss_bound_on_c(1000) == pytest.approx(1358, abs=1)
    assert growth_rows(100) == pytest.approx(1177, abs=1)
    ratio = error_ratio(Patches(1000))
    turned = population(Patches(1000), Filter(1.0, 0.0, -ratio)).accuracy
    assert turned == pytest.approx(0.99, abs=1e-9)


def test_the_loss_is_one_at_the_bound_on_c():
    c, ratio = loss_bound_on_c(1000), error_ratio(Patches(1000))
    assert population(Patches(1000), Filter(c, 0.0, -ratio * c)).loss == pytest.approx(1, abs=1e-3)


def test_forms_for_large_k_are_limits_of_exact_ones():
    assert gaussian_alpha(log(1e6)) == pytest.approx(at_error(10**6)["alpha"], abs=1e-3)
    exact = at_error(10**6)
    assert small_signal_gradient(log(1e6), 0.03) == pytest.approx(exact["by_b_0.03"], abs=0.01)
    assert small_signal_gradient(log(1e6), log(1e6) ** -4) == pytest.approx(exact["by_b_lowest"], abs=1e-4)


def test_maxima_and_starts_by_their_definition():
    one, both = maximum_excess(10)
    tail = norm.sf(2 * sqrt(log(10)))
    assert one == pytest.approx(10 * (1 - (1 - tail) ** 10))
    assert both == pytest.approx(5 * (1 - (1 - 2 * tail) ** 10))
    assert log_start_excess(5, 3) == pytest.approx(log(chi2.sf(15, 3) / (6 * exp(-2.5))))
    assert exp(log_large_entries(log(1000), 500, 10)) == pytest.approx(
        500 * 1000 * 10 * 2 * norm.sf(1 / Patches(1000).sigma)
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: at_error(100), "it takes k >= 800"),
        (lambda: at_state(1, Filter(1.0, 0.1, 0.0)), "noise must be a whole number, at least 2"),
        (lambda: at_state(100, Filter(0.0, 0.0, 0.1)), r"c² \+ v² > 0"),
        (lambda: maximum_excess(0), "n must be"),
        (lambda: ProofTable("everything"), "Unknown part 'everything'"),
    ],
)
def test_faults_are_a_sentence(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


def test_every_part_has_its_key():
    assert len({ProofTable(part).key for part in PARTS}) == len(PARTS)
