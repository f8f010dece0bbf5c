"""The bracket language and its one-layer transformer: solutions, searches and training (Section 5)."""

from collections.abc import Iterator
from functools import reduce
from itertools import combinations, product
from math import comb, inf
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from sameloss.errors import NonFiniteLoss, NotConverged

# The bracket language (Section 5), all inputs enumerated
#
# A sentence has T brackets, half of them ⟨ and half ⟩. The token at position t is e_t for ⟨ and -e_t for ⟩; a
# mask there is e_{t+T} or -e_{t+T}, with probability one half each. The target counts mismatches and is
# linear: g*(x) = (number of ⟩) - (number of ⟨) = -⟨1, first T coordinates of Σ x_t⟩.


class Inputs(NamedTuple):
    """All inputs of length T of a distribution, equally likely, or a batch of inputs for each model."""

    tokens: Float[Tensor, "*models inputs position feature"]  # encodings, 2T features
    target: Float[Tensor, "*models inputs"]  # g*

    @property
    def length(self) -> int:
        return self.tokens.shape[-2]

    def rows(self, which: Tensor) -> "Inputs":
        return Inputs(self.tokens[which], self.target[which])


def bracket_strings(length: int) -> Int[Tensor, "sentences position"]:
    """All 2^T strings: 1 is ⟨, -1 is ⟩.

    >>> bracket_strings(2).tolist()
    [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    """
    return torch.cartesian_prod(*[torch.tensor([-1, 1])] * length)


def pretraining_inputs(length: int) -> Inputs:
    """Every balanced sentence with every token masked by either sign: 2T·C(T, T/2) inputs."""
    strings = bracket_strings(length)
    balanced = strings[strings.sum(1) == 0]
    choices = torch.arange(len(balanced)), torch.arange(length), torch.tensor([1, -1])
    sentence, place, sign = torch.cartesian_prod(*choices).T
    brackets, row = balanced[sentence], torch.arange(len(sentence))
    masks = torch.zeros_like(brackets)
    brackets[row, place], masks[row, place] = 0, sign
    return _encoded(brackets, masks)


def downstream_inputs(length: int) -> Inputs:
    """All 2^T strings without masks, balanced or not (P_ds of Section 5)."""
    strings = bracket_strings(length)
    return _encoded(strings, torch.zeros_like(strings))


def _encoded(brackets: Tensor, masks: Tensor) -> Inputs:
    """Encode brackets in the first T features and masks in the last T, one feature per position."""
    tokens = torch.cat([torch.diag_embed(brackets), torch.diag_embed(masks)], -1).double()
    return Inputs(tokens, -brackets.sum(1).double())


def zero_probability(length: int) -> float:
    """p₀ = C(T, T/2) / 2^T, the probability that a downstream string is balanced.

    >>> zero_probability(6)
    0.3125
    """
    return comb(length, length // 2) / 2**length


def missing_sign_probability(length: int, samples: int) -> float:
    """Probability that n strings lack a sign of g*, 2((1 + p₀)/2)ⁿ - p₀ⁿ by inclusion and exclusion.

    >>> round(missing_sign_probability(6, 5), 3)
    0.24
    """
    balanced = zero_probability(length)
    return 2 * ((1 + balanced) / 2) ** samples - balanced**samples


# One layer of attention and one of ReLUs: outputs, gradients and the trace of the Hessian (Section 5, F)
#
#     f(x) = u·σ(V h(x)) / m,   h(x) = Σ_j a_j x_j,   a = softmax_j ⟨Q x_1, K x_j⟩.
#
# Parameters may have leading axes, so that many models are computed as one. The derivative of the ReLU at
# zero is zero, as in the paper's 1[V h > 0].

ZERO_LOSS = 1e-16  # losses up to this count as zero in float64
AT_KINK = 1e-10  # preactivations up to this count as zero; rounding errors are 100,000 times smaller


class Transformer(NamedTuple):
    """Parameters Q, K, V and u of one model of width m, or of many along leading axes."""

    query: Float[Tensor, "*models rank feature"]
    key: Float[Tensor, "*models rank feature"]
    value: Float[Tensor, "*models width feature"]
    head: Float[Tensor, "*models width"]

    @property
    def width(self) -> int:
        return self.head.shape[-1]

    def model(self, which: int) -> "Transformer":
        """One of many models."""
        return Transformer(*(tensor[which] for tensor in self))


class Pass(NamedTuple):
    """Quantities of a forward pass, and the part of the backward pass that all gradients share."""

    attention: Float[Tensor, "*models inputs position"]  # a
    averages: Float[Tensor, "*models inputs feature"]  # h
    preactivations: Float[Tensor, "*models inputs width"]  # V h
    features: Float[Tensor, "*models inputs width"]  # σ(V h)
    active: Float[Tensor, "*models inputs width"]  # σ'(V h)
    outputs: Float[Tensor, "*models inputs"]  # f
    loss: Float[Tensor, "*models"]  # E(f - g*)²
    through_scores: Float[Tensor, "*models inputs feature"]  # Σ_j (∂f/∂score_j) x_j


def run(model: Transformer, inputs: Inputs, sharpness: float = inf) -> Pass:
    """Forward pass; finite sharpness β replaces the ReLU by the softplus log(1 + exp βx)/β."""
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
    """2 E‖∇f‖² for each parameter: at zero loss, the trace of its block of the Hessian.

    ∇²(f - g)² = 2∇f∇fᵀ + 2(f - g)∇²f; the printed Lemma F.4 lacks the factor 2. `done` is the model's forward
    pass, if already known.
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
    """2 E‖∇f‖², which is Tr ∇²L if the loss is zero."""
    return reduce(torch.add, trace_parts(model, inputs, done).values())


def dense_hessian_trace(model: Transformer, inputs: Inputs) -> float:
    """Trace of the full Hessian of the loss, by automatic differentiation."""

    def loss(flat: Tensor) -> Tensor:
        pieces = flat.split([tensor.numel() for tensor in model])
        tensors = [piece.view_as(tensor) for piece, tensor in zip(pieces, model, strict=True)]
        return run(Transformer(*tensors), inputs).loss

    return float(torch.func.hessian(loss)(torch.cat([tensor.flatten() for tensor in model])).trace())


def loss_gradient(model: Transformer, inputs: Inputs) -> Transformer:
    """∇L, in closed form because training spends most of its time here."""
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
    """4/(m√T), a lower bound on the trace of every solution.

    Lemma F.1 prints √(4/T), its value for m = 2. Proof: 2 E‖∇f‖² ≥ (4/m²) E[‖h‖ Σ σ(V_i·h)|u_i|]
    ≥ (4/m) E[‖h‖ |f|], where |f| = 1 and ‖h‖ ≥ 1/√T.

    >>> lower_bound(4, 2)
    1.0
    """
    return 4 / (width * length**0.5)


def conditions(model: Transformer, inputs: Inputs) -> dict[str, float]:
    """Residuals of conditions (3), (4) and (5) of Lemma F.1, zero if they hold.

    - `balance` (3): largest |V_i·h - |u_i|‖h‖| over active neurons;
    - `cancellation` (4): largest product V_i·h V_j·h of neurons with u_i > 0 > u_j;
    - `uniformity` (5): largest |a_j - 1/T|;
    - `scores`: norm of the gradient by Q and K, which must vanish too but is not among the three.
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
    """Mean sine of the angle between V_i and ∓[1; 0], weighted by |u_i|‖V_i‖."""
    across = model.value.clone()
    brackets = across[:, : across.shape[1] // 2]
    brackets -= brackets.mean(1, keepdim=True)
    weights = model.head.abs()
    return float((weights * across.norm(dim=1)).sum() / (weights * model.value.norm(dim=1)).sum())


def cancellation(model: Transformer, inputs: Inputs) -> float:
    """E[Σ|u_i|σ(V_i·h)] / E|Σ u_i σ(V_i·h)|, which is 1 if active neurons never cancel."""
    contributions = run(model, inputs).features * model.head
    return float(contributions.abs().sum(-1).mean() / contributions.sum(-1).abs().mean())


def kinks(model: Transformer, inputs: Inputs) -> Bool[Tensor, "inputs width"]:
    """Where a neuron with u_i ≠ 0 is at the kink of the ReLU, so that the loss has no Hessian."""
    at_zero = run(model, inputs).preactivations.abs() <= AT_KINK
    return at_zero & (model.head.abs() > AT_KINK)


def transferable_solution(length: int, width: int) -> Transformer:
    """Solution (1) for any width m ≥ 2: all V_i = ∓c·[1; 0], balanced as in condition (3).

    The first half of the neurons has u_i > 0 and is active where g* = 1. With n of them, c² = m T^{3/2} / n
    and |u_i| = c/√T give zero loss and the trace 4/(m√T).
    """
    positive = (width + 1) // 2
    counts = torch.tensor([positive, width - positive])
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(counts)
    scaled = signs * (width * length**1.5 / counts.double().repeat_interleave(counts)).sqrt()
    ones = torch.cat([torch.ones(length), torch.zeros(length)]).double()
    return _averaging(-scaled[:, None] * ones, scaled / length**0.5)


def _averaging(value: Tensor, head: Tensor) -> Transformer:
    """Model with uniform attention, Q = K = 0."""
    zeros = value.new_zeros(1, value.shape[-1])
    return Transformer(zeros, zeros, value, head)


def kinked_solution(length: int) -> Transformer:
    """Solution of four neurons (g* + ξ, g* - ξ, -g* + ξ, -g* - ξ) with ξ the sign of the first token.

    V^(c) is no multiple of 1, which Lemma F.3 excludes. The solution has zero loss and meets conditions (3)
    to (5); half of its neurons are at the kink of the ReLU on every input.
    """
    sign = torch.zeros(2 * length).double()  # ξ
    sign[[0, length]] = 1.0
    count = torch.cat([-torch.ones(length), torch.zeros(length)]).double()  # g*
    directions = torch.stack([count + sign, count - sign, sign - count, -sign - count])
    scale = length**0.75  # σ(V_i·h) = 2·scale/T, |u_i| = 2·scale/√T: their product is m = 4
    head = 2 * scale / length**0.5 * torch.tensor([1.0, 1, -1, -1]).double()
    return _averaging(scale * directions, head)


def random_feature_solution(inputs: Inputs, width: int, generator: torch.Generator) -> Transformer:
    """Solution (2): V_i ~ N(0, T·I), uniform attention, and the least-squares u of the smallest norm."""
    features = inputs.tokens.shape[-1]
    drawn = torch.randn(width, features, generator=generator, dtype=torch.float64)
    model = _averaging(inputs.length**0.5 * drawn, drawn.new_zeros(width))
    return model._replace(head=smallest_head(run(model, inputs).features, inputs.target))


def smallest_head(
    features: Float[Tensor, "*samples inputs width"], target: Float[Tensor, "*samples inputs"]
) -> Float[Tensor, "*samples width"]:
    """Least-squares head u of the smallest norm on a model's features."""
    inverse = torch.linalg.pinv(features / features.shape[-1], rtol=1e-10)
    return (inverse @ target[..., None]).squeeze(-1)


# Neurons that Lemma F.1 allows, by enumeration (Lemma F.3)


class AllowedNeurons(NamedTuple):
    """Numbers of neurons, up to scale, that satisfy conditions (3) and (4) for one sign of u_i."""

    all: int
    described: int  # V^(c) a multiple of 1, as in Lemma F.3
    smooth: int  # never at the kink of the ReLU


def allowed_neurons(length: int) -> AllowedNeurons:
    """Count the V with V·z in {0, 1} for every z = Σ x_j with g* = 1, exhaustively.

    For u_i > 0, condition (3) makes the active values equal, here 1; (4) and the symmetry z → -z forbid
    negative ones. Exchanging two brackets changes V·z by twice a difference of coordinates, so V^(c) lies on
    a grid of halves. V^(p)_t is 0, or ±1/2 if V^(c)·z is 1/2 for all z masked at t.
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


# Probability that a head fitted on n downstream samples is right on all strings (Theorem 5.1)

RIGHT = 1e-12  # downstream losses up to this count as zero; rounding errors are a million times smaller


def head_loss(
    features: Float[Tensor, "inputs width"],
    head: Float[Tensor, "*heads width"],
    target: Float[Tensor, " inputs"],
) -> Float[Tensor, "*heads"]:
    """E(f - g*)² of heads on one model's features."""
    return (head @ features.mT / features.shape[1] - target).square().mean(-1)


def fitted_losses(
    model: Transformer, inputs: Inputs, samples: int, repetitions: int, generator: torch.Generator
) -> Float[Tensor, " repetitions"]:
    """Losses on all inputs of the smallest heads that fit n drawn samples, one per repetition."""
    features, target = run(model, inputs).features, inputs.target
    rows = torch.randint(len(target), (repetitions, samples), generator=generator)
    return head_loss(features, smallest_head(features[rows], target[rows]), target)


def failure_probability(model: Transformer, inputs: Inputs, samples: list[int]) -> list[float]:
    """Exact probability that the smallest head that fits n samples errs on some input.

    The smallest fitting head is the projection of a right head onto the span of the sample's features, so it
    is right if and only if the smallest right head lies in that span. A sample spans one of finitely many
    spaces. All n samples lie in a space with the n-th power of its probability; subtracting the probabilities
    of spanning its subspaces gives that of spanning it. Proportional features count as one line.

    Args:
        model: with a head that is right on all inputs, and features along few directions.
        inputs: all downstream inputs.
        samples: values of n.

    """
    features = run(model, inputs).features
    right = smallest_head(features, inputs.target)
    norms = features.norm(dim=1)
    alive = norms > RIGHT
    directions = (features[alive] / norms[alive, None]).round(decimals=9)
    lines, counts = directions.unique(dim=0, return_counts=True)
    spaces = _spanned(lines)
    wrong = torch.tensor([not _contains(lines[space], right[None]) for space in spaces])
    members = spaces.double()
    inside = (members @ counts.double() + (~alive).sum()) / len(features)
    # Whether a space lies in another: triangular, as smaller ones come first.
    contained = (members @ (1 - members).T == 0).double()
    powers = inside[:, None] ** torch.tensor(samples)
    spanned = torch.linalg.solve_triangular(contained.T, powers, upper=False)
    return spanned[wrong].sum(0).tolist()


def _spanned(lines: Float[Tensor, "lines width"]) -> Bool[Tensor, "spaces lines"]:
    """Members of every space that some of the lines span, by number of members."""
    sizes = range(int(torch.linalg.matrix_rank(lines)) + 1)
    chosen = [list(some) for size in sizes for some in combinations(range(len(lines)), size)]
    spaces = torch.stack([_contains(lines[some], lines) for some in chosen]).unique(dim=0)
    return spaces[spaces.sum(1).argsort()]


def _contains(
    spanning: Float[Tensor, "vectors width"], tested: Float[Tensor, "tests width"]
) -> Bool[Tensor, " tests"]:
    """Whether vectors lie in the span of others."""
    inside = tested @ torch.linalg.pinv(spanning, rtol=1e-9) @ spanning
    return (tested - inside).norm(dim=1) <= 1e-7 * tested.norm(dim=1)


# Search for the solution with the smallest trace (the problem of Theorem 5.1)


def minimise_trace(
    length: int, width: int, restarts: int, steps: int, generator: torch.Generator
) -> Transformer:
    """Minimise m·Tr + w·L over Q, K, V and u by Adam from random points, then move to zero loss.

    The trace jumps where a neuron becomes active. The ReLU is therefore smoothed, less and less, until its
    kink is narrower than differences between features. The weight w and the sharpness grow geometrically over
    80 % of the steps.

    Args:
        length: T.
        width: m.
        restarts: number of starting points, the leading axis of the returned models.
        steps: of Adam.
        generator: of the starting points.

    Raises:
        NotConverged: if no restart reaches zero loss; otherwise those that do not are returned as well.

    """
    inputs = pretraining_inputs(length)
    start = random_start(length, width, restarts, generator, rank=2)
    signs = 1.0 - 2.0 * (torch.arange(width) % 2)  # with a single sign, a model cannot reach zero loss
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
    ends = Transformer(*(tensor.detach() for tensor in model))
    solutions = [to_zero_loss(ends.model(restart), inputs) for restart in range(restarts)]
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
    """Gaussian parameters of standard deviation 1/2 (Q and K) and `spread` (V and u)."""

    def normal(scale: float, *shape: int) -> Tensor:
        return scale * torch.randn(models, *shape, generator=generator, dtype=torch.float64)

    query, key = normal(0.5, rank, 2 * length), normal(0.5, rank, 2 * length)
    return Transformer(query, key, normal(spread[0], width, 2 * length), normal(spread[1], width))


def to_zero_loss(model: Transformer, inputs: Inputs) -> Transformer:
    """Move to a nearby solution by minimum-norm Gauss-Newton steps in V and u.

    A step during which a neuron changes its activity can raise the loss; the best point so far is returned.
    """
    best, least = model, inf
    for _ in range(60):
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


# Random features, solution (2) of Section 5 (Theorem F.6, Lemma F.7)

SMALL_LOSS = 0.1  # the ε of Theorem F.6 for which the norm of heads is bounded


def constructed_head(model: Transformer) -> Float[Tensor, " width"]:
    """u_i = a(V_i) with a(v) = -2·⟨1, v^(c)⟩, whose expected output is g*.

    An explicit form of Lemma F.7: for v ~ N(0, T·I) and ‖h‖² = 1/T, Stein's identity gives
    E[σ(v·h) β·v] = T β·h/2. So a(v) = (2/T) β·v has E[σ(v·h) a] = β·h and E[a²] = 4‖β‖²/T; here β is
    -T·[1; 0] and E[a²] = 4T².
    """
    return -2 * model.value[:, : model.value.shape[1] // 2].sum(1)


def constructed_loss(length: int, width: int) -> float:
    """Expected loss of `constructed_head`, (2T² + 3)/m: the variance of one neuron over m.

    With X = v·h and a = 2g*X + 2√(T² - 1) W, X and W independent N(0, 1), E[σ(X)²a²] = 6 + 2(T² - 1).
    """
    return (2 * length**2 + 3) / width


def exact_width(inputs: Inputs) -> int:
    """Dimension of the space of all random features σ(v·h) = (v·h + |v·h|)/2.

    Inputs come in pairs ±h. The even part has one dimension per pair, the odd part 2T.
    """
    return len(inputs.target) // 2 + inputs.tokens.shape[-1]


def least_norm(features: Float[Tensor, "inputs width"]) -> float:
    """Lower bound on ‖u‖² of every head on these features with a loss of at most ε = 0.1.

    E f² ≥ (1 - √ε)² and E f² ≤ ‖u‖² λ/m², where λ is the largest eigenvalue of E σσᵀ.
    """
    inputs, width = features.shape
    largest = torch.linalg.matrix_norm(features, ord=2).square() / inputs
    return float((1 - SMALL_LOSS**0.5) ** 2 * width**2 / largest)


# SGD with label noise, for many models at once (Sections 3 and 5)


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
    """Train on batches with targets g* ± noise; yield the step and the models at each checkpoint.

    Args:
        model: initial parameters, with a leading axis of models.
        inputs: all pre-training inputs, from which each model draws its batches with replacement.
        noise: strength for each model.
        lr: learning rate.
        batch: inputs per step.
        checkpoints: increasing numbers of steps.
        generator: of batches and noise.

    Raises:
        NonFiniteLoss: if a model diverges.

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
