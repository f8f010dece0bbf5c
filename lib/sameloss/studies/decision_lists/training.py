"""Training on drawn sequences: SGD, and Transformer blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.checks import check_counts, check_positive
from sameloss.errors import NonFiniteLoss
from sameloss.models.encoder import Block, Encoder, EncoderShape
from sameloss.studies.decision_lists.theory import (
    INITIAL_SCALE,
    DecisionLists,
    correct,
    draw_sequences,
    fixed_read_out_gradient,
    forward,
    gradients,
    listed,
    weight_on_determining,
)

# Gradient descent on drawn sequences: the scores alone, or both matrices, from the thesis' starts.


@dataclass(frozen=True)
class Steps:
    """How SGD goes: all in the thesis' terms, one rate for both matrices and no stages."""

    rate: float
    batch: int
    steps: int
    looks: int  # at equal distances, the first before any step

    def __post_init__(self) -> None:
        """Refuse steps that lead nowhere."""
        check_counts(self, "batch", "steps", "looks")
        check_positive(self, "rate")

    @property
    def look_steps(self) -> list[int]:
        """Return the steps after which a look is taken."""
        return sorted({round(self.steps * at / self.looks) for at in range(self.looks + 1)})


class Look(NamedTuple):
    """Both matrices after a step."""

    step: int
    scores: Float[Tensor, "words words"]
    read_out: Float[Tensor, "words words"]


def scores_by_sgd(
    task: DecisionLists, length: int, readout: float, how: Steps, generator: torch.Generator
) -> Iterator[Look]:
    """Train W alone from 0 at V = cP on sequences drawn anew at every step; yield at every look."""
    device = generator.device
    scores = torch.zeros(task.words, task.words, device=device)
    fixed = task.read_out(readout).float().to(device)
    looks = set(how.look_steps)
    yield Look(0, scores, fixed)
    for step in range(1, how.steps + 1):
        sequences = draw_sequences(task.words, length, how.batch, generator)
        scores = scores - how.rate * fixed_read_out_gradient(scores, readout, task, sequences)
        _check(how, scores)
        if step in looks:
            yield Look(step, scores, fixed)


def both_by_sgd(task: DecisionLists, length: int, how: Steps, generator: torch.Generator) -> Iterator[Look]:
    """Train both from W = 0 and a tiny random V, as Figure 4.1 begins; yield at every look."""
    device, words = generator.device, task.words
    scores = torch.zeros(words, words, device=device)
    read_out = INITIAL_SCALE * torch.randn(words, words, generator=generator, device=device)
    weights = torch.full((how.batch,), 1 / how.batch, device=device)
    looks = set(how.look_steps)
    yield Look(0, scores, read_out)
    for step in range(1, how.steps + 1):
        sequences = draw_sequences(words, length, how.batch, generator)
        found = forward(scores, read_out, sequences, task.labels(sequences))
        by_scores, by_read_out = gradients(found, read_out, sequences, weights)
        scores, read_out = scores - how.rate * by_scores, read_out - how.rate * by_read_out
        _check(how, scores, read_out)
        if step in looks:
            yield Look(step, scores, read_out)


def _check(how: Steps, *matrices: Tensor) -> None:
    if not all(bool(matrix.isfinite().all()) for matrix in matrices):
        raise NonFiniteLoss(f"SGD diverged at the rate {how.rate:g}; choose a smaller one.")


def looked_at(task: DecisionLists, found: Look, sequences: Int[Tensor, "batch seq"]) -> dict[str, float]:
    """Return accuracies and attention on held-out sequences, the share of ordered columns, V's strength."""
    scores, read_out = found.scores, found.read_out
    labels = task.labels(sequences)
    seen = forward(scores, read_out, sequences, labels)
    right = correct(seen.logits, labels).double()
    by_list = listed(task, sequences)
    image = task.image.to(scores.device)
    return {
        "step": found.step,
        "loss": float(seen.losses.mean()),
        "accuracy": float(right.mean()),
        "listed_accuracy": float(right[by_list].mean()),
        "attention": float(weight_on_determining(task, seen.attention, sequences).mean()),
        "ordered": float(ordered_columns(task, scores).mean()),
        "readout": float(read_out[image, torch.arange(task.words, device=scores.device)].mean()),
    }


def ordered_columns(task: DecisionLists, scores: Float[Tensor, "words words"]) -> Float[Tensor, " words"]:
    """Return 1 for columns whose scores fall along their lists and are lower at all other tokens."""
    found = []
    for token, own in enumerate(task.lists):
        column = scores[:, token]
        listed_scores = column[list(own)]
        others = column.index_fill(0, torch.tensor(own, device=column.device), -torch.inf).max()
        falls = bool((listed_scores[:-1] > listed_scores[1:]).all()) and bool(listed_scores[-1] > others)
        found.append(float(falls))
    return torch.tensor(found)


def trained_on(
    task: DecisionLists,
    readout: float,
    rate: float,
    sequences: Int[Tensor, "batch seq"],
    most_steps: int,
) -> Float[Tensor, "words words"]:
    """Return W after gradient descent on a fixed sample until all of it is classified, or to the end."""
    scores, fixed = torch.zeros(task.words, task.words), task.read_out(readout).float()
    labels = task.labels(sequences)
    for step in range(1, most_steps + 1):
        scores = scores - rate * fixed_read_out_gradient(scores, readout, task, sequences)
        if step % 10 == 0 and bool(correct(forward(scores, fixed, sequences, labels).logits, labels).all()):
            break
    return scores


def error_of(
    task: DecisionLists,
    readout: float,
    scores: Float[Tensor, "words words"],
    sequences: Int[Tensor, "batch seq"],
) -> float:
    """Return the share of tokens that are misclassified."""
    labels = task.labels(sequences)
    found = forward(scores, task.read_out(readout).float(), sequences, labels)
    return 1 - float(correct(found.logits, labels).double().mean())


# A whole transformer block on the task: the library's encoder, with what its attention looks at.


def new_block(words: int, length: int, shape: EncoderShape, mlp: bool, seed: int) -> Encoder:
    """Return an encoder without positions; without its MLPs, too, if so wanted."""
    model = Encoder(shape, words, length, seed)
    silent: list[Tensor] = [model.position.weight]
    if not mlp:
        outputs = (block.mlp_out for block in model.blocks if isinstance(block, Block))
        silent += [parameter for output in outputs for parameter in output.parameters()]
    for parameter in silent:
        parameter.requires_grad_(False).zero_()
    return model


def logits_of(model: Encoder, sequences: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq words"]:
    """Return the logits of the label of every token; word 0 of an encoder is [MASK]."""
    return model.head(model.features(sequences + 1))


def train_block(
    model: Encoder, task: DecisionLists, rate: float, batch: int, steps: int, generator: torch.Generator
) -> Iterator[int]:
    """Train by Adam, whose rate falls linearly to zero, on sequences drawn anew; yield after every step."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    for step in range(1, steps + 1):
        sequences = draw_sequences(task.words, model.max_length, batch, generator)
        logits = logits_of(model, sequences)
        loss = F.cross_entropy(logits.flatten(0, 1), task.labels(sequences).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        yield step


@torch.no_grad()
def attention_of(
    model: Encoder, sequences: Int[Tensor, "batch seq"]
) -> list[Float[Tensor, "batch head query key"]]:
    """Return the attention of every layer and head."""
    found = []

    def keep(block: Block, given: tuple[Any, ...]) -> None:
        attention = block.attention
        split = attention.qkv(block.attention_norm(given[0])).unflatten(-1, (3, attention.heads, -1))
        q, k, _ = split.permute(2, 0, 3, 1, 4)
        found.append((q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1))

    hooks = [block.register_forward_pre_hook(keep) for block in model.blocks]
    model.features(sequences + 1)
    for hook in hooks:
        hook.remove()
    return found


@torch.no_grad()
def block_looked_at(
    model: Encoder, task: DecisionLists, sequences: Int[Tensor, "batch seq"]
) -> dict[str, float]:
    """Return accuracies on held-out sequences, and the weight on the token that decides, in the best head."""
    right = (logits_of(model, sequences).argmax(-1) == task.labels(sequences)).double()
    decides = sequences[:, None, :] == task.determining(sequences)[:, :, None]
    weights = [
        float((head * decides).sum(-1).mean())
        for layer in attention_of(model, sequences)
        for head in layer.unbind(1)
    ]
    return {
        "accuracy": float(right.mean()),
        "listed_accuracy": float(right[listed(task, sequences)].mean()),
        "attention": max(weights),
    }
