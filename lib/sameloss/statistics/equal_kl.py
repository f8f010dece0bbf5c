"""Comparison at exactly equal KL, by interpolation between the checkpoints of each run.

The paper compares models of about the same pre-training loss (§3). The loss is entropy plus KL, and
the entropy belongs to the language: equal KL means equal loss.
"""

import numpy as np
from jaxtyping import Float

from sameloss.errors import ParameterError, UnreachableKL


def weights_at(kl: Float[np.ndarray, " step"], target: float) -> Float[np.ndarray, " step"]:
    r"""Compute weights of a run's checkpoints that interpolate it to a target KL, linearly in log KL.

    Between the neighbours i, i + 1 whose KLs enclose the target,

        w_i = \log(target / KL_{i+1}) / \log(KL_i / KL_{i+1}),    w_{i+1} = 1 - w_i.

    Training is not monotone, so the target may be crossed more than once: the last crossing counts.
    The weights apply to any quantity of the checkpoints. They treat KL as exact: its standard error is
    ignored.

    Args:
        kl: nats per masked token, in training order.
        target: nats per masked token.

    Returns:
        Nonnegative weights that sum to one; at most two neighbours are positive.

    Raises:
        UnreachableKL: if no two neighbours enclose the target.
        ParameterError: if the run has no checkpoint, or a KL that is not positive and finite.

    >>> weights_at(np.array([1.0, 0.1, 0.01]), 0.1 * 0.1**0.25).round(2).tolist()
    [0.0, 0.75, 0.25]

    """
    low, high = _kl_range(kl)
    if not low <= target <= high:
        raise UnreachableKL(
            f"A KL of {target:.4g} nats is out of reach: this run's checkpoints span {low:.4g} to "
            f"{high:.4g}; choose a target in there, or give the run more checkpoints or steps."
        )
    side = np.sign(kl - target)
    after = np.flatnonzero(np.append(side[0], side[:-1]) * side <= 0)[-1]
    weights = np.zeros(len(kl))
    if side[after] == 0:  # at a checkpoint
        weights[after] = 1
    else:
        fraction = np.log(kl[after - 1] / target) / np.log(kl[after - 1] / kl[after])
        weights[after - 1 : after + 1] = 1 - fraction, fraction
    return weights


def _kl_range(kl: Float[np.ndarray, " step"]) -> tuple[float, float]:
    """Return the smallest and the largest KL of a run."""
    if not (len(kl) and (np.isfinite(kl) & (kl > 0)).all()):
        raise ParameterError(f"A run needs checkpoints, of positive and finite KL; got {kl.tolist()}.")
    return float(kl.min()), float(kl.max())


def common_kl(kls: list[Float[np.ndarray, " _"]]) -> float:
    """Return the smallest KL that every run reaches, at which runs are compared by default.

    It is the largest of the runs' smallest KLs: the least saturated run is at a checkpoint there, and all
    others are interpolated.

    Args:
        kls: KLs of each run's checkpoints, nats per masked token.

    Raises:
        UnreachableKL: if the runs' ranges do not overlap, or there is no run.
        ParameterError: if a run has no checkpoint, or a KL that is not positive and finite.

    >>> common_kl([np.array([1.0, 0.1]), np.array([0.5, 0.2, 0.3])])
    0.2

    """
    if not kls:
        raise UnreachableKL("Without runs there is no KL that all of them reach; give at least one.")
    lowest, highest = zip(*map(_kl_range, kls), strict=True)
    if max(lowest) > min(highest):
        raise UnreachableKL(
            f"The runs have no KL in common: one stays above {max(lowest):.4g} nats, another below "
            f"{min(highest):.4g}; leave one out, or give them more checkpoints or steps."
        )
    return max(lowest)
