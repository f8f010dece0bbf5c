"""A page of the book as its study declares it, and at work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pandas as pd

from sameloss.device import use_device
from sameloss.store.location import default_artifacts
from sameloss.store.store import Run, Store
from sameloss.studies.parameters import OF_EVERY_PAGE, Config, Parameter, checked, choose
from sameloss.studies.recorded import recorded_tables, records
from sameloss.studies.statement import Statement, statement_table
from sameloss.studies.verdict import Source, Topic, side_by_side, verdict_table

C = TypeVar("C", bound=Config)


@dataclass
class Page(Generic[C]):
    """A page at work: what was asked of it, and where results are kept.

    A study's own pages add what their chapters read.
    """

    topics: ClassVar[Sequence[Topic]] = ()  # the questions that its claims are about
    exact: ClassVar[Mapping[str, Statement]] = {}  # its lemmas and theorems, by name

    name: str
    config: C
    store: Store
    parameters: Mapping[str, Parameter] = field(default_factory=dict, kw_only=True)  # what a reader can set
    presets: Mapping[str, C] = field(default_factory=dict, kw_only=True)  # of its study

    def runs(self) -> list[Run]:
        """Return all runs that the page reads; they are computed before it begins."""
        return []

    def parts(self) -> dict[str, list[Run]]:
        """Return the runs by name, in parts that a record computes one after the other."""
        return {self.name: self.runs()}

    @property
    def about(self) -> str:
        """Return what the page was asked for, in a few words."""
        return f"preset {self.config.name}"

    @property
    def seeds(self) -> int | None:
        """Return the number of seeds behind its numbers; None: no number of them says how strong they are."""
        return getattr(self.config, "seeds", None)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return what claims are judged by, which is what a record keeps; see `Plan.recorded`."""
        return {}

    def read(self, tables: Mapping[str, pd.DataFrame], config: C) -> Any:
        """Return the results that tables hold, of this page or of a record."""
        return tables

    @cached_property
    def results(self) -> Any:
        """Return what the page's runs found."""
        return self.read(self.tables(), self.config)

    def recorded(self, preset: str) -> Any:
        """Return what the record of a preset found."""
        return self.read(recorded_tables(preset, self.name), self.presets[preset])

    def verdicts(self) -> pd.DataFrame:
        """Return paper beside ours, one row a claim of this page: see `verdict.verdict_table`."""
        return self._judged(self.results) if self.topics else pd.DataFrame()

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """Return the page's verdicts, and those of every record, judged alike: see `side_by_side`."""
        of_records = {
            Source(preset, origin["seeds"], True): self._judged(self.recorded(preset))
            for preset, origin in records(self.name).items()
        }
        return side_by_side({Source(self.config.name, self.seeds): verdicts, **of_records})

    def _judged(self, results: Any) -> pd.DataFrame:
        return verdict_table(self.topics, results, getattr(self.config, "tolerance", None))

    @property
    def checks(self) -> pd.DataFrame:
        """Return every number that was computed for its statements: see `statement.check_table`."""
        return pd.DataFrame()

    def statements(self) -> pd.DataFrame:
        """Return the lemmas and theorems of this page, judged: see `statement.statement_table`."""
        return statement_table(self.exact, self.checks) if self.exact else pd.DataFrame()


@dataclass(frozen=True)
class Plan(Generic[C]):
    """A page as its study declares it."""

    page: Callable[[str, C, Store], Page[C]]  # makes the page from its name, its configuration and the store
    parameters: str = ""  # names, in the order of the parameters cell; all of the configuration where empty
    defaults: Mapping[str, Any] = field(default_factory=dict)  # in the cell, where they are not None
    recorded: bool = False  # whether `results/` may hold its tables at longer presets


@dataclass(frozen=True)
class Study(Generic[C]):
    """One study: its presets, and its pages."""

    presets: Mapping[str, C]
    plans: Mapping[str, Plan[C]]
    preset_of: Callable[[Mapping[str, Any]], str] = lambda values: "laptop"  # where `preset` is auto
    parameters: Mapping[str, Parameter] = field(default_factory=dict)  # beside those of the configuration
    finished: Callable[[C, Mapping[str, Any]], C] = lambda config, values: config
    """Puts in what they ask for, and refuses combinations that cannot be."""

    def table(self, page: str) -> dict[str, Parameter]:
        """Return the parameters of a page, with the defaults that they have there."""
        plan, config = self.plans[page], type(self.presets["laptop"])
        preset = {"preset": OF_EVERY_PAGE["preset"]}  # which stands first in a cell
        known = {**preset, **config.parameters(), **OF_EVERY_PAGE, **self.parameters}
        chosen = {name: known[name] for name in plan.parameters.split() or known}
        return {n: replace(p, default=plan.defaults.get(n, p.default)) for n, p in chosen.items()}

    def open(self, page: str, given: Mapping[str, Any]) -> Page[C]:
        """Check a page's parameters, choose the device, and return the page.

        Args:
            page: its name.
            given: parameters by name; those that are missing have their defaults.

        Raises:
            ParameterError: in one sentence, with what is valid.
            StoreError: where the artifacts folder cannot be written.

        """
        values = checked(self.table(page), given)
        use_device(values.get("device", "auto"))
        root = Path(values.get("artifacts") or default_artifacts())
        return self.page(page, values, Store(root, recorded=True))

    def page(self, name: str, values: Mapping[str, Any], store: Store) -> Page[C]:
        """Return a page at checked parameters, on a store."""
        page = self.plans[name].page(name, self.resolve(values), store)
        page.parameters, page.presets = self.table(name), self.presets
        return page

    def resolve(self, values: Mapping[str, Any]) -> C:
        """Return the configuration that checked parameters ask for.

        Raises:
            ParameterError: in one sentence, with what is valid.

        """
        name = values.get("preset", "auto")
        name = self.preset_of(values) if name == "auto" else choose("preset", name, self.presets)
        return self.finished(self.presets[name].resolve(values), values)
