"""The local learning coefficient: degeneracy of a minimum in the place of its flatness."""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import grad_and_value

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.hessian import ParameterLoss, flat_parameters, population_loss, unflattened
from sameloss.measures.flatness.validation import check
from sameloss.statistics.bootstrap import Estimate


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
        steps: number of steps of each chain.
        batch: sentences of a minibatch.
        lr: epsilon, the variance of a step's noise; stable below $4 / (n\beta h + \gamma)$ for
            every curvature h, and biased upwards by about $\epsilon (n\beta h + \gamma) / 4$.
        localisation: gamma, the strength of the pull back to $w^*$.
        generator: random numbers for minibatches and noise, on the CPU.
        n: number of training sentences the posterior stands for; those given where None.
        inverse_temperature: beta; 1 / log n where None.
        burn_in: number of first steps left out of the mean; half of them where None.

    Returns:
        The coefficient, without a unit; the chain is the unit of error.

    Raises:
        ModelError: for what `check` refuses.
        ParameterError: for an argument out of its range, or a chain that leaves the finite numbers.

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> generator = torch.Generator().manual_seed(0)
    >>> truth = torch.tensor([[0.5, 0.25, 0.25]]).expand(100, 3)
    >>> options = {"chains": 8, "steps": 200, "batch": 4, "lr": 2e-3, "localisation": 1.0, "n": 10_000}
    >>> found = local_learning_coefficient(model, masked, truth, generator=generator, **options)
    >>> round(found.mean, 1), round(found.standard_error, 1)  # half of 2 curved directions, and 0.2 by lr
    (1.2, 0.1)

    """
    check(model, masked)
    n = len(masked.masked) if n is None else n
    burn_in = steps // 2 if burn_in is None else burn_in
    population_loss(model, masked, truth)  # refuses a truth of other sentences
    _check_chains(n, chains, steps, burn_in, batch, lr, localisation)
    beta = 1 / math.log(n) if inverse_temperature is None else inverse_temperature
    centre = unflattened(model, flat_parameters(model))

    def draw_loss() -> ParameterLoss:
        rows = torch.randint(len(masked.masked), (batch,), generator=generator)
        return population_loss(model, masked.rows(rows), None if truth is None else truth[rows])

    chain = partial(
        langevin_excess,
        draw_loss,
        centre,
        n * beta,
        steps=steps,
        burn_in=burn_in,
        lr=lr,
        localisation=localisation,
        generator=generator,
    )
    means = [chain() for _ in range(chains)]
    return Estimate.of(n * beta * torch.tensor(means, dtype=torch.float64))


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
