"""What a downstream classifier refuses before it trains."""

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.measures.downstream import check_labels


def test_every_seed_and_task_is_checked():
    labels = torch.tensor([[[0, 0], [1, 1]], [[1, 0], [0, 0]]])
    with pytest.raises(ParameterError, match="All 2 training sentences of task 1 are of class 0"):
        check_labels(labels, [2, 2])
    check_labels(labels[:1], [2, 2])


def test_a_class_for_which_no_seed_has_sentences_passes():
    """Only a task whose training sentences are all alike teaches nothing."""
    check_labels(torch.tensor([[[0], [1], [1]]]), [3])
    check_labels(torch.zeros(1, 2, 1).long(), [1])


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        (torch.zeros(2, 0, 1).long(), "no labelled sentences"),
        (torch.tensor([[[0], [1]]]), "Task 0 has 3 classes and only 2 training sentences"),
        (torch.tensor([[[0], [1], [3]]]), r"Labels of task 0 lie in 0..2; got 3\."),
        (torch.tensor([[[0], [1], [-1]]]), r"Labels of task 0 lie in 0..2; got -1\."),
        (torch.tensor([[[0], [1], [2]], [[2], [2], [2]]]), "All 3 training sentences .* are of class 2"),
    ],
)
def test_labels_that_teach_nothing_are_refused(labels, fault):
    with pytest.raises(ParameterError, match=fault):
        check_labels(labels, [3])
