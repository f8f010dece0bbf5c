r"""The flow that SGD follows along the minimisers of the loss (Theorem 3.3, Eq. 1).

$$d\theta = -P_\Gamma\,\nabla\,\Psi(\theta)\,dt, \qquad \Psi = \tfrac14\,\mathrm{Tr}\,\nabla^2 L$$

for SGD with a vanishing learning rate; other algorithms have other potentials and metrics. A potential
is a function of the Hessian, which on the manifold is the Fisher information (Lemma 3.2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor
from torch.func import grad, jacfwd, vmap

from sameloss.errors import ManifoldError
from sameloss.studies.manifold_flow.population import Population

Hessian = Float[Tensor, "parameter parameter"]

Potential = Callable[[Hessian], Float[Tensor, ""]]

Metric = Callable[[Hessian], Float[Tensor, " parameter"]]
"""Diagonal of a preconditioner, from the Hessian."""

RANK_TOLERANCE = 1e-6
"""A singular value below this share of the largest is zero."""

MOST_STEPS = 40
"""Gauss-Newton steps to a minimiser, at most; a few are the rule."""


def trace_potential(coefficient: float = 0.25) -> Potential:
    """Return the potential of Theorem 3.3: `coefficient` times the trace."""
    return lambda hessian: coefficient * hessian.trace()


def finite_rate_potential(rate: float) -> Potential:
    r"""Return the potential of SGD at a finite rate, $-\frac{1}{2\eta}\,\mathrm{tr}\log(1 - \eta H/2)$.

    In a quadratic valley with noise $H/B$ the iterates' stationary covariance solves
    $HS + SH - \eta HSH = \eta H/B$, that is $S = \frac{\eta}{B}(2 - \eta H)^{-1}$, and the valley's
    third derivatives turn it into a drift along the manifold that is the gradient of this. Its first term is
    $\frac14\mathrm{Tr}\,H$. It is infinite where $\eta$ times an eigenvalue reaches 2.

    The noise is taken as Gaussian of a fixed covariance. What SGD on single sentences does beyond a vanishing
    rate is explained in part: a rest of the order $\eta/B$ remains, as the chapter shows.
    """

    def potential(hessian: Hessian) -> Float[Tensor, ""]:
        return -torch.linalg.slogdet(torch.eye(len(hessian)) - rate * hessian / 2).logabsdet / (2 * rate)

    return potential


def adam_potential(batch: int, epsilon: float) -> Potential:
    r"""Return the potential of Adam at a vanishing rate (after Li, Wen and Lyu 2025).

    $$\tfrac12\sum_i\bigl(u_i - \epsilon\log(1 + u_i/\epsilon)\bigr), \qquad u_i = \sqrt{H_{ii}/B}$$

    With a small $\epsilon$ it is $\mathrm{Tr}(\mathrm{Diag}(H)^{1/2})/(2\sqrt B)$. See also `adam_metric`.
    """

    def potential(hessian: Hessian) -> Float[Tensor, ""]:
        deviations = (hessian.diagonal() / batch).clamp(min=1e-300).sqrt()
        return (deviations - epsilon * (deviations / epsilon).log1p()).sum() / 2

    return potential


def adam_metric(batch: int, epsilon: float) -> Metric:
    r"""Return Adam's preconditioner on the manifold, $1/(\sqrt{H_{ii}/B} + \epsilon)$."""
    return lambda hessian: 1 / ((hessian.diagonal() / batch).clamp(min=0).sqrt() + epsilon)


def adam_sharpness(hessian: Hessian) -> Float[Tensor, ""]:
    r"""Return $\mathrm{Tr}(\mathrm{Diag}(H)^{1/2})$."""
    return hessian.diagonal().clamp(min=1e-300).sqrt().sum()


def tangent_projection(
    population: Population, theta: Float[Tensor, " parameter"], rank: int, scale: Tensor | None = None
) -> Float[Tensor, "parameter parameter"]:
    """Return the orthogonal projection on the directions in which no prediction changes.

    They are the kernel of the Hessian where theta is a minimiser, and elsewhere the tangent space of
    the parameters with the same predictions.

    Args:
        population: the model and what it predicts.
        theta: the parameters.
        rank: that of the Hessian, M of Assumption 3.1.
        scale: project in coordinates divided by these.

    Raises:
        ManifoldError: where the rank is another one.

    """
    jacobian = jacfwd(population.log_f)(theta).flatten(0, 1)
    jacobian = jacobian if scale is None else jacobian * scale
    _, singular, rows = torch.linalg.svd(jacobian, full_matrices=False)
    if (found := int((singular > RANK_TOLERANCE * singular[0]).sum())) != rank:
        raise ManifoldError(
            f"The Hessian's rank is {found} here and {rank} at the start, so the minimisers are no "
            "manifold of one dimension (Assumption 3.1); start elsewhere or stop earlier."
        )
    normal = rows[:rank]
    return torch.eye(len(theta), dtype=theta.dtype) - normal.T @ normal


def rank_of(population: Population, theta: Float[Tensor, " parameter"]) -> int:
    """Return the rank of the map from parameters to log predictions, M of Assumption 3.1."""
    singular = torch.linalg.svdvals(jacfwd(population.log_f)(theta).flatten(0, 1))
    return int((singular > RANK_TOLERANCE * singular[0]).sum())


@dataclass(frozen=True)
class Flow:
    """A solution of the flow at given times."""

    times: Float[Tensor, " time"]
    theta: Float[Tensor, "time parameter"]

    def along(self, population: Population, quantity: Potential) -> Float[Tensor, " time"]:
        """Return a function of the Hessian at these times."""
        return torch.stack([quantity(population.fisher(theta)) for theta in self.theta])


def velocity(
    population: Population,
    theta: Float[Tensor, " parameter"],
    potential: Potential,
    rank: int,
    metric: Metric | None = None,
) -> Float[Tensor, " parameter"]:
    r"""Return $-D^{1/2} P D^{1/2}\nabla\Psi$, the steepest descent along the manifold in a metric $D^{-1}$.

    D is the identity for SGD. P projects on the kernel of the Jacobian times $D^{1/2}$, so the
    result is tangent to the manifold.
    """
    gradient = grad(lambda theta: potential(population.fisher(theta)))(theta)
    if metric is None:
        return -tangent_projection(population, theta, rank) @ gradient
    scale = metric(population.fisher(theta)).sqrt()
    return -scale * (tangent_projection(population, theta, rank, scale) @ (scale * gradient))


def projected_flow(
    population: Population,
    start: Float[Tensor, " parameter"],
    potential: Potential,
    times: Float[Tensor, " time"],
    metric: Metric | None = None,
    tolerance: float = 1e-9,
) -> Flow:
    """Integrate the flow along the manifold with an eighth-order Runge-Kutta method.

    The velocity lies in the kernel of the Jacobian of the predictions, so that only the integrator's error
    leads off the manifold; it is checked, not corrected.

    Args:
        population: the model and what it predicts.
        start: a minimiser.
        potential: what the flow lowers; see `trace_potential`.
        times: increasing, from 0 on, in units of (learning rate)² × steps.
        metric: of a preconditioned algorithm.
        tolerance: of the integrator, relative, and largest KL (nats) that counts as a minimiser.

    Raises:
        ManifoldError: where the start is no minimiser, the manifold is left, or its dimension changes.

    """
    _check_minimiser(population, start[None], tolerance, "The starting point")
    rank = rank_of(population, start)

    def right_hand_side(_: float, theta: np.ndarray) -> np.ndarray:
        return velocity(population, torch.from_numpy(theta), potential, rank, metric).numpy()

    solved = solve_ivp(
        right_hand_side,
        (0.0, float(times[-1])),
        start.numpy(),
        method="DOP853",
        t_eval=times.numpy(),
        rtol=tolerance,
        atol=tolerance,
    )
    if not solved.success:
        raise ManifoldError(f"The flow has no solution up to {float(times[-1]):g} ({solved.message}).")
    theta = torch.from_numpy(solved.y.T.copy())
    _check_minimiser(population, theta, tolerance, "A point of the flow")
    return Flow(times, theta)


def onto_manifold(
    population: Population, theta: Float[Tensor, "*batch parameter"], tolerance: float = 1e-12
) -> Float[Tensor, "*batch parameter"]:
    """Return minimisers close by: Gauss-Newton steps, each the least change that mends the predictions.

    What SGD hovers around is seen without its hovering. The point is one of several close by: which one moves
    the trace by an amount of the order of the rate.

    Raises:
        ManifoldError: where the steps do not come within `tolerance` (nats) of the least loss.

    """
    wanted = _against_last(population.conditionals.log())
    jacobian = vmap(jacfwd(lambda point: _against_last(population.logits(point))))
    points = theta.reshape(-1, theta.shape[-1])
    for _ in range(MOST_STEPS):
        if float(population.kl(points).max()) <= tolerance:
            break
        residual = _against_last(population.logits(points)) - wanted
        j = jacobian(points)
        weights, _ = torch.linalg.solve_ex(j @ j.mT, residual[..., None])  # not finite where singular
        points = points - (j.mT @ weights)[..., 0]
    _check_minimiser(population, points, tolerance, "What should be a minimiser close by")
    return points.reshape(theta.shape)


def _against_last(logits: Float[Tensor, "*batch context word"]) -> Float[Tensor, "*batch difference"]:
    """Return logits minus that of the last word: as many numbers as predictions have freedom."""
    return (logits[..., :-1] - logits[..., -1:]).flatten(-2)


def _check_minimiser(
    population: Population, theta: Float[Tensor, "time parameter"], tolerance: float, what: str
) -> None:
    if not (kl := float(population.kl(theta).max())) <= tolerance:
        raise ManifoldError(
            f"{what} is {kl:.2g} nats above the least loss and must be within {tolerance:g}; "
            "the flow lives on the minimisers."
        )
