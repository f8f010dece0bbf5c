"""What the chapter computes by itself: bounds of uniform attention, and the step of Figure 4.1."""

import pytest
import torch
from cells import definitions

from sameloss.studies.decision_lists.experiment import TaskShape
from sameloss.studies.decision_lists.theory import (
    correct,
    cyclic_lists,
    forward,
    gradients,
    random_lists,
    uniform_sets,
)

CHAPTER = definitions("ii4_decision_lists")

# Uniform attention.


def test_uniform_attention_has_a_bound(task, sets):
    labels = task.labels(sets.sequences)
    expected = [max(row.count(label) for label in row) / 4 for row in labels.tolist()]
    assert CHAPTER.most_right(labels).tolist() == expected


def test_the_bound_is_met_by_no_read_out():
    """Uniform attention at twenty random V never classifies more than the bound."""
    task, sequences = cyclic_lists(12, 3), uniform_sets(12, 3).sequences
    labels, rng = task.labels(sequences), torch.Generator().manual_seed(0)
    bound = CHAPTER.most_right(labels)
    assert float(bound.double().mean()) == pytest.approx(0.60606, abs=1e-5)
    for _ in range(20):
        read_out = torch.randn(12, 12, generator=rng)
        logits = forward(torch.zeros(12, 12), read_out, sequences, labels).logits
        assert (correct(logits, labels).float().mean(1) <= bound).all()


def test_the_bound_of_uniform_attention(tables):
    """Beside the mean over all sets, and the pilot's at the printed setting."""
    small = CHAPTER.uniform_bound(tables.task)
    assert small.mean == pytest.approx(0.60606, abs=4 * small.standard_error)
    assert small.standard_error < 0.002
    drawn = CHAPTER.uniform_bound(TaskShape(200, 25, 4))
    assert drawn.mean == pytest.approx(0.08, abs=1e-3)


# Figure 4.1's step: the closed form against all sets, its diagonal, and drawn ones around it.


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_the_closed_form_is_the_step_on_all_sets(seed):
    lists = cyclic_lists(10, 3) if seed is None else random_lists(10, 4, torch.Generator().manual_seed(seed))
    sets, nothing = uniform_sets(10, 4), torch.zeros(10, 10, dtype=torch.float64)
    computed = forward(nothing, nothing, sets.sequences, lists.labels(sets.sequences))
    step = -100 * gradients(computed, nothing, *sets)[1]
    torch.testing.assert_close(CHAPTER.exact_step(lists, 4), step, atol=1e-12, rtol=0)


def test_the_diagonal_of_the_printed_figure():
    lists = cyclic_lists(200, 4)
    step = CHAPTER.exact_step(lists, 25)
    diagonal = step[lists.image, torch.arange(200)]
    torch.testing.assert_close(diagonal, torch.full((200,), 7.0, dtype=torch.float64))
    rest = step - lists.read_out(7.0)
    assert float(rest.abs().max()) == pytest.approx(0.7, abs=1e-4)
    assert CHAPTER.recall(lists, step) == 1


def test_a_drawn_step_comes_close_with_more_sequences():
    """Drawn with the number of sequences as the seed."""
    exact = CHAPTER.exact_step(cyclic_lists(12, 3), 3)
    errors = []
    for count in (100, 1600, 25_600):
        drawn = CHAPTER.sampled_step(TaskShape(12, 3, 3), count).double()
        errors.append(float((drawn - exact).square().mean().sqrt()))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.3)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.3)


def test_recall_is_by_column():
    lists = cyclic_lists(4, 2)
    assert CHAPTER.recall(lists, lists.read_out(1.0)) == 1
    transposed, inverse = lists.read_out(1.0).T, torch.linalg.inv(lists.read_out(1.0))
    assert CHAPTER.recall(lists, transposed) == CHAPTER.recall(lists, inverse)
    assert CHAPTER.recall(cyclic_lists(8, 2), cyclic_lists(8, 2).read_out(1.0).T) == 0


# Words.


def test_a_large_number_in_tex():
    assert CHAPTER.in_tex(1.389e12) == r"$1.4 \times 10^{12}$"
    assert CHAPTER.in_tex(9_591_403, 2) == r"$9.59 \times 10^{6}$"
