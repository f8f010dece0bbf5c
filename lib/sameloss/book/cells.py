"""Experiments that stand in the cells of a chapter.

Cells tagged `experiment` say what is run: the presets, and the sweeps. Cells tagged `comparison` compute from
their tables what claims are judged by. Other pages open both from the chapter's py:percent twin, at any
preset.
"""

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from inspect import signature
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from sameloss.book.chapter import begun, given_parameters
from sameloss.book.costs import announce
from sameloss.book.run import PARAMETERS, cells
from sameloss.device import use_device
from sameloss.errors import ParameterError
from sameloss.store.location import book_root, default_artifacts, source_checkout
from sameloss.store.pool import compute_all
from sameloss.store.provenance import sealed
from sameloss.store.record import Record, kept_runs
from sameloss.store.store import Run, Store
from sameloss.studies.page import Page, PageSpec, Study
from sameloss.studies.parameters import OF_EVERY_PAGE, Config, Parameter, checked, choose
from sameloss.studies.statement import Statement
from sameloss.studies.verdict import Topic

EXPERIMENT, COMPARISON = "experiment", "comparison"
"""Tags of cells."""

SEEDS = ("seeds", "stacks")
"""Parameters that count repetitions."""

Values = Mapping[str, Any]
"""Parameters by name."""


@dataclass
class Chapter(Page[Config]):
    """A chapter with its parameters as attributes, its sweeps, and what its claims are judged by."""

    values: Values = field(default_factory=dict)
    listing: bool = False  # whether sweeps only list their runs
    on_its_own: bool = True  # whether this is its notebook, not another page that opened it
    swept: list[Run] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(f"{self.__dict__.get('name')} has no parameter {name!r}") from None

    @property
    def seeds(self) -> int | None:
        return next((self.values[name] for name in SEEDS if name in self.values), None)

    @property
    def tolerance(self) -> float | None:
        return self.values.get("tolerance")

    def sweep(
        self, run_of: Callable[..., Run], points: Iterable[Sequence[Any]] | None = None,
        **grid: Mapping[str, Any] | Iterable[Any],
    ) -> Any:  # fmt: skip
        """Compute a run for every combination of values, in parallel, and join their tables.

        Args:
            run_of: makes the run of one combination.
            points: combinations of its arguments; None: all of the grid.
            grid: values for each argument of `run_of`; names instead of values are in the table where a
                mapping gives them.

        Returns:
            One table, with a column for each argument; a dictionary of such tables if runs have several.

        Raises:
            ParameterError: above `max_hours`, or for a run that needs more memory than there is.

        """
        named = [v.items() if isinstance(v, Mapping) else [(x, x) for x in v] for v in grid.values()]
        combined = product(*named) if points is None else ([(x, x) for x in point] for point in points)
        names = list(grid) or list(signature(run_of).parameters)
        described = [dict(zip(names, point, strict=True)) for point in combined]
        runs = [run_of(**{name: value for name, (_, value) in point.items()}) for point in described]
        results = self.compute(*runs)
        if self.listing:
            return None
        columns = [{name: label for name, (label, _) in point.items()} for point in described]
        return _joined(results, columns)

    def compute(self, *runs: Run) -> list[Any]:
        """Compute runs in parallel, and return their results; see `sweep`."""
        self.swept += runs
        if self.listing:
            return [None] * len(runs)
        cost = announce(self, runs)
        if self.on_its_own:
            print(cost)
        compute_all(self.store, list(runs), self.config.workers)
        return list(map(self.store.get, runs))

    def runs(self) -> list[Run]:
        return self.swept

    @cached_property
    def results(self) -> Any:
        """What a comparison cell has set; computed from the chapter's twin on other pages."""
        given = {name: self.values[name] for name in self.parameters}
        return opened(self.name, given, self.store, (EXPERIMENT, COMPARISON)).results

    def of_record(self, preset: str) -> "Chapter":
        return opened(self.name, {"preset": preset}, kept_runs())

    # Two pages have sealed tables as their record, computed in five core-hours before runs were kept. When
    # `make record` has computed their runs at `laptop-long`, the following and the tables can go.

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Sealed tables in place of the runs of a record; otherwise none."""
        origin = self._origin(self.config.name)
        if not (isinstance(self.store, Record) and origin.exists()):
            return {}
        return {Path(name).stem: pd.read_csv(origin.with_name(name)) for name in sealed(origin)["files"]}

    def records(self) -> dict[str, dict[str, Any]]:
        origin = self._origin(self.record)
        return {self.record: sealed(origin)} if origin.exists() else super().records()

    def _origin(self, preset: str) -> Path:
        return kept_runs().root.parent / preset / self.name / "record.json"


def _joined(results: Sequence[Any], columns: Sequence[Values]) -> Any:
    if isinstance(results[0], Mapping):
        return {name: _joined([result[name] for result in results], columns) for name in results[0]}
    tables = [table.assign(**of_run) for table, of_run in zip(results, columns, strict=True)]
    return pd.concat(tables, ignore_index=True)


# Opening


LINE = re.compile(r"(\w+): ([\w\[\]]+) = (\S+)  # (.*)")
KINDS = {"str": str, "int": int, "float": float, "list[int]": list[int], "list[float]": list[float],
         "list[str]": list[str]}  # fmt: skip


def parameter_table(
    cell: str, presets: Mapping[str, Values], bounds: Mapping[str, tuple[float, float]]
) -> dict[str, Parameter]:
    """Parameters by name, from the source of a parameters cell."""
    table = {}
    for name, kind, default, text in LINE.findall(cell):
        known = OF_EVERY_PAGE.get(name) or Parameter(text, KINDS[kind] | None)
        least, most = bounds.get(name, (known.least, known.most))
        known = replace(known, least=least, most=most, may_be_zero=name in bounds and least == 0)
        example = "5" if name in SEEDS else ""
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


def begin(
    namespace: dict[str, Any], name: str, presets: Mapping[str, Values],
    bounds: Mapping[str, tuple[float, float]] = MappingProxyType({}), *, topics: Sequence[Topic] = (),
    exact: Mapping[str, Statement] = MappingProxyType({}), check: Callable[[Any], pd.DataFrame] | None = None,
    record: str = "",
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
    preset = "laptop" if values["preset"] == "auto" else choose("preset", values["preset"], presets)
    given = {n: value for n, value in values.items() if value is not None}
    values = {**values, **presets[preset], **given}
    config, configs = Config(preset, values["max_hours"], values["workers"]), {n: Config(n) for n in presets}
    page = Chapter(name, config, store, parameters=table, presets=configs, record=record, values=values)
    if opening:
        page.listing, page.on_its_own = opening.listing or bool(page.tables), False
    else:
        begun(store)
    vars(page).update(topics=topics, exact=exact, **({"check": check} if check else {}))
    return page


def _parameters_cell(namespace: Values, name: str) -> str:
    """Source of the parameters cell: of this notebook, or else of the chapter's twin."""
    for source in namespace.get("In", ()):
        if re.search(r"^preset: ", source, re.MULTILINE):
            return str(source)
    return _parameters_of(twins()[name])


def _parameters_of(twin: Path) -> str:
    return next(source for source, tags in cells(twin.read_text("utf-8")) if PARAMETERS in tags)


def opened(
    name: str, given: Values, store: Store | None = None, tags: Iterable[str] = (EXPERIMENT,)
) -> Chapter:
    """Open a chapter by executing the cells of its twin that have one of the tags.

    With comparison cells its sweeps are computed, without them only listed.

    Raises:
        ParameterError: if no comparison cell sets `page.results`.

    """
    path, wanted = twins()[name], set(tags)
    opening = Opening(given, store, _parameters_of(path), listing=COMPARISON not in wanted)
    namespace: dict[str, Any] = {"__name__": name, "_opening": opening}
    for source, of_cell in cells(path.read_text("utf-8")):
        if of_cell & wanted:
            exec(compile(source, path.name, "exec"), namespace)
    page: Chapter = namespace["page"]
    if COMPARISON in wanted and "results" not in vars(page):
        raise ParameterError(f"No cell of {path.name} that is tagged {COMPARISON} sets page.results.")
    return page


class ChapterStudy(Study[Config]):
    """A chapter whose experiment stands in its cells, as a study of one page."""

    def table(self, page: str) -> dict[str, Parameter]:
        return dict(opened(page, {}, NOWHERE).parameters)

    def open(self, name: str, given: Values, store: Store | None = None) -> Page[Config]:
        return opened(name, given, store)


NOWHERE = Store.__new__(Store)
"""In place of a store, of a chapter that is opened for its parameters alone."""


def studies_in_cells() -> dict[str, ChapterStudy]:
    """The chapters whose experiment stands in their cells, by name."""
    return {name: found for name, path in twins().items() if (found := _study_in(name, path))}


@cache
def _study_in(name: str, path: Path) -> ChapterStudy | None:
    if not any(EXPERIMENT in tags for _, tags in cells(path.read_text("utf-8"))):
        return None
    page = opened(name, {}, NOWHERE)
    return ChapterStudy(page.presets, {name: PageSpec(Chapter, record=page.record)})
