"""Figure 4.1's step: the closed form against all sets, its diagonal, and drawn ones around it."""

import pytest
import torch

from sameloss.studies.decision_lists.theory import (
    cyclic_lists,
    exact_step,
    forward,
    gradients,
    random_lists,
    recall,
    sampled_step,
    uniform_sets,
)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_the_closed_form_is_the_step_on_all_sets(seed):
    lists = cyclic_lists(10, 3) if seed is None else random_lists(10, 4, torch.Generator().manual_seed(seed))
    sets, nothing = uniform_sets(10, 4), torch.zeros(10, 10, dtype=torch.float64)
    found = forward(nothing, nothing, sets.sequences, lists.labels(sets.sequences))
    step = -100 * gradients(found, nothing, sets.sequences, sets.probabilities).read_out
    torch.testing.assert_close(exact_step(lists, 4, 100.0), step, atol=1e-12, rtol=0)


def test_the_diagonal_of_the_printed_figure():
    lists = cyclic_lists(200, 4)
    step = exact_step(lists, 25, 40_000.0)
    diagonal = step[lists.image, torch.arange(200)]
    torch.testing.assert_close(diagonal, torch.full((200,), 7.0, dtype=torch.float64))
    rest = step - lists.read_out(7.0)
    assert float(rest.abs().max()) == pytest.approx(0.7, abs=1e-4)
    assert recall(lists, step) == 1


def test_a_drawn_step_comes_close_with_more_sequences():
    lists, rate = cyclic_lists(12, 3), 144.0
    exact = exact_step(lists, 3, rate)
    errors = []
    for count in (100, 1600, 25_600):
        drawn = sampled_step(lists, 3, rate, count, torch.Generator().manual_seed(count)).double()
        errors.append(float((drawn - exact).square().mean().sqrt()))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.3)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.3)


def test_recall_is_by_column():
    lists = cyclic_lists(4, 2)
    assert recall(lists, lists.read_out(1.0)) == 1
    assert recall(lists, lists.read_out(1.0).T) == recall(lists, torch.linalg.inv(lists.read_out(1.0)))
    assert recall(cyclic_lists(8, 2), cyclic_lists(8, 2).read_out(1.0).T) == 0
