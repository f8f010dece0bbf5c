"""The soft threshold, case by case, and its slopes."""

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.theory import Filter, answers, slopes, soft_threshold


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


def test_an_answer_is_the_sum_over_rows():
    x = np.array([[[1.0, 0.0], [0.2, 5.0]]])
    assert answers(x, np.array([1.0, 0.0]), -0.5) == pytest.approx([0.5])


@pytest.mark.parametrize("parts", [(0.0, 0.0, 1.0), (np.nan, 1.0, 0.0), (1.0, 0.0, np.inf)])
def test_what_answers_nothing_is_refused(parts):
    with pytest.raises(ParameterError, match="A filter needs c² \\+ v² > 0"):
        Filter(*parts)
