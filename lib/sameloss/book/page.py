"""A chapter: its parameters, its runs, and what its claims and statements are judged by."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from itertools import product
from typing import Any

import pandas as pd

from sameloss.book.costs import estimate
from sameloss.errors import ParameterError
from sameloss.runs.stage import stacked
from sameloss.store.pool import compute_all
from sameloss.store.provenance import origin_of, record_in_words
from sameloss.store.record import Record, kept_runs
from sameloss.store.store import Run, Store
from sameloss.studies.parameters import MAX_HOURS, Parameter
from sameloss.studies.statement import Statement, statement_table
from sameloss.studies.verdict import Source, Topic, side_by_side, verdict_table

SEEDS = ("seeds", "stacks")
"""Parameters that count repetitions."""

Values = Mapping[str, Any]
"""Parameters by name."""


def no_checks(results: Any) -> pd.DataFrame:
    """Compute the checks of a chapter without statements."""
    return pd.DataFrame()


@dataclass
class Chapter:
    """A chapter with its parameters as attributes, its runs, and what it is judged by."""

    name: str
    values: Values  # of its parameters, and of what else its preset fixes
    store: Store
    parameters: Mapping[str, Parameter] = field(default_factory=dict)  # that a reader can set
    own: Values = field(default_factory=dict)  # what the reader has set of its runs
    presets: Collection[str] = ()
    claims: Sequence[Topic] = ()  # all, by question
    exact: Mapping[str, Statement] = field(default_factory=dict)  # its lemmas and theorems, by name
    check: Callable[[Any], pd.DataFrame] = no_checks  # computes the checks of these from its results
    record: str = ""  # the longer preset whose runs are recorded
    reopened: Callable[..., "Chapter"] = field(default=NotImplemented, repr=False)  # see `cells.opened`
    listing: bool = False  # whether runs are only listed
    on_its_own: bool = True  # whether this is its notebook, not another page that opened it
    listed: list[Run] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(f"{self.__dict__.get('name')} has no parameter {name!r}") from None

    @cached_property
    def about(self) -> str:
        """Short description of what is run, which a cell may set."""
        return f"preset {self.preset}"

    @property
    def given(self) -> dict[str, Any]:
        """The values of its parameters."""
        return {name: self.values[name] for name in self.parameters}

    @property
    def topics(self) -> list[Topic]:
        """Its claims, by question, without those about data and models of other presets."""
        return [topic for topic in self.claims if not topic.presets or self.preset in topic.presets]

    @property
    def seeds(self) -> int | None:
        """Number of seeds behind its numbers; None if not applicable."""
        return next((self.values[name] for name in SEEDS if name in self.values), None)

    @property
    def tolerance(self) -> float | None:
        """Tolerance of all its verdicts; None: each claim's own."""
        return self.values.get("tolerance")

    # Its runs.

    def sweep(
        self, run_of: Callable[..., Run], points: Iterable[Sequence[Any]] | None = None, **grid: Any
    ) -> Any:
        """Compute a run for every combination of values, in parallel, and join their tables.

        Args:
            run_of: makes the run of one combination.
            points: combinations of its arguments; None: all of the grid.
            grid: a list of values for each argument of `run_of`; names instead of values are in the table
                where a mapping gives them.

        Returns:
            One table, with a column for each argument; a dictionary of such tables if runs have several.

        Raises:
            ParameterError: above `max_hours`, or for a run that needs more memory than there is.

        """
        for name, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise ParameterError(f"A sweep takes lists: {name} = [{values!r}].")
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
        self.prepare(runs)
        return [None] * len(runs) if self.listing else list(map(self.store.get, runs))

    def stack(self, runs: Sequence[Run]) -> Any:
        """Compute runs whose results are tables, and stack these: see `runs.stage.stacked`."""
        self.prepare(runs)
        return None if self.listing else stacked(self.store, runs)

    def prepare(self, runs: Sequence[Run]) -> None:
        """Compute runs in parallel, and load none; see `sweep`."""
        self.listed += runs
        if self.listing:
            return
        if isinstance(self.store, Record):  # which computes nothing
            for run in runs:
                self.store.compute(run)
            return
        cost = self.announce(runs)
        if self.on_its_own:
            print(cost)
        compute_all(self.store, list(runs), self.workers)

    def announce(self, runs: Iterable[Run] | None = None, store: Store | None = None) -> str:
        """Estimate the cost of missing runs, by default all of its own; see `costs.estimate`."""
        limit, runs = self.max_hours or MAX_HOURS[self.preset], self.runs() if runs is None else runs
        return estimate(self.about, store or self.store, runs, limit, self.workers)

    def with_weights(self, training: Run) -> Any:
        """Return the checkpoints of a training, made again if only its record is left; see `sweep`."""
        complete = self.store.complete
        if complete.missing([training]):
            print(self.announce([training], complete))
        return complete.get(training)

    def runs(self) -> list[Run]:
        """All runs that it has computed, or listed."""
        return self.listed

    # What they say, and its claims and statements.

    @cached_property
    def results(self) -> Any:
        """What a comparison cell has set; computed from the chapter's twin on other pages."""
        return self.reopened(self.given, self.store, compared=True).results

    def verdicts(self) -> pd.DataFrame:
        """One row per claim of this page: see `verdict.verdict_table`."""
        return self._judged(self.results) if self.topics else pd.DataFrame()

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """The page's verdicts beside those of its record: see `side_by_side`."""
        of_records = {
            Source(preset, origin["seeds"], True): self._judged(self.recorded(preset))
            for preset, origin in self.records().items()
        }
        return side_by_side({Source(self.preset, self.seeds): verdicts, **of_records})

    def _judged(self, results: Any) -> pd.DataFrame:
        return verdict_table(self.topics, results, self.tolerance)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """All numbers computed for its statements: see `statement.check_table`."""
        return self.check(self.results)

    def statements(self) -> pd.DataFrame:
        """Judgements of its lemmas and theorems: see `statement.statement_table`."""
        return statement_table(self.exact, self.checks) if self.exact else pd.DataFrame()

    # Its record.

    def of_record(self, preset: str) -> "Chapter":
        """The same page at a preset, with the runs of the record alone."""
        return self.reopened({"preset": preset}, kept_runs())

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


def _joined(results: Sequence[Any], columns: Sequence[Values]) -> Any:
    if isinstance(results[0], Mapping):
        return {name: _joined([result[name] for result in results], columns) for name in results[0]}
    tables = [table.assign(**of_run) for table, of_run in zip(results, columns, strict=True)]
    return pd.concat(tables, ignore_index=True)
