"""Results, computed and made the committed ones: executed notebooks, and in `results/` what runs found.

That is all runs in small, and the tables of presets that take too long. A record grows over days and
machines. Its runs are computed part by part; what is finished is kept in one pool for all presets, and a
store that has nothing takes it from there.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat

from sameloss.book.costs import announce, by_part, parts_in_words
from sameloss.book.notebooks import (
    DEFAULT,
    POOL,
    RESULTS,
    Execution,
    copy_of,
    execution_of,
    fingerprints,
    forget_execution,
    notebooks,
)
from sameloss.book.pages import all_studies, open_page
from sameloss.store.location import SOURCE, UNCOMMITTED, UNKNOWN, revision, source_checkout, uncommitted
from sameloss.store.pool import compute_all
from sameloss.store.provenance import origin_of, uncommitted_runs
from sameloss.store.recording import WithRecord, forget_others, record_runs, take_recorded
from sameloss.store.store import Run, Store, write_atomically
from sameloss.studies.drawing import WIDE
from sameloss.studies.page import Page
from sameloss.studies.parameters import MAX_HOURS, choose
from sameloss.studies.recorded import write_record
from sameloss.studies.same_loss.pages import PRESETS as PART_I_PRESETS
from sameloss.studies.same_loss.pages import RecordPage

PART_I = "verdicts"
"""The page whose record is of all comparisons of Part I."""


def compute(preset: str, chapters: Iterable[str] | None = None, max_hours: float | None = None) -> None:
    """Compute what is missing of all runs that some chapters (all where None) read, in one pool.

    Args:
        preset: of all chapters.
        chapters: by name.
        max_hours: that it may take; the preset's limit where None.

    Raises:
        ParameterError: for a preset that is none, or would take longer than it may.
        StoreError: where the runs cannot be stored.

    """
    book = open_page("costs", preset=preset, max_hours=max_hours)
    pages = [book] if chapters is None else [open_page(name, preset=preset) for name in chapters]
    runs = [run for page in pages for run in page.runs()]
    print(announce(book, runs), flush=True)
    compute_all(book.store, runs, book.config.workers)


FRONT_CHAPTER, FRONT_FIGURE = Path("chapters/02_existence.ipynb"), Path("images/existence.svg")


def adopt() -> None:
    """Make the executed notebooks the committed ones, free of traces of this machine.

    Raises:
        SystemExit: where the tree has changes that are not committed, or a notebook was executed at
            another revision, with another preset, or not at all.
        StoreError: where git does not know this folder.

    """
    refuse_uncommitted()
    here = revision(Path())
    for page, fingerprint in fingerprints(notebooks(), DEFAULT).items():
        execution = execution_of(page)
        if execution is None:
            raise SystemExit(f"{page} was not executed; run `make notebooks`.")
        if execution != Execution(DEFAULT, fingerprint, here):
            raise SystemExit(
                f"{page} was executed at revision {execution.revision} with preset {execution.preset}, "
                f"not as it is at the present {here} with preset {DEFAULT}; run `make notebooks`."
            )
    for page in notebooks():
        notebook = nbformat.read(copy_of(page), as_version=4)
        forget_execution(notebook)
        write_atomically(page, (nbformat.writes(notebook) + "\n").encode())
    figure = front_figure(nbformat.read(FRONT_CHAPTER, as_version=4))
    FRONT_FIGURE.parent.mkdir(exist_ok=True)
    FRONT_FIGURE.write_bytes(figure)


def refuse_unknown_source() -> None:
    """Refuse to go on where nobody could tell from which source results come.

    Raises:
        SystemExit: where the library is not that of this folder.
        StoreError: where git does not know this folder.

    """
    if source_checkout() != Path().resolve():
        raise SystemExit(
            f"The library that runs is {SOURCE}, not this folder's; give the folder a .venv of its own."
        )
    revision(Path())


def refuse_uncommitted() -> None:
    """Refuse to go on where the present revision is not all that decides a result.

    Raises:
        SystemExit: where files have changed, or there are new ones in `lib` or `chapters`, or the library is
            not that of this folder.
        StoreError: where git does not know this folder.

    """
    refuse_unknown_source()
    files = uncommitted(Path(), "lib", "chapters")
    if files:
        others = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise SystemExit(
            f"{files[0]}{others} not committed; commit or remove the change, then run this again."
        )


def front_figure(notebook: nbformat.NotebookNode) -> bytes:
    """Return the picture of the cell that is named `fig-existence`."""
    for cell in notebook.cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == "fig-existence":
            return next(o.data[WIDE].encode() for o in cell.outputs if WIDE in o.get("data", {}))
    raise SystemExit("02_existence has no figure named fig-existence.")


def check(preset: str) -> None:
    """Refuse, before anything is computed, what `adopt` and `keep` would refuse afterwards.

    Raises:
        SystemExit: where the tree, or the source of a finished run, was not committed.

    """
    refuse_uncommitted()
    book = open_page("costs", preset=preset)
    refuse_uncommitted_runs(book.store, book.runs())


def keep(preset: str) -> None:
    """Add to the pool what the finished runs of all pages found at a preset, but for the models' weights.

    Runs that no page asks for any more, at any preset, are removed from it.

    Raises:
        SystemExit: where the source of a finished run was not committed.

    """
    refuse_unknown_source()
    book = open_page("costs", preset=preset)
    refuse_uncommitted_runs(book.store, book.runs())
    forget_others(POOL, [run for name in MAX_HOURS for run in open_page("costs", preset=name).runs()])
    print(f"Recorded in {POOL}: {record_runs(book.store, book.runs(), POOL)} runs.")


def take() -> None:
    """Put the pool in the store, where there is nothing of it: it need not be computed again."""
    print(f"Taken from {POOL}: {take_recorded(POOL, open_page('costs').store)} runs.")


def record(
    preset: str,
    page: str | None = None,
    max_hours: float | None = None,
    *,
    finished: bool = False,
    dry_run: bool = False,
) -> None:
    """Compute everything that has a record at a preset, or one page's, and write its tables to `results/`.

    What the pool has is taken as computed, and what is finished is added to it part by part.

    Args:
        preset: to be recorded.
        page: that is recorded; all where None.
        max_hours: that a part may take; the preset's limit where None.
        finished: whether to compute nothing, keep what is finished and write the tables of finished parts.
        dry_run: whether to compute and write nothing, and say what is left.

    Raises:
        SystemExit: where the tree, or the source of a finished run, was not committed.
        ParameterError: for a preset that is none, a page that has no record, or what would take longer than
            it may.

    """
    if not dry_run:
        refuse_uncommitted()
    pages = [_open(name, preset, max_hours) for name in ([page] if page else recorded_pages(preset))]
    if dry_run:
        for opened in pages:
            opened.store = WithRecord(opened.store, POOL)
    else:
        take_recorded(POOL, pages[0].store)
        refuse_uncommitted_runs(pages[0].store, [run for opened in pages for run in opened.runs()])
    for opened in pages:
        print(parts_in_words(opened), flush=True)
    if dry_run:
        return
    for opened in pages:
        for name, runs in opened.parts().items():
            if not finished:
                print(f"{name}: {announce(opened, runs)}", flush=True)
                compute_all(opened.store, runs, opened.config.workers)
            if opened.name != PART_I:  # whose table has all; its loss curves would fill the pool
                record_runs(opened.store, runs, POOL)
    for opened in pages:  # not before: a table that has changed makes the tree another
        _write(opened)


def recorded_pages(preset: str) -> tuple[str, ...]:
    """Return the pages that have a record of their own at a preset; that of Part I first."""
    choose("preset", preset, MAX_HOURS)
    studies = [study for study in all_studies().values() if preset in study.presets]
    names = [name for study in studies for name, plan in study.plans.items() if plan.recorded]
    return ((PART_I,) if preset in PART_I_PRESETS else ()) + tuple(names)


def _open(name: str, preset: str, max_hours: float | None) -> Page[Any]:
    """Open a page that has a record, where it has one."""
    choose("page", name, recorded_pages(preset))
    page = open_page(name, preset=preset, max_hours=max_hours)
    if name != PART_I:
        return page
    return RecordPage(name, replace(PART_I_PRESETS[preset], max_hours=max_hours), page.store)


def _write(page: Page[Any]) -> None:
    """Write the tables of what is finished, if anything is."""
    runs = page.runs()
    if not runs or not all(map(page.store.has, runs)):
        print(f"{page.name}: nothing is finished, and nothing written.")
        return
    tables = page.tables() | {"parts": by_part(page)}
    origin = origin_of(page.store, runs) | {"seeds": page.seeds}
    folder = RESULTS / page.config.name / ("" if page.name == PART_I else page.name)
    print(f"Recorded in {write_record(tables, origin, folder)}.")


def refuse_uncommitted_runs(store: Store, runs: list[Run]) -> None:
    """Refuse results whose source nobody can look up.

    Raises:
        SystemExit: naming how many there are.

    """
    found = uncommitted_runs(store, runs)
    if found:
        wrong = f'"revision": "({UNKNOWN}|.*{UNCOMMITTED})"'
        raise SystemExit(
            f"{len(found)} finished runs come from source that was not committed or is unknown; remove their "
            f"folders, which `grep -lE '{wrong}' {store.root}/*/*/manifest.json` lists, then run this again."
        )
