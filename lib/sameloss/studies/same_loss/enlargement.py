"""Traces of different sizes made comparable: in which parameters they are taken (Appendix B.1)."""

from typing import NamedTuple, cast, get_args

import pandas as pd

from sameloss.models.enlarge import KINDS, Tying, kind_law
from sameloss.studies.same_loss.groups import Group, lstms, widened
from sameloss.studies.same_loss.results import KEYS, Results, final


class Way(NamedTuple):
    """A way to compare the traces of different sizes."""

    form: str  # of the measurement: native, paper, balanced or relative
    part: str  # of it that counts
    label: str  # in tables and figures


WAYS = {
    "native": Way("native", "total", "native parameters"),
    "native-rest": Way("native", "without embeddings", "native, without embeddings"),
    "enlarged": Way("paper", "total", "enlarged, embedding / k (the paper's)"),
    "enlarged-balanced": Way("balanced", "total", "enlarged, embedding / √k"),
    "enlarged-rest": Way("paper", "without embeddings", "enlarged, without embeddings"),
    "relative": Way("relative", "total", "relative trace"),
}
"""The ways, by name."""


def enlarged_totals(traces: pd.DataFrame) -> pd.DataFrame:
    """Return one row a checkpoint and way to compare: trace and its standard error.

    Args:
        traces: the measurement `enlargement` of a group, see `results.frame`.

    """
    rows = [
        traces[(traces.form == way.form) & (traces.part == way.part)].assign(way=name)
        for name, way in WAYS.items()
    ]
    table = pd.concat(rows, ignore_index=True)
    table = table.rename(columns={"mean": "trace", "standard_error": "trace_se"})
    return table[[*KEYS, "way", "trace", "trace_se"]]


def accuracy_and_enlarged(results: Results) -> pd.DataFrame:
    """Return the last checkpoints with their accuracies once for each way to compare traces.

    LSTMs are compared natively alone.
    """
    if lstms(results.group):
        return final(results).assign(way="native")
    totals = enlarged_totals(results.frame("enlargement"))
    return final(results).drop(columns=["trace", "trace_se"]).merge(totals, on=KEYS)


def law_alone(traces: pd.DataFrame, group: Group) -> pd.Series:
    """Return the excess of the smallest size's trace if its native parts were those of the largest.

    In per unit, by way to compare: what the enlargement does by itself.
    """
    ratio = widened(group) // group.domain.shapes[group.sizes[0]].d_model
    largest = traces[(traces["size"] == group.sizes[-1]) & (traces.form == "native")]
    parts = largest[largest.part.isin(KINDS)].groupby("part")["mean"].mean()

    def excess(way: Way) -> float:
        counted = parts.drop("embedding") if way.part == "without embeddings" else parts
        tied = cast(Tying, way.form) if way.form in get_args(Tying) else None
        law = {kind: kind_law(kind, ratio, tied) if tied else 1.0 for kind in counted.index}
        return float((counted * pd.Series(law)).sum() / counted.sum() - 1)

    return pd.Series({name: excess(way) for name, way in WAYS.items()})
