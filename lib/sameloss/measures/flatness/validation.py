"""Preconditions of every measure of flatness, on the model and on the masked sentences."""

import torch
from torch import nn

from sameloss.errors import ModelError
from sameloss.languages.masking import Batch

PADDING = 1e-3
"""Tolerated change of logits by padding, relative to the largest."""


def check(model: nn.Module, masked: Batch) -> None:
    """Require a deterministic model in full precision and at least one sentence, masked inside.

    Raises:
        ModelError: for active dropout, weights that are complex, not finite or in half precision, no
            sentences, or a mask outside its sentence; under autocast; for a model in training mode whose
            buffers a forward pass changes.

    """
    if any(_drops(module) for module in model.modules()):
        raise dropout_fault()
    if torch.is_autocast_enabled(next(model.parameters()).device.type):
        raise ModelError("Under torch.autocast the model rounds to half precision; measure it outside.")
    for name, parameter in model.named_parameters():
        if parameter.is_complex():
            raise ModelError(f"Parameter {name} is complex; a measure needs a model of real parameters.")
        if not parameter.isfinite().all():
            raise ModelError(
                f"Parameter {name} holds values that are not finite; a measure needs finite ones."
            )
        if parameter.dtype in (torch.bfloat16, torch.float16):
            raise ModelError(
                f"Parameter {name} is in {str(parameter.dtype).removeprefix('torch.')}, whose rounding is as "
                "large as what is measured; call model.float() before measuring it."
            )
    if not len(masked.masked):
        raise ModelError("There are no masked sentences to measure on; give at least one.")
    seq = masked.masked.shape[1]
    ends = torch.full_like(masked.positions, seq) if masked.lengths is None else masked.lengths
    outside = (masked.positions < 0) | (masked.positions >= ends.to(masked.positions.device))
    if outside.any():
        row = int(outside.nonzero()[0])
        raise ModelError(
            f"The masked position of sentence {row} is {int(masked.positions[row])}, but it has "
            f"{int(ends[row])} tokens, so positions 0 to {int(ends[row]) - 1} can be masked."
        )
    if any(module.training for module in model.modules()):
        _check_buffers(model, masked.rows(slice(2)))


@torch.no_grad()
def _check_buffers(model: nn.Module, two: Batch) -> None:
    """Require that a forward pass leaves the model as it is, unlike that of BatchNorm in training mode."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    if before:
        two = two.to(next(model.parameters()).device)
        model(two.masked, two.positions, two.lengths)
    moved = [name for name, value in before.items() if not torch.equal(model.get_buffer(name), value)]
    for name in moved:
        model.get_buffer(name).copy_(before[name])
    if moved:
        raise ModelError(f"Each forward pass changes {moved[0]}; call model.eval() before measuring it.")


@torch.no_grad()
def check_padding(model: nn.Module, masked: Batch) -> None:
    """Require that padding changes no prediction, for measures that take sentences of all lengths together.

    Raises:
        ModelError: if the shortest sentence, alone, has other logits with padding than without.

    """
    if masked.lengths is None:
        return
    shortest = masked.rows(masked.lengths.argmin()[None]).to(next(model.parameters()).device)
    padded, alone = (model(*some[:2], some.lengths) for some in (shortest, shortest.narrowed()))
    if not torch.allclose(padded, alone, rtol=0, atol=PADDING * float(alone.abs().max()), equal_nan=True):
        raise ModelError(
            "The model's predictions depend on padding, so that this measure needs sentences of one length; "
            "fisher_trace takes them one at a time."
        )


def _drops(module: nn.Module) -> bool:
    """Whether a module is training with a positive dropout rate: of its own, or passed to functions."""
    rates = [rate for name, rate in vars(module).items() if "drop" in name and isinstance(rate, float)]
    if isinstance(module, nn.modules.dropout._DropoutNd):
        rates.append(module.p)
    return module.training and any(rate > 0 for rate in rates)


def dropout_fault() -> ModelError:
    """Error of a model whose dropout is active."""
    return ModelError("The model drops units at random; call model.eval() before measuring it.")


def check_logits(logits: torch.Tensor, masked: Batch) -> None:
    """Require one row of logits per masked sentence, over a vocabulary that contains the targets.

    Raises:
        ModelError: naming the shapes.

    """
    sentences = len(masked.masked)
    if logits.ndim != 2 or len(logits) != sentences:
        raise ModelError(
            f"The model returned logits of shape {tuple(logits.shape)} for {sentences} masked sentences; "
            f"({sentences}, words) is needed, one row per masked position."
        )
    if masked.targets.max() >= logits.shape[1]:
        raise ModelError(
            f"The model's logits cover {logits.shape[1]} words, but the word behind a mask is number "
            f"{int(masked.targets.max()) + 1}; model and sentences must share one vocabulary."
        )
