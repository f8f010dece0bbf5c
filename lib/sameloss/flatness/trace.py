r"""The trace of the Hessian of the pre-training loss, in its Fisher form (Section 4, App. B).

At saturation the Hessian equals the Fisher information (Lemma 3.2), so

$$\mathrm{Tr}\,\nabla^2 L = \mathbb E_{t, x_{-t}}\, \mathbb E_{\hat y \sim f(x_{-t})}
  \lVert \nabla_\theta \log [f_\theta(x_{-t})]_{\hat y} \rVert^2 .$$
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sameloss.corpus import Batch
from sameloss.errors import ParameterError
from sameloss.estimate import Estimate

Estimator = Literal["exact", "sampled"]

GRADIENT_BYTES = 64 << 20
"""Memory for the per-example gradients held at once."""


@dataclass(frozen=True)
class FisherTrace:
    """The trace and its parts; a part's parameters are disjoint from the others', so they add up."""

    total: Estimate
    parts: dict[str, Estimate]


def fisher_trace(
    model: nn.Module,
    masked: Batch,
    *,
    estimator: Estimator = "sampled",
    labels: int = 1,
    generator: torch.Generator | None = None,
) -> FisherTrace:
    """Estimate E ||grad log f[y]||², y ~ f, the masked sentence being the unit of error.

    Args:
        model: a masked language model.
        masked: masked sentences drawn from the language; their targets are not used.
        estimator: `exact` sums over all labels with their probabilities; `sampled` draws them.
        labels: labels drawn for each sentence (the paper draws 50).
        generator: of the sampled labels.

    """
    device = next(model.parameters()).device
    masked = Batch(*(part if part is None else part.to(device) for part in masked))
    if estimator == "exact":
        values = _every_label(model, masked)
    elif estimator == "sampled":
        values = _sampled_labels(model, masked, labels, generator)
    else:
        raise ParameterError(f"Unknown estimator {estimator!r}; choose exact or sampled.")
    total = torch.stack(list(values.values())).sum(0)
    parts = {group: Estimate.of(part) for group, part in values.items()}
    return FisherTrace(Estimate.of(total), parts)


@torch.no_grad()
def predictions(model: nn.Module, masked: Batch) -> Float[Tensor, "batch word"]:
    """Return f(x_-t)."""
    return model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()


def _every_label(model: nn.Module, masked: Batch) -> dict[str, Tensor]:
    """Return, for each group and sentence, sum_y f[y] ||grad log f[y]||²."""
    probabilities = predictions(model, masked)
    sentences, words = probabilities.shape
    rows = torch.arange(sentences).repeat_interleave(words)
    norms = squared_norms(model, masked, rows, torch.arange(words).repeat(sentences))
    return {k: (v.view(sentences, words) * probabilities).sum(1) for k, v in norms.items()}


def _sampled_labels(
    model: nn.Module, masked: Batch, labels: int, generator: torch.Generator | None
) -> dict[str, Tensor]:
    if labels < 1:
        raise ParameterError(f"labels must be positive; got {labels}.")
    drawn = torch.multinomial(predictions(model, masked), labels, True, generator=generator)
    rows = torch.arange(len(drawn)).repeat_interleave(labels)
    norms = squared_norms(model, masked, rows, drawn.flatten())
    return {group: values.view(-1, labels).mean(1) for group, values in norms.items()}


def squared_norms(
    model: nn.Module, masked: Batch, rows: Int[Tensor, " pair"], labels: Int[Tensor, " pair"]
) -> dict[str, Float[Tensor, " pair"]]:
    """Return ||grad log f(x_-t)[y]||² by parameter group for each (sentence, label) pair.

    The plain method: one gradient a pair, a chunk of pairs at once.
    """
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def log_probability(parameters, sentence, position, length, label):
        lengths = None if length is None else length[None]
        inputs = (sentence[None], position[None], lengths)
        return functional_call(model, parameters, inputs)[0].log_softmax(-1).gather(0, label[None])[0]

    ragged = None if masked.lengths is None else 0
    gradient = vmap(grad(log_probability), in_dims=(None, 0, 0, ragged, 0))
    size = sum(p.numel() * p.element_size() for p in parameters.values())
    chunk = max(1, GRADIENT_BYTES // size)
    parts = []
    device = masked.masked.device
    for some, label in zip(rows.to(device).split(chunk), labels.to(device).split(chunk), strict=True):
        lengths = None if masked.lengths is None else masked.lengths[some]
        inputs = (masked.masked[some], masked.positions[some], lengths, label)
        parts.append(_grouped_norms(gradient(parameters, *inputs)))
    return {group: torch.cat([part[group] for part in parts]).cpu() for group in parts[0]}


def _grouped_norms(gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    groups: dict[str, Tensor] = {}
    for name, gradient in gradients.items():
        norm = gradient.flatten(1).square().sum(1)
        group = parameter_group(name)
        groups[group] = groups[group] + norm if group in groups else norm
    return groups


def parameter_group(name: str) -> str:
    """Return the group of a parameter of the encoder.

    >>> parameter_group("blocks.0.attention.qkv.weight")
    'attention'
    """
    for group in ("norm", "word", "position", "attention", "mlp", "head"):
        if group in name:
            return {"norm": "LayerNorm", "word": "word embedding", "mlp": "MLP"}.get(group, group)
    raise ValueError(f"Parameter {name!r} belongs to no known group.")
