"""Other measures of flatness: adaptive sharpness, the Fisher diagonal, the learning coefficient."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, vmap

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.hessian import (
    ParameterLoss,
    flat_parameters,
    flattened,
    population_loss,
    unflattened,
)
from sameloss.measures.flatness.validation import check
from sameloss.models.bilstm import without_cudnn
from sameloss.statistics.intervals import Estimate

# Adaptive sharpness: how much the loss rises when every parameter changes relative to its size.
#
# Reparametrisations (`models/reparametrise.py`) keep the function and change the trace of the Hessian.
# The measures here are built so that scalings leave them alone.


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

    This is the average-case elementwise adaptive sharpness (Andriushchenko et al. 2023, "A modern look
    at the relationship between sharpness and generalization", after ASAM, Kwon et al. 2021). A draw is
    the mean over z and -z, in which the first-order term cancels. The error is that of the directions;
    the sentences are taken as the population. At a small rho a float64 model is needed: the difference
    of two losses is about $\rho^2/2$ of the adaptive trace.

    Args:
        model: a masked language model.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        rho: standard deviation of the parameters' relative change.
        draws: number of pairs ±z.
        generator: random numbers for the directions, on the CPU.

    Returns:
        The mean rise of the loss over the pairs, in nats a masked token.

    Raises:
        ModelError: for what `check` refuses.
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
        up, down = (loss(unflattened(model, point + side)) - centre for side in (step, -step))
        values.append((up + down) / 2)
    return Estimate.of(torch.stack(values).cpu())


def worst_case_adaptive_sharpness(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    rho: float,
) -> float:
    r"""Compute $L(\theta + \rho T^2 g / \lVert Tg \rVert) - L(\theta)$ in nats, $g = \nabla L$.

    This is the one ascent step of ASAM (Kwon et al. 2021, "ASAM: Adaptive sharpness-aware minimization")
    with $T = \mathrm{diag} |\theta|$: to first order the largest loss where $\lVert T^{-1} \epsilon
    \rVert \le \rho$. It needs a gradient to follow: at an exact minimum the direction is one of
    rounding.

    Args:
        model: a masked language model.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        rho: length of the step in relative changes of the parameters.

    Returns:
        The rise of the loss, in nats a masked token.

    Raises:
        ModelError: for what `check` refuses.
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


# The diagonal of the Hessian in its Fisher form, and what is made of it: one entry a parameter.

FEWEST_GROUPS = 10
"""Fewest groups of a jackknife: its standard error is itself uncertain by 1 / sqrt(2 (groups - 1))."""

GRADIENT_BYTES = {"cpu": 64 << 20, "cuda": 4 << 30}
"""Memory for the per-example gradients held at once, by kind of device."""


@dataclass(frozen=True)
class GroupDiagonals:
    r"""The Fisher diagonal $D_i = E (\partial_i \log f[y])^2$, estimated by each group of sentences.

    At saturation D is the Hessian's diagonal (Lemma 3.2). Parameters are in the order of
    `flat_parameters`. `sizes` counts the sentences of the groups, so that D is the mean of `values`
    weighted by it.
    """

    values: Float[Tensor, "group parameter"]
    sizes: Int[Tensor, " group"]

    def adam_trace(self) -> Estimate:
        r"""Estimate $\mathrm{Tr}\, \mathrm{Diag}(H)^{1/2} = \sum_i \sqrt{H_{ii}}$ in its Fisher form.

        With label noise it is what Adam lowers along the minimisers, where SGD lowers Tr H (Li, Wen and
        Lyu 2025, "Adam Reduces a Unique Form of Sharpness"). The root of a noisy diagonal is too small
        on average; the jackknife takes the bias off to first order. Signs and permutations of
        parameters leave it alone, other rotations and scalings do not.
        """
        return jackknife(self, lambda diagonal: diagonal.sqrt().sum())

    def adaptive_trace(self, model: nn.Module) -> Estimate:
        r"""Estimate $\sum_i \theta_i^2 H_{ii}$ in its Fisher form, $2/\rho^2$ of the adaptive sharpness.

        To second order in rho it is the average-case elementwise `adaptive_sharpness`, and like it
        invariant under scalings that keep the function. The jackknife gives its error; the sum itself
        has no bias.

        Args:
            model: the model that the diagonal is of.

        """
        weights = flat_parameters(model).double().cpu().square()
        return jackknife(self, lambda diagonal: weights @ diagonal)


def jackknife(
    diagonals: GroupDiagonals, statistic: Callable[[Float[Tensor, " parameter"]], Tensor]
) -> Estimate:
    r"""Estimate a statistic S of the diagonal without its bias of order 1/N, by deleting each group once.

    With $h_g = N / n_g$ and $S_{-g}$ of all but the $n_g$ sentences of group g, the pseudo-values are
    $\tau_g = h_g S - (h_g - 1) S_{-g}$, the estimate is $\hat S = \sum_g \tau_g / h_g$, and the squared
    error is $\frac1G \sum_g (\tau_g - \hat S)^2 / (h_g - 1)$ (Busing, Meijer and van der Leeden 1999,
    "Delete-m jackknife for unequal m"). Its count is the number of sentences N.

    Args:
        diagonals: the diagonals of independent groups.
        statistic: a function from a diagonal, in float64, to a number.

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


def group_diagonals(
    model: nn.Module,
    masked: Batch,
    *,
    generator: torch.Generator | None = None,
    labels: int = 1,
    groups: int = 20,
) -> GroupDiagonals:
    r"""Estimate the Fisher diagonal by each of some groups of consecutive sentences.

    One pass serves both traces of `GroupDiagonals`. A chunk of squared gradients at a time is added
    up, so that memory holds `groups` diagonals and one chunk.

    Args:
        model: a masked language model.
        masked: independent masked sentences; their targets are not used.
        generator: random numbers for sampled labels, on the CPU; None: all labels, with their probabilities.
        labels: labels drawn for each sentence, where they are sampled.
        groups: number of groups of the jackknife; a diagonal is kept for each.

    Returns:
        The diagonals, nats by squared parameter.

    Raises:
        ModelError: for what `check` refuses.
        ParameterError: for fewer than 10 groups or more than sentences, or no labels.

    """
    check(model, masked)
    check_count("labels", labels)
    sentences = len(masked.masked)
    if not FEWEST_GROUPS <= groups <= sentences:
        raise ParameterError(
            f"groups must be from {FEWEST_GROUPS} to the number of sentences, here {sentences}; got {groups}."
        )
    sizes = sentences // groups + (torch.arange(groups) < sentences % groups).long()  # differ by one at most
    like = flat_parameters(model)
    masked, device = masked.to(like.device), like.device
    group = torch.arange(groups).repeat_interleave(sizes).to(device)
    chunk = max(1, GRADIENT_BYTES.get(device.type, GRADIENT_BYTES["cpu"]) // like.nbytes)
    sums = like.new_zeros(groups, len(like))
    pairs = (part.to(device).split(chunk) for part in _labelled(model, masked, generator, labels))
    for rows, words, weights in zip(*pairs, strict=True):
        gradients = _weighted_gradients(model, masked.rows(rows), words, weights)
        sums.index_add_(0, group[rows], gradients.square_())
    return GroupDiagonals(sums.cpu() / sizes[:, None], sizes)


def _labelled(
    model: nn.Module, masked: Batch, generator: torch.Generator | None, labels: int
) -> tuple[Int[Tensor, " pair"], Int[Tensor, " pair"], Float[Tensor, " pair"]]:
    """Return sentences, words and weights, of which each sentence's add up to 1."""
    with torch.no_grad():
        predicted = model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()
    sentences, words = predicted.shape
    if generator is None:
        every = torch.arange(words).repeat(sentences)
        return torch.arange(sentences).repeat_interleave(words), every, predicted.flatten()
    drawn = torch.multinomial(predicted, labels, True, generator=generator).flatten()
    rows = torch.arange(sentences).repeat_interleave(labels)
    return rows, drawn, torch.full_like(drawn, 1 / labels, dtype=predicted.dtype)


def _weighted_gradients(
    model: nn.Module,
    masked: Batch,
    words: Int[Tensor, " pair"],
    weights: Float[Tensor, " pair"],
) -> Float[Tensor, "pair parameter"]:
    """Return sqrt(weight) grad log f[word] of each sentence: squares are then weighted."""

    def scaled(
        parameters: dict[str, Tensor],
        sentence: Tensor,
        position: Tensor,
        length: Tensor | None,
        word: Tensor,
        weight: Tensor,
    ) -> Tensor:
        inputs = (sentence[None], position[None], None if length is None else length[None])
        logits = functional_call(model, parameters, inputs)[0]
        return weight.sqrt() * logits.log_softmax(-1).gather(0, word[None])[0]

    ragged = None if masked.lengths is None else 0
    gradient = vmap(grad(scaled), in_dims=(None, 0, 0, ragged, 0, 0))
    parameters = unflattened(model, flat_parameters(model))
    inputs = (masked.masked, masked.positions, masked.lengths, words, weights)
    with without_cudnn():
        return torch.cat([part.flatten(1) for part in gradient(parameters, *inputs).values()], 1)


# The local learning coefficient: degeneracy of a minimum in the place of its flatness.


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
) -> Estimate:
    r"""Estimate $\hat\lambda = n\beta\, (E_w L_n(w) - L_n(w^*))$, the local learning coefficient.

    The w are drawn near the model's parameters $w^*$ from $\exp(-n\beta L_n(w) - \frac\gamma2 \lVert w - w^*
    \rVert^2)$ by stochastic-gradient Langevin dynamics (Lau, Furman, Wang, Murfet and Wei 2025, "The
    Local Learning Coefficient: a singularity-aware complexity measure"). For a regular minimum and
    $\gamma \to 0$ it is half the number of parameters; less means a flatter, degenerate one. The
    error is that of independent chains.

    Args:
        model: a masked language model at a minimum.
        masked: masked sentences; minibatches are drawn from them with replacement.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        chains: number of independent chains.
        steps: number of steps of each chain, of which the first half is left out of the mean.
        batch: sentences of a minibatch.
        lr: epsilon, the variance of a step's noise; stable below $4 / (n\beta h + \gamma)$ for
            every curvature h, and biased upwards by about $\epsilon (n\beta h + \gamma) / 4$.
        localisation: gamma, the strength of the pull back to $w^*$.
        generator: random numbers for minibatches and noise, on the CPU.
        n: number of training sentences the posterior stands for; those given where None. Beta is 1 / log n.

    Returns:
        The coefficient, without a unit; the chain is the unit of error.

    Raises:
        ModelError: for what `check` refuses.
        ParameterError: for an argument out of its range, or a chain that leaves the finite numbers.

    """
    check(model, masked)
    n = len(masked.masked) if n is None else n
    population_loss(model, masked, truth)  # refuses a truth of other sentences
    for name, (value, fine) in {
        "n, the number of training sentences, must be at least 2": (n, n >= 2),
        "chains must be at least 2 for a standard error": (chains, chains >= 2),
        "steps must be positive": (steps, steps >= 1),
        "batch must be positive": (batch, batch >= 1),
        "lr must be positive and finite": (lr, 0 < lr < math.inf),
        "localisation must not be negative": (localisation, 0 <= localisation < math.inf),
    }.items():
        if not fine:
            raise ParameterError(f"{name}; got {value}.")
    strength = n * (1 / math.log(n))
    centre = unflattened(model, flat_parameters(model))

    def draw_loss() -> ParameterLoss:
        rows = torch.randint(len(masked.masked), (batch,), generator=generator)
        return population_loss(model, masked.rows(rows), None if truth is None else truth[rows])

    chain: dict[str, Any] = {
        "steps": steps,
        "burn_in": steps // 2,
        "lr": lr,
        "localisation": localisation,
        "generator": generator,
    }
    means = [langevin_excess(draw_loss, centre, strength, **chain) for _ in range(chains)]
    return Estimate.of(strength * torch.tensor(means, dtype=torch.float64))


def langevin_excess(
    draw_loss: Callable[[], ParameterLoss],
    centre: dict[str, Tensor],
    strength: float,
    *,
    steps: int,
    burn_in: int,
    lr: float,
    localisation: float,
    generator: torch.Generator,
) -> float:
    r"""Compute the mean of $L(w_t) - L(w^*)$ over one chain of Langevin dynamics from $w^*$.

    The chain is

    $$w_{t+1} = w_t - \frac\epsilon2 (n\beta \nabla L(w_t) + \gamma (w_t - w^*)) + N(0, \epsilon).$$

    Both losses are taken on the step's minibatch, which $w_t$ has not seen. The difference is unbiased,
    and varies less than that of losses on different sentences.

    Args:
        draw_loss: returns the loss on a fresh minibatch, as a function of the parameters by name.
        centre: w*, by name.
        strength: n beta.
        steps: number of steps of the chain.
        burn_in: number of first steps left out of the mean.
        lr: epsilon.
        localisation: gamma.
        generator: random numbers for the noise, on the CPU.

    Returns:
        The mean difference of the losses, in nats a masked token.

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
