"""Intervals that count every source of chance: a multi-level bootstrap."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

REPLICATES = 2000

LEVEL = 0.95


class Interval(NamedTuple):
    """A value with its bootstrap percentile interval."""

    value: float
    low: float
    high: float


def seed_weights(seeds: int, count: int, rng: np.random.Generator) -> Float[np.ndarray, "{count} {seeds}"]:
    """Return random weights that turn values of few seeds into deviations of their mean.

    For values x of n seeds, weights @ x follows Student's t with n - 1 degrees of freedom, scaled by
    the standard error of their mean. (Resampling three seeds could not: its extremes are the
    smallest and the largest value.) One seed has no standard error: its weights are NaN.
    """
    if seeds < 2:
        return np.full((count, seeds), np.nan)
    normal = rng.normal(size=(count, seeds))
    scale = np.sqrt(seeds * rng.chisquare(seeds - 1, (count, 1)))
    return (normal - normal.mean(1, keepdims=True)) / scale


def percentile_interval(value: float, replicates: Float[np.ndarray, " replicate"]) -> Interval:
    """Return a value with the central 95 % of its replicates."""
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(value), float(low), float(high))


class Resamples:
    """One set of resamples, shared by everything that is compared, so that differences are paired.

    Level by level: pre-training seeds by `seed_weights`, then probe seeds and test examples drawn
    with replacement. Models share the test examples and the probes' training sentences, so each
    replicate uses the same draw for all of them.
    """

    def __init__(
        self, model_seeds: int, probe_seeds: int, examples: int, *, count: int = REPLICATES, seed: int = 0
    ) -> None:
        """Draw the resamples.

        Args:
            model_seeds: pre-training seeds of each trained model.
            probe_seeds: seeds of each probe.
            examples: test sentences.
            count: replicates.
            seed: of the draws.

        """
        rng = np.random.default_rng(seed)
        self._models = seed_weights(model_seeds, count, rng)
        self._probes = rng.integers(0, probe_seeds, (count, probe_seeds))
        self._weights = rng.multinomial(examples, np.full(examples, 1 / examples), count)
        self._weights = (self._weights / examples).astype(np.float32)

    def accuracy(
        self,
        correct: Bool[np.ndarray, "model probe example"] | Float[np.ndarray, "model probe example"],
        *,
        pretrained: bool = True,
    ) -> Float[np.ndarray, " replicate"]:
        """Return the mean accuracy in each replicate; NaN where it is of one pre-training seed.

        Interpolated between checkpoints, a sentence is right to a share.

        A representation that is not pre-trained has one `model` and no such seeds.
        """
        by_run = np.einsum("mpe,re->rmp", correct.astype(np.float32), self._weights, optimize=True)
        probes = np.broadcast_to(self._probes[:, None], by_run.shape)
        by_model = np.take_along_axis(by_run, probes, axis=2).mean(2)
        mean = by_model.mean(1)
        return mean + (self._models * by_model).sum(1) if pretrained else mean
