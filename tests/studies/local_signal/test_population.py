"""Loss, accuracy and gradients: against simulation, differences, closed forms and quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sameloss.studies.local_signal.theory import (
    Filter,
    Patches,
    accuracy,
    answers,
    population,
    soft_threshold,
)

CASES = [
    (1000, 1.0, 0.1, -0.3),
    (100, 0.5, 0.3, -0.1),
    (50, 0.3, 0.2, 0.05),
    (50, -0.3, 0.2, -0.02),
    (10, 1.0, 0.5, -1.2),
    (2, 0.5, 0.5, -0.3),
]


@pytest.mark.parametrize(("k", "c", "v", "b"), CASES)
def test_it_is_the_mean_over_images(k, c, v, b):
    """Twelve comparisons of means: beyond four standard errors one in 1,300 times."""
    patches, count = Patches(k), 4000
    x, y = patches.draw(np.array([1.0, 0.0]), count, np.random.default_rng(100 + k))
    f = answers(x, np.array([c, v]), b)
    losses, right = np.logaddexp(0, -y * f), y * f > 0
    found = population(patches, Filter(c, v, b))
    assert abs(losses.mean() - found.loss) < 4 * losses.std() / np.sqrt(count)
    assert abs(right.mean() - found.accuracy) < 4 * np.sqrt(0.25 / count)


@pytest.mark.parametrize(("k", "c", "v", "b"), CASES)
def test_gradients_are_the_losses_differences(k, c, v, b):
    patches, step = Patches(k), 1e-4
    found = population(patches, Filter(c, v, b))
    for at, own in enumerate((found.by_c, found.by_v, found.by_b)):
        sides = []
        for sign in (1, -1):
            parts = [c, v, b]
            parts[at] += sign * step
            sides.append(population(patches, Filter(*parts)).loss)
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(own, abs=2e-5)


@pytest.mark.parametrize("b", [-0.4, 0.0])
def test_gradients_are_those_of_autograd_on_images(b):
    """The gradient by w of the mean loss over many images, within four standard errors."""
    patches, w, count = Patches(20), np.array([0.7, 0.4, 0.0]), 40_000
    x, y = patches.draw(np.array([1.0, 0.0, 0.0]), count, np.random.default_rng(0))
    z = x @ w
    pull = -y / (1 + np.exp(y * soft_threshold(z, b).sum(1)))
    slope = (z >= -b).astype(float) + (z <= b) if b else np.ones_like(z)
    each = pull[:, None] * np.einsum("nk,nkd->nd", slope, x)
    by_b = pull * ((z >= -b).astype(float) - (z <= b)).sum(1)
    found = population(patches, Filter(0.7, 0.4, b))
    for values, exact in (
        (each[:, 0], found.by_c),
        (each[:, 1], found.by_v),
        (each[:, 2], 0),
        (by_b, found.by_b),
    ):
        assert abs(values.mean() - exact) < 4 * values.std() / np.sqrt(count)


@pytest.mark.parametrize("k", [2, 100, 10**5, 10**8])
def test_without_a_threshold_it_is_the_linear_model(k):
    patches = Patches(k)
    assert accuracy(patches, Filter(2.0, 0.0, 0.0)) == pytest.approx(norm.cdf(1 / np.log(k)), abs=1e-10)


def test_two_rows_by_quadrature():
    """Of two rows the accuracy is a double integral, taken directly."""
    patches, b = Patches(2), -0.3
    s = patches.sigma * np.hypot(0.5, 0.5)
    g = soft_threshold(0.5, b)

    def right(z):
        """Return P[the other row > -(g + this one's)]."""
        need = -(g + soft_threshold(s * z, b))
        return norm.sf((need + np.sign(need) * -b) / s) if need else norm.sf(-b / s)

    edges = sorted([-abs(b) / s, abs(b) / s, -(g - b) / s, (g - b) / s])
    expected = quad(lambda z: right(z) * norm.pdf(z), -12, 12, points=edges, limit=500)[0]
    assert accuracy(patches, Filter(0.5, 0.5, b)) == pytest.approx(expected, abs=1e-8)


def test_no_answer_is_no_right_answer():
    """With the signal under the threshold f is 0 for most images, and right in half of the others."""
    found = population(Patches(1000), Filter(1.0, 0.0, -1.2))
    assert found.accuracy == pytest.approx((1 - found.noise.atom) / 2, abs=1e-12)
    assert found.accuracy < 1e-4


def test_it_does_not_depend_on_the_sign_of_the_signals_part():
    up, down = (population(Patches(30), Filter(sign * 0.4, 0.1, -0.1)) for sign in (1, -1))
    assert up.accuracy + down.accuracy == pytest.approx(1 - up.noise.atom, abs=1e-9)
