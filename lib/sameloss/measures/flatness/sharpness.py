"""Adaptive sharpness: how much the loss rises when every parameter changes relative to its size.

Reparametrisations (`models/reparametrise.py`) keep the function and change the trace of the Hessian.
The measures here are built so that scalings leave them alone.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import grad_and_value

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.hessian import flat_parameters, flattened, population_loss, unflattened
from sameloss.measures.flatness.validation import check
from sameloss.statistics.bootstrap import Estimate


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

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> generator = torch.Generator().manual_seed(0)
    >>> found = adaptive_sharpness(model, masked, rho=0.1, draws=100, generator=generator)
    >>> round(found.mean, 4), round(found.standard_error, 4)  # of about 0.1² / 2 times 0.841
    (0.0042, 0.0004)

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

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.8, 0.1, 0.1]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> round(worst_case_adaptive_sharpness(model, masked, rho=0.1), 3)
    0.051

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
