"""Measures of flatness beside the trace of the Hessian, for the same loss and sentences.

Reparametrisations (`models/reparametrise.py`) keep the function and change the trace; some of the
measures here are built so that scalings leave them alone. H is the Hessian of L, the mean
cross-entropy a masked token in nats, theta the trainable parameters.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import grad_and_value

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.estimated_trace import EstimatedTrace
from sameloss.measures.flatness.hessian import (
    flat_parameters,
    flattened,
    hessian_vector_product,
    population_loss,
    unflattened,
)
from sameloss.measures.flatness.validation import check
from sameloss.statistics.estimate import Estimate


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
