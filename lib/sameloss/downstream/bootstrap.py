"""Intervals that count every source of chance: a multi-level bootstrap."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Interval(NamedTuple):
    """A value with its bootstrap percentile interval."""

    value: float
    low: float
    high: float


class Resamples:
    """One set of resamples, shared by everything that is compared, so that differences are paired.

    Level by level: pre-training seeds, then probe seeds, then test examples are drawn with
    replacement. Models share the test examples and the probes' training sentences, so each
    replicate uses the same draw for all of them.
    """

    def __init__(
        self, model_seeds: int, probe_seeds: int, examples: int, *, count: int = 2000, seed: int = 0
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
        self._models = rng.integers(0, model_seeds, (count, model_seeds))
        self._probes = rng.integers(0, probe_seeds, (count, probe_seeds))
        self._weights = rng.multinomial(examples, np.full(examples, 1 / examples), count)
        self._weights = (self._weights / examples).astype(np.float32)

    def accuracy(self, correct: Bool[np.ndarray, "model probe example"]) -> Float[np.ndarray, " replicate"]:
        """Return the mean accuracy in each replicate.

        A representation without pre-training seeds has one `model`.
        """
        by_run = np.einsum("mpe,re->rmp", correct.astype(np.float32), self._weights, optimize=True)
        replicate = np.arange(len(by_run))[:, None, None]
        models = self._models if len(correct) > 1 else np.zeros_like(self._models)
        drawn = by_run[replicate, models[:, :, None], self._probes[:, None, :]]
        return drawn.mean((1, 2))

    def interval(
        self, value: float, replicates: Float[np.ndarray, " replicate"], level: float = 0.95
    ) -> Interval:
        """Return a value with the percentile interval of its replicates."""
        tail = (1 - level) / 2
        low, high = np.quantile(replicates, [tail, 1 - tail])
        return Interval(float(value), float(low), float(high))
