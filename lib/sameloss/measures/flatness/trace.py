"""The trace of the Hessian in its Fisher form: estimators, splits by parameter, the relative trace."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.gradient_norms import recordings
from sameloss.measures.flatness.validation import check, check_logits, check_padding
from sameloss.models.bilstm import without_cudnn
from sameloss.models.masked_model import parameter_group
from sameloss.statistics.intervals import Estimate


class Cost(NamedTuple):
    """Cost of an estimate: passes of one sentence through the model, and seconds."""

    forward: int
    backward: int  # a Hessian-vector product counts as one forward and three backward passes
    seconds: float


@dataclass(frozen=True)
class EstimatedTrace:
    """Independent draws of a trace, split by parameter.

    `draws[name]` holds one unbiased value of the parameter's part of the trace per draw: per sentence, batch
    or random direction, depending on the estimator.
    """

    draws: dict[str, Float[Tensor, " draw"]]
    cost: Cost

    @property
    def total(self) -> Estimate:
        return self.by(lambda name: "total")["total"]

    @property
    def parts(self) -> dict[str, Estimate]:
        """The trace by kind of parameter: embeddings, attention, MLP, LayerNorm, head."""
        return self.by(parameter_group)

    def scaled(self, factor: Callable[[str], float]) -> "EstimatedTrace":
        """Multiply the part of each parameter by a factor that depends on its name."""
        return replace(self, draws={name: factor(name) * values for name, values in self.draws.items()})

    def by(self, group: Callable[[str], str]) -> dict[str, Estimate]:
        """Sum the parts of each group of parameters; standard errors include correlations within the group.

        >>> draws = {"word": torch.tensor([1.0, 3.0]), "head": torch.tensor([5.0, 3.0])}
        >>> EstimatedTrace(draws, Cost(2, 2, 0.0)).by(lambda name: "all")
        {'all': Estimate(mean=6.0, standard_error=0.0, count=2)}

        """
        grouped: dict[str, list[Tensor]] = {}
        for name, values in self.draws.items():
            grouped.setdefault(group(name), []).append(values)
        return {key: Estimate.of(torch.stack(parts).sum(0)) for key, parts in grouped.items()}


# The Fisher trace (Section 4, App. B).
#
# At saturation the Hessian of the pre-training loss equals the Fisher information (Lemma 3.2), so
#
# $$\mathrm{Tr}\,\nabla^2 L = \mathbb E_{t, x_{-t}}\, \mathbb E_{\hat y \sim f(x_{-t})}
#   \lVert \nabla_\theta \log [f_\theta(x_{-t})]_{\hat y} \rVert^2
#   = \mathbb E_{t, x_{-t}} \mathrm{Tr}\, J^\top (\mathrm{diag} f - f f^\top) J ,$$
#
# with the Jacobian J of the logits. Every estimator here is a choice of cotangents v of the logits
# with $\sum v v^\top = \mathrm{diag} f - f f^\top$, exactly or in expectation.

ESTIMATORS = ("exact", "sampled", "rademacher")


def fisher_trace(
    model: nn.Module,
    masked: Batch,
    *,
    estimator: str = "sampled",
    labels: int = 1,
    generator: torch.Generator | None = None,
) -> EstimatedTrace:
    r"""Estimate $\mathbb E\, \lVert \nabla \log [f]_{\hat y} \rVert^2$ with ŷ ~ f (Section 4, App. B).

    Args:
        model: a masked language model, called as `model(masked, positions, lengths)`, or a causal one in
            `HuggingFaceModel`. The module `gradient_norms` says how its layers are treated.
        masked: masked sentences drawn from the language, or for a causal model the prefixes of
            `prefix_batch`; their targets are not used.
        estimator: `exact` sums over all labels weighted by their probabilities; `sampled` draws labels
            from f; `rademacher` draws vectors of random signs in the space of the logits.
        labels: labels, or vectors of signs, per sentence (the paper draws 50 labels).
        generator: of the labels or signs, on the CPU.

    Returns:
        One draw of the trace per sentence, by parameter (nats per squared parameter).

    Raises:
        ParameterError: for an unknown estimator, labels < 1, or a missing generator.
        ModelError: see `recordings`.

    """
    if estimator not in ESTIMATORS:
        raise ParameterError(f"Unknown estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}.")
    check_count("labels", labels)
    if generator is None and estimator != "exact":
        raise ParameterError(f"The estimator {estimator} is random; give it a generator, or choose exact.")
    started, backward = time.perf_counter(), 0
    trainable = [name for name, p in model.named_parameters() if p.requires_grad]
    draws = {name: torch.zeros(len(masked.masked), dtype=torch.float64) for name in trainable}
    for rows, recording in recordings(model, masked):
        probabilities = recording.logits.detach().softmax(-1)
        for cotangents in _cotangents(estimator, probabilities, labels, generator):
            backward += len(cotangents)
            for name, norms in recording.squared_norms(cotangents).items():
                draws[name][rows] += norms.cpu()
        del recording  # free its graph before the next forward pass
    return EstimatedTrace(draws, Cost(len(masked.masked), backward, time.perf_counter() - started))


def _cotangents(
    estimator: str, f: Float[Tensor, "batch word"], labels: int, generator: torch.Generator | None
) -> Iterator[Float[Tensor, "batch word"]]:
    """Yield cotangents of the logits; the squared norms of their gradients are to be summed."""
    if estimator == "exact":  # sqrt(f[y]) (e_y - f) for every label y
        for y, one_hot in enumerate(torch.eye(f.shape[1]).to(f)):
            yield f[:, y, None].sqrt() * (one_hot - f)
    elif estimator == "sampled":  # e_y - f for labels y ~ f, drawn by inverting the distribution function
        uniform = torch.rand(len(f), labels, generator=generator, dtype=torch.float64).to(f.device)
        steps = f.double().cumsum(1)
        drawn = torch.searchsorted(steps, uniform * steps[:, -1:], right=True).clamp(max=f.shape[1] - 1)
        for label in drawn.unbind(1):
            yield (F.one_hot(label, f.shape[1]).to(f) - f) / labels**0.5
    else:  # sqrt(f) z - f (sqrt(f) · z) for random signs z, with mean outer product diag f - f f'
        signs = torch.randint(0, 2, (len(f), labels, f.shape[1]), generator=generator)
        for z in (2 * signs - 1).to(f).unbind(1):
            scaled = f.sqrt() * z
            yield (scaled - f * scaled.sum(1, keepdim=True)) / labels**0.5


def minibatch_trace(
    model: nn.Module, masked: Batch, *, batch: int, generator: torch.Generator
) -> EstimatedTrace:
    r"""Estimate the Fisher trace from gradients of whole mini-batches (Gauss-Newton-Bartlett).

    With labels drawn from f, gradients of different sentences are uncorrelated, so that

    $$B\, \Bigl\lVert \frac1B \sum_{i=1}^B \nabla \log [f(x_i)]_{\hat y_i} \Bigr\rVert^2$$

    is unbiased ({cite}`liu2024sophia`, Section 2.3). An ordinary backward pass suffices, but one draw
    costs a whole mini-batch.

    Args:
        model: a masked language model, called as `model(masked, positions, lengths)`.
        masked: masked sentences, cut into mini-batches; the remainder is dropped.
        batch: sentences per mini-batch, B.
        generator: of the labels, on the CPU.

    Returns:
        One draw of the trace per mini-batch, by parameter.

    Raises:
        ParameterError: if there is no whole mini-batch.
        ModelError: see `check` and `check_padding`.

    """
    check(model, masked)
    check_padding(model, masked)
    count = len(masked.masked) // batch if batch > 0 else 0
    if not count:
        raise ParameterError(
            f"batch must be 1 to {len(masked.masked)}, the number of sentences; got {batch}."
        )
    started, masked = time.perf_counter(), masked.to(next(model.parameters()).device)
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    draws: dict[str, list[Tensor]] = {name: [] for name in named}
    for part in masked.rows(slice(count * batch)).parts(batch):
        with torch.enable_grad(), without_cudnn():
            logits = model(part.masked, part.positions, part.lengths)
        check_logits(logits, part)
        (cotangents,) = _cotangents("sampled", logits.detach().softmax(-1), 1, generator)
        gradients = torch.autograd.grad(logits, list(named.values()), cotangents, materialize_grads=True)
        for name, gradient in zip(named, gradients, strict=True):  # B ‖gradient of the mean loss‖²
            draws[name].append(gradient.double().square().sum().cpu() / batch)
    stacked = {name: torch.stack(values) for name, values in draws.items()}
    return EstimatedTrace(stacked, Cost(count * batch, count * batch, time.perf_counter() - started))


def relative_trace(model: nn.Module, trace: EstimatedTrace) -> Estimate:
    r"""Compute $\sum_l \lVert W_l \rVert_F^2\, \mathrm{Tr} H_{ll}$ over the parameter tensors $W_l$.

    The sum is invariant under reparametrisations that scale whole tensors, as in normalized flat minima
    (Tsuzuku, Sato and Sugiyama 2020) and relative flatness (Petzka et al. 2021, which refines the product
    to pairs of neurons). It is also invariant under rotations and permutations within a tensor.

    Args:
        model: the model that the trace belongs to.
        trace: the trace of its Hessian.

    Returns:
        The sum in nats, with the standard error that the trace implies.

    Raises:
        ParameterError: if the trace is empty or has a parameter that the model lacks.

    """
    norms = {name: float(p.detach().double().square().sum()) for name, p in model.named_parameters()}
    unknown = sorted(trace.draws.keys() - norms.keys())
    if unknown or not trace.draws:
        raise ParameterError(f"The trace must be of this model's parameters; it has {unknown or 'none'}.")
    weighted = (norms[name] * values.double() for name, values in trace.draws.items())
    return Estimate.of(reduce(torch.add, weighted))
