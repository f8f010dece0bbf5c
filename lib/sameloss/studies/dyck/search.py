"""Solutions that are found: by minimising the trace, by SGD with label noise, by random features."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from sameloss.errors import NonFiniteLoss, NotConverged
from sameloss.studies.dyck.theory import (
    AT_KINK,
    ZERO_LOSS,
    Inputs,
    Transformer,
    cancellation,
    downstream_loss,
    error_after,
    hessian_trace,
    loss_gradient,
    lower_bound,
    pretraining_inputs,
    pretraining_loss,
    random_feature_solution,
    run,
)

# Minimise the trace of the Hessian among solutions, numerically (the problem of Theorem 5.1).

SHARPNESS = (1.0, 1000.0)
"""From which to which β the ReLU is log(1 + exp βx)/β: its kink then is narrower than features differ."""

PENALTY = (1.0, 1e4)
"""From which to which weight the loss is added to m times the trace."""


def minimise_trace(
    length: int, width: int, restarts: int, steps: int, generator: torch.Generator, rank: int = 2
) -> Transformer:
    """Minimise m·Tr + (weight)·L over Q, K, V, u from random points, then go to zero loss.

    The trace jumps where a neuron begins to be active, so that the ReLU is smoothed, less and less; weight
    and sharpness grow geometrically over 80 % of the steps (Adam, all restarts at once).

    Args:
        length: T.
        width: m.
        restarts: number of starting points; the axis of the returned models.
        steps: of Adam.
        generator: of the starting points.
        rank: rows of Q and K.

    Raises:
        NotConverged: where no restart reached zero loss.

    """
    inputs = pretraining_inputs(length)
    start = _with_both_signs(random_start(length, width, restarts, generator, rank))
    parameters = [tensor.requires_grad_() for tensor in start]
    optimiser = torch.optim.Adam(parameters, lr=0.05)
    for step in range(steps):
        share = min(1.0, step / (0.8 * steps))
        sharpness, penalty = _between(SHARPNESS, share), _between(PENALTY, share)
        optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / steps) + 1e-4
        loss, trace = smoothed_loss_and_trace(Transformer(*parameters), inputs, sharpness)
        optimiser.zero_grad()
        (penalty * loss + width * trace).sum().backward()
        optimiser.step()
    found = Transformer(*(tensor.detach() for tensor in parameters))
    return _solutions([to_zero_loss(found.model(at), inputs) for at in range(restarts)], inputs, steps)


def _with_both_signs(model: Transformer) -> Transformer:
    """Give the entries of u alternating signs: a model that has only one of them cannot come to zero loss."""
    signs = 1.0 - 2.0 * (torch.arange(model.width) % 2)
    return model._replace(head=model.head.abs() * signs)


def _between(ends: tuple[float, float], share: float) -> float:
    return ends[0] * (ends[1] / ends[0]) ** share


def random_start(
    length: int,
    width: int,
    models: int,
    generator: torch.Generator,
    rank: int,
    spread: tuple[float, float] = (2.0, 2.0),
) -> Transformer:
    """Return random parameters: Q and K of standard deviation 1/2, V and u of `spread`."""

    def drawn(*shape: int) -> Tensor:
        return torch.randn(models, *shape, generator=generator, dtype=torch.float64)

    features = 2 * length
    scores = 0.5 * drawn(rank, features), 0.5 * drawn(rank, features)
    return Transformer(*scores, spread[0] * drawn(width, features), spread[1] * drawn(width))


def smoothed_loss_and_trace(model: Transformer, inputs: Inputs, sharpness: float) -> tuple[Tensor, Tensor]:
    """Return L and 2 E‖∇f‖² with log(1 + exp βx)/β in the place of the ReLU, differentiable."""
    tokens, first = inputs.tokens, inputs.tokens[:, 0]
    attention = torch.einsum("...nf,npf->...np", (first @ model.query.mT) @ model.key, tokens).softmax(-1)
    averages = torch.einsum("...np,npf->...nf", attention, tokens)
    preactivations = averages @ model.value.mT
    features = functional.softplus(preactivations, beta=sharpness, threshold=30)
    active = torch.sigmoid(sharpness * preactivations) * model.head[..., None, :] / model.width
    outputs = (features @ model.head[..., None]).squeeze(-1) / model.width
    slope = active @ model.value
    along = torch.einsum("...nf,npf->...np", slope, tokens) - (slope * averages).sum(-1, keepdim=True)
    through = torch.einsum("...np,npf->...nf", attention * along, tokens)
    by_query = (through @ model.key.mT).square().sum(-1)
    by_key = (first @ model.query.mT).square().sum(-1) * through.square().sum(-1)
    by_value = active.square().sum(-1) * averages.square().sum(-1)
    by_head = features.square().sum(-1) / model.width**2
    trace = 2 * (by_query + by_key + by_value + by_head).mean(-1)
    return (outputs - inputs.target).square().mean(-1), trace


def to_zero_loss(model: Transformer, inputs: Inputs, steps: int = 60) -> Transformer:
    """Go to a close solution: Gauss-Newton steps in V and u, each the smallest that fits linearly.

    A neuron that changes its activity can throw them back; the best point on the way is returned.
    """
    best, least = model, float("inf")
    for _ in range(steps):
        done = run(model, inputs)
        loss = float((done.outputs - inputs.target).square().mean())
        if loss < least:
            best, least = model, loss
        if loss < ZERO_LOSS / 100:
            break
        active = (done.preactivations > AT_KINK) * model.head
        by_value = (active[:, :, None] * done.averages[:, None, :]).flatten(1)
        jacobian = torch.cat([by_value, done.preactivations.relu()], 1) / model.width
        step = torch.linalg.pinv(jacobian, rtol=1e-6) @ (inputs.target - done.outputs)
        value, head = step.split([model.value.numel(), model.width])
        model = model._replace(value=model.value + value.view_as(model.value), head=model.head + head)
    return best


def _solutions(models: list[Transformer], inputs: Inputs, steps: int) -> Transformer:
    """Return all restarts as one; those whose loss is not zero stay, to be counted."""
    stacked = Transformer(*map(torch.stack, zip(*models, strict=True)))
    if not bool((pretraining_loss(stacked, inputs) <= ZERO_LOSS).any()):
        raise NotConverged(
            f"None of {len(models)} restarts reached zero loss in {steps} steps; give more of either."
        )
    return stacked


# Random features on the bracket language, solution (2) of Section 5 (Theorem F.6, Lemma F.7).

SMALL_LOSS = 0.1
"""The ε of Theorem F.6 for which the smallest possible head is bounded."""


def constructed_head(model: Transformer, length: int) -> Float[Tensor, " width"]:
    """Return u_i = a(V_i) with a(v) = -2·⟨1, v^(c)⟩, whose expected output is g*.

    Lemma F.7 made explicit: for v ~ N(0, T·I) and ‖h‖² = 1/T, Stein's identity gives
    E[σ(v·h) β·v] = T β·h/2. So a(v) = (2/T) β·v has E[σ(v·h) a] = β·h and E[a²] = 4‖β‖²/T; here β is
    -T·[1; 0] and E[a²] = 4T².
    """
    return -2 * model.value[:, :length].sum(1)


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


def least_norm(model: Transformer, inputs: Inputs) -> float:
    """Return a bound that ‖u‖² of every head with a loss up to ε = 0.1 exceeds on these features.

    E f² ≥ (1 - √ε)² and E f² ≤ ‖u‖² λ/m², λ the largest eigenvalue of E σσᵀ.
    """
    features = run(model, inputs).preactivations.relu()
    largest = torch.linalg.matrix_norm(features, ord=2).square() / len(features)
    return float((1 - SMALL_LOSS**0.5) ** 2 * model.width**2 / largest)


def measured(
    inputs: Inputs, downstream: Inputs, width: int, few: int, generator: torch.Generator
) -> dict[str, float]:
    """Draw random features once and return what the best and the constructed head have on them.

    Downstream errors are of the best head itself and of heads fitted on `few` samples.
    """
    best = random_feature_solution(inputs, width, generator)
    constructed = best._replace(head=constructed_head(best, inputs.length))
    trace = float(hessian_trace(best, inputs))
    return {
        "loss": float(pretraining_loss(best, inputs)),
        "norm": float(best.head.square().sum()),
        "least_norm": least_norm(best, inputs),
        "trace": trace,
        "ratio": trace / lower_bound(inputs.length, width),
        "cancellation": cancellation(best, inputs),
        "error_own": float(downstream_loss(best, best.head, downstream)),
        "error_few": error_after(best, downstream, few, generator),
        "constructed_loss": float(pretraining_loss(constructed, inputs)),
        "constructed_norm": float(constructed.head.square().sum()),
    }


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
            _check_finite(pretraining_loss(model, inputs), step, lr)
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


def _check_finite(losses: Float[Tensor, "models"], step: int, lr: float) -> None:
    if not bool(torch.isfinite(losses).all()):
        raise NonFiniteLoss(
            f"Training diverged before step {step} at learning rate {lr:g}; take a smaller one."
        )
