"""The multi-level bootstrap counts each source of chance."""

import numpy as np
import pytest
from scipy.stats import t

from sameloss.statistics.bootstrap import Resamples, percentile_interval, seed_weights


def draw(rng, models, probes, examples, spread):
    """Return correctness with a random accuracy a model, so that models are the larger chance."""
    accuracy = np.clip(0.7 + spread * rng.normal(size=(models, 1, 1)), 0, 1)
    return rng.random((models, probes, examples)) < accuracy


def test_test_sentences_alone_give_the_binomial_error():
    correct = np.random.default_rng(9).random((1, 1, 4000)) < 0.7
    resamples = Resamples(1, 1, 4000)
    replicates = resamples.accuracy(correct, pretrained=False)
    expected = np.sqrt(0.7 * 0.3 / 4000)
    assert replicates.std() == pytest.approx(expected, rel=0.1)
    interval = percentile_interval(correct.mean(), replicates)
    assert interval.low < correct.mean() < interval.high
    assert interval.high - interval.low == pytest.approx(3.92 * expected, rel=0.1)


def test_model_seeds_widen_the_interval():
    rng = np.random.default_rng(1)
    resamples = Resamples(8, 2, 500)
    narrow = resamples.accuracy(draw(rng, 8, 2, 500, 0.0)).std()
    wide = resamples.accuracy(draw(rng, 8, 2, 500, 0.1)).std()
    assert wide > 2 * narrow


def test_shared_test_sentences_make_differences_sharper():
    rng = np.random.default_rng(2)
    hard = rng.random((1, 1, 2000)) < 0.5
    better = hard | (rng.random((1, 1, 2000)) < 0.05)
    resamples = Resamples(1, 1, 2000)
    a, b = (resamples.accuracy(correct, pretrained=False) for correct in (better, hard))
    assert (a - b).std() < 0.5 * np.hypot(a.std(), b.std())


@pytest.mark.parametrize("seeds", [3, 5, 12])
def test_intervals_cover_the_truth_even_with_few_seeds(seeds):
    """95 % intervals cover the mean accuracy in nearly 95 of 100 repetitions."""
    rng = np.random.default_rng(3)
    resamples = Resamples(seeds, 1, 200, count=400)
    covered = 0
    for _ in range(200):
        correct = draw(rng, seeds, 1, 200, 0.05)
        interval = percentile_interval(correct.mean(), resamples.accuracy(correct))
        covered += interval.low <= 0.7 <= interval.high
    assert 180 <= covered <= 199


def test_seed_weights_give_students_t():
    values = np.array([0.1, 0.5, 0.3])
    drawn = seed_weights(3, 200_000, np.random.default_rng(4)) @ values
    expected = t.ppf([0.025, 0.5, 0.975], 2) * values.std(ddof=1) / 3**0.5
    np.testing.assert_allclose(np.quantile(drawn, [0.025, 0.5, 0.975]), expected, atol=0.02)


def test_one_model_seed_has_no_interval():
    assert np.isnan(Resamples(1, 3, 50).accuracy(np.ones((1, 3, 50), bool))).all()


def test_a_baseline_needs_no_model_seeds():
    correct = np.ones((1, 3, 50), bool)
    np.testing.assert_allclose(Resamples(4, 3, 50).accuracy(correct, pretrained=False), 1.0, rtol=1e-6)
