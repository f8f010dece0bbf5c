"""Comparisons at exactly equal KL, by interpolation between the checkpoints of each run.

The paper compares models of about the same pre-training loss (§3). The loss is entropy plus KL, and
the entropy is the language's: equal KL is the same loss.
"""

import numpy as np
from jaxtyping import Float

from sameloss.errors import ParameterError, UnreachableKL


def weights_at(kl: Float[np.ndarray, " step"], target: float) -> Float[np.ndarray, " step"]:
    r"""Return weights over a run's checkpoints that bring it to a KL.

    Between the neighbours i, i + 1 whose KLs enclose the target, linearly in log KL:

        w_i = \log(target / KL_{i+1}) / \log(KL_i / KL_{i+1}),    w_{i+1} = 1 - w_i.

    Training is not monotone, so the target can be crossed more than once: the last crossing counts.
    Whatever is linear in the weights is interpolated by them, bootstrap replicates too. They hold KL
    as known: its own standard error is not in them.

    Args:
        kl: nats a masked token, in order of training.
        target: nats a masked token.

    Returns:
        Weights that sum to one, at most two of them (neighbours) positive, none negative.

    Raises:
        UnreachableKL: where no two neighbours enclose the target.
        ParameterError: where a run has no checkpoint, or a KL that is not positive and finite.

    >>> weights_at(np.array([1.0, 0.1, 0.01]), 0.1 * 0.1**0.25).round(2).tolist()
    [0.0, 0.75, 0.25]

    """
    low, high = _reach(kl)
    if not low <= target <= high:
        raise UnreachableKL(
            f"A KL of {target:.4g} nats is out of reach: this run's checkpoints span {low:.4g} to "
            f"{high:.4g}; choose a target in there, or give the run more checkpoints or steps."
        )
    side = np.sign(kl - target)
    after = np.flatnonzero(np.append(side[0], side[:-1]) * side <= 0)[-1]
    at_checkpoint = side[after] == 0
    share = 1.0 if at_checkpoint else np.log(kl[after - 1] / target) / np.log(kl[after - 1] / kl[after])
    weights = np.zeros(len(kl))
    weights[after] = share
    weights[after - 1] += 1 - share
    return weights


def _reach(kl: Float[np.ndarray, " step"]) -> tuple[float, float]:
    """Return the smallest and the largest KL of a run: interpolation reaches all between them."""
    if not (len(kl) and (np.isfinite(kl) & (kl > 0)).all()):
        raise ParameterError(f"A run needs checkpoints, of positive and finite KL; got {kl.tolist()}.")
    return float(kl.min()), float(kl.max())


def common_kl(kls: list[Float[np.ndarray, " _"]]) -> float:
    """Return the smallest KL that every run reaches: where runs are compared by default.

    It is the largest of the runs' smallest KLs, so one run, the least saturated, is at a checkpoint
    there and all others are interpolated.

    Args:
        kls: for each run the KL of its checkpoints, nats a masked token.

    Raises:
        UnreachableKL: where the runs' ranges have no KL in common, or there is no run.
        ParameterError: where a run has no checkpoint, or a KL that is not positive and finite.

    >>> common_kl([np.array([1.0, 0.1]), np.array([0.5, 0.2, 0.3])])
    0.2

    """
    if not kls:
        raise UnreachableKL("Without runs there is no KL that all of them reach; give at least one.")
    lowest, highest = zip(*map(_reach, kls), strict=True)
    if max(lowest) > min(highest):
        raise UnreachableKL(
            f"The runs have no KL in common: one stays above {max(lowest):.4g} nats, another below "
            f"{min(highest):.4g}; leave one out, or give them more checkpoints or steps."
        )
    return max(lowest)
