"""Data, soft thresholds, sums of rows, population quantities, flows and stochastic descent."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import ks_2samp, norm

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.theory import (
    Filter,
    Patches,
    RowSum,
    accuracy,
    best_threshold,
    descend,
    flow,
    gradient,
    in_population,
    noise_sums,
    population,
    row_sum,
    slopes,
    soft_threshold,
)

# The distribution: one row is the signal, the others are noise.


def drawn(patches, signal, count, random):
    """Draw images whole, with the signal in a random row, and their labels."""
    y = random.choice([-1, 1], count)
    x = random.normal(0, patches.sigma, (count, patches.noise + 1, len(signal)))
    x[np.arange(count), random.integers(patches.noise + 1, size=count)] = y[:, None] * signal
    return x, y


@pytest.mark.parametrize(
    ("noise", "multiplier", "sentence"),
    [(1, 1.0, "noise must be a whole number, at least 2"), (9, 0.0, "multiplier must be positive")],
)
def test_invalid_distributions_are_refused(noise, multiplier, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Patches(noise, multiplier)


# The soft threshold, case by case, and its slopes.


@pytest.mark.parametrize(
    ("x", "b", "expected"),
    [
        (2.0, -0.5, 1.5),
        (0.4, -0.5, 0.0),
        (-2.0, -0.5, -1.5),
        (2.0, 0.0, 2.0),
        (0.3, 0.5, 0.6),
        (2.0, 0.5, 2.5),
    ],
)
def test_it_shrinks_keeps_or_stretches(x, b, expected):
    assert soft_threshold(x, b) == pytest.approx(expected)
    assert soft_threshold(-x, b) == pytest.approx(-expected)


@pytest.mark.parametrize("b", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("x", [-2.0, -0.3, 0.2, 1.0])
def test_slopes_are_the_derivatives(x, b):
    step = 1e-6
    numeric = [
        (soft_threshold(x + step, b) - soft_threshold(x - step, b)) / (2 * step),
        (soft_threshold(x, b + step) - soft_threshold(x, b - step)) / (2 * step),
    ]
    if b == 0:
        numeric[1] = np.sign(x)
    np.testing.assert_allclose(slopes(x, b), numeric, atol=1e-8)


@pytest.mark.parametrize("parts", [(0.0, 0.0, 1.0), (np.nan, 1.0, 0.0), (1.0, 0.0, np.inf)])
def test_filters_that_are_zero_or_not_finite_are_refused(parts):
    with pytest.raises(ParameterError, match="A filter needs c² \\+ v² > 0"):
        row_sum(Patches(9), Filter(*parts))


# The law of the noise's sum, against numerical integration and simulation.

CASES = [(0.3, -0.2), (0.3, 0.0), (0.3, 0.15), (1.0, -2.5)]


@pytest.mark.parametrize(("s", "b"), CASES)
def test_one_rows_characteristic_function_is_its_integral(s, b):
    u, corners = np.array([0.1, 1.0, 7.0]), [-abs(b) / s, abs(b) / s]

    def integrand(z, frequency):
        return np.cos(frequency * soft_threshold(s * z, b)) * norm.pdf(z)

    expected = [quad(integrand, -12, 12, args=(w,), points=corners, limit=400)[0] for w in u]
    np.testing.assert_allclose(1 + RowSum(1, s, b).transforms(u)[0], expected, atol=1e-9)


@pytest.mark.parametrize(("s", "b"), [case for case in CASES if case[1]])
def test_its_derivatives_are_those_of_differences(s, b):
    u, step = np.array([0.3, 2.0, 9.0]), 1e-6

    def psi(s, b):
        return RowSum(1, s, b).transforms(u)[0]

    _, by_s, by_b = RowSum(1, s, b).transforms(u)
    np.testing.assert_allclose(by_s, (psi(s + step, b) - psi(s - step, b)) / (2 * step), atol=1e-7)
    np.testing.assert_allclose(by_b, (psi(s, b + step) - psi(s, b - step)) / (2 * step), atol=1e-7)


def test_powers_keep_their_precision_where_few_rows_survive():
    row = RowSum(10, 1.0, -9.0)
    psi_minus_one, _, _ = row.transforms(np.array([1.0]))
    assert row.power_minus_one(psi_minus_one, 10)[0] == pytest.approx(10 * psi_minus_one[0], rel=1e-12)
    assert -1e-16 < psi_minus_one[0] < 0


def test_survival_probabilities():
    noise = RowSum(3, 0.5, -1.0)
    assert noise.surviving == pytest.approx(2 * norm.sf(2.0))
    assert noise.atom == pytest.approx((1 - 2 * norm.sf(2.0)) ** 3)
    assert (RowSum(3, 0.5, 0.0).surviving, RowSum(3, 0.5, 0.2).atom) == (1.0, 0.0)


# Loss, accuracy and gradients: against simulation, differences, closed forms and quadrature.

CASES_POPULATION = [
    (1000, 1.0, 0.1, -0.3),
    (100, 0.5, 0.3, -0.1),
    (50, 0.3, 0.2, 0.05),
    (50, -0.3, 0.2, -0.02),
    (10, 1.0, 0.5, -1.2),
    (2, 0.5, 0.5, -0.3),
]


@pytest.mark.parametrize(("k", "c", "v", "b"), CASES_POPULATION)
def test_it_is_the_mean_over_images(k, c, v, b):
    """Twelve comparisons of means: beyond four standard errors one in 1,300 times."""
    patches, count = Patches(k), 4000
    x, y = drawn(patches, np.array([1.0, 0.0]), count, np.random.default_rng(100 + k))
    f = soft_threshold(x @ np.array([c, v]), b).sum(1)
    losses, right = np.logaddexp(0, -y * f), y * f > 0
    w = Filter(c, v, b)
    assert abs(losses.mean() - population(patches, w).loss) < 4 * losses.std() / np.sqrt(count)
    assert abs(right.mean() - accuracy(patches, w)) < 4 * np.sqrt(0.25 / count)


@pytest.mark.parametrize(("k", "c", "v", "b"), CASES_POPULATION)
def test_gradients_are_the_losses_differences(k, c, v, b):
    patches, step = Patches(k), 1e-4
    _, *gradient = population(patches, Filter(c, v, b))
    for at, derivative in enumerate(gradient):
        sides = []
        for sign in (1, -1):
            parts = [c, v, b]
            parts[at] += sign * step
            sides.append(population(patches, Filter(*parts)).loss)
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(derivative, abs=2e-5)


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
    about = Patches(1000), Filter(1.0, 0.0, -1.2)
    assert accuracy(*about) == pytest.approx((1 - row_sum(*about).atom) / 2, abs=1e-12)
    assert accuracy(*about) < 1e-4


def test_it_does_not_depend_on_the_sign_of_the_signals_part():
    filters = [Filter(sign * 0.4, 0.1, -0.1) for sign in (1, -1)]
    up, down = (accuracy(Patches(30), w) for w in filters)
    assert up + down == pytest.approx(1 - row_sum(Patches(30), filters[0]).atom, abs=1e-9)


# Exact flow and descent: recorded numbers, agreement with each other, and the best filter.

START = Filter(1e-6, 1e-6, 0.0)


def test_a_flow_is_the_limit_of_descent():
    patches, start = Patches(100), Filter(0.2, 0.1, -0.05)
    coarse, fine = (descend(patches, start, 0.4 / n, 50 * n).iloc[-1] for n in (4, 8))
    exact = flow(patches, start, 0.4, np.array([0.0, 50.0])).iloc[-1]
    for name in ("c", "b"):
        assert abs(fine[name] - exact[name]) < abs(coarse[name] - exact[name]) < 0.02 * abs(exact[name])


def test_descent_takes_the_gradient():
    patches = Patches(30)
    table = descend(patches, Filter(0.3, 0.2, -0.1), 0.1, 1)
    found = population(patches, Filter(0.3, 0.2, -0.1))
    np.testing.assert_allclose(
        table.iloc[1][["c", "v", "b"]],
        [0.3 - 0.1 * found.by_c, 0.2 - 0.1 * found.by_v, -0.1 - 0.1 / 30 * found.by_b],
    )
    assert table.loss[0] == found.loss


def test_the_settings_of_figure_33():
    """An independent pilot had these, by inverse Fourier transforms of the density at 999 rows of noise."""
    patches = Patches(1000)
    table = flow(patches, START, 0.1, np.array([0.0, 1.0, 1000.0, 10_000.0]))
    np.testing.assert_allclose(table.c[1:], [0.0290, 0.2247, 0.8549], rtol=2e-3)
    np.testing.assert_allclose(table.b[2:], [-0.0658, -0.3766], rtol=2e-3)
    np.testing.assert_allclose(table.accuracy[1:], [0.558, 0.653, 0.7825], atol=1e-3)


@pytest.mark.parametrize(("k", "best"), [(100, 0.628), (300, 0.773), (700, 0.982), (800, 0.991), (3000, 1.0)])
def test_the_best_filter(k, best):
    ratio, found = best_threshold(Patches(k))
    assert found == pytest.approx(best, abs=6e-4)
    around = [
        accuracy(Patches(k), Filter(1.0, v, b)) for v in (0.0, 0.1, 0.5) for b in np.linspace(-1, 1, 41)
    ]
    assert found >= max(around) - 1e-9
    assert 0 < ratio < 1


# Stochastic descent by survivors has the law of descent on whole images.

PATCHES = Patches(12)

W = np.array([0.3, 0.2, -0.1])


def naive_gradient(patches, w, b, batch, random):
    """Draw whole images and differentiate row by row."""
    x, y = drawn(patches, np.eye(len(w))[0], batch, random)
    z = x @ w
    pull = -y * expit(-y * soft_threshold(z, b).sum(1)) / batch
    up, down = (z >= -b).astype(float), z <= b
    return np.einsum("n,nk,nkd->d", pull, up + down, x), float(pull @ (up - down).sum(1))


@pytest.mark.parametrize("b", [-0.3, 0.1])
def test_after_steps_it_has_the_law_of_whole_images(b):
    """Two-sample tests of c, v and b after ten steps, 300 trainings each: each fails once in 1,000 times."""

    def ended(of, random):
        w, bias = W, b
        for _ in range(10):
            by_w, by_b = of(PATCHES, w, bias, 6, random)
            w, bias = w - 0.3 * by_w, bias - 0.1 * by_b
        return in_population(w, bias)

    random = np.random.default_rng(7)
    thinned, naive = ([ended(of, random) for _ in range(300)] for of in (gradient, naive_gradient))
    for one, other in zip(np.transpose(thinned), np.transpose(naive), strict=True):
        assert ks_2samp(one, other).pvalue > 1e-3


def test_the_test_would_notice_a_wrong_threshold():
    random = np.random.default_rng(0)
    right = [gradient(PATCHES, W, -0.3, 6, random)[1] for _ in range(300)]
    wrong = [naive_gradient(PATCHES, W, -0.1, 6, random)[1] for _ in range(300)]
    assert ks_2samp(right, wrong).pvalue < 1e-3


@pytest.mark.parametrize("b", [-0.25, 0.0, 0.15])
def test_its_mean_is_the_exact_gradient(b):
    w, random = np.array([0.4, 0.3, 0.0]), np.random.default_rng(1)
    steps = [gradient(PATCHES, w, b, 50, random) for _ in range(800)]
    by_w, by_b = np.array([w for w, _ in steps]), np.array([b for _, b in steps])
    exact = population(PATCHES, in_population(w, b))
    for values, expected in ((by_w[:, 0], exact.by_c), (by_w[:, 1], exact.by_v), (by_b, exact.by_b)):
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize("b", [-0.2, 0.1])
def test_sums_over_rows_have_the_moments_of_whole_rows(b):
    noise, random, batch = RowSum(7, 0.4, b), np.random.default_rng(3), 20_000
    found = noise_sums(noise, batch, random)
    z = noise.s * random.standard_normal((batch, 7))
    slope = (z >= -b).astype(float) + (z <= b)
    by_b = (z >= -b).astype(float) - (z <= b)
    whole = [rows.sum(1) for rows in (soft_threshold(z, b), slope * z, slope**2, by_b)]
    for ours, values in zip(found, whole, strict=True):
        for power in (1, 2):
            gap = (ours**power).mean() - (values**power).mean()
            assert abs(gap) < 5 * np.hypot((ours**power).std(), (values**power).std()) / np.sqrt(batch)
    assert np.corrcoef(*found[:2])[0, 1] == pytest.approx(np.corrcoef(*whole[:2])[0, 1], abs=0.01)
