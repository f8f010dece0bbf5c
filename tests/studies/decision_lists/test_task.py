"""Decision lists: labels by the definition, sets and their probabilities, and what is refused."""

from collections import Counter
from itertools import combinations

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.studies.decision_lists.theory import (
    DecisionLists,
    Sets,
    cyclic_lists,
    draw_sequences,
    listed,
    random_lists,
    triple_mass,
    uniform_sets,
)


def by_definition(task, sequence):
    return [task.permutation[next(b for b in task.lists[a] if b in sequence)] for a in sequence]


def test_labels_are_those_of_the_definition(sets):
    for seed in range(5):
        task = random_lists(8, 4, torch.Generator().manual_seed(seed))
        labels = task.labels(sets.sequences).tolist()
        assert labels == [by_definition(task, sequence) for sequence in sets.sequences.tolist()]


def test_a_token_decides_its_own_label_where_nothing_before_it_occurs():
    task = DecisionLists((0, 1, 2, 3), ((1, 2, 0), (1,), (2,), (3,)))
    sequences = torch.tensor([[0, 3], [0, 2], [2, 0]])
    assert task.determining(sequences).tolist() == [[0, 3], [2, 2], [2, 2]]
    assert listed(task, sequences).tolist() == [[False, False], [True, False], [False, True]]


def test_the_printed_lists_of_figure_41():
    task = cyclic_lists(200, 4)
    assert task.lists[0] == (10, 20, 30, 0)
    assert task.lists[195] == (5, 15, 25, 195)
    assert task.permutation[185] == 5
    assert task.longest == 4


def test_the_printed_map_is_refused_with_its_reason():
    with pytest.raises(ParameterError, match=r"π\(180\) = -1; nothing is mapped to 19\.$"):
        cyclic_lists(200, 4, modulus=201)


def test_the_read_out_turns_a_token_into_its_label(task):
    for token in range(task.words):
        assert task.read_out(3.0)[:, token].argmax() == task.permutation[token]
    assert task.read_out(3.0).sum() == 3 * task.words


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: DecisionLists((0, 0), ((0,), (1,))), "must map the tokens 0 to 1 onto themselves"),
        (lambda: DecisionLists((0, 1), ((0,),)), "Each of the 2 tokens needs a list; got 1 lists"),
        (lambda: DecisionLists((0, 1), ((0,), (1, 0))), r"list of token 1 must .* end with 1; got \[1, 0\]"),
        (lambda: DecisionLists((0, 1), ((1, 1, 0), (1,))), r"different tokens .* got \[1, 1, 0\]"),
        (lambda: DecisionLists((0, 1), ((7, 0), (1,))), r"from 0 to 1 .* got \[7, 0\]"),
        (lambda: cyclic_lists(4, 5), "Lists of 5 different tokens need more than 4 tokens"),
        (lambda: uniform_sets(3, 4), "needs a vocabulary of as many; it has 3"),
        (lambda: uniform_sets(9, 1), "length must be a whole number, at least 2"),
        (lambda: uniform_sets(200, 25), "at most 200,000 are enumerated; take the exact reduction"),
        (lambda: Sets(torch.tensor([[0, 0]]), torch.ones(1)), "no token twice"),
        (lambda: Sets(torch.tensor([[0, 1]]), torch.tensor([0.5])), "sum to 1; these sum to 0.5"),
        (lambda: Sets(torch.tensor([[0, 1], [1, 2]]), torch.tensor([2.0, -1.0])), "not negative"),
        (lambda: Sets(torch.tensor([[0, 1]]), torch.tensor([float("nan")])), "these sum to nan"),
    ],
)
def test_bad_tasks_end_in_one_sentence(make, sentence):
    with pytest.raises(ParameterError, match=sentence):
        make()


def test_drawn_sequences_have_no_token_twice_and_all_sets_alike():
    drawn = draw_sequences(5, 2, 10_000, torch.Generator().manual_seed(0))
    counts = Counter(tuple(sorted(row)) for row in drawn.tolist())
    assert set(counts) == set(combinations(range(5), 2))
    expected = 1000
    assert max(abs(count - expected) for count in counts.values()) < 4 * (expected * 0.9) ** 0.5


def test_the_least_triple_by_counting(task, sets):
    """4 of 70 sets: the second of a list decides, with the token and another one behind it or outside."""
    assert triple_mass(task, sets) == pytest.approx(4 / 70)
    alone = DecisionLists((0, 1, 2, 3), ((0,), (1,), (2,), (3,)))
    assert triple_mass(alone, uniform_sets(4, 2)) == pytest.approx(1 / 6)


def test_sets_that_never_occur_are_left_out():
    given = Sets(torch.tensor([[0, 1], [1, 2]]), torch.tensor([1.0, 0.0]))
    assert given.possible.sequences.tolist() == [[0, 1]]
