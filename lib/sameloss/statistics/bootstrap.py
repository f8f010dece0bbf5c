"""Estimates with their errors, and the bootstrap over seeds and examples."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

# Numbers with their error.


class Estimate(NamedTuple):
    """A mean with its standard error over `count` independent draws.

    The standard error of an exact value is 0, that of one draw is unknown (NaN).
    """

    mean: float
    standard_error: float
    count: int  # type: ignore[assignment]  # of draws, as statisticians say; not the method of tuples

    @classmethod
    def of(cls, values: Float[torch.Tensor, " draw"]) -> "Estimate":
        r"""Estimate the mean of independent draws, with the error $s / \sqrt n$.

        >>> Estimate.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
        Estimate(mean=3.0, standard_error=1.0801234497346435, count=4)

        """
        count = len(values)
        spread = float(values.double().std()) if count > 1 else float("nan")
        return cls(float(values.double().mean()), spread / count**0.5, count)

    @classmethod
    def weighted(
        cls, values: Float[torch.Tensor, " sentence"], weights: Float[torch.Tensor, " sentence"]
    ) -> "Estimate":
        """Return the exact expectation over a whole enumerated population.

        Args:
            values: the quantity in each sentence.
            weights: the probabilities of the sentences; they sum to one.

        >>> Estimate.weighted(torch.tensor([1.0, 4.0]), torch.tensor([0.25, 0.75]))
        Estimate(mean=3.25, standard_error=0.0, count=2)

        """
        return cls(float((values * weights).sum()), 0.0, len(values))


# Intervals that count every source of chance: a multi-level bootstrap.

REPLICATES = 2000
"""Resamples of an interval, unless another number is asked for."""

LEVEL = 0.95
"""Probability that an interval covers the truth."""


class Interval(NamedTuple):
    """A value with the interval that covers the truth in 95 % of repetitions."""

    value: float
    low: float
    high: float


UNDEFINED = Interval(float("nan"), float("nan"), float("nan"))
"""What a comparison returns where there is nothing to compare."""


def seed_weights(seeds: int, count: int, rng: np.random.Generator) -> Float[np.ndarray, "{count} {seeds}"]:
    r"""Draw random weights that turn values of few seeds into deviations of their mean.

    For values $x_1, \dots, x_n$ of n seeds,

    $$\sum_i w_i x_i \sim \frac{s}{\sqrt n}\, t_{n-1}, \quad
      w_i = \frac{z_i - \bar z}{\sqrt{n\, c}}, \quad z_i \sim N(0, 1),\ c \sim \chi^2_{n-1},$$

    Student's t scaled by the standard error of the mean. Resampling three seeds could not give this
    distribution: its extremes are the smallest and the largest value.

    Args:
        seeds: number of values, n.
        count: number of deviations wanted.
        rng: of the weights.

    Returns:
        One row of weights a deviation. One seed has no standard error: its weights are NaN.

    >>> seed_weights(3, 1, np.random.default_rng(0)).round(2)
    array([[-0.73, -2.94,  3.68]])

    """
    if seeds < 2:
        return np.full((count, seeds), np.nan)
    normal = rng.normal(size=(count, seeds))
    scale = np.sqrt(seeds * rng.chisquare(seeds - 1, (count, 1)))
    return (normal - normal.mean(1, keepdims=True)) / scale


def percentile_interval(value: float, replicates: Float[np.ndarray, " replicate"]) -> Interval:
    """Return a value with the interval of the central 95 % of its replicates.

    >>> [round(end, 6) for end in percentile_interval(50.0, np.arange(81.0))]
    [50.0, 2.0, 78.0]

    """
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(value), float(low), float(high))


def seed_interval(values: Float[np.ndarray, " seed"]) -> Interval:
    """Return the mean of one value a pre-training seed, with its interval over seeds.

    >>> [round(end, 1) for end in seed_interval(np.array([1.0, 2.0, 3.0]))]  # Student's: 2 ± 2.5
    [2.0, -0.2, 4.6]
    """
    weights = seed_weights(len(values), REPLICATES, np.random.default_rng(0))
    return percentile_interval(values.mean(), values.mean() + weights @ values)


class Resamples:
    """One set of resamples, shared by everything that is compared, so that differences are paired.

    Chance enters level by level. Pre-training seeds vary by `seed_weights`; probe seeds and test
    examples are drawn with replacement. Models share the test examples and the probes' training
    sentences, so each replicate uses the same draw for all of them.

    >>> resamples = Resamples(model_seeds=5, probe_seeds=2, examples=400)
    >>> correct = np.random.default_rng(0).random((5, 2, 400)) < 0.8
    >>> found = percentile_interval(correct.mean(), resamples.accuracy(correct))
    >>> [round(end, 2) for end in found]
    [0.8, 0.76, 0.84]

    """

    def __init__(
        self, model_seeds: int, probe_seeds: int, examples: int, *, count: int = REPLICATES, seed: int = 0
    ) -> None:
        """Draw the resamples.

        Args:
            model_seeds: pre-training seeds of each trained model.
            probe_seeds: seeds of each probe.
            examples: test sentences.
            count: number of replicates.
            seed: seed of the draws.

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
        """Compute the mean accuracy in each replicate.

        Args:
            correct: whether each test example is right. A model interpolated between checkpoints is
                right to a share.
            pretrained: whether the models differ by their pre-training seed. A representation that is
                not pre-trained has one `model` and no such seeds.

        Returns:
            Shares of right examples, NaN where there is one pre-training seed only.

        """
        by_run = np.einsum("mpe,re->rmp", correct.astype(np.float32), self._weights, optimize=True)
        probes = np.broadcast_to(self._probes[:, None], by_run.shape)
        by_model = np.take_along_axis(by_run, probes, axis=2).mean(2)
        mean = by_model.mean(1)
        return mean + (self._models * by_model).sum(1) if pretrained else mean
