"""The record of Part I: what its chapters compare at the recorded presets, judged together."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from sameloss.book.cells import opened, twins
from sameloss.book.page import Chapter
from sameloss.store.provenance import origin_of, record_in_words
from sameloss.store.record import NotRecorded, Record, kept_runs
from sameloss.studies.same_loss.claims import answers
from sameloss.studies.same_loss.experiment import COLUMNS
from sameloss.studies.same_loss.tables import PAGES

CHAPTERS = ("04_flatness", "a4_algorithms", "d_practice", "e_mask_rate", "a3_models")
"""The chapters that measure models; others compare theirs."""

PRIMARY = {"workstation": 22, "pretrained": 4}
"""The recorded presets, with the number of primary rows."""


class Compared(NamedTuple):
    """What is recorded at a preset."""

    table: pd.DataFrame
    origin: dict[str, Any]


@cache
def _records(folder: Path) -> dict[str, Compared]:
    """What a folder has, by preset; nothing if there is none, or no book.

    Raises:
        NotRecorded: if runs of a chapter are missing, with the command that computes them.

    """
    record, found = Record(folder), {}
    for preset in PRIMARY if twins() and folder.exists() else ():
        pages = [_of_record(name, preset, record) for name in CHAPTERS]
        tables = [page.results.table for page in pages]
        table = pd.concat(tables).drop_duplicates(ignore_index=True)  # chapters share trainings by AdamW
        origin = origin_of(record, [run for page in pages for run in page.runs()])
        draws = len(table.drop_duplicates(["language", "replicate"]))
        found[preset] = Compared(table, origin | {"seeds": draws})
    return found


def _of_record(name: str, preset: str, record: Record) -> Chapter:
    try:
        return opened(name, {"preset": preset}, record, compared=True)
    except NotRecorded as missing:
        raise NotRecorded(
            f"The record of {name} is not complete; `make record PRESET={preset} PAGE={name}` computes what "
            f"it lacks. {missing}"
        ) from None


def recorded_measurements() -> pd.DataFrame:
    """Return the recorded measurements, see `experiment.COLUMNS`."""
    tables = [found.table for found in _records(kept_runs().root).values()]
    return pd.concat(tables or [pd.DataFrame(columns=COLUMNS)], ignore_index=True)


def recorded_answers() -> pd.DataFrame:
    """Return the answers computed from them; each record is a family of its own for Holm's correction."""
    return _answers(kept_runs().root)


@cache
def _answers(folder: Path) -> pd.DataFrame:
    tables = {preset: found.table for preset, found in _records(folder).items()}
    tables = tables or {"workstation": pd.DataFrame(columns=COLUMNS)}
    judged = [answers(table, planned=PRIMARY[preset]) for preset, table in tables.items()]
    return pd.concat(judged, ignore_index=True)


def records_in_words() -> str:
    """Provenance of the records, a paragraph each."""
    records = _records(kept_runs().root).items()
    return "\n\n".join(record_in_words(preset, found.origin) for preset, found in records)


class Shown(NamedTuple):
    """What the figures of a chapter show, and where it comes from, in words."""

    measured: pd.DataFrame
    answers: pd.DataFrame
    source: str
    provenance: str


def shown(page: Chapter) -> Shown:
    """Choose what the figures of a chapter show.

    That is the record if it has the chapter's questions and the runs are the default ones, and otherwise the
    runs that a reader chose.
    """
    recorded = recorded_answers()
    asked = set(recorded[recorded.row == "main"].question)
    source = "The figures and answers of this section are those of {}."
    if set(PAGES[page.name]) <= asked and page.runs() == opened(page.name, {}, page.store).runs():
        return Shown(recorded_measurements(), recorded, source.format("recorded runs"), records_in_words())
    own, found = f"this page's own runs ({page.about})", page.results
    return Shown(found.table, found.answers, source.format(own), f"Runs of this page: {page.about}.")
