"""Swaps of ridge regression in closed form against fits of every swapped sample."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from sameloss.errors import ParameterError
from sameloss.studies.stability.theory import solved, stability_bound, swap_changes

SAMPLE, OTHERS = 6, 4


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    return rng.normal(size=(SAMPLE + OTHERS, 3)), rng.choice([-1.0, 1.0], SAMPLE + OTHERS)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_every_swap_is_a_second_fit(drawn, kernel):
    x, y = drawn
    ridge = 0.05
    gram = x @ x.T if kernel == "linear" else rbf_kernel(x)
    changes = swap_changes(gram, y, SAMPLE, ridge)
    fit = lambda rows: KernelRidge(alpha=ridge * SAMPLE, kernel=kernel).fit(x[rows], y[rows])  # noqa: E731
    before = fit(range(SAMPLE)).predict(x[SAMPLE:])
    for i in range(SAMPLE):
        for z in range(OTHERS):
            rows = [*range(i), SAMPLE + z, *range(i + 1, SAMPLE)]
            assert changes[i, z] == pytest.approx(fit(rows).predict(x[SAMPLE:]) - before, abs=1e-10)


def test_two_points_by_hand():
    """f(x) = w x with w = Σ x y / (Σ x² + λ m): 2/(2 + 1) on (1, 1) and (1, 1), 0 on (1, 1) and (1, -1)."""
    x, y = np.ones((3, 1)), np.array([1.0, 1.0, -1.0])
    assert solved(x[:2] @ x[:2].T, y[:2], 0.5).sum() == pytest.approx(2 / 3)
    assert swap_changes(x @ x.T, y, 2, 0.5) == pytest.approx(-2 / 3)


@pytest.mark.parametrize("ridge", [1e-3, 1e-1, 10.0])
def test_no_swap_breaks_the_bound(drawn, ridge):
    x, y = drawn
    gram = x @ x.T
    before = gram[SAMPLE:, :SAMPLE] @ solved(gram[:SAMPLE, :SAMPLE], y[:SAMPLE], ridge)
    changes = swap_changes(gram, y, SAMPLE, ridge)
    losses = np.abs((before + changes - y[SAMPLE:]) ** 2 - (before - y[SAMPLE:]) ** 2)
    assert losses.max() <= stability_bound(ridge, SAMPLE, gram.diagonal().max(), 1.0)


def test_the_bound_by_hand():
    assert stability_bound(ridge=4.0, size=10, largest=1.0, spread=1.0) == pytest.approx(3.0**2 / 40)


@pytest.mark.parametrize(
    ("kernel", "ridge", "message"),
    [(np.eye(2), 0.0, "positive λ; got 0"), (-np.eye(2), 0.1, "not positive semi-definite")],
)
def test_what_has_no_solution_is_refused(kernel, ridge, message):
    with pytest.raises(ParameterError, match=message):
        solved(kernel, np.ones(2), ridge)
