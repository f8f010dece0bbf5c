"""A page of the book as its study declares it, and at work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from sameloss.device import use_device
from sameloss.store.location import default_artifacts
from sameloss.store.store import Run, Store
from sameloss.studies.evidence import Source, side_by_side
from sameloss.studies.parameters import Parameter, Settings, applied, checked, choose
from sameloss.studies.verdict import Topic

S = TypeVar("S", bound=Settings)


@dataclass
class Page(Generic[S]):
    """A page at work: what was asked of it, and where results are kept.

    A study's own pages add what their chapters read.
    """

    name: str
    settings: S
    store: Store

    def runs(self) -> list[Run]:
        """Return all runs that the page reads; they are computed before it begins."""
        return []

    def parts(self) -> dict[str, list[Run]]:
        """Return the runs by name, in parts that a record computes one after the other."""
        return {self.name: self.runs()}

    @property
    def about(self) -> str:
        """Return what the page was asked for, in a few words."""
        return f"preset {self.settings.name}"

    def verdicts(self) -> pd.DataFrame:
        """Return paper beside ours, one row a claim of this page: see `verdict.verdict_table`."""
        return pd.DataFrame()

    @property
    def topics(self) -> Sequence[Topic[Any]]:
        """Return the questions that the study's claims are about."""
        return ()

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """Return verdicts of this page, and of recorded runs where there are any: see `side_by_side`."""
        return side_by_side({Source(self.settings.name): verdicts})

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
class Plan(Generic[S]):
    """A page as its study declares it."""

    parameters: tuple[str, ...]  # names in the study's table, in the order of the parameters cell
    page: Callable[[str, S, Store], Page[S]]  # makes the page from its name, its settings and the store
    defaults: Mapping[str, Any] = field(default_factory=dict)  # where they are not the table's
    recorded: bool = False  # whether `results/` may hold its tables at longer presets


@dataclass(frozen=True)
class Study(Generic[S]):
    """One study: its presets, what its pages may set, and its pages."""

    presets: Mapping[str, S]
    parameters: Mapping[str, Parameter]
    plans: Mapping[str, Plan[S]]
    preset_of: Callable[[Mapping[str, Any]], str] = lambda values: "laptop"  # where `preset` is auto
    finished: Callable[[S, Mapping[str, Any]], S] = lambda settings, values: settings
    """Puts in what no path in the table does, and refuses combinations that cannot be."""

    def table(self, page: str) -> dict[str, Parameter]:
        """Return the parameters of a page, with the defaults that they have there."""
        plan = self.plans[page]
        chosen = {name: self.parameters[name] for name in plan.parameters}
        return {n: replace(p, default=plan.defaults.get(n, p.default)) for n, p in chosen.items()}

    def open(self, page: str, given: Mapping[str, Any]) -> Page[S]:
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
        settings = self.resolve(values)
        root = Path(values.get("artifacts") or default_artifacts())
        return self.plans[page].page(page, settings, Store(root, recorded=True))

    def resolve(self, values: Mapping[str, Any]) -> S:
        """Return the settings that checked parameters ask for.

        Raises:
            ParameterError: in one sentence, with what is valid.

        """
        name = values.get("preset", "auto")
        name = self.preset_of(values) if name == "auto" else choose("preset", name, self.presets)
        return self.finished(applied(self.presets[name], self.parameters, values), values)
