"""From tables, of a page's runs or of a record, to what the pages show."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.errors import StoreError
from sameloss.studies.growing.operators import NOT_GROWN
from sameloss.studies.growing.results import FROM_NOTHING, MEASURES, Grown
from sameloss.studies.growing.settings import PRESETS, GrowingSettings, Settings
from sameloss.studies.growing.stacks import Stacks
from sameloss.studies.recorded import recorded

Tables = Mapping[str, pd.DataFrame]

SeedLook = Float[np.ndarray, "seed look"]


def found_in(settings: Settings, tables: Tables) -> Grown:
    """Return what the tables of the page on growing say: see `pages.GrowingPage.record_tables`."""
    ages = {
        age: grown_in(settings.at_age(age), {"candidates": tables["ages"].query("age == @age")})
        for age in settings.ages
    }
    return grown_in(settings.growing, tables, aged=ages)


def grown_in(settings: GrowingSettings, tables: Tables, **more: Any) -> Grown:
    """Return what tables say of models that are grown at one age; what they lack is NaN."""
    names = [operator.name for operator in settings.operators]
    by_look = partial(_by_look, tables["candidates"], settings)
    kl, chosen_by = (
        np.stack([by_look(name, column) for name in names], -1) for column in ("kl", "chosen_by")
    )
    lost = np.isnan(kl).any((0, 1))

    def by_operator(table: str, column: str) -> Float[np.ndarray, "seed operator"]:
        found = tables.get(table)
        if found is None:
            return np.full((settings.seeds, len(names)), np.nan)
        return found.pivot_table(column, "seed", "operator").loc[list(settings.all_seeds), names].to_numpy()

    return Grown(
        settings,
        _ranked_last(chosen_by),
        _ranked_last(kl),
        by_look(NOT_GROWN, "kl"),
        by_look(FROM_NOTHING, "kl"),
        {measure: by_operator("landscape", measure) for measure in MEASURES},
        by_operator("downstream", "accuracy"),
        diverged=tuple(name for name, found in zip(names, lost, strict=True) if found),
        **more,
    )


def _by_look(table: pd.DataFrame, settings: GrowingSettings, operator: str, column: str) -> SeedLook:
    """Return a column of one operator, or control."""
    wanted = pd.MultiIndex.from_product([settings.all_seeds, settings.look_steps])
    kept = table[table.operator == operator].set_index(["seed", "step"])[column]
    return kept.reindex(wanted).to_numpy().reshape(settings.seeds, len(settings.look_steps))


def _ranked_last(kl: Float[np.ndarray, "seed look operator"]) -> Float[np.ndarray, "seed look operator"]:
    """Put the largest KL of the same shallow model where one is missing."""
    return np.where(np.isnan(kl), np.nanmax(kl, (1, 2), keepdims=True), kl)


def stacks_in(settings: Settings, tables: Tables) -> Stacks:
    """Return what the tables of the page on stacking say: see `pages.StackingPage.record_tables`."""
    return Stacks(settings.stacking, tables["stages"], tables["known"])


class Reading(NamedTuple):
    """What makes a page's results, of which tables, and which seeds the first of them has to hold."""

    made: Callable[[Settings, Tables], Grown | Stacks]
    tables: tuple[str, ...]
    seeds: Callable[[Settings], range]


READ = {
    "ii5_growing": Reading(
        found_in,
        ("candidates", "landscape", "downstream", "ages"),
        lambda settings: settings.growing.all_seeds,
    ),
    "ii5_stacking": Reading(stacks_in, ("stages", "known"), lambda settings: settings.stacking.all_seeds),
}


def found_by_record(page: str, preset: str) -> Any:
    """Return what a record of a page says.

    Raises:
        StoreError: where it was made with other seeds than the preset has.

    """
    reading, settings = READ[page], PRESETS[preset]
    tables = {name: recorded(name, preset, page) for name in reading.tables}
    there, wanted = set(tables[reading.tables[0]].seed), set(reading.seeds(settings))
    if there != wanted:
        raise StoreError(
            f"The record of {page} at {preset} holds the seeds {sorted(there)}, and the preset has "
            f"{sorted(wanted)}; record it again: make record PRESET={preset} PAGE={page}."
        )
    return reading.made(settings, tables)
