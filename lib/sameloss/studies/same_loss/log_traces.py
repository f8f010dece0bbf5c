"""Traces of groups of models, as logarithms with their errors, and the excess of one over another."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.bootstrap import REPLICATES, UNDEFINED, Interval, percentile_interval, seed_weights
from sameloss.statistics.equal_kl import weights_at
from sameloss.studies.same_loss.results import Results


class LogTraces(NamedTuple):
    """Logarithms of the traces of a group's seeds, and their standard errors."""

    value: Float[np.ndarray, " seed"]
    error: Float[np.ndarray, " seed"]


def log_traces(
    results: Results, size: str, *, step: int | None = None, kl: float | list[float] | None = None
) -> LogTraces:
    """Return a size's traces: at the last step, another one, or at a KL (of each seed).

    Between checkpoints the logarithm is interpolated.
    """
    step = results.steps[-1] if step is None else step
    table = results.checkpoints[results.checkpoints["size"] == size]
    if kl is None:
        return log_traces_of(table[table.step == step])
    runs = [run.sort_values("step") for _, run in table.groupby("seed")]
    targets = np.broadcast_to(kl, len(runs))
    weights = [weights_at(r.kl_mean.to_numpy(np.float64), at) for r, at in zip(runs, targets, strict=True)]
    along = [log_traces_of(run, by="step") for run in runs]
    values = [w @ t.value for w, t in zip(weights, along, strict=True)]
    errors = [np.hypot.reduce(w * t.error) for w, t in zip(weights, along, strict=True)]
    return LogTraces(np.array(values), np.array(errors))


def log_traces_of(rows: pd.DataFrame, by: str = "seed") -> LogTraces:
    """Return the traces of a table's rows (trace, trace_se), ordered by a column."""
    rows = rows.sort_values(by)
    return LogTraces(np.log(rows.trace.to_numpy()), (rows.trace_se / rows.trace).to_numpy())


def excess(pairs: list[tuple[LogTraces, LogTraces]]) -> Interval:
    """Return trace(first) / trace(second) - 1, the geometric mean over pairs.

    Pre-training seeds vary as in `seed_weights`, and each trace by its standard error.
    """
    if not pairs:
        return UNDEFINED
    rng = np.random.default_rng(0)
    weights = seed_weights(len(pairs[0][0].value), REPLICATES, rng)
    values, replicates = [], []
    for first, second in pairs:
        difference, error = first.value - second.value, np.hypot(first.error, second.error)
        noise = (rng.normal(size=weights.shape) * error).mean(1)
        values.append(difference.mean())
        replicates.append(difference.mean() + weights @ difference + noise)
    interval = percentile_interval(np.mean(values), np.mean(replicates, axis=0))
    return Interval(*(float(np.expm1(end)) for end in interval))
