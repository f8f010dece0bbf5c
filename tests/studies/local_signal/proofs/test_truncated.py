"""Truncated Gaussians: an independent library, integration, and the printed forms where they are wrong."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, truncnorm

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.proofs.bounds import (
    largest_noise_share,
    mills_bounds,
    moments,
    noise_share,
    printed_moments,
    projected,
    projected_by_integration,
    soft_moments,
    thresholded_share,
)
from sameloss.studies.local_signal.theory import soft_threshold


@pytest.mark.parametrize("b", [-4.0, -0.5, 0.0, 0.7, 3.0])
@pytest.mark.parametrize("s", [0.2, 1.0])
def test_moments_are_those_of_a_truncated_gaussian(b, s):
    law = truncnorm(-b / s, np.inf, scale=s)
    found = moments(b, s)
    assert found.mean == pytest.approx(law.mean(), rel=1e-8)
    assert found.variance == pytest.approx(law.var(), rel=1e-6)
    assert found.second == pytest.approx(found.variance + found.mean**2, rel=1e-10)


def test_the_printed_form_is_right_below_zero_and_wrong_above():
    assert printed_moments(-0.8, 2.0) == moments(-0.8, 2.0)
    printed, true = moments(-1.0, 1.0), moments(1.0, 1.0)  # as printed: |b|/s
    assert (printed.mean, printed.second) == pytest.approx((1.525, 2.525), abs=5e-4)
    assert (true.mean, true.second) == pytest.approx((0.288, 0.712), abs=5e-4)


@pytest.mark.parametrize(("z", "c", "v"), [(1.0, 0.3, 1.2), (-2.0, 1.0, 0.05)])
def test_the_projection_is_the_conditional_mean(z, c, v):
    assert projected(z, c, v) == pytest.approx(projected_by_integration(z, c, v), abs=1e-12)
    assert projected(z, c, v) + projected(z, v, c) == pytest.approx(z)


def test_mills_ratio_lies_between_its_bounds_and_they_are_close():
    low, ratio, high = mills_bounds(np.linspace(0, 30, 301))
    assert (low <= ratio).all()
    assert (ratio <= high).all()
    assert (high / low).max() < 1.5
    assert ratio[0] == pytest.approx(np.sqrt(np.pi / 2))


@pytest.mark.parametrize(("b", "cut"), [(-0.5, np.inf), (-0.5, 2.0), (0.7, np.inf), (0.7, 1.5), (0.7, 1.0)])
def test_moments_after_the_threshold_by_integration(b, cut):
    s = 1.3
    kept = lambda z: abs(soft_threshold(s * z, b)) <= cut  # noqa: E731
    corners = sorted({abs(b) / s, cut / 2 / s, (cut - b) / s, 0.0})
    corners = [x for x in corners if 0 <= x < 9] + [9.0]

    def mean(of):
        pieces = pairwise(corners)
        return 2 * sum(
            quad(lambda z: of(abs(soft_threshold(s * z, b))) * kept(z) * norm.pdf(z), *ends)[0]
            for ends in pieces
        )

    mass = mean(lambda x: 1.0)
    found = soft_moments(b, s, cut)
    assert found.absolute == pytest.approx(mean(lambda x: x) / mass, rel=1e-6)
    assert found.variance == pytest.approx(mean(lambda x: x**2) / mass, rel=1e-6)
    assert found.passing == pytest.approx(mean(lambda x: float(x > 0)) / mass, rel=1e-6)


def test_the_noise_share_is_never_above_its_top():
    at, top = largest_noise_share()
    alphas = np.linspace(0, 9, 1000)
    assert max(noise_share(alpha) for alpha in alphas) <= top == pytest.approx(noise_share(at))
    assert all(thresholded_share(alpha) <= noise_share(alpha) for alpha in alphas)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: printed_moments(0.1, 1.0), r"needs b <= 0; got b = 0.1"),
        (lambda: moments(0.1, 0.0), "positive and finite; got 0"),
        (lambda: projected(1.0, 0.0, 0.0), r"c² \+ v² > 0"),
    ],
)
def test_faults_are_a_sentence(call, said):
    with pytest.raises(ParameterError, match=said):
        call()
