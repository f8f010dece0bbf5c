"""The bracket language, the one-layer Transformer, its solutions, and how they transfer (Section 5)."""

from functools import reduce
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sameloss.errors import LanguageError, ModelError

# The bracket language of Section 5, enumerated: every input of pre-training and of the downstream task.
#
# A sentence is T brackets, half of them ⟨ and half ⟩. One token in the position t is e_t where it is ⟨ and
# -e_t where it is ⟩; a mask there is e_{t+T} or -e_{t+T}, each with probability one half. The target counts
# mismatches, g*(x) = (number of ⟩) - (number of ⟨), and is linear: g*(x) = -⟨1, first T coordinates of Σ
# x_t⟩.

SHORTEST, LONGEST = 6, 10
"""Sentence lengths that the theorem covers and that are enumerated in seconds (LONGEST: 5,040 inputs)."""


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


def check_length(length: int) -> int:
    """Return a sentence length of the theorem's, T even and at least 6.

    Raises:
        LanguageError: where it is not, or where too many sentences would be enumerated.

    """
    if length % 2:
        raise LanguageError(f"sentence_length must be even, so that brackets can be balanced; got {length}.")
    if length < SHORTEST:
        raise LanguageError(f"Theorem 5.1 needs a sentence_length of at least {SHORTEST}; got {length}.")
    if length > LONGEST:
        raise LanguageError(
            f"All sentences are enumerated: sentence_length can be at most {LONGEST}; got {length}."
        )
    return length


def bracket_strings(length: int) -> Int[Tensor, "sentences position"]:
    """Return all 2^T strings: 1 is ⟨, -1 is ⟩.

    >>> bracket_strings(2).tolist()
    [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    """
    bits = torch.arange(2**length)[:, None] >> torch.arange(length - 1, -1, -1)
    return 2 * (bits & 1) - 1


def pretraining_inputs(length: int) -> Inputs:
    """Return each balanced sentence with each token masked by each sign: 2T·C(T, T/2) inputs.

    Raises:
        LanguageError: where T is odd.

    """
    if length % 2:
        raise LanguageError(f"sentence_length must be even, so that brackets can be balanced; got {length}.")
    strings = bracket_strings(length)
    balanced = strings[strings.sum(1) == 0]
    sentence, place, sign = (
        axis.flatten()
        for axis in torch.meshgrid(
            torch.arange(len(balanced)), torch.arange(length), torch.tensor([1, -1]), indexing="ij"
        )
    )
    everywhere = torch.arange(len(sentence))
    brackets = balanced[sentence]
    brackets[everywhere, place] = 0
    return _encoded(brackets, torch.zeros_like(brackets).index_put((everywhere, place), sign))


def downstream_inputs(length: int) -> Inputs:
    """Return all 2^T strings, balanced or not, without a mask (P_ds of Section 5)."""
    strings = bracket_strings(length)
    return _encoded(strings, torch.zeros_like(strings))


def _encoded(brackets: Tensor, masks: Tensor) -> Inputs:
    """Put brackets into the first T features and masks into the others, one feature a position."""
    tokens = torch.cat([torch.diag_embed(brackets), torch.diag_embed(masks)], -1).double()
    return Inputs(tokens, -brackets.sum(1).double())


def in_words(tokens: Float[Tensor, "position feature"]) -> str:
    """Write an encoded input with its brackets and its mask.

    >>> in_words(pretraining_inputs(2).tokens[0])
    '[M]⟨'
    """
    brackets = tokens[:, : len(tokens)].sum(1).int().tolist()
    return "".join({1: "⟨", -1: "⟩", 0: "[M]"}[bracket] for bracket in brackets)


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


# Exact facts about single neurons and stacked inputs (Fact F.2, Lemmas F.3 and F.5).

PRIME = 2**31 - 1


def cyclic_matrix(k: int) -> Int[np.ndarray, "rows columns"]:
    """Return Lemma F.5's matrix: k + 1 ones, k times -1, and all their cyclic shifts.

    >>> cyclic_matrix(1).tolist()
    [[1, 1, -1], [-1, 1, 1], [1, -1, 1]]
    """
    first = np.array([1] * (k + 1) + [-1] * k)
    return np.array([np.roll(first, shift) for shift in range(2 * k + 1)])


def exact_rank(matrix: Int[np.ndarray, "rows columns"]) -> int:
    """Return the rank over the integers modulo a prime; that over the reals is at least as large.

    >>> exact_rank(np.array([[1, 2], [2, 4]])), exact_rank(cyclic_matrix(2))
    (1, 5)
    """
    rest, rank = matrix.astype(np.int64) % PRIME, 0
    for column in range(rest.shape[1]):
        pivots = np.flatnonzero(rest[rank:, column])
        if not len(pivots):
            continue
        rest[[rank, rank + pivots[0]]] = rest[[rank + pivots[0], rank]]
        inverse = pow(int(rest[rank, column]), -1, PRIME)
        rest[rank] = rest[rank] * inverse % PRIME
        rest[rank + 1 :] = (rest[rank + 1 :] - rest[rank + 1 :, column : column + 1] * rest[rank]) % PRIME
        rank += 1
        if rank == len(rest):
            break
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
    options = torch.ones(len(grid), dtype=torch.long)
    smooth = torch.ones(len(grid), dtype=torch.bool)
    strings = bracket_strings(length - 1)
    strings = strings[strings.sum(1) == -1]
    for mask in range(length):
        others = grid[:, torch.arange(length) != mask]
        values = others @ strings.T  # in halves: 0, 1, 2 are 0, 1/2, 1
        unmasked = ((values == 0) | (values == 2)).all(1)
        options *= unmasked.long() + 2 * (values == 1).all(1)
        smooth &= (values == 2).all(1)
    multiples = (grid == grid[:, :1]).all(1)
    nothing = (grid == 0).all(1)
    options[nothing] = 0
    return AllowedNeurons(int(options.sum()), int(options[multiples].sum()), int(smooth.sum()))


def wrong_activations(model: Transformer, inputs: Inputs) -> int:
    """Return how many pairs of input and active neuron have signs of g* and u_i that differ (Fact F.2)."""
    active = run(model, inputs).preactivations > AT_KINK
    return int((active & (inputs.target[:, None] * model.head <= 0)).sum())


# How often a head fitted on n downstream samples is right on all strings (Theorem 5.1), exactly.

RIGHT = 1e-12
"""A downstream loss up to this is zero: rounding is a millionth of it."""

MOST_FLATS = 50_000


def downstream_loss(
    model: Transformer, head: Float[Tensor, "*heads width"], inputs: Inputs
) -> Float[Tensor, "*heads"]:
    """Return E(f - g*)² of heads on one model's features."""
    features = run(model, inputs).preactivations.relu() / model.width
    return (torch.einsum("...m,nm->...n", head, features) - inputs.target).square().mean(-1)


def fitted_losses(
    model: Transformer, inputs: Inputs, samples: int, repetitions: int, generator: torch.Generator
) -> Float[Tensor, " repetitions"]:
    """Return the downstream losses of the smallest heads that fit n samples, one a drawing of them."""
    rows = torch.randint(len(inputs.target), (repetitions, samples), generator=generator)
    features = run(model, inputs).preactivations.relu()
    heads = smallest_head(model, inputs.rows(rows), features[rows])
    return downstream_loss(model, heads, inputs)


def error_after(model: Transformer, inputs: Inputs, samples: int, generator: torch.Generator) -> float:
    """Return the median downstream loss of heads fitted on n samples, over 100 drawings."""
    return float(fitted_losses(model, inputs, samples, 100, generator).median())


def simulated_failures(
    model: Transformer, inputs: Inputs, samples: int, repetitions: int, generator: torch.Generator
) -> int:
    """Return in how many of the repetitions the smallest head that fits n samples errs on some input."""
    return int((fitted_losses(model, inputs, samples, repetitions, generator) > RIGHT).sum())


class FeatureLines(NamedTuple):
    """The lines through the origin that features lie on, with their probabilities."""

    directions: Float[Tensor, "lines width"]
    probabilities: Float[np.ndarray, " lines"]
    never: float  # probability of features that are all zero


def feature_lines(model: Transformer, inputs: Inputs) -> FeatureLines:
    """Group inputs whose features are multiples of each other: a fitted head tells no more of them."""
    features = run(model, inputs).preactivations.relu()
    norms = features.norm(dim=1, keepdim=True)
    alive = norms.squeeze(1) > RIGHT
    directions, counts = (features / norms)[alive].round(decimals=9).unique(dim=0, return_counts=True)
    return FeatureLines(directions, (counts / len(features)).numpy(), float((~alive).double().mean()))


def failure_probability(model: Transformer, inputs: Inputs, samples: list[int]) -> list[float]:
    """Return the probability that the smallest head that fits n samples errs on some input, exactly.

    The smallest head is the projection of a right one on the span of the sample's features; so it is right
    exactly if the smallest right head lies in that span. The span of a sample is one of finitely many
    spaces; the probability of each follows from those of the smaller ones, since n samples lie in a space
    with the n-th power of its probability.

    Args:
        model: one with a head that is right on all inputs.
        inputs: all downstream inputs.
        samples: values of n.

    Raises:
        ModelError: where no head is right, or too many spaces would have to be counted.

    """
    right = smallest_head(model, inputs)
    if downstream_loss(model, right, inputs) > RIGHT:
        raise ModelError("No head on these features is right on all inputs, so that none can be found.")
    lines = feature_lines(model, inputs)
    flats = _spanned(lines.directions)
    holds = np.array([_contains(lines.directions[flat], right[None])[0] for flat in flats])
    inside = np.array([flat.numpy() @ lines.probabilities for flat in flats]) + lines.never
    below = np.array([flat.numpy() for flat in flats]).astype(float)
    contained = (below @ (1 - below).T == 0) & ~np.eye(len(flats), dtype=bool)
    return [_fails(inside**n, contained, holds) for n in samples]


def _spanned(directions: Float[Tensor, "lines width"]) -> list[Bool[Tensor, " lines"]]:
    """Return which lines each space holds that some of the lines span, smaller sets first."""
    rank, count = int(torch.linalg.matrix_rank(directions)), len(directions)
    found = {}
    for size in range(rank + 1):
        for chosen in combinations(range(count), size):
            flat = _contains(directions[list(chosen)], directions)
            found[tuple(flat.tolist())] = flat
            if len(found) > MOST_FLATS:
                raise ModelError(f"These features span more than {MOST_FLATS} spaces; simulate instead.")
    return sorted(found.values(), key=lambda flat: int(flat.sum()))


def _contains(
    spanning: Float[Tensor, "vectors width"], tested: Float[Tensor, "tests width"]
) -> Bool[Tensor, " tests"]:
    """Tell which vectors lie in a span."""
    inside = tested @ torch.linalg.pinv(spanning, rtol=1e-9) @ spanning
    return (tested - inside).norm(dim=1) <= 1e-7 * tested.norm(dim=1)


def _fails(
    within: Float[np.ndarray, " flats"], contained: Bool[np.ndarray, "flats flats"], holds: np.ndarray
) -> float:
    """Sum the probabilities of the spaces without the right head; `within` is of lying in a space."""
    exactly = np.zeros_like(within)
    for at, probability in enumerate(within):
        exactly[at] = probability - exactly[contained[:, at]].sum()
    return float(exactly[~holds].sum())
