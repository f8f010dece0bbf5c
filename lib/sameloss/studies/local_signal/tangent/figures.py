"""Figures of the tangent kernel's best errors: what was found in, Axes out."""

from math import log

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from sameloss.studies import drawing
from sameloss.studies.local_signal.tangent.rows import linear_error, one_filter_share
from sameloss.studies.local_signal.tangent.runs import HELD_OUT, KINDS
from sameloss.studies.local_signal.tangent.tables import ERROR, tangent_table
from sameloss.studies.local_signal.theory import Patches


def errors_by_filters(found: pd.DataFrame, patches: Patches, ax: Axes) -> Axes:
    """Draw the mean error over starts by m, a line a kind, with the linear error and the theorem's 0.1."""
    table = tangent_table(found)
    for at, kind in enumerate(KINDS):
        own = table[table.kernel == kind]
        ends = np.stack([own["mean"] - own.low, own.high - own["mean"]]).clip(0)
        style: drawing.Style = {"marker": drawing.MARKERS[at], "ls": "" if kind == HELD_OUT else "-"}
        ax.errorbar(own.filters, own["mean"], ends, label=kind, color=f"C{at}", ms=4, **style)
    ax.axhline(linear_error(patches), color="0.5", ls=":", lw=1)
    ax.axhline(ERROR, color="0.5", ls="--", lw=1)
    ax.set(xscale="log", xlabel="filters, m", ylabel="error of the best W", ylim=(0, 0.5))
    drawing.plain_log_axis(ax.xaxis, table.filters)
    return ax


def shares_by_rows(ax: Axes) -> Axes:
    """Draw the share of one filter's starts below an error of 0.1 by k, with the theorem's .001."""
    ks = np.geomspace(1e3, 1e13, 60)
    for finite, style in ((False, "-"), (True, ":")):
        shares = [one_filter_share(log(k), ERROR, finite) for k in ks]
        ax.plot(ks, shares, style, label="d = 1/σ²" if finite else "as d grows")
    ax.axhline(0.001, color="0.5", ls="--", lw=1)
    ax.set(xscale="log", yscale="log", xlabel="rows of noise, k", ylabel="share of starts with error < 0.1")
    return ax
