"""Tables of training on patches."""

import numpy as np
import pandas as pd

from sameloss.studies.local_signal.found import LEVELS, THEIRS, Found, curve, steps_to
from sameloss.studies.local_signal.tangent.runs import AT_SIGNAL

LOOKS = (1, 100, 500, 1000, 2000, 5000, THEIRS)
"""Steps that are told."""


def training_table(found: Found) -> pd.DataFrame:
    """Return the exact flow, and the mean and spread of stochastic descent where it went so far."""
    steps = np.array(LOOKS, dtype=float)
    table = pd.DataFrame({"step": LOOKS, **{c: found.flow_at(steps, c) for c in ("c", "b", "accuracy")}})
    table.insert(3, "|b|/c", table.b.abs() / table.c)
    for column in ("c", "b", "accuracy"):
        own = found.by_seed(column)
        near = own.reindex(own.index.union(LOOKS)).interpolate("index", limit_area="inside").reindex(LOOKS)
        table[f"{column}, SGD"] = near.mean(axis=1).to_numpy()
        table[f"± {column}"] = near.std(axis=1).to_numpy()
    return table


def steps_table(found: Found) -> pd.DataFrame:
    """Return after how many steps of its flow each k reaches an accuracy, at the thesis' own σ."""
    own = found.phase[found.phase.multiplier == 1]
    rows = [
        {
            "k": k,
            **{f"{level:.0%}": _whole(steps_to(flow, level)) for level in LEVELS},
            "at the end": flow.accuracy.iloc[-1],
        }
        for k, flow in own.groupby("noise")
    ]
    return pd.DataFrame(rows)


def _whole(steps: float) -> str:
    return f"{steps:,.0f}" if steps == steps else "–"


def best_table(found: Found) -> pd.DataFrame:
    """Return what the best filter reaches at the thesis' own σ."""
    own = found.best[found.best.multiplier == 1]
    columns = {"noise": "k", "threshold": "best |b|/c", "network": "one filter", "linear": "linear model"}
    return own[[*columns]].rename(columns=columns)


def dead_table(found: Found) -> pd.DataFrame:
    """Return how many of 100 starts end where the signal has no gradient, by their rate over |c|/k."""
    table = 100 * found.dead.pivot_table(index="start", columns="multiple", values="dead")
    table.columns = pd.Index([f"{multiple:g}" for multiple in table.columns])
    table.index = pd.Index([f"{start:g}" for start in table.index], name="c at the start")
    return table.reset_index()


def reached_at(flows: pd.DataFrame, step: float) -> pd.DataFrame:
    """Return the accuracy of every flow after some steps: a row a strength of noise, a column a k."""
    rows = [
        (noise, multiplier, float(curve(own, "accuracy")(np.log(step))))
        for (noise, multiplier), own in flows.groupby(["noise", "multiplier"])
    ]
    table = pd.DataFrame(rows, columns=["k", "multiplier", "accuracy"])
    return table.pivot(index="multiplier", columns="k", values="accuracy")


def filters_as_good(kernels: pd.DataFrame, error: float) -> float:
    """Return the least number of filters whose kernels are wrong no more often, on average; NaN: none tried.

    Args:
        kernels: from `TangentRows`.
        error: of a trained filter.

    """
    own = kernels[kernels.kind == AT_SIGNAL].groupby("filters").error.mean()
    enough = own.index[own <= error]
    return float(enough.min()) if len(enough) else float("nan")


def in_words(found: Found, kernels: pd.DataFrame) -> str:
    """Return what the page shows, counter-findings first."""
    after = found.flow_at(np.array([THEIRS]), "accuracy")[0]
    late = steps_to(found.flow, 0.99)
    k = found.settings.patches.noise
    best = found.best[found.best.multiplier == 1]
    few = best[best.network < 0.99].noise.max()
    when = f"{late:,.0f} steps" if late == late else "more steps than were followed"
    filters = filters_as_good(kernels, 1 - after)
    comparable = found.settings.patches == found.settings.tangent_rows.patches and filters == filters
    beaten = f"A kernel of {filters:.0f} filters with its best weights is no worse. " if comparable else ""
    return (
        f"At k = {k:,} the exact flow is right in {after:.1%} after {THEIRS:,} steps, and 99 % take {when}. "
        f"{beaten}Up to k = {few:,} no filter reaches 99 %. "
        f"From there on one filter does what the linear model cannot, which is right in "
        f"{best.linear.iloc[-1]:.1%} at k = {best.noise.iloc[-1]:,}."
    )
