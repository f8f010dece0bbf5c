"""Losses by hand, their bounds, and what no loss exceeds."""

import math

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.studies.stability.theory import (
    BOUNDED,
    LOSS,
    brier,
    check_bounded,
    clipped,
    cross_entropy,
    total_variation,
    zero_one,
)


def drawn(seed, *shape):
    return (3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))).double().log_softmax(-1)


def test_losses_of_one_image():
    log_p, label = torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([1])
    assert float(cross_entropy(log_p, label)) == pytest.approx(-math.log(0.3))
    assert float(clipped(log_p, label)) == pytest.approx(-math.log(0.3) / math.log(10))
    assert float(brier(log_p, label)) == pytest.approx((0.5**2 + 0.7**2 + 0.2**2) / 2)
    assert float(zero_one(log_p, label)) == 1
    assert float(zero_one(log_p, torch.tensor([0]))) == 0


def test_the_clipped_loss_ends_at_guessing():
    surely_wrong = torch.tensor([[0.0, -50.0]])
    assert float(clipped(surely_wrong, torch.tensor([1]))) == 1
    assert float(cross_entropy(surely_wrong, torch.tensor([1]))) == 50


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_losses_lie_in_the_unit_interval_and_change_by_no_more_than_the_total_variation(name):
    first, second = drawn(0, 500, 4), drawn(1, 500, 4)
    labels = torch.randint(4, (500,), generator=torch.Generator().manual_seed(2))
    losses = [LOSS[name](log_p, labels) for log_p in (first, second)]
    assert all(((own >= 0) & (own <= 1)).all() for own in losses)
    if name == "Brier":  # whose slope in the probabilities is at most 1 in total variation, doubled
        changes = (losses[0] - losses[1]).abs()
        assert (changes <= 2 * total_variation(first, second) + 1e-12).all()


def test_only_bounded_losses_are_for_the_bound():
    for name in BOUNDED:
        check_bounded(name)
    with pytest.raises(
        ParameterError, match=r"^Bound .*cross-entropy is not; choose one of clipped, Brier, 0-1\.$"
    ):
        check_bounded("cross-entropy")
