"""What every measure of flatness asks of a model and of masked sentences before it computes."""

import torch
from torch import nn

from sameloss.corpus import Batch
from sameloss.errors import ModelError


def check(model: nn.Module, masked: Batch) -> None:
    """Refuse what would end in a wrong number.

    Raises:
        ModelError: for weights that are not finite, no sentences, or a mask outside its sentence.

    """
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise ModelError(
                f"Parameter {name} holds values that are not finite; a measure needs finite ones."
            )
    if not len(masked.masked):
        raise ModelError("There are no masked sentences to measure on; give at least one.")
    seq = masked.masked.shape[1]
    ends = torch.full_like(masked.positions, seq) if masked.lengths is None else masked.lengths
    outside = (masked.positions < 0) | (masked.positions >= ends.to(masked.positions.device))
    if outside.any():
        row = int(outside.nonzero()[0])
        raise ModelError(
            f"The masked position of sentence {row} is {int(masked.positions[row])}, on padding: it has "
            f"{int(ends[row])} tokens, so positions 0 to {int(ends[row]) - 1} can be masked."
        )


def check_logits(logits: torch.Tensor, masked: Batch) -> None:
    """Refuse logits that are not one row of scores of words for every masked sentence.

    Raises:
        ModelError: naming the shapes.

    """
    sentences = len(masked.masked)
    if logits.ndim != 2 or len(logits) != sentences:
        raise ModelError(
            f"The model returned logits of shape {tuple(logits.shape)} for {sentences} masked sentences; "
            f"({sentences}, words) is needed, one row a masked position."
        )
    if masked.targets.max() >= logits.shape[1]:
        raise ModelError(
            f"The model's logits cover {logits.shape[1]} words, but the word behind a mask is number "
            f"{int(masked.targets.max()) + 1}; model and sentences must share one vocabulary."
        )
