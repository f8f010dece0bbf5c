"""Student's interval over seeds."""

import numpy as np
from scipy.stats import t

from sameloss.statistics.intervals import seed_weights


def test_seed_weights_give_students_t():
    values = np.array([0.1, 0.5, 0.3])
    drawn = seed_weights(3, 200_000, np.random.default_rng(4)) @ values
    expected = t.ppf([0.025, 0.5, 0.975], 2) * values.std(ddof=1) / 3**0.5
    np.testing.assert_allclose(np.quantile(drawn, [0.025, 0.5, 0.975]), expected, atol=0.02)
