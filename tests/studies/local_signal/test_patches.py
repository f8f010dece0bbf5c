"""The distribution: one row is the signal, the others are noise."""

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.theory import Patches


def test_images_have_one_signal_row_and_noise_of_the_right_size():
    patches, signal = Patches(50), np.array([0.6, 0.8, 0.0])
    x, y = patches.draw(signal, 400, np.random.default_rng(0))
    is_signal = (np.abs(x - y[:, None, None] * signal) < 1e-12).all(2)
    np.testing.assert_array_equal(is_signal.sum(1), 1)
    noise = x[~is_signal]
    assert noise.std() == pytest.approx(patches.sigma, rel=0.02)  # 400 * 50 * 3 numbers: 0.3 %
    assert abs(y.mean()) < 0.2
    assert len(np.unique(is_signal.argmax(1))) > 40  # it may be any row


@pytest.mark.parametrize(
    ("noise", "multiplier", "sentence"),
    [(1, 1.0, "noise must be a whole number, at least 2"), (9, 0.0, "multiplier must be positive")],
)
def test_what_is_no_such_distribution_is_refused(noise, multiplier, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Patches(noise, multiplier)


def test_the_signal_has_length_one():
    with pytest.raises(ParameterError, match="has length 1; got 2"):
        Patches(5).draw(np.array([2.0]), 1, np.random.default_rng(0))


def test_the_noise_is_that_of_the_text_and_not_one():
    assert Patches(1000).sigma == pytest.approx(6.907755 / 31.622777)
    assert Patches(1000, 0.5).sigma == pytest.approx(Patches(1000).sigma / 2)
