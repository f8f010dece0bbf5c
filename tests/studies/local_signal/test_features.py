"""One filter for several features, and one for each, against drawn images."""

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.features import feature_table, filter_each, one_filter
from sameloss.studies.local_signal.tangent.rows import dimension
from sameloss.studies.local_signal.theory import Patches, best_threshold, soft_threshold

FEATURES, IMAGES = 3, 4000


@pytest.mark.parametrize("each", [False, True])
def test_shares_are_those_of_drawn_images(each):
    """The best threshold's accuracy on images of three features, of y times one of them in a row each."""
    patches, random = Patches(300, 0.7), np.random.default_rng(0)
    y = random.choice([-1, 1], IMAGES)
    x = random.normal(0, patches.sigma, (IMAGES, 301, FEATURES))
    x[:, 0] = y[:, None] * np.eye(FEATURES)[random.integers(FEATURES, size=IMAGES)]
    if each:
        rows = Patches(3 * 300)
        ratio, expected = best_threshold(Patches(900, patches.sigma / rows.sigma))
        answers, own = soft_threshold(x, -ratio).sum((1, 2)), filter_each(patches, FEATURES)
    else:
        ratio, expected = best_threshold(Patches(300, 0.7 * np.sqrt(FEATURES)))
        w = np.ones(FEATURES) / np.sqrt(FEATURES)
        answers, own = soft_threshold(x @ w, -ratio / np.sqrt(FEATURES)).sum(1), one_filter(patches, FEATURES)
    right = (answers * y > 0).mean()
    assert abs(right - expected) < 4 * np.sqrt(right * (1 - right) / IMAGES)
    assert own == pytest.approx(expected) if each else own >= expected - 1e-12


def test_one_filter_may_leave_features_out():
    """With so much noise that all are lost together, one feature and guesses are better."""
    patches = Patches(1000)
    assert one_filter(patches, 2) == pytest.approx(0.25 + best_threshold(patches)[1] / 2)
    assert one_filter(Patches(10_000), 2) > 0.999


def test_as_many_features_as_dimensions():
    patches = Patches(10**6)
    assert one_filter(patches, dimension(patches)) < 0.52 < 0.99 < filter_each(patches, dimension(patches))
    table = feature_table()
    assert (table["one filter"] <= table["a filter each"] + 1e-9).all()


def test_no_feature_is_refused():
    for reached in (one_filter, filter_each):
        with pytest.raises(ParameterError, match="features must be a whole number, at least 1"):
            reached(Patches(100), 0)
