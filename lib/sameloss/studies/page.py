"""A page of the book as its study declares it, and at work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from sameloss.device import use_device
from sameloss.store.location import default_artifacts
from sameloss.store.store import Run, Store
from sameloss.studies.config import Config
from sameloss.studies.evidence import Source, side_by_side
from sameloss.studies.parameters import OF_EVERY_PAGE, Parameter, checked, choose
from sameloss.studies.verdict import Topic

C = TypeVar("C", bound=Config)


@dataclass
class Page(Generic[C]):
    """A page at work: what was asked of it, and where results are kept.

    A study's own pages add what their chapters read.
    """

    name: str
    config: C
    store: Store
    parameters: Mapping[str, Parameter] = field(default_factory=dict, kw_only=True)  # what a reader can set

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

    def verdicts(self) -> pd.DataFrame:
        """Return paper beside ours, one row a claim of this page: see `verdict.verdict_table`."""
        return pd.DataFrame()

    @property
    def topics(self) -> Sequence[Topic[Any]]:
        """Return the questions that the study's claims are about."""
        return ()

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """Return verdicts of this page, and of recorded runs where there are any: see `side_by_side`."""
        return side_by_side({Source(self.config.name): verdicts})

    @property
    def seeds(self) -> int | None:
        """Return the number of seeds behind its numbers; None: no number of them says how strong they are."""
        return None

    def record_tables(self) -> dict[str, pd.DataFrame]:
        """Return what a record of this page keeps; see `Plan.recorded`."""
        return {}

    def statements(self) -> pd.DataFrame:
        """Return the lemmas and theorems of this page, judged: see `statement.statement_table`."""
        return pd.DataFrame()


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
        table = self.table(page)
        values = checked(table, given)
        use_device(values.get("device", "auto"))
        config = self.resolve(values)
        root = Path(values.get("artifacts") or default_artifacts())
        opened = self.plans[page].page(page, config, Store(root, recorded=True))
        opened.parameters = table
        return opened

    def resolve(self, values: Mapping[str, Any]) -> C:
        """Return the configuration that checked parameters ask for.

        Raises:
            ParameterError: in one sentence, with what is valid.

        """
        name = values.get("preset", "auto")
        name = self.preset_of(values) if name == "auto" else choose("preset", name, self.presets)
        return self.finished(self.presets[name].resolve(values), values)
