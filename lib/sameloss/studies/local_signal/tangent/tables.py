"""Tables of the tangent kernel's best errors: what `TangentRows` found, and its closed forms."""

from math import exp, log

import numpy as np
import pandas as pd

from sameloss.statistics.bootstrap import seed_interval
from sameloss.studies.local_signal.tangent.rows import (
    one_filter_error,
    one_filter_share,
    overlap_for,
    rows_for_share,
)
from sameloss.studies.local_signal.tangent.runs import AT_SIGNAL, HELD_OUT, KINDS

ERROR = 0.1
"""Which Theorem 3.2 says a tangent kernel of few filters exceeds."""

SHARE_ROWS = (1e3, 1e4, 1e5, 1e6, 1e8, 1e11)
"""k at which the share of good starts of one filter is shown."""


def tangent_table(found: pd.DataFrame) -> pd.DataFrame:
    """Return mean and median error over starts by kind and m, with the interval of the mean.

    Args:
        found: from `TangentRows`.

    Returns:
        Columns `kernel`, `filters`, `starts`, `mean`, `low`, `high`, `median`, `below 0.1` (share of starts).

    """
    rows = []
    for (kind, m), own in found.groupby(["kind", "filters"]):
        interval = seed_interval(own.error.to_numpy())
        rows.append(
            {
                "kernel": kind,
                "filters": m,
                "starts": len(own),
                "mean": interval.value,
                "low": interval.low,
                "high": interval.high,
                "median": own.error.median(),
                f"below {ERROR:g}": (own.error < ERROR).mean(),
            }
        )
    table = pd.DataFrame(rows)
    order = {kind: at for at, kind in enumerate(KINDS)}
    return table.sort_values("kernel", key=lambda kinds: kinds.map(order), kind="stable", ignore_index=True)


def filters_needed(found: pd.DataFrame, error: float = ERROR, kind: str = AT_SIGNAL) -> float:
    """Return the least m tried whose median start has at most that error; NaN: none has."""
    medians = found[found.kind == kind].groupby("filters").error.median()
    enough = medians.index[medians <= error]
    return float(enough.min()) if len(enough) else np.nan


def held_out_table(found: pd.DataFrame) -> pd.DataFrame:
    """Return the error by moments beside the held-out one, of the starts that have both.

    Returns:
        Columns `filters`, `starts`, `by moments`, `held out`, `standard error` and `z`, over all starts.

    """
    both = found[found.kind == HELD_OUT].merge(
        found[found.kind == AT_SIGNAL][["filters", "start", "error"]], on=["filters", "start"]
    )
    rows = []
    for m, own in both.groupby("filters"):
        error = float(np.sqrt((own.standard_error**2).sum()) / len(own))
        moments, held = own.error_y.mean(), own.error_x.mean()
        row = {"filters": m, "starts": len(own), "by moments": moments, "held out": held}
        rows.append({**row, "standard error": error, "z": (held - moments) / error if error else np.nan})
    return pd.DataFrame(rows)


def one_filter_table() -> pd.DataFrame:
    """Return the share of starts of one filter with an error below 0.1, in closed form by k."""
    rows = []
    for k in SHARE_ROWS:
        log_k = log(k)
        rows.append(
            {
                "k": k,
                "d": round(k / log_k**2),
                "D for error .1": overlap_for(log_k, ERROR),
                "share of starts": one_filter_share(log_k, ERROR),
                "the same in d dimensions": one_filter_share(log_k, ERROR, finite=True),
                "median error": one_filter_error(log_k, 0.6744897501960817),
                "linear error": one_filter_error(log_k, 0.0),
            }
        )
    return pd.DataFrame(rows)


def rows_for_theorem() -> float:
    """Return k from which one filter's share of good starts is at most .001, as Theorem B.1 says."""
    return exp(rows_for_share())
