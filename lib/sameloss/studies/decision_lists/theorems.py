"""What Theorems 4.3 and 4.4 ask for and promise: read-outs, rates, numbers of steps."""

from collections.abc import Callable
from math import exp, log, sqrt

from sameloss.errors import ParameterError

ROUNDS = 10
"""Of a condition on c in which the loss at the start stands, which depends on c."""


def readout_of_43(words: int, length: int, mass: float) -> float:
    """Return c = 4n² log L / δ (Theorem 4.3).

    Raises:
        ParameterError: for δ = 0, with which no read-out is large enough.

    """
    _check_mass(mass)
    return 4 * length**2 * log(words) / mass


def _check_mass(mass: float) -> None:
    if not 0 < mass <= 1:
        raise ParameterError(f"δ is the probability of something that occurs, in (0, 1]; got {mass}.")


def first_loss(words: int, length: int, readout: float) -> float:
    """Return the loss at W = 0 and V = cP, nats: log(n + (L − n) e^(−c/n))."""
    return log(length + (words - length) * exp(-readout / length))


def horizon_of_43(words: int, longest: int) -> float:
    """Return ηT = 32 M / log L, the time within which Theorem 4.3 promises perfect classification.

    T itself is lost in the source's text; the algebra of its proof gives T = 32 λ M / log L.
    """
    return 32 * longest / log(words)


def curvature_bound(occurrence: float, readout: float, length: int) -> float:
    """Return λ that no W exceeds: max_a Pr[a occurs] (c²/8 + c)/n (ours).

    Theorem 4.3 takes the largest eigenvalue "of the Hessian", without saying where; steps of 1/λ need one
    that holds all along the path.
    """
    return occurrence * (readout**2 / 8 + readout) / length


def gradient_bound(words: int, longest: int) -> float:
    """Return log²L / 16M: what the proof of 4.3 gives for ‖∂L‖² as long as a token is misclassified."""
    return log(words) ** 2 / (16 * longest)


def readout_of_44(
    radius: float, longest: int, length: int, mass: float, loss: Callable[[float], float]
) -> float:
    """Return the least c that satisfies (4 max{1, L₀} √(M/ε) + 6ε/n) 10n²/δ + 4ε ≤ c (Theorem 4.4).

    Args:
        radius: ε, within twice of which V starts around cP.
        longest: M.
        length: n.
        mass: δ.
        loss: L₀ as a function of c.

    Raises:
        ParameterError: for ε that is not in (0, 16M], and for δ that is no probability of anything.

    """
    _check_mass(mass)
    if not 0 < radius <= 16 * longest:
        raise ParameterError(f"ε must lie in (0, 16M] = (0, {16 * longest}]; got {radius}.")

    def asked(readout: float) -> float:
        slope = 4 * max(1.0, loss(readout)) * sqrt(longest / radius) + 6 * radius / length
        return slope * 10 * length**2 / mass + 4 * radius

    readout = asked(1.0)
    for _ in range(ROUNDS):
        readout = asked(readout)
    return max(readout, asked(readout))
