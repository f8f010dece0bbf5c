"""The pages of this study: sizes and steps at one loss, and flatness."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from sameloss.errors import ParameterError
from sameloss.store.store import Run
from sameloss.studies.comparison.claims import answers
from sameloss.studies.comparison.experiment import PRESETS, Experiment
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.parameters import OF_EVERY_PAGE
from sameloss.studies.recorded import recorded

RECORD = "workstation"
"""The preset whose measurements `results/` has."""


@dataclass
class ComparisonPage(Page[Experiment]):
    """A page on the comparisons of the protocol."""

    def runs(self) -> list[Run]:
        """Return all measurements."""
        return [run for replicate in self.config.replicates() for run in replicate.runs()]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return all measurements as one tidy table."""
        return self.config.table(self.store)

    @property
    def seeds(self) -> int | None:
        """Return the number of replicates of the main language."""
        return len(list(self.config.replicates()))

    def record_tables(self) -> dict[str, pd.DataFrame]:
        """Return what a record keeps: the one table from which everything follows."""
        return {"measurements": self.table}


def recorded_measurements() -> pd.DataFrame:
    """Return the measurements of the record, see `experiment.COLUMNS`."""
    return recorded("measurements", RECORD, "comparison").fillna({"task": "", "reading": ""})


def recorded_answers() -> pd.DataFrame:
    """Return what the record answers."""
    return answers(recorded_measurements())


def preset_of(values: Mapping[str, Any]) -> str:
    """Return the preset that a size brings along."""
    size = values.get("size") or "all"
    holders = [
        name
        for name, preset in PRESETS.items()
        if size == "all" or any(size in s.models for s in preset.setups)
    ]
    if size == "all":
        return "laptop"
    if not holders:
        raise ParameterError(f"Unknown size {size!r}; choose one of all, {', '.join(_sizes())}.")
    order = ("laptop", "workstation", "paper", "gpu", "smoke")
    return min(holders, key=order.index)


def _sizes() -> dict[str, None]:
    return dict.fromkeys(
        name for preset in PRESETS.values() for setup in preset.setups for name in setup.models
    )


def finished(config: Experiment, values: Mapping[str, Any]) -> Experiment:
    """Refuse a language and a size that the preset does not have."""
    names = [setup.name for setup in config.setups]
    if config.language not in ("all", *names):
        raise ParameterError(
            f"Language {config.language} is not in preset {config.name}; choose all or {', '.join(names)}."
        )
    shown = [name for replicate in config.replicates() for name in replicate.models]
    if not shown:
        has = [setup.name for setup in config.setups if config.size in setup.models]
        where = f"it goes with language {has[0]}" if has else f"choose one of all, {', '.join(_sizes())}"
        raise ParameterError(
            f"Size {config.size} is not on {config.language} at preset {config.name}; {where}."
        )
    return config


_PRESET = replace(OF_EVERY_PAGE["preset"], text=f"auto, {', '.join(PRESETS)}", choices=("auto", *PRESETS))

STUDY = Study(PRESETS, {"comparison": Plan(ComparisonPage)}, preset_of, {"preset": _PRESET}, finished)
