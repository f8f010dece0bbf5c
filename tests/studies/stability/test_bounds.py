"""Bounds by hand, and what they are not about."""

import math

import pytest
import torch
from torch.nn import functional as F

from sameloss.errors import ParameterError
from sameloss.studies.stability.theory import gap_bound, longest_step, parameter_bound


def test_at_the_longest_step_descent_does_not_expand():
    """On one image of length 3 with a logit of zero, where the curvature is largest; a longer step does."""
    x = torch.tensor([3.0, 0.0], dtype=torch.float64)
    step = longest_step(3.0)
    assert step == pytest.approx(8 / 9)

    def after(w, lr):
        w = w.clone().requires_grad_()
        F.softplus(-w @ x).backward()
        return w.detach() - lr * w.grad

    near = torch.tensor([1e-4, 0.0], dtype=torch.float64)
    assert (after(near, step) - after(-near, step)).norm() <= (2 * near).norm() * (1 + 1e-9)
    assert (after(near, 1.1 * step) - after(-near, 1.1 * step)).norm() > (2 * near).norm() * 1.01


def test_a_begun_epoch_counts():
    assert parameter_bound(2.0, 0.1, steps=10, size=20, batch=4) == pytest.approx(2 * 2 * 0.1 / 4 * 2)
    assert parameter_bound(2.0, 0.1, steps=11, size=20, batch=4) == pytest.approx(2 * 2 * 0.1 / 4 * 3)


def test_long_steps_have_no_bound():
    with pytest.raises(
        ParameterError, match=r"^For images 4 long it holds up to a rate of 0\.5; got 0\.6\.$"
    ):
        parameter_bound(4.0, 0.6, 10, 20, 4)


def test_the_gap_bound_by_hand():
    expected = 0.1 * math.log(50) * math.log(1000) + math.sqrt(math.log(20) / 50)
    assert gap_bound("Brier", 0.1, 50) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("loss", "delta", "message"),
    [("cross-entropy", 0.05, "which cross-entropy is not"), ("0-1", 1.5, "δ is a")],
)
def test_what_the_gap_bound_is_not_about(loss, delta, message):
    with pytest.raises(ParameterError, match=message):
        gap_bound(loss, 0.1, 50, delta)
