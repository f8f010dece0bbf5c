"""The bracket language and its one-layer Transformer: solutions by hand, search and training (Section 5)."""

from collections.abc import Iterator
from functools import reduce
from itertools import combinations, product
from math import comb, inf
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sameloss.errors import ModelError, NonFiniteLoss, NotConverged

# The bracket language of Section 5, enumerated: every input of pre-training and of the downstream task.
#
# A sentence is T brackets, half of them ⟨ and half ⟩. One token in the position t is e_t where it is ⟨ and
# -e_t where it is ⟩; a mask there is e_{t+T} or -e_{t+T}, each with probability one half. The target counts
# mismatches, g*(x) = (number of ⟩) - (number of ⟨), and is linear: g*(x) = -⟨1, first T coordinates of Σ
# x_t⟩.


class Inputs(NamedTuple):
    """All inputs of one distribution, each as likely as the others, or a batch of them for each model."""

    tokens: Float[Tensor, "*models inputs position feature"]  # encodings, 2T features
    target: Float[Tensor, "*models inputs"]  # g*

    @property
    def length(self) -> int:
        """Return T."""
        return self.tokens.shape[-2]

    def rows(self, which: Tensor) -> "Inputs":
        """Return some of the inputs."""
        return Inputs(self.tokens[which], self.target[which])


def bracket_strings(length: int) -> Int[Tensor, "sentences position"]:
    """Return all 2^T strings: 1 is ⟨, -1 is ⟩.

    >>> bracket_strings(2).tolist()
    [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    """
    return torch.cartesian_prod(*[torch.tensor([-1, 1])] * length)


def pretraining_inputs(length: int) -> Inputs:
    """Return each balanced sentence with each token masked by each sign: 2T·C(T, T/2) inputs."""
    strings = bracket_strings(length)
    balanced = strings[strings.sum(1) == 0]
    choices = torch.arange(len(balanced)), torch.arange(length), torch.tensor([1, -1])
    sentence, place, sign = torch.cartesian_prod(*choices).T
    brackets, row = balanced[sentence], torch.arange(len(sentence))
    masks = torch.zeros_like(brackets)
    brackets[row, place], masks[row, place] = 0, sign
    return _encoded(brackets, masks)


def downstream_inputs(length: int) -> Inputs:
    """Return all 2^T strings, balanced or not, without a mask (P_ds of Section 5)."""
    strings = bracket_strings(length)
    return _encoded(strings, torch.zeros_like(strings))


def _encoded(brackets: Tensor, masks: Tensor) -> Inputs:
    """Put brackets into the first T features and masks into the others, one feature a position."""
    tokens = torch.cat([torch.diag_embed(brackets), torch.diag_embed(masks)], -1).double()
    return Inputs(tokens, -brackets.sum(1).double())


def zero_probability(length: int) -> float:
    """Return p₀ = C(T, T/2) / 2^T, the probability that a downstream string is balanced.

    >>> zero_probability(6)
    0.3125
    """
    return comb(length, length // 2) / 2**length


def missing_sign_probability(length: int, samples: int) -> float:
    """Return the probability that n strings do not have both signs of g*, exactly.

    2((1 + p₀)/2)ⁿ - p₀ⁿ: no positive one, or no negative one, less what is counted twice.

    >>> round(missing_sign_probability(6, 5), 3)
    0.24
    """
    balanced = zero_probability(length)
    return 2 * ((1 + balanced) / 2) ** samples - balanced**samples


# One attention layer and one ReLU layer on bracket sentences: outputs, gradients, the trace (Section 5, F).
#
#     f(x) = u·σ(V h(x)) / m,   h(x) = Σ_j a_j x_j,   a = softmax_j ⟨Q x_1, K x_j⟩.
#
# Every function takes parameters with any leading axes, so that many models are one tensor. The derivative of
# the ReLU at zero is zero, as in the paper's 1[V h > 0].

ZERO_LOSS = 1e-16  # a squared loss up to this counts as zero in float64
AT_KINK = 1e-10  # a preactivation up to this is at the ReLU's kink: rounding is 100,000 times smaller


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


class Pass(NamedTuple):
    """A forward pass and what gradients are made of."""

    attention: Float[Tensor, "*models inputs position"]  # a
    averages: Float[Tensor, "*models inputs feature"]  # h
    preactivations: Float[Tensor, "*models inputs width"]  # V h
    features: Float[Tensor, "*models inputs width"]  # σ(V h)
    active: Float[Tensor, "*models inputs width"]  # σ'(V h)
    outputs: Float[Tensor, "*models inputs"]  # f
    loss: Float[Tensor, "*models"]  # E(f - g*)²
    through_scores: Float[Tensor, "*models inputs feature"]  # Σ_j (∂f/∂score_j) x_j


def run(model: Transformer, inputs: Inputs, sharpness: float = inf) -> Pass:
    """Return outputs and intermediate quantities; a ReLU of finite sharpness β is log(1 + exp βx)/β."""
    tokens = inputs.tokens
    scores = torch.einsum("...nf,...npf->...np", (tokens[..., 0, :] @ model.query.mT) @ model.key, tokens)
    attention = scores.softmax(-1)
    averages = torch.einsum("...np,...npf->...nf", attention, tokens)
    preactivations = averages @ model.value.mT
    if sharpness == inf:
        features, active = preactivations.relu(), (preactivations > AT_KINK).to(averages)
    else:
        features = functional.softplus(preactivations, beta=sharpness, threshold=30)
        active = torch.sigmoid(sharpness * preactivations)
    outputs = (features @ model.head[..., None]).squeeze(-1) / model.width
    loss = (outputs - inputs.target).square().mean(-1)
    slope = (active * model.head[..., None, :]) @ model.value / model.width  # ∂f/∂h
    along = torch.einsum("...nf,...npf->...np", slope, tokens)
    by_score = attention * (along - (slope * averages).sum(-1, keepdim=True))
    through = torch.einsum("...np,...npf->...nf", by_score, tokens)
    return Pass(attention, averages, preactivations, features, active, outputs, loss, through)


def trace_parts(
    model: Transformer, inputs: Inputs, done: Pass | None = None
) -> dict[str, Float[Tensor, "*models"]]:
    """Return 2 E‖∇f‖² of each parameter: at zero loss the trace of its block of the Hessian.

    Lemma F.4, whose printed form lacks the 2: ∇²(f - g)² = 2∇f∇fᵀ + 2(f - g)∇²f. `done` is the model's pass,
    where it is known.
    """
    done = run(model, inputs) if done is None else done
    through, first = done.through_scores, inputs.tokens[..., 0, :]
    active = (done.active * model.head[..., None, :]).square().sum(-1)
    norms = {
        "query": (through @ model.key.mT).square().sum(-1),
        "key": (first @ model.query.mT).square().sum(-1) * through.square().sum(-1),
        "value": active * done.averages.square().sum(-1) / model.width**2,
        "head": done.features.square().sum(-1) / model.width**2,
    }
    return {name: 2 * norm.mean(-1) for name, norm in norms.items()}


def hessian_trace(model: Transformer, inputs: Inputs, done: Pass | None = None) -> Float[Tensor, "*models"]:
    """Return Tr ∇²L over all parameters; it is the trace where the loss is zero."""
    return reduce(torch.add, trace_parts(model, inputs, done).values())


def dense_hessian_trace(model: Transformer, inputs: Inputs) -> float:
    """Return the trace of the whole Hessian of the loss, by automatic differentiation."""

    def loss(flat: Tensor) -> Tensor:
        pieces = flat.split([tensor.numel() for tensor in model])
        tensors = [piece.view_as(tensor) for piece, tensor in zip(pieces, model, strict=True)]
        return run(Transformer(*tensors), inputs).loss

    return float(torch.func.hessian(loss)(torch.cat([tensor.flatten() for tensor in model])).trace())


def loss_gradient(model: Transformer, inputs: Inputs) -> Transformer:
    """Return ∇L on the inputs, by hand: it is what training spends its time on."""
    done = run(model, inputs)
    first = inputs.tokens[..., 0, :]
    errors = 2 * (done.outputs - inputs.target)[..., None] / inputs.target.shape[-1]
    through = errors * done.through_scores
    active = errors * done.active * model.head[..., None, :]
    return Transformer(
        query=(through @ model.key.mT).mT @ first,
        key=(first @ model.query.mT).mT @ through,
        value=active.mT @ done.averages / model.width,
        head=(errors * done.features).sum(-2) / model.width,
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
    """Return residuals of conditions (3), (4) and (5) of Lemma F.1: zero where it meets them.

    - `balance` (3): largest |V_i·h - |u_i|‖h‖| over active neurons;
    - `cancellation` (4): largest product V_i·h V_j·h of neurons with u_i > 0 > u_j;
    - `uniformity` (5): largest |a_j - 1/T|;
    - `scores`: the norm of the gradient by Q and K, which has to vanish too and is not among the three.
    """
    done = run(model, inputs)
    norms = done.averages.norm(dim=-1, keepdim=True)
    unequal = (done.preactivations - model.head.abs() * norms)[done.active > 0]
    positive, negative = done.preactivations[:, model.head > 0], done.preactivations[:, model.head < 0]
    products = positive[:, :, None] * negative[:, None, :]
    parts = trace_parts(model, inputs, done)
    return {
        "balance": float(unequal.abs().max()),
        "cancellation": float(products.clamp(min=0).max()) if products.numel() else 0.0,
        "uniformity": float((done.attention - 1 / inputs.length).abs().max()),
        "scores": float((parts["query"] + parts["key"]).sqrt()),
    }


def off_direction(model: Transformer) -> float:
    """Return the mean sine of the angle between V_i and ∓[1; 0], neurons weighted by |u_i|‖V_i‖."""
    across = model.value.clone()
    brackets = across[:, : across.shape[1] // 2]
    brackets -= brackets.mean(1, keepdim=True)
    weights = model.head.abs()
    return float((weights * across.norm(dim=1)).sum() / (weights * model.value.norm(dim=1)).sum())


def cancellation(model: Transformer, inputs: Inputs) -> float:
    """Return E[Σ|u_i|σ(V_i·h)] / E|Σ u_i σ(V_i·h)|: 1 where activated neurons never cancel."""
    contributions = run(model, inputs).features * model.head
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
    here = kinks(model, inputs) * model.head / model.width
    squares, sums = here.square().sum(-1), here.sum(-1)
    extra = squares / 2 + (sums.square() - squares) / (2 * torch.pi)
    norms = run(model, inputs).averages.square().sum(-1)
    return float(hessian_trace(model, inputs) + 2 * (extra * norms).mean())


def transferable_solution(length: int, width: int) -> Transformer:
    """Return solution (1) at any width m ≥ 2: all V_i = ∓c·[1; 0], balanced as condition (3) asks.

    The first half of the neurons is active where g* = 1 and has u_i > 0. With n of them c² = m T^{3/2} / n
    and |u_i| = c/√T make the loss zero and the trace 4/(m√T).
    """
    positive = (width + 1) // 2
    counts = torch.tensor([positive, width - positive])
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(counts)
    scaled = signs * (width * length**1.5 / counts.double().repeat_interleave(counts)).sqrt()
    ones = torch.cat([torch.ones(length), torch.zeros(length)]).double()
    return _averaging(-scaled[:, None] * ones, scaled / length**0.5)


def _averaging(value: Tensor, head: Tensor) -> Transformer:
    """Return a model with Q = K = 0, of one row."""
    zeros = torch.zeros(1, value.shape[-1], dtype=value.dtype)
    return Transformer(zeros, zeros, value, head)


def kinked_solution(length: int, kind: str) -> Transformer:
    """Return a solution of four neurons (g* + ξ, g* - ξ, -g* + ξ, -g* - ξ) with ξ = ±1 linear in the input.

    Where ξ is `"mask"`, the mask's sign: V^(c) = ∓c·1 and V^(p) = ±c·1, the second case in the proof of
    Lemma F.3. Where it is `"token"`, the sign of whatever is at the first position, V^(c) is not a
    multiple of 1, which that lemma excludes. Both have zero loss and meet conditions (3) to (5); half of
    their neurons are at the ReLU's kink on every input.
    """
    sign = torch.zeros(2 * length).double()  # ξ
    sign[length:] = 1.0 if kind == "mask" else torch.eye(length)[0]
    sign[0] = float(kind == "token")
    count = torch.cat([-torch.ones(length), torch.zeros(length)]).double()  # g*
    directions = torch.stack([count + sign, count - sign, sign - count, -sign - count])
    scale = length**0.75  # σ(V_i·h) = 2·scale/T, |u_i| = 2·scale/√T: their product is m = 4
    head = 2 * scale / length**0.5 * torch.tensor([1.0, 1, -1, -1]).double()
    return _averaging(scale * directions, head)


def random_feature_solution(inputs: Inputs, width: int, generator: torch.Generator) -> Transformer:
    """Return solution (2): V_i ~ N(0, T·I), attention the average, u the smallest of the best heads."""
    features = inputs.tokens.shape[-1]
    drawn = torch.randn(width, features, generator=generator, dtype=torch.float64)
    model = _averaging(inputs.length**0.5 * drawn, drawn.new_zeros(width))
    return model._replace(head=smallest_head(run(model, inputs).features, inputs.target))


def smallest_head(
    features: Float[Tensor, "*samples inputs width"], target: Float[Tensor, "*samples inputs"]
) -> Float[Tensor, "*samples width"]:
    """Return argmin ‖u‖₂ among the heads of least squares on a model's features of some inputs."""
    inverse = torch.linalg.pinv(features / features.shape[-1], rtol=1e-10)
    return (inverse @ target[..., None]).squeeze(-1)


# Exact facts about single neurons and stacked inputs (Fact F.2, Lemmas F.3 and F.5).

PRIME = 2**31 - 1


def exact_rank(matrix: Int[np.ndarray, "rows columns"]) -> int:
    """Return the rank over the integers modulo a prime; that over the reals is at least as large.

    >>> exact_rank(np.array([[1, 2], [2, 4]])), exact_rank(np.array([[1, 1, -1], [-1, 1, 1], [1, -1, 1]]))
    (1, 3)
    """
    rest, rank = matrix.astype(np.int64) % PRIME, 0
    for column in range(rest.shape[1]):
        pivots = rank + np.flatnonzero(rest[rank:, column])
        if len(pivots):
            rest[[rank, pivots[0]]] = rest[[pivots[0], rank]]
            rest[rank] = rest[rank] * pow(int(rest[rank, column]), -1, PRIME) % PRIME
            below = rest[rank + 1 :]
            below[:] = (below - below[:, [column]] * rest[rank]) % PRIME
            rank += 1
    return rank


class AllowedNeurons(NamedTuple):
    """How many neurons, up to scale, conditions (3) and (4) leave for one sign of u_i."""

    all: int
    described: int  # V^(c) a multiple of 1, as Lemma F.3 says
    smooth: int  # at no input at the ReLU's kink


def allowed_neurons(length: int) -> AllowedNeurons:
    """Count the V with V·z in {0, 1} for every z = Σ x_j with g* = 1, exhaustively.

    Where u_i > 0, (3) makes the active values equal, here 1; (4) and the symmetry z → -z forbid a negative
    one. Exchanging two brackets changes V·z by twice a difference of coordinates, so all of V^(c) is in
    one grid of halves. V^(p)_t is 0, or ±1/2 where V^(c)·z is 1/2 for all z masked at t.
    """
    grid = torch.tensor(list(product((-2, -1, 0, 1, 2), repeat=length)))  # in halves
    options = (grid != 0).any(1).long()
    smooth = torch.ones(len(grid), dtype=torch.bool)
    strings = bracket_strings(length - 1)
    strings = strings[strings.sum(1) == -1]
    for mask in range(length):
        values = grid[:, torch.arange(length) != mask] @ strings.T  # in halves: 0, 1, 2 are 0, 1/2, 1
        unmasked = ((values == 0) | (values == 2)).all(1)
        options *= unmasked.long() + 2 * (values == 1).all(1)
        smooth &= (values == 2).all(1)
    multiples = (grid == grid[:, :1]).all(1)
    return AllowedNeurons(int(options.sum()), int(options[multiples].sum()), int(smooth.sum()))


# How often a head fitted on n downstream samples is right on all strings (Theorem 5.1), exactly.

RIGHT = 1e-12  # a downstream loss up to this is zero: rounding is a millionth of it


def head_loss(
    features: Float[Tensor, "inputs width"],
    head: Float[Tensor, "*heads width"],
    target: Float[Tensor, " inputs"],
) -> Float[Tensor, "*heads"]:
    """Return E(f - g*)² of heads on one model's features."""
    return (head @ features.mT / features.shape[1] - target).square().mean(-1)


def fitted_losses(
    model: Transformer, inputs: Inputs, samples: int, repetitions: int, generator: torch.Generator
) -> Float[Tensor, " repetitions"]:
    """Return the losses on all inputs of the smallest heads that fit n samples, one a drawing of them."""
    features, target = run(model, inputs).features, inputs.target
    rows = torch.randint(len(target), (repetitions, samples), generator=generator)
    return head_loss(features, smallest_head(features[rows], target[rows]), target)


def failure_probability(model: Transformer, inputs: Inputs, samples: list[int]) -> list[float]:
    """Return the probability that the smallest head that fits n samples errs on some input, exactly.

    The smallest head is the projection of a right one on the span of the sample's features; so it is right
    exactly if the smallest right head lies in that span. The span of a sample is one of finitely many
    spaces; the probability of each follows from those of the smaller ones, since n samples lie in a space
    with the n-th power of its probability. Inputs whose features are multiples of each other are one line.

    Args:
        model: one with a head that is right on all inputs, and features on few lines.
        inputs: all downstream inputs.
        samples: values of n.

    Raises:
        ModelError: where no head is right.

    """
    features = run(model, inputs).features
    right = smallest_head(features, inputs.target)
    if head_loss(features, right, inputs.target) > RIGHT:
        raise ModelError("No head on these features is right on all inputs, so that none can be found.")
    norms = features.norm(dim=1)
    alive = norms > RIGHT
    directions = (features[alive] / norms[alive, None]).round(decimals=9)
    lines, counts = directions.unique(dim=0, return_counts=True)
    spaces = _spanned(lines)
    wrong = torch.tensor([not _contains(lines[space], right[None]) for space in spaces])
    held = spaces.double()
    inside = (held @ counts.double() + (~alive).sum()) / len(features)
    contained = (held @ (1 - held).T == 0).double()  # of spaces, smaller ones first: a triangle
    powers = inside[:, None] ** torch.tensor(samples)
    spanned = torch.linalg.solve_triangular(contained.T, powers, upper=False)
    return spanned[wrong].sum(0).tolist()


def _spanned(lines: Float[Tensor, "lines width"]) -> Bool[Tensor, "spaces lines"]:
    """Return which lines each space holds that some of the lines span, smaller sets first."""
    sizes = range(int(torch.linalg.matrix_rank(lines)) + 1)
    chosen = [list(some) for size in sizes for some in combinations(range(len(lines)), size)]
    spaces = torch.stack([_contains(lines[some], lines) for some in chosen]).unique(dim=0)
    return spaces[spaces.sum(1).argsort()]


def _contains(
    spanning: Float[Tensor, "vectors width"], tested: Float[Tensor, "tests width"]
) -> Bool[Tensor, " tests"]:
    """Tell which vectors lie in a span."""
    inside = tested @ torch.linalg.pinv(spanning, rtol=1e-9) @ spanning
    return (tested - inside).norm(dim=1) <= 1e-7 * tested.norm(dim=1)


# Minimise the trace of the Hessian among solutions, numerically (the problem of Theorem 5.1).


def minimise_trace(
    length: int, width: int, restarts: int, steps: int, generator: torch.Generator, rank: int = 2
) -> Transformer:
    """Minimise m·Tr + (weight)·L over Q, K, V, u from random points, then go to zero loss.

    The trace jumps where a neuron begins to be active, so that the ReLU is smoothed, less and less until its
    kink is narrower than features differ; weight and sharpness grow geometrically over 80 % of the steps
    (Adam, all restarts at once).

    Args:
        length: T.
        width: m.
        restarts: number of starting points; the axis of the returned models.
        steps: of Adam.
        generator: of the starting points.
        rank: rows of Q and K.

    Raises:
        NotConverged: where no restart reached zero loss; others that do not are returned, to be counted.

    """
    inputs = pretraining_inputs(length)
    start = random_start(length, width, restarts, generator, rank)
    signs = 1.0 - 2.0 * (torch.arange(width) % 2)  # with only one sign a model cannot come to zero loss
    start = start._replace(head=start.head.abs() * signs)
    model = Transformer(*(tensor.requires_grad_() for tensor in start))
    optimiser = torch.optim.Adam(model, lr=0.05)
    for step in range(steps):
        grown = min(1.0, step / (0.8 * steps))
        optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / steps) + 1e-4
        done = run(model, inputs, sharpness=1000.0**grown)
        objective = 1e4**grown * done.loss + width * hessian_trace(model, inputs, done)
        optimiser.zero_grad()
        objective.sum().backward()
        optimiser.step()
    found = Transformer(*(tensor.detach() for tensor in model))
    solutions = [to_zero_loss(found.model(restart), inputs) for restart in range(restarts)]
    models = Transformer(*map(torch.stack, zip(*solutions, strict=True)))
    if (run(models, inputs).loss > ZERO_LOSS).all():
        raise NotConverged(
            f"None of {restarts} restarts reached zero loss in {steps} steps; give more of either."
        )
    return models


def random_start(
    length: int,
    width: int,
    models: int,
    generator: torch.Generator,
    rank: int,
    spread: tuple[float, float] = (2.0, 2.0),
) -> Transformer:
    """Return random parameters: Q and K of standard deviation 1/2, V and u of `spread`."""
    shapes = (rank, 2 * length), (rank, 2 * length), (width, 2 * length), (width,)
    scales = 0.5, 0.5, *spread
    return Transformer(
        *(
            scale * torch.randn(models, *shape, generator=generator, dtype=torch.float64)
            for scale, shape in zip(scales, shapes, strict=True)
        )
    )


def to_zero_loss(model: Transformer, inputs: Inputs, steps: int = 60) -> Transformer:
    """Go to a close solution: Gauss-Newton steps in V and u, each the smallest that fits linearly.

    A neuron that changes its activity can throw them back; the best point on the way is returned.
    """
    best, least = model, inf
    for _ in range(steps):
        done = run(model, inputs)
        if done.loss < least:
            best, least = model, float(done.loss)
        if done.loss < ZERO_LOSS / 100:
            break
        by_value = ((done.active * model.head)[:, :, None] * done.averages[:, None, :]).flatten(1)
        jacobian = torch.cat([by_value, done.features], 1) / model.width
        step = torch.linalg.pinv(jacobian, rtol=1e-6) @ (inputs.target - done.outputs)
        value, head = step.split([model.value.numel(), model.width])
        model = model._replace(value=model.value + value.view_as(model.value), head=model.head + head)
    return best


# Random features on the bracket language, solution (2) of Section 5 (Theorem F.6, Lemma F.7).

SMALL_LOSS = 0.1  # the ε of Theorem F.6 for which the smallest possible head is bounded


def constructed_head(model: Transformer) -> Float[Tensor, " width"]:
    """Return u_i = a(V_i) with a(v) = -2·⟨1, v^(c)⟩, whose expected output is g*.

    Lemma F.7 made explicit: for v ~ N(0, T·I) and ‖h‖² = 1/T, Stein's identity gives
    E[σ(v·h) β·v] = T β·h/2. So a(v) = (2/T) β·v has E[σ(v·h) a] = β·h and E[a²] = 4‖β‖²/T; here β is
    -T·[1; 0] and E[a²] = 4T².
    """
    return -2 * model.value[:, : model.value.shape[1] // 2].sum(1)


def constructed_loss(length: int, width: int) -> float:
    """Return the expected loss of `constructed_head`, (2T² + 3)/m: the variance of one neuron over m.

    With X = v·h and a = 2g*X + 2√(T² - 1) W, X and W independent N(0, 1), E[σ(X)²a²] = 6 + 2(T² - 1).
    """
    return (2 * length**2 + 3) / width


def exact_width(inputs: Inputs) -> int:
    """Return the rank of all random features together: of σ(v·h) = (v·h + |v·h|)/2 on pairs ±h.

    The even part has one dimension a pair, the odd one those of h: half the inputs and 2T.
    """
    return len(inputs.target) // 2 + inputs.tokens.shape[-1]


def least_norm(features: Float[Tensor, "inputs width"]) -> float:
    """Return a bound that ‖u‖² of every head with a loss up to ε = 0.1 exceeds on these features.

    E f² ≥ (1 - √ε)² and E f² ≤ ‖u‖² λ/m², λ the largest eigenvalue of E σσᵀ.
    """
    inputs, width = features.shape
    largest = torch.linalg.matrix_norm(features, ord=2).square() / inputs
    return float((1 - SMALL_LOSS**0.5) ** 2 * width**2 / largest)


# SGD with label noise on the bracket language, many models at once (Sections 3 and 5 together).


def label_noise_sgd(
    model: Transformer,
    inputs: Inputs,
    noise: Float[Tensor, "models"],
    *,
    lr: float,
    batch: int,
    checkpoints: tuple[int, ...],
    generator: torch.Generator,
) -> Iterator[tuple[int, Transformer]]:
    """Train on fresh batches whose targets are g* + noise or g* - noise, and yield the checkpoints.

    Args:
        model: initial parameters, one axis of models.
        inputs: all pre-training inputs; a batch is drawn from them with replacement, for each model its own.
        noise: of each model.
        lr: learning rate of all parameters.
        batch: inputs a step.
        checkpoints: steps, ascending, after which to yield.
        generator: of batches and noise.

    Raises:
        NonFiniteLoss: where a model diverged.

    """
    for step in range(checkpoints[-1] + 1):
        if step in checkpoints:
            if not run(model, inputs).loss.isfinite().all():
                raise NonFiniteLoss(
                    f"Training diverged before step {step} at learning rate {lr:g}; take a smaller one."
                )
            yield step, model
        gradient = loss_gradient(model, noisy_batch(inputs, noise, batch, generator))
        model = Transformer(*(p - lr * g for p, g in zip(model, gradient, strict=True)))


def noisy_batch(
    inputs: Inputs, noise: Float[Tensor, "models"], batch: int, generator: torch.Generator
) -> Inputs:
    """Draw inputs and signs of the noise for each model."""
    shape = len(noise), batch
    drawn = inputs.rows(torch.randint(len(inputs.target), shape, generator=generator))
    signs = 2 * torch.randint(2, shape, generator=generator) - 1
    return drawn._replace(target=drawn.target + noise[:, None] * signs)
