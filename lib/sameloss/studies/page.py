"""Studies, and the pages that they declare and open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pandas as pd

from sameloss.device import use_device
from sameloss.store.location import default_artifacts
from sameloss.store.provenance import origin_of, record_in_words
from sameloss.store.record import kept_runs
from sameloss.store.store import Run, Store
from sameloss.studies.parameters import OF_EVERY_PAGE, Config, Parameter, checked, choose
from sameloss.studies.statement import Statement, statement_table
from sameloss.studies.verdict import Source, Topic, side_by_side, verdict_table

C = TypeVar("C", bound=Config)


@dataclass
class Page(Generic[C]):
    """An open page: its configuration, its store, and what its claims and statements are judged by.

    Each study's pages add what their chapters read.
    """

    topics: ClassVar[Sequence[Topic]] = ()  # its claims, by question
    exact: ClassVar[Mapping[str, Statement]] = {}  # its lemmas and theorems, by name

    name: str
    config: C
    store: Store
    parameters: Mapping[str, Parameter] = field(default_factory=dict, kw_only=True)  # that a reader can set
    presets: Mapping[str, C] = field(default_factory=dict, kw_only=True)  # of its study
    record: str = field(default="", kw_only=True)  # the preset that is recorded; see `PageSpec`

    def runs(self) -> list[Run]:
        """All runs that the page reads; computed before it begins."""
        return []

    def parts(self) -> dict[str, list[Run]]:
        """The runs in named parts, which a record computes one after the other."""
        return {self.name: self.runs()}

    @property
    def about(self) -> str:
        """Short description of the configuration."""
        return f"preset {self.config.name}"

    @property
    def seeds(self) -> int | None:
        """Number of seeds behind its numbers; None if not applicable."""
        return getattr(self.config, "seeds", None)

    @property
    def tolerance(self) -> float | None:
        """Tolerance of all its verdicts; None: each claim's own."""
        return getattr(self.config, "tolerance", None)

    @cached_property
    def results(self) -> Any:
        """What its claims and statements are judged by: results of the page's own runs."""
        return None

    def of_record(self, preset: str) -> "Page[C]":
        """The same page at a preset, with the runs of the record alone."""
        return replace(self, config=self.presets[preset], store=kept_runs())

    def recorded(self, preset: str) -> Any:
        """Results from the recorded runs of a preset."""
        return self.of_record(preset).results

    def records(self) -> dict[str, dict[str, Any]]:
        """Provenance of the page's record, by preset; empty if the record lacks one of its runs."""
        page = self.of_record(self.record) if self.record else None
        if page is None or not all(map(page.store.has, page.runs())):
            return {}
        return {self.record: origin_of(page.store, page.runs()) | {"seeds": page.seeds}}

    def record_in_words(self, preset: str) -> str:
        """Provenance of the record of a preset in one line."""
        return record_in_words(preset, self.records()[preset])

    def verdicts(self) -> pd.DataFrame:
        """One row per claim of this page: see `verdict.verdict_table`."""
        return self._judged(self.results) if self.topics else pd.DataFrame()

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """The page's verdicts beside those of its record: see `side_by_side`."""
        of_records = {
            Source(preset, origin["seeds"], True): self._judged(self.recorded(preset))
            for preset, origin in self.records().items()
        }
        return side_by_side({Source(self.config.name, self.seeds): verdicts, **of_records})

    def _judged(self, results: Any) -> pd.DataFrame:
        return verdict_table(self.topics, results, self.tolerance)

    @staticmethod
    def check(results: Any, /) -> pd.DataFrame:
        """Compute `checks` from results."""
        return pd.DataFrame()

    @cached_property
    def checks(self) -> pd.DataFrame:
        """All numbers computed for its statements: see `statement.check_table`."""
        return self.check(self.results)

    def statements(self) -> pd.DataFrame:
        """Judgements of its lemmas and theorems: see `statement.statement_table`."""
        return statement_table(self.exact, self.checks) if self.exact else pd.DataFrame()


LAST = "max_hours workers device artifacts"
"""Parameters at the end of most parameters cells."""


@dataclass(frozen=True)
class PageSpec(Generic[C]):
    """A page as its study declares it."""

    page: Callable[[str, C, Store], Page[C]]  # from name, configuration and store
    parameters: str = ""  # names in the order of the parameters cell; empty: all of the configuration
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of parameters in the cell, instead of None
    record: str = ""  # the longer preset that `results/runs` has, which pages show beside their own runs


@dataclass(frozen=True)
class Study(Generic[C]):
    """A study: its presets and pages."""

    presets: Mapping[str, C]
    specs: Mapping[str, PageSpec[C]]
    preset_of: Callable[[Mapping[str, Any]], str] = lambda values: "laptop"  # for `preset = auto`
    parameters: Mapping[str, Parameter] = field(default_factory=dict)  # besides those of the configuration
    apply: Callable[[C, Mapping[str, Any]], C] = lambda config, values: config
    """Applies `parameters` to the configuration; refuses impossible combinations."""

    def table(self, page: str) -> dict[str, Parameter]:
        """Parameters of a page, with its defaults."""
        spec, config = self.specs[page], type(self.presets["laptop"])
        preset = {"preset": OF_EVERY_PAGE["preset"]}  # first in the cell
        known = {**preset, **config.parameters(), **OF_EVERY_PAGE, **self.parameters}
        chosen = {name: known[name] for name in spec.parameters.split() or known}
        return {n: replace(p, default=spec.defaults.get(n, p.default)) for n, p in chosen.items()}

    def open(self, name: str, given: Mapping[str, Any], store: Store | None = None) -> Page[C]:
        """Open a page: check parameters, choose and change a preset.

        Args:
            name: of the page.
            given: parameters by name; others have their defaults.
            store: None: the one of the parameter `artifacts`, on the device of the parameter `device`.

        Raises:
            ParameterError: in one sentence, with what is valid.
            StoreError: if the artifacts folder cannot be written.

        """
        table = self.table(name)
        values = checked(table, given)
        if store is None:
            use_device(values.get("device", "auto"))
            store = Store(Path(values.get("artifacts") or default_artifacts()), kept_runs())
        preset = values.get("preset", "auto")
        preset = self.preset_of(values) if preset == "auto" else choose("preset", preset, self.presets)
        config = self.apply(self.presets[preset].resolve(values), values)
        page = self.specs[name].page(name, config, store)
        page.parameters, page.presets, page.record = table, self.presets, self.specs[name].record
        return page
