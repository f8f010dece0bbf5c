"""What a downstream classifier asks of its labels before it trains."""

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from sameloss.errors import ParameterError


def check_labels(
    labels: Int[Tensor, "*seed example task"], classes: Sequence[int], tasks: Sequence[str] = ()
) -> None:
    """Refuse training labels from which nothing can be learned.

    A task that by its definition has one class passes: its classifier is trivial, but not wrong
    (the root of a grammar with one start symbol).

    Args:
        labels: 0-based classes of the training sentences, which every seed has of its own.
        classes: number of classes of each task.
        tasks: names for the message; numbers from 0 where there are none.

    Raises:
        ParameterError: for no sentences, fewer sentences than classes, labels out of range, or only
            one class of several.

    """
    if not labels.shape[-2]:
        raise ParameterError("There are no labelled sentences to train on; give at least one a class.")
    names = tasks or [str(number) for number in range(len(classes))]
    for name, count, own in zip(names, classes, labels.unbind(-1), strict=True):
        _check_task(own, count, name)


def _check_task(labels: Int[Tensor, "*seed example"], classes: int, name: str) -> None:
    examples = labels.shape[-1]
    if classes > examples:
        raise ParameterError(
            f"Task {name} has {classes} classes and only {examples} training sentences; "
            "give at least one a class."
        )
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or most >= classes:
        wrong = least if least < 0 else most
        raise ParameterError(f"Labels of task {name} lie in 0..{classes - 1}; got {wrong}.")
    single = (labels == labels[..., :1]).all(-1)
    if classes > 1 and single.any():
        only = int(labels[..., 0][single][0])
        raise ParameterError(
            f"All {examples} training sentences of task {name} are of class {only}; "
            "a classifier needs sentences of at least two classes."
        )
