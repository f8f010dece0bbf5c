"""Twins differ in one example, and an order visits each example once an epoch."""

import itertools

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.studies.stability.theory import all_swaps, check_sample, drawn_twins, swapped, visiting_order

RNG = torch.Generator()


def test_twins_differ_in_one_position_which_a_test_image_takes():
    twins = drawn_twins(100, 30, 20, 7, RNG.manual_seed(0))
    rows = twins.rows(100)
    assert rows.shape == (14, 20)
    for pair in range(7):
        first, second = rows[2 * pair], rows[2 * pair + 1]
        assert len(set(first.tolist())) == 20
        assert first.max() < 100
        (at,) = (first != second).nonzero()
        assert at == twins.replaced[pair]
        assert second[at] == 100 + twins.by[pair]


def test_every_part_of_a_twin_is_drawn_uniformly():
    twins = drawn_twins(8, 5, 4, 4000, RNG.manual_seed(1))
    for drawn, values in ((twins.samples, 8), (twins.replaced, 4), (twins.by, 5)):
        shares = torch.bincount(drawn.flatten(), minlength=values) / drawn.numel()
        assert shares == pytest.approx(torch.full((values,), 1 / values), abs=0.03)


def test_all_swaps_are_all():
    rows = all_swaps(torch.tensor([3, 1]), torch.tensor([0, 4])).rows(10)[1::2]
    expected = {(10, 1), (14, 1), (3, 10), (3, 14)}
    assert {tuple(row) for row in rows.tolist()} == expected
    assert len(rows) == len(expected)


@pytest.mark.parametrize(
    ("size", "message"), [(51, "more than half of a pool of 100"), (15, "fill a batch of 16")]
)
def test_samples_that_say_nothing_are_refused(size, message):
    with pytest.raises(ParameterError, match=message):
        check_sample(size, 100, 16)
    check_sample(50, 100, 16)


@pytest.mark.parametrize(
    ("i", "z", "message"),
    [
        (3, 5, r"^i = 3 is no position of a sample of 3; the last is 2\.$"),
        (-1, 5, "no position"),
        (0, 8, r"^z = 8 is no row of 8; the last is 7\.$"),
        (0, 7, r"^Row 7 is in the sample already; choose a z that is not\.$"),
    ],
)
def test_swaps_that_cannot_be_are_refused(i, z, message):
    with pytest.raises(ParameterError, match=message):
        swapped(torch.tensor([4, 2, 7]), i, z, rows=8)


def test_an_example_may_be_swapped_for_itself():
    assert swapped(torch.tensor([4, 2, 7]), 2, 7, rows=8).tolist() == [4, 2, 7]


@pytest.mark.parametrize(("size", "batch", "steps"), [(12, 4, 9), (10, 4, 11)])
def test_an_order_visits_all_once_an_epoch(size, batch, steps):
    order = visiting_order(size, batch, steps, RNG.manual_seed(2))
    assert order.shape == (steps, batch)
    visits = order.flatten().tolist()
    for first in range(0, len(visits) - size + 1, size):
        assert sorted(visits[first : first + size]) == list(range(size))
    epochs = [tuple(visits[first : first + size]) for first in range(0, len(visits) - size + 1, size)]
    assert all(one != other for one, other in itertools.pairwise(epochs))
