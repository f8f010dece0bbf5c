"""What flows and descents found, for claims, tables and figures."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped
from scipy.interpolate import CubicSpline

from sameloss.studies.local_signal.experiment import SignalConfig

LEVELS = (0.7, 0.8, 0.9, 0.95, 0.99)
"""Accuracies whose steps are told."""

THEIRS = 10_000
"""Steps of Figure 3.3."""


@dataclass(frozen=True)
class Found:
    """Everything that the page on dynamics reads."""

    settings: SignalConfig
    flow: pd.DataFrame  # a row a look of the exact flow
    phase: pd.DataFrame  # the same by k and strength of noise
    best: pd.DataFrame  # by k and strength
    dead: pd.DataFrame  # by start and rate
    sgd: pd.DataFrame  # by seed and look

    def flow_at(self, steps: Shaped[np.ndarray, " look"], column: str) -> Float[np.ndarray, " look"]:
        """Return a column of the flow at other steps."""
        return curve(self.flow, column)(np.log(steps))

    def by_seed(self, column: str) -> pd.DataFrame:
        """Return a column of stochastic descent: a row a look, a column a seed."""
        return self.sgd.pivot(index="step", columns="seed", values=column)


def curve(flow: pd.DataFrame, column: str) -> CubicSpline:
    """Return a column of a flow as a function of the logarithm of steps.

    Between a dozen looks a decade it is off by 1e-6; a straight line would be by 1e-3.
    """
    own = flow[flow.step > 0]
    return CubicSpline(np.log(own.step), own[column])


def steps_to(flow: pd.DataFrame, level: float) -> float:
    """Return after how many steps a flow is right so often; NaN: it never is.

    >>> flow = pd.DataFrame({"step": [0, 1, 10, 100], "accuracy": [0.5, 0.6, 0.7, 0.8]})
    >>> round(steps_to(flow, 0.7), 9), steps_to(flow, 0.9)
    (10.0, nan)
    """
    own = flow[flow.step > 0]
    if own.accuracy.max() < level:
        return float("nan")
    after = int(np.argmax(own.accuracy >= level))
    last, end = np.log(own.step.iloc[[max(after - 1, 0), after]])
    steps = np.linspace(last, end, 200)
    return float(np.exp(np.interp(level, curve(flow, "accuracy")(steps), steps)))
