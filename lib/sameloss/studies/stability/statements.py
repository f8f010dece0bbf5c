"""What is exact about stability, judged: suprema over all swaps, and the bounds that promise them."""

import pandas as pd

from sameloss.studies.stability.losses import BOUNDED
from sameloss.studies.statement import Check, Statement, check_table

SAMPLED = (0.4, 1.0)
"""Between these the largest of 40 random swaps is expected to lie, as a share of the largest of all."""

THEIRS = 40
"""Pairs that the thesis draws."""

STATEMENTS = {
    "swaps": Statement(
        "Section 2.3",
        "40 random swaps estimate a supremum: their largest change is 40 to 100 % of that of all swaps",
    ),
    "hrs": Statement(
        "Hardt et al. (2016), Theorem 3.8",
        "parameters of logistic regressions of twins are at most 2Lηt/m apart, and their losses L times that",
    ),
    "be": Statement(
        "Bousquet and Elisseeff (2002), Theorem 22",
        "a swap changes the squared loss of ridge regression by at most L²κ²/(λm)",
    ),
    "bound": Statement(
        "(2.1)",
        "for a bounded loss the gap is at most β log m log(m/δ) + √(log(1/δ)/m), with 1 for the constant",
    ),
}


def checks(swaps: pd.DataFrame, ridge: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    """Return everything that is checked.

    Args:
        swaps: the tables of `AllSwaps` with a column `size`.
        ridge: that of `RidgeSwaps`.
        bounds: `gap` and `bound` by model, loss and size.

    """
    return check_table([*_swaps(swaps), *_descent(swaps), _ridge(ridge), *_bounds(bounds)])


def _swaps(swaps: pd.DataFrame) -> list[Check]:
    nearest = min(swaps.drawn, key=lambda count: abs(count - THEIRS))
    theirs = swaps[
        (swaps.drawn == nearest) & (swaps["loss"] != "0-1")
    ]  # which is 1 as soon as an answer changes
    seen = theirs["median"] / theirs.exact
    middle, half = sum(SAMPLED) / 2, (SAMPLED[1] - SAMPLED[0]) / 2
    rows = zip(theirs["loss"], theirs["size"], theirs.drawn, seen, strict=True)
    text = "{0}, m = {1}: the largest of {2} random swaps (median) over that of all"
    return [Check("swaps", text.format(*about), float(share), middle, half) for *about, share in rows]


def _descent(swaps: pd.DataFrame) -> list[Check]:
    found = []
    for size, own in swaps.groupby("size"):
        first = own[own["loss"] == "cross-entropy"].iloc[0]
        for what, value, bound in (
            ("distance of parameters", first.distance, first.bound),
            ("change of the loss", first.exact, first.slope * first.bound),
        ):
            found.append(Check("hrs", f"m = {size}: {what} over its bound", value / bound, 0.5, 0.5))
    return found


def _ridge(ridge: pd.DataFrame) -> Check:
    broken = int((ridge.change > ridge.bound).sum())
    return Check("be", f"cases of {len(ridge)} in which a swap changes more", broken, 0, 0)


def _bounds(bounds: pd.DataFrame) -> list[Check]:
    return [
        Check(
            "bound",
            f"{name}: the largest gap over the bound, all sizes and models",
            float((own.gap / own.bound).max()),
            0.5,
            0.5,
        )
        for name, own in bounds.groupby("loss")
        if name in BOUNDED
    ]
