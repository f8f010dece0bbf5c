"""One attention layer and one ReLU layer on bracket sentences: outputs, gradients, the trace (Section 5, F).

    f(x) = u·σ(V h(x)) / m,   h(x) = Σ_j a_j x_j,   a = softmax_j ⟨Q x_1, K x_j⟩.

Every function takes parameters with any leading axes, so that many models are one tensor. The derivative of
the ReLU at zero is zero, as in the paper's 1[V h > 0].
"""

from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sameloss.errors import ModelError
from sameloss.studies.dyck.language import Inputs

ZERO_LOSS = 1e-16
"""A squared loss up to this counts as zero in float64."""

AT_KINK = 1e-10
"""A preactivation up to this is at the ReLU's kink: rounding is a hundred thousand times smaller."""


class Transformer(NamedTuple):
    """Parameters (ψ, u), ψ = (Q, K, V); the axes before the named ones are those of many models."""

    query: Float[Tensor, "*models rank feature"]
    key: Float[Tensor, "*models rank feature"]
    value: Float[Tensor, "*models width feature"]
    head: Float[Tensor, "*models width"]

    @property
    def width(self) -> int:
        """Return m."""
        return self.head.shape[-1]

    def model(self, which: int) -> "Transformer":
        """Return one of many models."""
        return Transformer(*(tensor[which] for tensor in self))

    def uniform(self) -> "Transformer":
        """Return the model with Q = K = 0, whose attention takes the average."""
        return self._replace(query=torch.zeros_like(self.query), key=torch.zeros_like(self.key))


class Pass(NamedTuple):
    """A forward pass and what gradients are made of."""

    attention: Float[Tensor, "*models inputs position"]  # a
    averages: Float[Tensor, "*models inputs feature"]  # h
    preactivations: Float[Tensor, "*models inputs width"]  # V h
    outputs: Float[Tensor, "*models inputs"]  # f
    through_scores: Float[Tensor, "*models inputs feature"]  # Σ_j (∂f/∂score_j) x_j


def run(model: Transformer, inputs: Inputs) -> Pass:
    """Return outputs and intermediate quantities on all inputs."""
    tokens = inputs.tokens
    scores = torch.einsum("...nf,...npf->...np", (tokens[..., 0, :] @ model.query.mT) @ model.key, tokens)
    attention = scores.softmax(-1)
    averages = torch.einsum("...np,...npf->...nf", attention, tokens)
    preactivations = averages @ model.value.mT
    outputs = (preactivations.relu() @ model.head[..., None]).squeeze(-1) / model.width
    slope = ((preactivations > AT_KINK) * model.head[..., None, :]) @ model.value / model.width  # ∂f/∂h
    along = torch.einsum("...nf,...npf->...np", slope, tokens)
    by_score = attention * (along - (slope * averages).sum(-1, keepdim=True))
    through = torch.einsum("...np,...npf->...nf", by_score, tokens)
    return Pass(attention, averages, preactivations, outputs, through)


def pretraining_loss(model: Transformer, inputs: Inputs) -> Float[Tensor, "*models"]:
    """Return L = E(f - g*)², exact over the inputs."""
    return (run(model, inputs).outputs - inputs.target).square().mean(-1)


def trace_parts(model: Transformer, inputs: Inputs) -> dict[str, Float[Tensor, "*models"]]:
    """Return 2 E‖∇f‖² of each parameter: at zero loss the trace of its block of the Hessian.

    Lemma F.4, whose printed form lacks the 2: ∇²(f - g)² = 2∇f∇fᵀ + 2(f - g)∇²f.
    """
    done = run(model, inputs)
    first = inputs.tokens[..., 0, :]
    active = (done.preactivations > AT_KINK) * model.head.square()[..., None, :]
    norms = {
        "query": (done.through_scores @ model.key.mT).square().sum(-1),
        "key": (first @ model.query.mT).square().sum(-1) * done.through_scores.square().sum(-1),
        "value": active.sum(-1) * done.averages.square().sum(-1) / model.width**2,
        "head": done.preactivations.relu().square().sum(-1) / model.width**2,
    }
    return {name: 2 * norm.mean(-1) for name, norm in norms.items()}


def dense_hessian_trace(model: Transformer, inputs: Inputs) -> float:
    """Return the trace of the whole Hessian of the loss, by automatic differentiation."""

    def loss(flat: Tensor) -> Tensor:
        pieces = flat.split([tensor.numel() for tensor in model])
        tensors = [piece.view_as(tensor) for piece, tensor in zip(pieces, model, strict=True)]
        return pretraining_loss(Transformer(*tensors), inputs)

    return float(torch.func.hessian(loss)(torch.cat([tensor.flatten() for tensor in model])).trace())


def hessian_trace(model: Transformer, inputs: Inputs) -> Float[Tensor, "*models"]:
    """Return Tr ∇²L over all parameters; it is the trace where the loss is zero."""
    return reduce(torch.add, trace_parts(model, inputs).values())


def loss_gradient(model: Transformer, inputs: Inputs) -> Transformer:
    """Return ∇L on the inputs, by hand: it is what training spends its time on."""
    done = run(model, inputs)
    first = inputs.tokens[..., 0, :]
    errors = 2 * (done.outputs - inputs.target)[..., None] / inputs.target.shape[-1]
    through = errors * done.through_scores
    active = errors * (done.preactivations > AT_KINK) * model.head[..., None, :]
    return Transformer(
        query=(through @ model.key.mT).mT @ first,
        key=(first @ model.query.mT).mT @ through,
        value=active.mT @ done.averages / model.width,
        head=(errors * done.preactivations.relu()).sum(-2) / model.width,
    )


def lower_bound(length: int, width: int) -> float:
    """Return 4/(m√T), below which no solution's trace can be.

    Lemma F.1 prints √(4/T), which is this at m = 2. From 2 E‖∇f‖² ≥ (4/m²) E[‖h‖ Σ σ(V_i·h)|u_i|]
    ≥ (4/m) E[‖h‖ |f|], where |f| = 1 and ‖h‖ ≥ 1/√T.

    >>> lower_bound(4, 2)
    1.0
    """
    return 4 / (width * length**0.5)


def conditions(model: Transformer, inputs: Inputs) -> dict[str, float]:
    """Return how far a model is from conditions (3), (4) and (5) of Lemma F.1: zero where it meets them.

    - `balance` (3): largest |V_i·h - |u_i|‖h‖| over active neurons;
    - `cancellation` (4): largest product V_i·h V_j·h of neurons with u_i > 0 > u_j;
    - `uniformity` (5): largest |a_j - 1/T|;
    - `scores`: the norm of the gradient by Q and K, which has to vanish too and is not among the three.
    """
    done = run(model, inputs)
    norms = done.averages.norm(dim=-1, keepdim=True)
    unequal = (done.preactivations - model.head.abs() * norms)[done.preactivations > AT_KINK]
    positive, negative = done.preactivations[:, model.head > 0], done.preactivations[:, model.head < 0]
    products = positive[:, :, None] * negative[:, None, :]
    parts = trace_parts(model, inputs)
    return {
        "balance": float(unequal.abs().max()),
        "cancellation": float(products.clamp(min=0).max()) if products.numel() else 0.0,
        "uniformity": float((done.attention - 1 / inputs.length).abs().max()),
        "scores": float((parts["query"] + parts["key"]).sqrt()),
    }


def off_direction(model: Transformer) -> float:
    """Return the mean sine of the angle between V_i and ∓[1; 0], neurons weighted by |u_i|‖V_i‖."""
    length = model.value.shape[1] // 2
    along = model.value[:, :length].mean(1, keepdim=True)
    across = torch.cat([model.value[:, :length] - along, model.value[:, length:]], 1).norm(dim=1)
    weights = model.head.abs()
    return float((weights * across).sum() / (weights * model.value.norm(dim=1)).sum())


def cancellation(model: Transformer, inputs: Inputs) -> float:
    """Return E[Σ|u_i|σ(V_i·h)] / E|Σ u_i σ(V_i·h)|: 1 where activated neurons never cancel."""
    contributions = run(model, inputs).preactivations.relu() * model.head
    return float(contributions.abs().sum(-1).mean() / contributions.sum(-1).abs().mean())


def kinks(model: Transformer, inputs: Inputs) -> Bool[Tensor, "inputs width"]:
    """Tell where a neuron with u_i ≠ 0 is at the ReLU's kink: there the loss has no Hessian."""
    at_zero = run(model, inputs).preactivations.abs() <= AT_KINK
    return at_zero & (model.head.abs() > AT_KINK)


def averaged_curvature(model: Transformer, inputs: Inputs) -> float:
    """Return the mean of δᵀ∇²L δ over Gaussian δ in one-sided derivatives: the trace, and at kinks more.

    A neuron at its kink follows half of all directions: u_i σ(δ_i·h)/m adds u_i²‖h‖²/(2m²), and a pair
    of them u_i u_j‖h‖²/(2πm²) twice. A solution of uniform attention with Q = K = 0 is assumed.
    """
    done = run(model, inputs)
    here = kinks(model, inputs) * model.head / model.width
    squares, sums = here.square().sum(-1), here.sum(-1)
    extra = squares / 2 + (sums.square() - squares) / (2 * torch.pi)
    return float(hessian_trace(model, inputs) + 2 * (extra * done.averages.square().sum(-1)).mean())


def transferable_solution(length: int, width: int, rank: int = 1) -> Transformer:
    """Return solution (1) at any width m ≥ 2: all V_i = ∓c·[1; 0], balanced as condition (3) asks.

    The first half of the neurons is active where g* = 1 and has u_i > 0. With n of them c² = m T^{3/2} / n
    and |u_i| = c/√T make the loss zero and the trace 4/(m√T).

    Raises:
        ModelError: where there is no neuron for each sign.

    """
    check_width(width)
    positive = (width + 1) // 2
    counts = torch.tensor([positive] * positive + [width - positive] * (width - positive)).double()
    signs = torch.tensor([1.0] * positive + [-1.0] * (width - positive)).double()
    scale = (width * length**1.5 / counts).sqrt()
    ones = torch.cat([torch.ones(length), torch.zeros(length)]).double()
    return _averaging(-(signs * scale)[:, None] * ones, signs * scale / length**0.5, rank)


def check_width(width: int) -> int:
    """Return the width, if Theorem 5.1 is about it.

    Raises:
        ModelError: where there is no neuron for each sign.

    """
    if width < 2:
        raise ModelError(f"Theorem 5.1 needs a width of at least 2, a neuron for each sign; got {width}.")
    return width


def _averaging(value: Tensor, head: Tensor, rank: int) -> Transformer:
    """Return a model with Q = K = 0."""
    zeros = torch.zeros(rank, value.shape[-1], dtype=value.dtype)
    return Transformer(zeros, zeros, value, head)


def kinked_solution(length: int, kind: str, rank: int = 1) -> Transformer:
    """Return a solution of four neurons (g* + ξ, g* - ξ, -g* + ξ, -g* - ξ) with ξ = ±1 linear in the input.

    Where ξ is `"mask"`, the mask's sign: V^(c) = ∓c·1 and V^(p) = ±c·1, the second case in the proof of
    Lemma F.3. Where it is `"token"`, the sign of whatever is at the first position, V^(c) is not a
    multiple of 1, which that lemma excludes. Both have zero loss and meet conditions (3) to (5); half of
    their neurons are at the ReLU's kink on every input.
    """
    own = torch.zeros(2 * length).double()
    if kind == "mask":
        own[length:] = 1.0
    else:
        own[0], own[length] = 1.0, 1.0
    count = torch.cat([-torch.ones(length), torch.zeros(length)]).double()
    directions = torch.stack([count + own, count - own, own - count, -own - count])
    scale = length**0.75  # σ(V_i·h) = 2·scale/T, |u_i| = 2·scale/√T: their product is m = 4
    return _averaging(
        scale * directions, 2 * scale / length**0.5 * torch.tensor([1.0, 1, -1, -1]).double(), rank
    )


def random_feature_solution(inputs: Inputs, width: int, generator: torch.Generator) -> Transformer:
    """Return solution (2): V_i ~ N(0, T·I), attention the average, u the smallest of the best heads."""
    features = inputs.tokens.shape[-1]
    drawn = torch.randn(width, features, generator=generator, dtype=torch.float64)
    model = _averaging(inputs.length**0.5 * drawn, drawn.new_zeros(width), 1)
    return model._replace(head=smallest_head(model, inputs))


def smallest_head(
    model: Transformer, inputs: Inputs, features: Float[Tensor, "*models inputs width"] | None = None
) -> Float[Tensor, "*models width"]:
    """Return argmin ‖u‖₂ among the heads of least squares on the inputs.

    Args:
        model: of which all but the head is used.
        inputs: a sample or all inputs.
        features: the model's ReLU outputs on these inputs, where they are known.

    """
    if features is None:
        features = run(model, inputs).preactivations.relu()
    inverse = torch.linalg.pinv(features / model.width, rtol=1e-10)
    return (inverse @ inputs.target[..., None]).squeeze(-1)
