"""One frame for every measurement: each number a measurement finds is one row of the same columns.

A row is the estimate of one `part` (entropy, a kind of parameter, a measure of flatness) at one
checkpoint. Where a measurement looks at the same part in several ways, one more column before the
others names the way.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from sameloss.statistics.bootstrap import Estimate
from sameloss.store.store import Run

COLUMNS = ["step", "part", *Estimate._fields]
"""The columns of every frame, in this order: the checkpoint, what was estimated, and the estimate."""

WAYS = ("form", "split")
"""What may stand before them: the form of the parameters, or how parts share out a total."""

TABLE = "table.csv"


def frame(estimates: Mapping[str, Estimate], step: int, **way: str) -> pd.DataFrame:
    """Return one row for each estimate of a checkpoint.

    Args:
        estimates: the estimate of each part.
        step: the training steps after which the checkpoint was kept.
        way: at most one of `WAYS` and its value, the same in all rows.

    >>> frame({"kl": Estimate(0.5, 0.1, 20)}, step=8)
       step part  mean  standard_error  count
    0     8   kl   0.5             0.1     20

    """
    rows = [{**way, "step": step, "part": part, **e._asdict()} for part, e in estimates.items()]
    return pd.DataFrame(rows, columns=[*way, *COLUMNS])


def check_frame(found: pd.DataFrame) -> None:
    """Refuse a frame that readers of measurements could misread.

    Raises:
        ValueError: for other columns, no rows, a part that a checkpoint has twice, or an estimate of
            nothing.

    """
    way = [name for name in found.columns[:1] if name in WAYS]
    if list(found.columns) != [*way, *COLUMNS]:
        raise ValueError(
            f"A measurement has the columns {', '.join(COLUMNS)}, perhaps after one of {', '.join(WAYS)}; "
            f"got {', '.join(found.columns)}."
        )
    if found.empty or found.duplicated([*way, "step", "part"]).any():
        raise ValueError("A measurement needs rows, and one row for each part of a checkpoint.")
    if not (found["count"] > 0).all() or (found.standard_error < 0).any():
        raise ValueError("An estimate needs a positive count, and a standard error that is not negative.")


class Tabled(Run):
    """A run whose result is one table."""

    def load(self, folder: Path) -> pd.DataFrame:
        """Return the table."""
        return pd.read_csv(folder / TABLE)


class Measurement(Tabled):
    """A run that measures checkpoints of a pre-training; its table is such a frame."""

    def save(self, frames: Iterable[pd.DataFrame], folder: Path) -> None:
        """Write the frames of all checkpoints as one, after a check."""
        found = pd.concat(frames, ignore_index=True)
        check_frame(found)
        found.to_csv(folder / TABLE, index=False)
