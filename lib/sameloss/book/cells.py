"""Experiments that stand in the cells of a chapter.

Cells tagged `experiment` say what is run: the presets, and the sweeps. Cells tagged `comparison` compute from
their tables what claims are judged by. Other pages open both from the chapter's py:percent twin, at any
preset.
"""

import re
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from sameloss.book.chapter import begun, given_parameters
from sameloss.book.page import SEEDS, Chapter, Values, no_checks
from sameloss.book.run import PARAMETERS, cells, named
from sameloss.device import usable_workers, use_device
from sameloss.errors import ParameterError
from sameloss.store.location import HOME, book_root, default_artifacts, source_checkout
from sameloss.store.record import kept_runs
from sameloss.store.store import Store
from sameloss.studies.parameters import LIMITS, OF_EVERY_PAGE, Parameter, checked, choose
from sameloss.studies.statement import Statement
from sameloss.studies.verdict import Topic

EXPERIMENT, COMPARISON = "experiment", "comparison"
"""Tags of cells."""

LINE = re.compile(r"(\w+): ([\w\[\]]+) = (\S+)  # (.*)")
KINDS = {"str": str, "int": int, "float": float, "list[int]": list[int], "list[float]": list[float],
         "list[str]": list[str]}  # fmt: skip

HOW = ("preset", "max_hours", "workers", "processes", "device", "artifacts")
"""Parameters that say how runs are computed, and not which."""

EXAMPLES = {**dict.fromkeys(SEEDS, "5"), "sentences": "5000"}
"""Values for the command at the end of a page."""


def parameter_table(
    cell: str, presets: Mapping[str, Values], bounds: Mapping[str, tuple[float, float]]
) -> dict[str, Parameter]:
    """Parameters by name, from the source of a parameters cell."""
    table = {}
    for name, kind, default, text in LINE.findall(cell):
        known = OF_EVERY_PAGE.get(name) or Parameter(text, KINDS[kind] | None)
        least, most = bounds.get(name) or LIMITS.get(name) or (known.least, known.most)
        known = replace(known, least=least, most=most, may_be_zero=name in bounds and least == 0)
        example = EXAMPLES.get(name, "")
        table[name] = replace(known, text=text, default=literal_eval(default), example=example)
    return {n: replace(p, choices=("auto", *presets)) if n == "preset" else p for n, p in table.items()}


# Cells of twins


@dataclass(frozen=True)
class Opening:
    """How a twin's cells are executed for another page; `begin` finds it in their namespace."""

    given: Values
    store: Store | None
    cell: str  # the parameters cell
    listing: bool


def twins() -> dict[str, Path]:
    """The py:percent twins of chapters, by name: of the book, or else of the checkout with this library."""
    books = [root / "chapters" for root in (book_root(), source_checkout()) if root]
    return next((found for book in books if (found := {p.stem: p for p in sorted(book.glob("*.py"))})), {})


def twin(name: str) -> Path:
    """The twin of a chapter.

    Raises:
        ParameterError: if there is none, with those that there are.

    """
    if not (paths := twins()):
        raise ParameterError(f"No book was found, whose {name} this reads; set {HOME} to the book's folder.")
    return paths[choose("page", name, paths)]


def begin(
    namespace: dict[str, Any], name: str, presets: Mapping[str, Values],
    bounds: Mapping[str, tuple[float, float]] = MappingProxyType({}), *, topics: Sequence[Topic] = (),
    exact: Mapping[str, Statement] = MappingProxyType({}), check: Callable[[Any], pd.DataFrame] = no_checks,
    record: str = "", auto: Callable[[Values], str] = lambda values: "laptop",
) -> Chapter:  # fmt: skip
    """Begin a chapter: check its parameters, and take those that are None from its preset.

    Args:
        namespace: the notebook's `globals()`.
        name: of the chapter.
        presets: values of parameters, and of what else they fix, by name of the preset.
        bounds: least and largest values of numbers; others are positive.
        topics: claims that its results are judged by.
        exact: its lemmas and theorems.
        check: computes the checks of these from its results.
        record: the longer preset whose runs are recorded.
        auto: the preset that other parameters imply.

    Raises:
        ParameterError: in one sentence, with what is valid.
        StoreError: if the artifacts folder cannot be written.

    """
    opening: Opening | None = namespace.get("_opening")
    cell = opening.cell if opening else _parameters_cell(namespace, name)
    table = parameter_table(cell, presets, bounds)
    values = checked(table, opening.given if opening else given_parameters(namespace, table))
    store = opening.store if opening else None
    if store is None:
        use_device(values["device"])
        store = Store(Path(values["artifacts"] or default_artifacts()), kept_runs())
    preset = auto(values) if values["preset"] == "auto" else choose("preset", values["preset"], presets)
    given = {n: value for n, value in values.items() if value is not None}
    own = {n: value for n, value in given.items() if n not in HOW and value != table[n].default}
    values = {**values, **presets[preset], **given, "preset": preset}
    if values.get("processes") and not values["workers"]:
        values["workers"] = _beside(values["processes"])
    page = Chapter(
        name, values, store, table, own, tuple(presets), topics, exact, check, record, partial(opened, name)
    )
    if opening:
        page.listing, page.on_its_own = opening.listing, False
    else:
        begun(store)
    return page


def _beside(processes: int) -> int:
    """Trainings at once that share the cores, each in several processes."""
    return max(1, usable_workers() // processes)


def _parameters_cell(namespace: Values, name: str) -> str:
    """Source of the parameters cell: of this notebook, or else of the chapter's twin."""
    for source in namespace.get("In", ()):
        if re.search(r"^preset: ", source, re.MULTILINE):
            return str(source)
    return _parameters_of(twin(name))


def _parameters_of(path: Path) -> str:
    return next(source for source, tags in cells(path.read_text("utf-8")) if PARAMETERS in tags)


def opened(name: str, given: Values, store: Store | None = None, *, compared: bool = False) -> Chapter:
    """Open a chapter by executing the experiment's cells of its twin.

    Args:
        name: of the chapter.
        given: parameters by name; others have their defaults.
        store: None: the one of the parameter `artifacts`, on the device of the parameter `device`.
        compared: whether runs are computed and compared, not only listed.

    Raises:
        ParameterError: for an unknown chapter or value, and if no comparison cell sets `page.results`.

    """
    path = twin(name)
    opening = Opening(given, store, _parameters_of(path), listing=not compared)
    namespace: dict[str, Any] = {"__name__": name, "_opening": opening}
    for source, tags in cells(path.read_text("utf-8")):
        if EXPERIMENT in tags or (compared and COMPARISON in tags):
            exec(compile(source, named(source), "exec"), namespace)
    page: Chapter = namespace["page"]
    if compared and "results" not in vars(page):
        raise ParameterError(f"No cell of {path.name} that is tagged {COMPARISON} sets page.results.")
    return page


NOWHERE = Store.__new__(Store)
"""In place of a store, of a chapter that is opened for its parameters alone."""


def declared(name: str) -> Chapter:
    """A chapter as its cells declare it: its parameters, presets, claims, and runs by default."""
    return _declared(name, twin(name))


@cache
def _declared(name: str, path: Path) -> Chapter:
    return opened(name, {}, NOWHERE)
