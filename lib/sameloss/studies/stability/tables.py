"""Tables of stability, and sentences on them."""

import numpy as np
import pandas as pd

from sameloss.statistics.bootstrap import Interval
from sameloss.studies.stability.claims import BETA, GAP, Over, Stability, over_seeds
from sameloss.studies.stability.experiment import Kind
from sameloss.studies.stability.theory import BOUNDED, fitted, gap_bound

MEASURES = {
    "gap": GAP,
    "0-1 gap": "gap 0-1",
    "β": BETA,
    "β without z": "others cross-entropy",
    "β, clipped": "beta clipped",
    "β, Brier": "beta Brier",
    "total variation": "beta total variation",
    "distance": "distance",
    "norm": "norm",
    "distance over norm": "normalised",
}
"""What is measured, as tables and figures call it."""

PUBLISHED = pd.DataFrame(
    [
        ("logistic regression, MNIST", "gap", "about -1 to -1.13", "0-1 gap: -0.82"),
        ("logistic regression, MNIST", "β, distance", "the same range", ""),
        (
            "2a: ResNet-20, CIFAR-10",
            "gap",
            "-0.48, -0.44, -0.42 to -0.45",
            "three trials; 0-1 gap: -0.40 to -0.49",
        ),
        (
            "2a: ResNet-20, CIFAR-10",
            "β",
            "-0.05 to 0.03, -0.01, 0.02 to 0.11",
            "27.8, 33.1 and 12.4 times m^b, in nats",
        ),
        ("2b: with momentum", "β", "-0.17", ""),
        ("1a: ResNet-20, SVHN", "gap, β", "unreadable", "a mild fall"),
        ("1a, 2a, 2b", "distance", "unreadable", "13 to 31, 24 to 50, 100 to 1,000"),
    ],
    columns=["training", "of", "exponent", "also"],
)
"""What survives of the thesis' figures in its text, or follows from their axes."""


def written(found: Interval) -> str:
    """Write an exponent with its interval.

    >>> written(Interval(-1.0, -1.25, -0.755)), written(Interval(float("nan"), 0, 0))
    ('-1.00 (-1.25 to -0.76)', '–')
    """
    return "–" if np.isnan(found.value) else f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def exponent_table(found: Stability, over: Over = "max") -> pd.DataFrame:
    """Return the exponent of every measure and kind, means over seeds with 95 % intervals."""
    rows = {
        name: {kind.name: written(over_seeds(found.exponents(kind, measure, over))) for kind in found.kinds}
        for name, measure in MEASURES.items()
    }
    return pd.DataFrame(rows).T.rename_axis("exponent of").reset_index()


def by_seed(found: Stability) -> pd.DataFrame:
    """Return the largest of each seed's pairs by model and size, at the stop that the page is about."""
    of_kinds = pd.concat(found.at(kind) for kind in found.kinds)
    return of_kinds.groupby(["kind", "size", "seed"], sort=False)[[*MEASURES.values()]].max().reset_index()


def fit_table(found: Stability) -> pd.DataFrame:
    """Return a·m^b of gap and β as the thesis fits them: to the largest of all pairs, values unweighted."""
    rows = []
    for kind in found.kinds:
        row: dict[str, object] = {"model": kind.name}
        for name, measure in (("gap", GAP), ("β", BETA)):
            a, b = fitted(found.sizes, found.values(kind, measure).max(0))
            row[name] = f"{a:.3g} m^{b:.2f}"
        rows.append(row)
    return pd.DataFrame(rows)


def level_table(found: Stability) -> pd.DataFrame:
    """Return errors (%) and levels at the smallest and the largest size, means over seeds and pairs."""
    rows = []
    for kind in found.kinds:
        own = found.at(kind).groupby("size").mean(numeric_only=True)
        worst = found.at(kind).groupby("size").max(numeric_only=True)
        for size in (found.sizes[0], found.sizes[-1]):
            rows.append(
                {
                    "model": kind.name,
                    "m": size,
                    "test error (%)": 100 * own.error[size],
                    "own error (%)": 100 * own["trained error"][size],
                    "gap": own[GAP][size],
                    "β": own[BETA][size],
                    "largest β": worst[BETA][size],
                    "z is worst (%)": 100 * _z_is_worst(found.at(kind), size),
                    "distance": own.distance[size],
                }
            )
    return pd.DataFrame(rows)


def _z_is_worst(table: pd.DataFrame, size: int) -> float:
    own = table[table["size"] == size]
    return float((own["others cross-entropy"] < own[BETA]).mean())


def stop_table(found: Stability) -> pd.DataFrame:
    """Return by how much β falls less steeply than the gap, at each stop."""
    rows = []
    for kind in found.kinds:
        row: dict[str, object] = {"model": kind.name}
        for stop, name in enumerate(("half the steps", "all", "half as many again")):
            row[name] = written(over_seeds(found.slower(kind, BETA, GAP, stop=stop)))
        rows.append(row)
    return pd.DataFrame(rows)


def barrier_table(found: Stability) -> pd.DataFrame:
    """Return the fall of accuracy on the way between twins (points), in the mean and at most."""
    rows = []
    for kind in found.kinds:
        for seen in ("test", "trained"):
            falls = found.barriers(kind, seen)
            if falls.empty:
                continue
            largest = falls[falls["size"] == found.sizes[-1]].barrier
            rows.append(
                {
                    "model": kind.name,
                    "images": seen,
                    f"mean, m = {found.sizes[-1]}": largest.mean(),
                    "largest there": largest.max(),
                    "largest of all m": falls.barrier.max(),
                }
            )
    return pd.DataFrame(rows)


def swap_table(swaps: pd.DataFrame) -> pd.DataFrame:
    """Return what random swaps see of the largest of all, in per cent of it."""
    shares = {name: 100 * swaps[name] / swaps.exact for name in ("median", "low", "high")}
    return swaps[["size", "loss", "drawn", "exact"]].assign(**shares).rename(columns={"size": "m"})


def descent_table(swaps: pd.DataFrame) -> pd.DataFrame:
    """Return distances and changes of the loss over all swaps beside what Hardt et al. (2016) promise."""
    first = swaps[swaps["loss"] == "cross-entropy"].drop_duplicates("size")
    return pd.DataFrame(
        {
            "m": first["size"],
            "largest distance": first.distance,
            "2Lηt/m": first.bound,
            "largest change of the loss": first.exact,
            "L times that": first.slope * first.bound,
        }
    )


def gap_bounds(found: Stability) -> pd.DataFrame:
    """Return gap and bound (2.1) for each bounded loss, model and size, from the largest over all pairs."""
    rows = []
    for kind in found.kinds:
        worst = found.at(kind).groupby("size").max(numeric_only=True)
        for loss in BOUNDED:
            for size in found.sizes:
                gap, beta = (float(worst[f"{what} {loss}"][size]) for what in ("gap", "beta"))
                bound = gap_bound(loss, beta, size)
                rows.append(
                    {"model": kind.name, "loss": loss, "m": size, "gap": gap, "β": beta, "bound": bound}
                )
    return pd.DataFrame(rows)


def bound_table(found: Stability, loss: str = "Brier") -> pd.DataFrame:
    """Return the bound over the gap at the largest size, and whether it says anything at all."""
    bounds = gap_bounds(found)
    own = bounds[(bounds.loss == loss) & (bounds.m == found.sizes[-1])]
    says = own.bound.lt(1).map({True: "yes", False: "no"})
    return own.drop(columns="loss").assign(**{"bound over gap": own.bound / own.gap, "below 1": says})


def in_words(found: Stability, swaps: pd.DataFrame, judged: pd.DataFrame) -> str:
    """Return what the chapter shows in a few sentences, counter-findings first."""
    against = judged[judged.verdict == "contradicted"]
    counts = ", ".join(f"{verdict} ({count})" for verdict, count in judged.verdict.value_counts().items())
    begin = (
        "Contradicted: " + "; ".join(against.claim) + "."
        if len(against)
        else "No claim is contradicted here."
    )
    share = swaps[(swaps["loss"] == "cross-entropy") & (swaps.drawn == swaps.drawn.median())]
    seen = " and ".join(f"{100 * row['median'] / row.exact:.0f} %" for _, row in share.iterrows())
    return " ".join(
        [
            begin,
            f"The claims, by verdict: {counts}.",
            *(_kind_in_words(found, kind) for kind in found.kinds),
            f"{share.drawn.iloc[0]:.0f} random swaps see {seen} of the largest change that a swap can make.",
        ]
    )


def _kind_in_words(found: Stability, kind: Kind) -> str:
    gap, beta, distance = (
        over_seeds(found.exponents(kind, measure)).value for measure in (GAP, BETA, "distance")
    )
    name = kind.name[0].upper() + kind.name[1:]
    return f"{name}: the gap goes as m^{gap:.2f}, β as m^{beta:.2f}, parameters as m^{distance:.2f}."
