"""One step of gradient descent on V from nothing (Figure 4.1): exactly, and on drawn sequences."""

from math import comb

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.studies.decision_lists.attention import forward, gradients
from sameloss.studies.decision_lists.task import DecisionLists, draw_sequences

INITIAL_SCALE = 1e-4
"""Standard deviation of the entries of V before the step: 10⁻⁸ is their variance."""

CHUNK = 2_500_000
"""Logits that are computed at once."""


def exact_step(task: DecisionLists, length: int, rate: float) -> Float[Tensor, "words words"]:
    """Return V after a step from W = 0, V = 0 on the population loss of uniform sets.

    V[π(k), i] = η n⁻² (E[1_i N_k] − (n/L)²): N_k counts a sequence's tokens whose label is determined by k.
    """
    words = task.words
    mass = lambda absent, present: (  # noqa: E731
        comb(words - absent - present, length - present) / comb(words, length) if present <= length else 0.0
    )
    together = torch.full((words, words), 0.0, dtype=torch.float64)  # E[1_i N_k] at [k, i]
    for token, own in enumerate(task.lists):
        for place, decider in enumerate(own):
            needed = len({token, decider})
            row = torch.full((words,), mass(place, needed + 1), dtype=torch.float64)
            row[[token, decider]] = mass(place, needed)
            row[list(own[:place])] = 0.0
            together[decider] += row
    step = torch.empty_like(together)
    step[task.image] = rate / length**2 * (together - (length / words) ** 2)
    return step


def sampled_step(
    task: DecisionLists, length: int, rate: float, count: int, generator: torch.Generator
) -> Float[Tensor, "words words"]:
    """Return V after a step on so many drawn sequences, from W = 0 and V of tiny random entries."""
    words = task.words
    read_out = INITIAL_SCALE * torch.randn(words, words, generator=generator)
    scores, total = torch.zeros(words, words), torch.zeros(words, words)
    together = max(1, CHUNK // (length * words))
    for first in range(0, count, together):
        sequences = draw_sequences(words, length, min(together, count - first), generator)
        weights = torch.full((len(sequences),), 1 / count)
        found = forward(scores, read_out, sequences, task.labels(sequences))
        total += gradients(found, read_out, sequences, weights).read_out
    return read_out - rate * total


def recall(task: DecisionLists, read_out: Float[Tensor, "words words"]) -> float:
    """Return the share of tokens whose column of V is largest at their image under π."""
    return float((read_out.argmax(0).cpu() == task.image).double().mean())
