"""Other measures of flatness: adaptive sharpness, the Fisher diagonal, the local learning coefficient."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, vmap

from sameloss.checks import check_count
from sameloss.device import ACCELERATOR
from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.hessian import (
    ParameterLoss,
    Parameters,
    flat_parameters,
    flattened,
    population_loss,
    unflattened,
)
from sameloss.measures.flatness.validation import check, check_padding
from sameloss.models.bilstm import UnrolledLSTMs
from sameloss.statistics.intervals import Estimate

# Adaptive sharpness: the rise of the loss if every parameter changes relative to its size.
#
# Reparametrisations (`models/reparametrise.py`) keep the function and change the trace of the Hessian.
# Adaptive sharpness is invariant under those that scale parameters.


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
    the mean over z and -z, in which the first-order term cancels. The standard error is that of the
    directions; the sentences are taken as the population. Use float64 for small rho: the difference of
    the two losses is about $\rho^2/2$ times the adaptive trace.

    Args:
        model: a masked language model.
        masked: masked sentences.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets if None.
        rho: standard deviation of the parameters' relative change.
        draws: number of pairs ±z.
        generator: of the directions, on the CPU.

    Returns:
        The mean rise of the loss over the pairs, in nats per masked token.

    Raises:
        ModelError: see `check`.
        ParameterError: for fewer than two draws or a rho that is not positive.

    """
    _check_radius(rho)
    check_count("draws", draws, 2)
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
    model: nn.Module, masked: Batch, truth: Float[Tensor, "batch word"] | None = None, *, rho: float
) -> float:
    r"""Compute $L(\theta + \rho T^2 g / \lVert Tg \rVert) - L(\theta)$ in nats, $g = \nabla L$.

    This is the ascent step of ASAM (Kwon et al. 2021, "ASAM: Adaptive sharpness-aware minimization")
    with $T = \mathrm{diag} |\theta|$: to first order the largest loss on $\lVert T^{-1} \epsilon
    \rVert \le \rho$. It needs a gradient to follow: at an exact minimum the direction is rounding error.

    Args:
        model: a masked language model.
        masked: masked sentences, taken as the population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets if None.
        rho: length of the step in relative changes of the parameters.

    Returns:
        The rise of the loss, in nats per masked token.

    Raises:
        ModelError: see `check`.
        ParameterError: for a rho that is not positive, or a zero gradient.

    """
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


# The diagonal of the Hessian in its Fisher form, and statistics of it.

FEWEST_GROUPS = 10
"""Fewest groups of a jackknife: its standard error has a relative error of 1 / sqrt(2 (groups - 1))."""

GRADIENT_BYTES = {"cpu": 64 << 20, ACCELERATOR: 4 << 30}
"""Memory for the per-sentence gradients computed at once, by device type."""


@dataclass(frozen=True)
class GroupDiagonals:
    r"""The Fisher diagonal $D_i = E (\partial_i \log f[y])^2$, estimated on each group of sentences.

    At saturation D is the Hessian's diagonal (Lemma 3.2). Parameters are in the order of
    `flat_parameters`. The estimate of D is the mean of `values` over the groups, weighted by their `sizes`
    in sentences.
    """

    values: Float[Tensor, "group parameter"]
    sizes: Int[Tensor, " group"]

    def adam_trace(self) -> Estimate:
        r"""Estimate $\mathrm{Tr}\, \mathrm{Diag}(H)^{1/2} = \sum_i \sqrt{H_{ii}}$ in its Fisher form.

        With label noise Adam decreases it along the minimisers, as SGD decreases Tr H (Li, Wen and
        Lyu 2025, "Adam Reduces a Unique Form of Sharpness"). The root of a noisy diagonal is biased
        downwards; the jackknife removes the bias to first order. It is invariant under sign changes and
        permutations of parameters, not under other rotations and scalings.
        """
        return jackknife(self, lambda diagonal: diagonal.sqrt().sum())

    def adaptive_trace(self, model: nn.Module) -> Estimate:
        r"""Estimate $\sum_i \theta_i^2 H_{ii}$ in its Fisher form, θ being the parameters of `model`.

        To second order in rho it is $2/\rho^2$ times the average-case `adaptive_sharpness`, and like it
        invariant under scalings that keep the function. The sum has no bias: the jackknife gives its
        standard error.
        """
        weights = flat_parameters(model).double().cpu().square()
        return jackknife(self, lambda diagonal: weights @ diagonal)


def jackknife(
    diagonals: GroupDiagonals, statistic: Callable[[Float[Tensor, " parameter"]], Tensor]
) -> Estimate:
    r"""Estimate a statistic S of the diagonal by the delete-a-group jackknife, without its bias of order 1/N.

    With $h_g = N / n_g$ and $S_{-g}$ of all but the $n_g$ sentences of group g, the pseudo-values are
    $\tau_g = h_g S - (h_g - 1) S_{-g}$, the estimate is $\hat S = \sum_g \tau_g / h_g$, and the squared
    error is $\frac1G \sum_g (\tau_g - \hat S)^2 / (h_g - 1)$ (Busing, Meijer and van der Leeden 1999,
    "Delete-m jackknife for unequal m"). The count of the result is the number of sentences N.

    Args:
        diagonals: the diagonals of independent groups.
        statistic: maps a float64 diagonal to a number.

    """
    sizes = diagonals.sizes.double()
    sentences = sizes.sum()
    total = sum(n * d.double() for n, d in zip(sizes, diagonals.values, strict=True))
    whole = statistic(total / sentences)
    pairs = zip(sizes, diagonals.values, strict=True)
    # a rounded sum of nonnegative terms is still at least each of them: no root of a negative number
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
    r"""Estimate the Fisher diagonal on groups of consecutive sentences.

    Squared gradients are added up in chunks, so that memory holds `groups` diagonals and one chunk.

    Args:
        model: a masked language model.
        masked: independent masked sentences; their targets are not used.
        generator: of sampled labels, on the CPU; if None, all labels count with their probabilities.
        labels: sampled labels per sentence.
        groups: number of groups of the jackknife.

    Returns:
        The diagonals, in nats per squared parameter.

    Raises:
        ModelError: see `check`.
        ParameterError: for fewer than 10 groups, more groups than sentences, or no labels.

    """
    check(model, masked)
    check_padding(model, masked)
    check_count("labels", labels)
    sentences = len(masked.masked)
    if not FEWEST_GROUPS <= groups <= sentences:
        raise ParameterError(
            f"groups must be from {FEWEST_GROUPS} to the number of sentences, here {sentences}; got {groups}."
        )
    sizes = sentences // groups + (torch.arange(groups) < sentences % groups).long()
    like = flat_parameters(model)
    masked, device = masked.to(like.device), like.device
    group = torch.arange(groups).repeat_interleave(sizes).to(device)
    chunk = max(1, GRADIENT_BYTES[device.type] // like.nbytes)
    sums = like.new_zeros(groups, len(like))
    pairs = (part.to(device).split(chunk) for part in _labelled(model, masked, generator, labels))
    for rows, words, weights in zip(*pairs, strict=True):
        gradients = _weighted_gradients(model, masked.rows(rows), words, weights)
        sums.index_add_(0, group[rows], gradients.square_())
    return GroupDiagonals(sums.cpu() / sizes[:, None], sizes)


def _labelled(
    model: nn.Module, masked: Batch, generator: torch.Generator | None, labels: int
) -> tuple[Int[Tensor, " pair"], Int[Tensor, " pair"], Float[Tensor, " pair"]]:
    """Pair sentences with labels: row numbers, words, and weights that add up to 1 per sentence."""
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
    model: nn.Module, masked: Batch, words: Int[Tensor, " pair"], weights: Float[Tensor, " pair"]
) -> Float[Tensor, "pair parameter"]:
    """Compute sqrt(weight) grad log f[word] of each sentence, whose squares are then weighted."""

    def scaled(
        parameters: Parameters, inputs: tuple[Tensor | None, ...], word: Tensor, weight: Tensor
    ) -> Tensor:
        batch_of_one = tuple(value if value is None else value[None] for value in inputs)
        logits = functional_call(model, parameters, batch_of_one)[0]
        return weight.sqrt() * logits.log_softmax(-1).gather(0, word[None])[0]

    ragged = None if masked.lengths is None else 0
    gradient = vmap(grad(scaled), in_dims=(None, (0, 0, ragged), 0, 0))
    parameters = unflattened(model, flat_parameters(model))
    inputs = masked.masked, masked.positions, masked.lengths
    with UnrolledLSTMs():
        return torch.cat([g.flatten(1) for g in gradient(parameters, inputs, words, weights).values()], 1)


# The local learning coefficient: degeneracy of a minimum instead of its flatness.


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
) -> Estimate:
    r"""Estimate $\hat\lambda = n\beta\, (E_w L_n(w) - L_n(w^*))$, the local learning coefficient.

    The w are drawn near the model's parameters $w^*$ from $\exp(-n\beta L_n(w) - \frac\gamma2 \lVert w - w^*
    \rVert^2)$ with $\beta = 1 / \log n$ by stochastic-gradient Langevin dynamics (Lau, Furman, Wang, Murfet
    and Wei 2025, "The Local Learning Coefficient: a singularity-aware complexity measure"). For a regular
    minimum and $\gamma \to 0$ it is half the number of parameters; less means a flatter, degenerate one.

    Args:
        model: a masked language model at a minimum.
        masked: the n training sentences, masked; minibatches are drawn from them with replacement.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets if None.
        chains: number of independent chains.
        steps: steps per chain; the first half is burn-in.
        batch: sentences per minibatch.
        lr: ε, the variance of a step's noise; stable below $4 / (n\beta h + \gamma)$ for every curvature
            h, with an upward bias of about $\epsilon (n\beta h + \gamma) / 4$.
        localisation: γ, the strength of the pull towards $w^*$.
        generator: of minibatches and noise, on the CPU.

    Returns:
        The dimensionless coefficient, with the standard error over chains.

    Raises:
        ModelError: see `check`.
        ParameterError: for an argument out of its range, or a chain that diverges.

    """
    n = len(masked.masked)
    population_loss(model, masked, truth)  # for its checks
    check_count("the number of sentences", n, 2)
    check_count("chains", chains, 2)
    check_count("steps", steps)
    check_count("batch", batch)
    if not 0 < lr < math.inf:
        raise ParameterError(f"lr must be positive and finite; got {lr}.")
    if not 0 <= localisation < math.inf:
        raise ParameterError(f"localisation must be finite and not negative; got {localisation}.")
    strength = n * (1 / math.log(n))
    centre = unflattened(model, flat_parameters(model))

    def draw_loss() -> ParameterLoss:
        rows = torch.randint(n, (batch,), generator=generator)
        return population_loss(model, masked.rows(rows), None if truth is None else truth[rows])

    chain = (draw_loss, centre, strength, steps, lr, localisation, generator)
    means = [langevin_excess(*chain) for _ in range(chains)]
    return Estimate.of(strength * torch.tensor(means, dtype=torch.float64))


def langevin_excess(
    draw_loss: Callable[[], ParameterLoss],
    centre: Parameters,
    strength: float,
    steps: int,
    lr: float,
    localisation: float,
    generator: torch.Generator,
) -> float:
    r"""Average $L(w_t) - L(w^*)$ over the second half of a chain of Langevin dynamics from $w^*$.

    The chain is

    $$w_{t+1} = w_t - \frac\epsilon2 (n\beta \nabla L(w_t) + \gamma (w_t - w^*)) + N(0, \epsilon).$$

    Both losses are taken on the step's minibatch, which $w_t$ does not depend on: the difference is
    unbiased and varies less than that of losses on different sentences.

    Args:
        draw_loss: returns the loss on a fresh minibatch, as a function of the parameters by name.
        centre: w*, by name.
        strength: nβ.
        steps: length of the chain.
        lr: ε.
        localisation: γ.
        generator: of the noise, on the CPU.

    Returns:
        The mean difference of the losses, in nats per masked token.

    Raises:
        ParameterError: if the loss is no longer finite.

    """

    def moved(name: str, w: Tensor, slope: Tensor) -> Tensor:
        drift = strength * slope + localisation * (w - centre[name])
        noise = torch.randn(w.shape, generator=generator, dtype=w.dtype).to(w.device)
        return w - lr / 2 * drift + lr**0.5 * noise

    point, total, burn_in = centre, 0.0, steps // 2
    for step in range(steps):
        loss = draw_loss()
        slopes, value = grad_and_value(loss)(point)
        if not value.isfinite():
            raise ParameterError(f"The chain diverged at lr = {lr:g}; choose a smaller lr.")
        if step >= burn_in:
            total += float(value - loss(centre))
        point = {name: moved(name, w, slopes[name]) for name, w in point.items()}
    return total / (steps - burn_in)
