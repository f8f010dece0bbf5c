"""What flows and descents found, for claims, tables and figures."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped

from sameloss.studies.local_signal.settings import SignalSettings

LEVELS = (0.7, 0.8, 0.9, 0.95, 0.99)
"""Accuracies whose steps are told."""

THEIRS = 10_000
"""Steps of Figure 3.3."""


@dataclass(frozen=True)
class Found:
    """Everything that the page on dynamics reads."""

    settings: SignalSettings
    flow: pd.DataFrame  # a row a look of the exact flow
    phase: pd.DataFrame  # the same by k and strength of noise
    best: pd.DataFrame  # by k and strength
    dead: pd.DataFrame  # by start and rate
    sgd: pd.DataFrame  # by seed and look

    def flow_at(self, steps: Shaped[np.ndarray, " look"], column: str) -> Float[np.ndarray, " look"]:
        """Return a column of the flow at other steps, interpolated over the logarithm of steps."""
        own = self.flow[self.flow.step > 0]
        return np.interp(np.log(steps), np.log(own.step), own[column])

    def by_seed(self, column: str) -> pd.DataFrame:
        """Return a column of stochastic descent: a row a look, a column a seed."""
        return self.sgd.pivot(index="step", columns="seed", values=column)


def steps_to(flow: pd.DataFrame, level: float) -> float:
    """Return after how many steps a flow is right so often, interpolated; NaN: it never is.

    >>> flow = pd.DataFrame({"step": [0, 1, 100], "accuracy": [0.5, 0.6, 0.8]})
    >>> round(steps_to(flow, 0.7), 9), steps_to(flow, 0.9)
    (10.0, nan)
    """
    own = flow[flow.step > 0]
    if own.accuracy.max() < level:
        return float("nan")
    after = int(np.argmax(own.accuracy >= level))
    if after == 0:
        return float(own.step.iloc[0])
    between = own.iloc[after - 1 : after + 1]
    return float(np.exp(np.interp(level, between.accuracy, np.log(between.step))))
