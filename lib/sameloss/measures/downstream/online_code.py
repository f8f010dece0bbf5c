"""What labels cost to someone who knows the features, for any number of labelled sentences.

Sentences come in blocks. Each block is predicted by the probe of all sentences before it, so the sum of its
losses is the length of a code for the labels (the online code of Voita and Titov 2020, after Rissanen's
prequential one): short where few sentences suffice to read the labels well.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import log2

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.errors import ParameterError
from sameloss.measures.downstream.optimal_probe import OptimalProbe
from sameloss.measures.downstream.probe import LinearProbes

BITS = log2(torch.e)
"""Bits a nat."""

FEW_LABELS = OptimalProbe(ridges=(1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0), held_out=0.5, tolerance=2e-3)
"""A probe that eight sentences do not mislead.

A fifth of them would choose the ridge by two, among ridges made for thousands: probes of 16 sentences are
then so sure of what they do not know that a code took up to 2.7 times the bits of the uniform one. Here half
of the sentences choose, so that each ridge is judged by as many as it was fitted to, and the largest says
little more than that all classes are alike. A smaller tolerance takes longer, and changes most codes by less
than one in a hundred (more only where two ridges are nearly level).
"""


def doubling(first: int, last: int) -> tuple[int, ...]:
    """Return numbers of sentences, each twice the one before, up to the last.

    >>> doubling(8, 40)
    (8, 16, 32, 40)
    """
    numbers = [first]
    while 2 * numbers[-1] < last:
        numbers.append(2 * numbers[-1])
    return (*numbers, last) if numbers[-1] < last else tuple(numbers)


def probes_by_count(
    features: Float[Tensor, "example feature"],
    labels: Int[Tensor, "example task"],
    classes: Sequence[int],
    counts: Sequence[int],
    probe: OptimalProbe,
) -> list[LinearProbes]:
    """Return the probe of the first so many sentences, for each of the counts.

    Raises:
        ParameterError: for counts that do not rise, or of more sentences than there are.

    """
    if list(counts) != sorted(set(counts)) or not 2 <= counts[0] <= counts[-1] <= len(labels):
        raise ParameterError(
            f"Numbers of labelled sentences must rise from 2 to at most {len(labels)}; got {tuple(counts)}."
        )
    return [probe.solved(features[None, :n], labels[None, :n], classes, seed=0) for n in counts]


def code_lengths(
    probes: Sequence[LinearProbes],
    features: Float[Tensor, "example feature"],
    labels: Int[Tensor, "example task"],
    counts: Sequence[int],
) -> Float[Tensor, "count task"]:
    """Return the bits for the labels of the first so many sentences; the first block has the uniform code.

    Args:
        probes: from `probes_by_count`, of the same counts; that of the last codes nothing and may lack.
        features: of all sentences.
        labels: of all sentences.
        counts: where each block ends.

    """
    uniform = counts[0] * torch.tensor([log2(count) for count in probes[0].classes])
    blocks = [
        _bits(known, features[start:end], labels[start:end])
        for known, (start, end) in zip(probes, pairwise(counts), strict=False)
    ]
    return torch.stack([uniform, *blocks]).cumsum(0)


def _bits(
    known: LinearProbes, features: Float[Tensor, "example feature"], labels: Int[Tensor, "example task"]
) -> Float[Tensor, " task"]:
    losses = [
        F.cross_entropy(task[0], own.to(task.device), reduction="sum")
        for task, own in zip(known.logits(features), labels.unbind(1), strict=True)
    ]
    return BITS * torch.stack(losses).cpu().float()
