"""Stochastic descent by survivors has the law of descent on whole images."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import ks_2samp

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.theory import (
    Network,
    Patches,
    Rates,
    RowSum,
    begin,
    gradient,
    noise_sums,
    population,
    sgd,
    soft_threshold,
)

PATCHES = Patches(12)

RATES = Rates(0.3, 0.1)


def naive_gradient(network, batch, random):
    """Draw whole images and differentiate row by row."""
    x, y = PATCHES.draw(np.eye(len(network.w))[0], batch, random)
    z = x @ network.w
    pull = -y * expit(-y * soft_threshold(z, network.b).sum(1)) / batch
    up, down = (z >= -network.b).astype(float), z <= network.b
    return np.einsum("n,nk,nkd->d", pull, up + down, x), float(pull @ (up - down).sum(1))


@pytest.mark.parametrize("b", [-0.3, 0.1])
def test_after_steps_it_has_the_law_of_whole_images(b):
    """Two-sample tests of c, v and b after ten steps, 300 trainings each: each fails once in 1,000 times."""

    def ended(step, random):
        network = Network(np.array([0.3, 0.2, -0.1]), b)
        for _ in range(10):
            by_w, by_b = step(network, random)
            network.w, network.b = network.w - RATES.w * by_w, network.b - RATES.b * by_b
        own = network.filter
        return own.c, own.v, own.b

    random = np.random.default_rng(7)
    thinned = [ended(lambda n, r: gradient(PATCHES, n, 6, r), random) for _ in range(300)]
    naive = [ended(lambda n, r: naive_gradient(n, 6, r), random) for _ in range(300)]
    for one, other in zip(np.transpose(thinned), np.transpose(naive), strict=True):
        assert ks_2samp(one, other).pvalue > 1e-3


def test_the_test_would_notice_a_wrong_threshold():
    random = np.random.default_rng(0)
    network, other = Network(np.array([0.3, 0.2, -0.1]), -0.3), Network(np.array([0.3, 0.2, -0.1]), -0.1)
    right = [gradient(PATCHES, network, 6, random)[1] for _ in range(300)]
    wrong = [naive_gradient(other, 6, random)[1] for _ in range(300)]
    assert ks_2samp(right, wrong).pvalue < 1e-3


@pytest.mark.parametrize("b", [-0.25, 0.0, 0.15])
def test_its_mean_is_the_exact_gradient(b):
    network, random = Network(np.array([0.4, 0.3, 0.0]), b), np.random.default_rng(1)
    steps = [gradient(PATCHES, network, 50, random) for _ in range(800)]
    by_w, by_b = np.array([w for w, _ in steps]), np.array([own for _, own in steps])
    exact = population(PATCHES, network.filter)
    for values, expected in ((by_w[:, 0], exact.by_c), (by_w[:, 1], exact.by_v), (by_b, exact.by_b)):
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize("b", [-0.2, 0.1])
def test_sums_over_rows_have_the_moments_of_whole_rows(b):
    noise, random, batch = RowSum(7, 0.4, b), np.random.default_rng(3), 20_000
    found = noise_sums(noise, batch, random)
    z = noise.s * random.standard_normal((batch, 7))
    slope = (z >= -b).astype(float) + (z <= b)
    whole = {
        "answer": soft_threshold(z, b).sum(1),
        "along": (slope * z).sum(1),
        "squares": (slope**2).sum(1),
        "by_b": ((z >= -b).astype(float) - (z <= b)).sum(1),
    }
    for name, values in whole.items():
        own = getattr(found, name)
        for power in (1, 2):
            apart = (own**power).mean() - (values**power).mean()
            assert abs(apart) < 5 * np.hypot((own**power).std(), (values**power).std()) / np.sqrt(batch)
    assert np.corrcoef(found.answer, found.along)[0, 1] == pytest.approx(
        np.corrcoef(whole["answer"], whole["along"])[0, 1], abs=0.01
    )


def test_looks_are_those_of_one_training():
    tables = []
    for looks in ([3, 8], [8]):
        network = begin(4, 0.1, np.random.default_rng(5))
        tables.append(sgd(PATCHES, network, RATES, 5, np.array(looks), np.random.default_rng(6)))
    assert tables[0].iloc[1].to_dict() == tables[1].iloc[0].to_dict()
    assert tables[0].step.tolist() == [3, 8]


def test_a_start_has_its_length():
    assert np.linalg.norm(begin(10, 1e-6, np.random.default_rng(0)).w) == pytest.approx(1e-6)
    with pytest.raises(ParameterError, match="d must be a whole number"):
        begin(0, 1.0, np.random.default_rng(0))
