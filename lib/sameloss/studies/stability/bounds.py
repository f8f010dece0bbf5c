"""What theory promises of stable training, and of the gap where training is stable."""

import math

from sameloss.errors import ParameterError
from sameloss.studies.stability.losses import check_bounded


def longest_step(norm: float) -> float:
    """Return the largest rate at which the step of logistic regression does not expand distances.

    The loss log(1 + exp(-y wᵀx)) has a curvature of at most ‖x‖²/4; Lemma 3.6 of Hardt et al. (2016) asks for
    a rate of at most two over it.

    Args:
        norm: the largest ‖x‖, the constant of the intercept counted.

    """
    return 8 / norm**2


def parameter_bound(norm: float, lr: float, steps: int, size: int, batch: int) -> float:
    """Return how far apart two logistic regressions can be that were trained on twins: 2Lηt/m.

    Hardt et al. (2016), Theorem 3.8, for one order of visits: in every epoch the example is met once, in a
    batch whose mean gradient it changes by at most 2L/batch, and no other step increases the distance. An
    epoch that is begun counts as a whole one.

    Args:
        norm: L, the largest ‖x‖: the gradient is no longer.
        lr: η, at most `longest_step`.
        steps: t.
        size: m.
        batch: examples a step.

    Raises:
        ParameterError: for a rate at which a step may expand distances.

    """
    if lr > longest_step(norm):
        raise ParameterError(
            f"For images {norm:.3g} long it holds up to a rate of {longest_step(norm):.3g}; got {lr:g}."
        )
    return 2 * norm * lr / batch * math.ceil(steps * batch / size)


def gap_bound(loss: str, beta: float, size: int, delta: float = 0.05) -> float:
    """Return the right side of (2.1) with 1 for its constant: β log m log(m/δ) + √(log(1/δ)/m).

    Args:
        loss: a bounded one.
        beta: its uniform stability.
        size: m.
        delta: the probability with which it may fail.

    Raises:
        ParameterError: for a loss that is not in [0, 1].

    >>> round(gap_bound("Brier", 0.0, 100), 3)
    0.173

    """
    check_bounded(loss)
    if not 0 < delta < 1:
        raise ParameterError(f"δ is a probability between 0 and 1; got {delta:g}.")
    return beta * math.log(size) * math.log(size / delta) + math.sqrt(math.log(1 / delta) / size)
