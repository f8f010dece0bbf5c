r"""Measures of flatness beside the trace of the Hessian, for the same loss and sentences.

Reparametrisations (`models/reparametrise.py`) keep the function and change the trace; some of the
measures here are built so that scalings leave them alone. H is the Hessian of L, the mean
cross-entropy a masked token in nats, theta the trainable parameters.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, vmap

from sameloss.corpus import Batch
from sameloss.errors import ParameterError
from sameloss.estimate import Estimate
from sameloss.flatness.estimated import EstimatedTrace
from sameloss.flatness.hessian import (
    flat_parameters,
    flattened,
    hessian_vector_product,
    population_loss,
    unflattened,
)
from sameloss.flatness.validation import check

Loss = Callable[[dict[str, Tensor]], Tensor]

FEWEST_GROUPS = 10
"""Fewest groups of a jackknife: its standard error is itself uncertain by 1 / sqrt(2 (groups - 1))."""

GRADIENT_BYTES = {"cpu": 64 << 20, "cuda": 4 << 30}
"""Memory for the per-example gradients held at once, by kind of device."""


def top_eigenvalue(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    tolerance: float = 1e-3,
    restarts: int = 100,
    seed: int = 0,
) -> float:
    r"""Return $\max_{\lVert v \rVert = 1} v^\top H v$, the largest (not largest absolute) eigenvalue.

    Implicitly restarted Lanczos (Lehoucq, Sorensen and Yang 1998, ARPACK) on Hessian-vector products.

    Args:
        model: a masked language model.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the targets' one-hot where None.
        tolerance: accepted error relative to the eigenvalue.
        restarts: most restarts, each of up to 20 products.
        seed: of the first vector.

    Raises:
        ModelError: for no sentences, a mask outside its sentence, or weights that are not finite.
        ParameterError: where Lanczos does not converge.

    """
    check(model, masked)
    loss, point = population_loss(model, masked, truth), flat_parameters(model)

    def product(vector: np.ndarray) -> np.ndarray:
        direction = torch.from_numpy(vector.reshape(-1)).to(point)
        parts = hessian_vector_product(loss, unflattened(model, point), unflattened(model, direction))
        return flattened(parts).double().cpu().numpy()

    hessian = LinearOperator((len(point), len(point)), product, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(len(point))
    options = {"which": "LA", "tol": tolerance, "maxiter": restarts, "return_eigenvectors": False}
    try:
        return float(eigsh(hessian, 1, v0=start, **options)[0])
    except ArpackError as error:
        raise ParameterError(
            f"Lanczos did not find the largest eigenvalue to a relative error of {tolerance:g} in "
            f"{restarts} restarts; allow a larger tolerance or more restarts."
        ) from error


@dataclass(frozen=True)
class GroupDiagonals:
    r"""The Fisher diagonal $D_i = E (\partial_i \log f[y])^2$, estimated by each group of sentences.

    At saturation D is the Hessian's diagonal (Lemma 3.2). Parameters are in the order of
    `flat_parameters`; `sizes` counts the groups' sentences, so that D is the mean weighted by it.
    """

    values: Float[Tensor, "group parameter"]
    sizes: Int[Tensor, " group"]

    def adam_trace(self) -> Estimate:
        """Return sum_i sqrt(D_i), see the function of this name."""
        return jackknife(self, lambda diagonal: diagonal.sqrt().sum())

    def adaptive_trace(self, model: nn.Module) -> Estimate:
        """Return sum_i theta_i² D_i, see the function of this name."""
        weights = flat_parameters(model).double().cpu().square()
        return jackknife(self, lambda diagonal: weights @ diagonal)


def jackknife(
    diagonals: GroupDiagonals, statistic: Callable[[Float[Tensor, " parameter"]], Tensor]
) -> Estimate:
    r"""Return a statistic S of the diagonal without its bias of order 1/N, by deleting each group once.

    With $h_g = N / n_g$ and $S_{-g}$ of all but the $n_g$ sentences of group g, the pseudo-values are
    $\tau_g = h_g S - (h_g - 1) S_{-g}$, the estimate is $\hat S = \sum_g \tau_g / h_g$, and the squared
    error is $\frac1G \sum_g (\tau_g - \hat S)^2 / (h_g - 1)$ (Busing, Meijer and van der Leeden 1999,
    "Delete-m jackknife for unequal m"). Its count is the number of sentences N.

    Args:
        diagonals: those of independent groups.
        statistic: from a diagonal, in float64, to a number.

    """
    sizes = diagonals.sizes.double()
    sentences = sizes.sum()
    total = sum(n * d.double() for n, d in zip(sizes, diagonals.values, strict=True))
    whole = statistic(total / sentences)
    pairs = zip(sizes, diagonals.values, strict=True)
    # A sum of what is not negative is at least each of its terms, rounded or not: no root of less than 0.
    without = torch.stack([statistic((total - n * d.double()) / (sentences - n)) for n, d in pairs])
    ratio = sentences / sizes
    pseudo = ratio * whole - (ratio - 1) * without
    mean = (pseudo / ratio).sum()
    variance = ((pseudo - mean).square() / (ratio - 1)).mean()
    return Estimate(float(mean), float(variance.sqrt()), int(sentences))


def adam_trace(
    model: nn.Module,
    masked: Batch,
    *,
    generator: torch.Generator | None = None,
    labels: int = 1,
    estimator: Literal["exact", "sampled"] = "sampled",
    groups: int = 20,
) -> Estimate:
    r"""Estimate $\mathrm{Tr}\, \mathrm{Diag}(H)^{1/2} = \sum_i \sqrt{H_{ii}}$ in its Fisher form.

    With label noise it is what Adam lowers along the minimisers, where SGD lowers Tr H (Li, Wen and
    Lyu 2025, "Adam Reduces a Unique Form of Sharpness"). $H_{ii} = E (\partial_i \log f[y])^2$ holds
    at saturation (Lemma 3.2). The root of a noisy diagonal is too small on average; the jackknife
    takes the bias off to first order. Signs and permutations of parameters leave it alone, other
    rotations and scalings do not.

    Args:
        model: a masked language model.
        masked: independent masked sentences; their targets are not used.
        generator: of the sampled labels, on the CPU.
        labels: labels drawn for each sentence, where sampled.
        estimator: `exact` sums over all labels with their probabilities; `sampled` draws them.
        groups: of the jackknife; a diagonal is kept for each.

    Raises:
        ModelError: for no sentences, a mask outside its sentence, or weights that are not finite.
        ParameterError: for fewer than 10 groups or more than sentences, no labels, an unknown
            estimator, or labels to sample without a generator.

    """
    options = {"generator": generator, "labels": labels, "estimator": estimator, "groups": groups}
    return group_diagonals(model, masked, **options).adam_trace()


def adaptive_trace(
    model: nn.Module,
    masked: Batch,
    *,
    generator: torch.Generator | None = None,
    labels: int = 1,
    estimator: Literal["exact", "sampled"] = "sampled",
    groups: int = 20,
) -> Estimate:
    r"""Estimate $\sum_i \theta_i^2 H_{ii}$ in its Fisher form, $2/\rho^2$ of the adaptive sharpness.

    To second order in rho it is the average-case elementwise adaptive sharpness, `adaptive_sharpness`
    below, and like it invariant under scalings that keep the function.

    Args:
        model: a masked language model.
        masked: independent masked sentences; their targets are not used.
        generator: of the sampled labels, on the CPU.
        labels: labels drawn for each sentence, where sampled.
        estimator: `exact` sums over all labels with their probabilities; `sampled` draws them.
        groups: of the jackknife, which gives the error; the sum itself has no bias.

    Raises:
        ModelError, ParameterError: as `adam_trace`.

    """
    options = {"generator": generator, "labels": labels, "estimator": estimator, "groups": groups}
    return group_diagonals(model, masked, **options).adaptive_trace(model)


def group_diagonals(
    model: nn.Module,
    masked: Batch,
    *,
    generator: torch.Generator | None = None,
    labels: int = 1,
    estimator: Literal["exact", "sampled"] = "sampled",
    groups: int = 20,
) -> GroupDiagonals:
    r"""Estimate the Fisher diagonal by each of some groups of consecutive sentences.

    One pass for both `adam_trace` and `adaptive_trace`; arguments and errors are theirs. A chunk of
    squared gradients at a time is added up, so memory holds `groups` diagonals and one chunk.
    """
    check(model, masked)
    sizes = _group_sizes(len(masked.masked), groups)
    like = flat_parameters(model)
    masked = masked.to(like.device)
    group = torch.arange(groups).repeat_interleave(sizes).to(like.device)
    pairs = _labelled(model, masked, generator, labels, estimator)
    sums = like.new_zeros(groups, len(like))
    for rows, words, weights in zip(
        *(part.to(like.device).split(_chunk(like)) for part in pairs), strict=True
    ):
        gradients = _weighted_gradients(model, masked.rows(rows), words, weights)
        sums.index_add_(0, group[rows], gradients.square_())
    return GroupDiagonals(sums.cpu() / sizes[:, None], sizes)


def _group_sizes(sentences: int, groups: int) -> Int[Tensor, " {groups}"]:
    """Return sizes that differ by one at most."""
    if not FEWEST_GROUPS <= groups <= sentences:
        raise ParameterError(
            f"groups must be from {FEWEST_GROUPS} to the number of sentences, here {sentences}; got {groups}."
        )
    return sentences // groups + (torch.arange(groups) < sentences % groups).long()


def _chunk(gradient: Float[Tensor, " parameter"]) -> int:
    """Return how many gradients like this one are held at once."""
    memory = GRADIENT_BYTES.get(gradient.device.type, GRADIENT_BYTES["cpu"])
    return max(1, memory // gradient.nbytes)


def _labelled(
    model: nn.Module, masked: Batch, generator: torch.Generator | None, labels: int, estimator: str
) -> tuple[Int[Tensor, " pair"], Int[Tensor, " pair"], Float[Tensor, " pair"]]:
    """Return sentences, words and weights, of which each sentence's add up to 1."""
    with torch.no_grad():
        predicted = model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()
    sentences, words = predicted.shape
    if estimator == "exact":
        every = torch.arange(words).repeat(sentences)
        return torch.arange(sentences).repeat_interleave(words), every, predicted.flatten()
    _check_sampling(generator, labels, estimator)
    drawn = torch.multinomial(predicted, labels, True, generator=generator).flatten()
    rows = torch.arange(sentences).repeat_interleave(labels)
    return rows, drawn, torch.full_like(drawn, 1 / labels, dtype=predicted.dtype)


def _check_sampling(generator: torch.Generator | None, labels: int, estimator: str) -> None:
    if estimator != "sampled":
        raise ParameterError(f"Unknown estimator {estimator!r}; choose exact or sampled.")
    if labels < 1:
        raise ParameterError(f"labels must be positive; got {labels}.")
    if generator is None:
        raise ParameterError("Sampled labels need a generator; give one or choose the exact estimator.")


def _weighted_gradients(
    model: nn.Module,
    masked: Batch,
    words: Int[Tensor, " pair"],
    weights: Float[Tensor, " pair"],
) -> Float[Tensor, "pair parameter"]:
    """Return sqrt(weight) grad log f[word] of each sentence: squares are then weighted."""

    def scaled(parameters, sentence, position, length, word, weight):
        inputs = (sentence[None], position[None], None if length is None else length[None])
        logits = functional_call(model, parameters, inputs)[0]
        return weight.sqrt() * logits.log_softmax(-1).gather(0, word[None])[0]

    ragged = None if masked.lengths is None else 0
    gradient = vmap(grad(scaled), in_dims=(None, 0, 0, ragged, 0, 0))
    parameters = unflattened(model, flat_parameters(model))
    inputs = (masked.masked, masked.positions, masked.lengths, words, weights)
    return torch.cat([part.flatten(1) for part in gradient(parameters, *inputs).values()], 1)


@torch.no_grad()
def adaptive_sharpness(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    rho: float,
    draws: int,
    generator: torch.Generator,
) -> Estimate:
    r"""Estimate $E_{z \sim N(0, I)} L(\theta + \rho |\theta| \odot z) - L(\theta)$, in nats.

    The average-case elementwise adaptive sharpness (Andriushchenko et al. 2023, "A modern look at the
    relationship between sharpness and generalization", after ASAM, Kwon et al. 2021). A draw is the
    mean over z and -z, in which the first-order term cancels. The error is that of the directions;
    the sentences are taken as the population. At a small rho use a float64 model: the difference
    of two losses is about $\rho^2/2$ of `adaptive_trace`.

    Args:
        model: a masked language model.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the targets' one-hot where None.
        rho: standard deviation of the parameters' relative change.
        draws: pairs ±z.
        generator: of the directions, on the CPU.

    Raises:
        ModelError: for no sentences, a mask outside its sentence, or weights that are not finite.
        ParameterError: for fewer than two draws or a rho that is not positive.

    """
    check(model, masked)
    _check_radius(rho)
    if draws < 2:
        raise ParameterError(f"draws must be at least 2 for a standard error; got {draws}.")
    loss, point = population_loss(model, masked, truth), flat_parameters(model)
    centre = loss(unflattened(model, point))
    values = []
    for _ in range(draws):
        z = torch.randn(len(point), generator=generator, dtype=point.dtype).to(point.device)
        step = rho * point.abs() * z
        pair = [loss(unflattened(model, point + side)) - centre for side in (step, -step)]
        values.append(sum(pair) / 2)
    return Estimate.of(torch.stack(values).cpu())


def worst_case_adaptive_sharpness(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    rho: float,
) -> float:
    r"""Return $L(\theta + \rho T^2 g / \lVert Tg \rVert) - L(\theta)$ in nats, $g = \nabla L$.

    ASAM's one ascent step (Kwon et al. 2021, "ASAM: Adaptive sharpness-aware minimization") with
    $T = \mathrm{diag} |\theta|$, to first order the largest loss where $\lVert T^{-1} \epsilon \rVert
    \le \rho$. It needs a gradient to follow: at an exact minimum the direction is one of rounding.

    Args:
        model: a masked language model.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the targets' one-hot where None.
        rho: length of the step in relative changes of the parameters.

    Raises:
        ModelError: for no sentences, a mask outside its sentence, or weights that are not finite.
        ParameterError: for a rho that is not positive, or a gradient of zero.

    """
    check(model, masked)
    _check_radius(rho)
    loss, point = population_loss(model, masked, truth), flat_parameters(model)
    slopes, centre = grad_and_value(loss)(unflattened(model, point))
    scaled = point.abs() * flattened(slopes)
    length = scaled.norm()
    if not length > 0:
        raise ParameterError("The gradient is zero, so ascent has no direction; use adaptive_sharpness.")
    return float(loss(unflattened(model, point + rho * point.abs() * scaled / length)) - centre)


def _check_radius(rho: float) -> None:
    if not 0 < rho < math.inf:
        raise ParameterError(f"rho must be positive and finite; got {rho}.")


def relative_trace(model: nn.Module, trace: EstimatedTrace) -> Estimate:
    r"""Return $\sum_l \lVert W_l \rVert_F^2\, \mathrm{Tr} H_{ll}$ over the parameter tensors $W_l$.

    Invariant where a reparametrisation scales whole tensors, as in normalized flat minima (Tsuzuku,
    Sato and Sugiyama 2020) and relative flatness (Petzka et al. 2021, which refines the product to
    pairs of neurons). It also stays where tensors are rotated or permuted within themselves.

    Args:
        model: the model that the trace is of.
        trace: of its Hessian, by parameter.

    Raises:
        ParameterError: where the trace is empty or has a parameter that the model lacks.

    """
    norms = {name: float(p.detach().double().square().sum()) for name, p in model.named_parameters()}
    unknown = sorted(trace.draws.keys() - norms.keys())
    if unknown or not trace.draws:
        raise ParameterError(f"The trace must be of this model's parameters; it has {unknown or 'none'}.")
    return Estimate.of(sum(norms[name] * values.double() for name, values in trace.draws.items()))


def local_learning_coefficient(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    chains: int,
    steps: int,
    batch: int,
    lr: float,
    localisation: float,
    generator: torch.Generator,
    n: int | None = None,
    inverse_temperature: float | None = None,
    burn_in: int | None = None,
) -> Estimate:
    r"""Estimate $\hat\lambda = n\beta\, (E_w L_n(w) - L_n(w^*))$, the local learning coefficient.

    w is drawn near the model's parameters $w^*$ from $\exp(-n\beta L_n(w) - \frac\gamma2 \lVert w - w^*
    \rVert^2)$ by stochastic-gradient Langevin dynamics (Lau, Furman, Wang, Murfet and Wei 2025, "The
    Local Learning Coefficient: a singularity-aware complexity measure"). For a regular minimum and
    $\gamma \to 0$ it is half the number of parameters; less means a flatter, degenerate one. The
    error is that of independent chains.

    Args:
        model: a masked language model at a minimum.
        masked: masked sentences; minibatches are drawn from them with replacement.
        truth: Pr(. | x_-t) at the masked positions; the targets' one-hot where None.
        chains: independent chains.
        steps: of each chain.
        batch: sentences of a minibatch.
        lr: epsilon, the variance of a step's noise; stable below $4 / (n\beta h + \gamma)$ for
            every curvature h, and biased upwards by about $\epsilon (n\beta h + \gamma) / 4$.
        localisation: gamma, strength of the pull back to $w^*$.
        generator: of minibatches and noise, on the CPU.
        n: number of training sentences the posterior stands for; those given where None.
        inverse_temperature: beta; 1 / log n where None.
        burn_in: first steps left out of the mean; half of them where None.

    Raises:
        ModelError: for no sentences, a mask outside its sentence, or weights that are not finite.
        ParameterError: for an argument out of its range, or a chain that leaves the finite numbers.

    """
    check(model, masked)
    n = len(masked.masked) if n is None else n
    burn_in = steps // 2 if burn_in is None else burn_in
    population_loss(model, masked, truth)  # refuses a truth of other sentences
    _check_chains(n, chains, steps, burn_in, batch, lr, localisation)
    beta = 1 / math.log(n) if inverse_temperature is None else inverse_temperature
    centre = unflattened(model, flat_parameters(model))

    def draw_loss() -> Loss:
        rows = torch.randint(len(masked.masked), (batch,), generator=generator)
        return population_loss(model, masked.rows(rows), None if truth is None else truth[rows])

    options = {"steps": steps, "burn_in": burn_in, "lr": lr, "localisation": localisation}
    means = [
        langevin_excess(draw_loss, centre, n * beta, generator=generator, **options) for _ in range(chains)
    ]
    return Estimate.of(n * beta * torch.tensor(means, dtype=torch.float64))


def langevin_excess(
    draw_loss: Callable[[], Callable[[dict[str, Tensor]], Tensor]],
    centre: dict[str, Tensor],
    strength: float,
    *,
    steps: int,
    burn_in: int,
    lr: float,
    localisation: float,
    generator: torch.Generator,
) -> float:
    r"""Return the mean of $L(w_t) - L(w^*)$ over one chain of Langevin dynamics from $w^*$.

    $w_{t+1} = w_t - \frac\epsilon2 (n\beta \nabla L(w_t) + \gamma (w_t - w^*)) + N(0, \epsilon)$. Both
    losses are of the step's minibatch, which $w_t$ has not seen: unbiased, with less variance than
    losses of different sentences.

    Args:
        draw_loss: returns the loss on a fresh minibatch, as a function of the parameters by name.
        centre: w*.
        strength: n beta.
        steps: of the chain.
        burn_in: first steps left out of the mean.
        lr: epsilon.
        localisation: gamma.
        generator: of the noise, on the CPU.

    Raises:
        ParameterError: where the loss is no longer finite.

    """

    def moved(name: str, w: Tensor, slope: Tensor) -> Tensor:
        drift = strength * slope + localisation * (w - centre[name])
        noise = torch.randn(w.shape, generator=generator, dtype=w.dtype).to(w.device)
        return w - lr / 2 * drift + lr**0.5 * noise

    point, total = centre, 0.0
    for step in range(steps):
        loss = draw_loss()
        slopes, value = grad_and_value(loss)(point)
        if not value.isfinite():
            raise ParameterError(f"A chain left the finite numbers at lr = {lr:g}; choose a smaller lr.")
        if step >= burn_in:
            total += float(value - loss(centre))
        point = {name: moved(name, w, slopes[name]) for name, w in point.items()}
    return total / (steps - burn_in)


def _check_chains(
    n: int, chains: int, steps: int, burn_in: int, batch: int, lr: float, localisation: float
) -> None:
    faults = {
        f"n, the number of training sentences, must be at least 2; got {n}.": n < 2,
        f"chains must be at least 2 for a standard error; got {chains}.": chains < 2,
        f"burn_in must be from 0 to steps - 1 = {steps - 1}; got {burn_in}.": not 0 <= burn_in < steps,
        f"batch must be positive; got {batch}.": batch < 1,
        f"lr must be positive and finite; got {lr}.": not 0 < lr < math.inf,
        f"localisation must not be negative; got {localisation}.": not 0 <= localisation < math.inf,
    }
    for fault, found in faults.items():
        if found:
            raise ParameterError(fault)
