"""What is exact about the printed tables, judged: counts and ratios that can be computed from them."""

import pandas as pd

from sameloss.studies.local_signal_images.backgrounds import ANY_CORNER, ANYWHERE, ONE_CORNER
from sameloss.studies.local_signal_images.published import (
    NTK,
    TABLE_3_1,
    WRN,
    best_columns,
    columns_of,
    kept_table,
    loss_changes,
    size_gains,
)
from sameloss.studies.statement import Check, Statement, check_table

ROUNDING = 0.005
"""Per cent: Table 3.1 has two decimals."""

LEAST = 0.9
"""A share of the columns that counts as virtually all."""

NO_MORE = 1.0
"""Points by which losses may change and still count as equal."""

COLUMNS = 16
"""Of Table B.1: two sizes, two models and four strengths of noise, for each placement."""

STATEMENTS = {
    "img-ratios": Statement(
        "Table 3.1", "what CIFAR-2 on Gaussian noise keeps follows from Table B.1, random place, 16-on-32"
    ),
    "img-larger": Statement("Appendix B.4", "larger images are classified better, in all cases"),
    "img-order": Statement(
        "Appendix B.4",
        "in virtually all cases a fixed corner is easier than a random corner, and that than a random place",
        "in virtually all cases a fixed corner is easier than a random place",
    ),
    "img-loss": Statement(
        "Appendix B.4",
        "on larger images noise takes less from the WRN, and as much from the NTK",
        "on larger images noise takes less from both, for every placement",
    ),
}


def checks() -> pd.DataFrame:
    """Return everything that is checked."""
    return check_table([*_ratios(), _larger(), *_order(), *_losses()])


def _ratios() -> list[Check]:
    printed = next(row for row in TABLE_3_1 if row.name == "CIFAR-2 on Gaussian noise")
    kept = kept_table().query("size == '16-on-32' and placement == @ANYWHERE").set_index("model").kept
    return [
        Check("img-ratios", f"{model}: kept at most noise (%)", float(kept[model]), value, ROUNDING)
        for model, value in ((WRN, printed.network), (NTK, printed.kernel))
    ]


def _larger() -> Check:
    gains = size_gains().gain
    return Check(
        "img-larger", f"pairs of {len(gains)} in which they are", int((gains > 0).sum()), len(gains), 0
    )


def _order() -> list[Check]:
    whole = columns_of((ONE_CORNER, ANY_CORNER, ANYWHERE))
    slack = COLUMNS * (1 - LEAST)
    return [
        Check("img-order", f"columns of {COLUMNS} in this order", whole, COLUMNS, slack),
        Check("img-order", "in which the fixed corner is the best", best_columns(ONE_CORNER), COLUMNS, slack),
        Check(
            "img-order",
            "in which it is better than a random place",
            columns_of((ONE_CORNER, ANYWHERE)),
            COLUMNS,
            slack,
            printed=False,
        ),
    ]


def _losses() -> list[Check]:
    changes = loss_changes().set_index(["model", "placement"])["less lost"]
    printed = [
        Check(
            "img-loss", "NTK: points less lost, mean of placements", float(changes[NTK].mean()), 0.0, NO_MORE
        ),
        Check("img-loss", "WRN: placements with less lost", int((changes[WRN] > 0).sum()), 3, 0),
    ]
    both = Check("img-loss", "rows of 6 with less lost", int((changes > 0).sum()), 6, 0, printed=False)
    return [*printed, both]
