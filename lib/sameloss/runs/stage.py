"""Runs whose result is a table, and the decorator that makes one of a function."""

import hashlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import make_dataclass
from io import StringIO
from pathlib import Path
from types import CodeType
from typing import Any

import pandas as pd

from sameloss.errors import StoreError
from sameloss.store.store import ADVICE, SMALL_BYTES, Folder, Report, Run, Store

TABLE = "table.csv"


class Tabled(Run):
    """A run whose result is one table."""

    def load(self, folder: Folder) -> pd.DataFrame:
        return pd.read_csv(folder / TABLE)


def stacked(store: Store, runs: Sequence[Run]) -> pd.DataFrame:
    """The tables of runs as one, with the number of the `run` in front.

    They are parsed together, because each alone takes a millisecond.

    Raises:
        StoreError: if their columns differ.

    """
    header, *_ = texts = [(store.files(run) / TABLE).read_text().splitlines(keepends=True) for run in runs]
    if any(text[0] != header[0] for text in texts):
        raise StoreError(f"The tables of {runs[0].kind} have other columns than those beside them.")
    rows = [f"{number},{row}" for number, text in enumerate(texts) for row in text[1:]]
    return pd.read_csv(StringIO("".join([f"run,{header[0]}", *rows])))


def stage(
    kind: str,
    *,
    schema: int = 1,
    work: Callable[[Any], float] = lambda run: 0.0,
    memory: Callable[[Any], float] = lambda run: SMALL_BYTES,
    accelerated: bool = False,
    advice: str = ADVICE,
) -> Callable[[Callable[..., pd.DataFrame]], Callable[..., Run]]:
    """Turn a function that returns a table into a class of runs.

    The function's parameters become the fields, except for `store` and `report`, which are passed through.
    Of a function in a notebook's cell the source is part of the key too, with what it calls and reads there.

    Args:
        kind: name of the class and of its folder in the store.
        schema: to be raised when the function changes what it computes.
        work: to which the time of a run is proportional, see `Run.work`.
        memory: estimated peak memory of a run on its device, in bytes.
        accelerated: whether it computes on the GPU where there is one.
        advice: what to change if memory is short.

    """

    def decorate(function: Callable[..., pd.DataFrame]) -> Callable[..., Run]:
        parameters = inspect.signature(function, eval_str=True).parameters
        fields: list[Any] = [
            (p.name, p.annotation) if p.default is p.empty else (p.name, p.annotation, p.default)
            for p in parameters.values()
            if p.name not in ("store", "report")
        ]

        def compute(self: Run, folder: Path, store: Store, report: Report) -> None:
            values = {**vars(self), "store": store, "report": report}
            function(**{name: values[name] for name in parameters}).to_csv(folder / TABLE, index=False)

        def source(self: Run) -> str:
            if "_source" not in vars(self):  # kept, because a worker process cannot look it up
                vars(self)["_source"] = _source_of(function)
            return str(vars(self)["_source"])

        namespace: dict[str, Any] = {
            "__doc__": function.__doc__,
            "compute": compute,
            "work": property(work),
            "memory": property(memory),
            "accelerated": accelerated,
            "memory_advice": advice,
            "schema": schema,
        }
        if function.__module__ == "__main__" or function.__module__ not in sys.modules:
            namespace["cell_source"] = property(source)
        run_class = make_dataclass(kind, fields, bases=(Tabled,), namespace=namespace, frozen=True)
        run_class.__module__, run_class.__qualname__ = function.__module__, function.__name__  # for pickle
        return run_class

    return decorate


def _source_of(function: Callable[..., Any]) -> str:
    """Hash of a function's source, and of the functions and plain values that it names in its module."""
    found: dict[str, str] = {}
    pending: list[tuple[str, Any]] = [(function.__name__, function)]
    while pending:
        name, value = pending.pop()
        if inspect.isfunction(value) and value.__module__ == function.__module__ and name not in found:
            found[name] = inspect.getsource(value)
            pending += [(other, value.__globals__.get(other)) for other in _names(value.__code__)]
        elif isinstance(value, str | int | float | tuple):
            found[name] = repr(value)
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]


def _names(code: CodeType) -> set[str]:
    """Names that code reads, in functions and comprehensions within it too."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)
