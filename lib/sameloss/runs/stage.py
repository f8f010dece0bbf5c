"""Runs whose result is a table; a stored step as a decorated function."""

import inspect
from collections.abc import Callable
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.store.store import Report, Run, Store

TABLE = "table.csv"


class Tabled(Run):
    """A run whose result is one table."""

    def load(self, folder: Path) -> pd.DataFrame:
        """Return the table."""
        return pd.read_csv(folder / TABLE)


GIVEN = ("store", "report")
"""Parameters that a function may have beside the fields: where it reads other runs, and whom it tells."""


def stage(
    kind: str, *, schema: int = 1, seconds: Callable[[Any], float] = lambda run: 1.0
) -> Callable[[Callable[..., pd.DataFrame]], Callable[..., Run]]:
    """Make a run of a function that returns a table.

    Args:
        kind: the run's folder in the store.
        schema: to be raised when the function changes what it computes.
        seconds: of the reference core that a run is expected to take.

    """

    def decorate(function: Callable[..., pd.DataFrame]) -> Callable[..., Run]:
        parameters = inspect.signature(function, eval_str=True).parameters
        fields: list[Any] = [
            (p.name, p.annotation, *([] if p.default is p.empty else [field(default=p.default)]))
            for p in parameters.values()
            if p.name not in GIVEN
        ]

        def compute(self: Run, folder: Path, store: Store, report: Report) -> None:
            given = {"store": store, "report": report}
            values = {n: given[n] if n in GIVEN else getattr(self, n) for n in parameters}
            function(**values).to_csv(folder / TABLE, index=False)

        members = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "compute": compute,
            "effort": property(seconds),
            "schema": schema,
        }
        made = make_dataclass(kind, fields, bases=(Tabled,), namespace=members, frozen=True)
        made.__qualname__ = function.__name__  # where a process that is sent a run finds its class
        return made

    return decorate
