"""A whole transformer block on the task: the library's encoder, with what its attention looks at."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.models.encoder import Block, Encoder, EncoderShape
from sameloss.studies.decision_lists.task import DecisionLists, draw_sequences, listed


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
