"""What the chapter computes by itself."""

import numpy as np
import pandas as pd
import pytest
from cells import definitions
from scipy.stats import ttest_rel


def test_effects_of_noise_are_of_pairs_of_seeds():
    last = pd.DataFrame(
        {
            "noise": np.repeat([0.0, 1.0], 3),
            "seed": [0, 1, 2, 2, 0, 1],
            "trace": [4, 6, 5, 3, 2, 2.5],
            "loss": 0.5,
        }
    )
    of_trace, of_loss = definitions("05_dyck").noise_effects(last, ("trace", "loss")).itertuples()
    before, after = np.log([4, 6, 5]), np.log([2, 2.5, 3])
    assert of_trace.factor == pytest.approx(np.exp((after - before).mean()))
    known = ttest_rel(after, before).confidence_interval(0.95)
    assert (of_trace.low, of_trace.high) == pytest.approx((np.exp(known.low), np.exp(known.high)))
    assert of_loss[1:] == (1.0, "loss", 1.0, 1.0, 1.0)
