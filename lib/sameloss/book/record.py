"""What runs found, written to `results/`: all of them in small, and the tables of presets that take too long.

A record grows over days and machines. Its runs are computed part by part; what is finished is kept in one
pool for all presets, and a store that has nothing takes it from there.
"""

from dataclasses import replace
from typing import Any

from sameloss.book.adopt import refuse_uncommitted, refuse_unknown_source
from sameloss.book.costs import announce, by_part, parts_in_words
from sameloss.book.fingerprint import POOL, RESULTS
from sameloss.book.studies import all_studies, open_page
from sameloss.store.environment import UNCOMMITTED, UNKNOWN
from sameloss.store.pool import compute_all
from sameloss.store.provenance import origin_of, uncommitted_runs
from sameloss.store.recording import WithRecord, forget_others, record_runs, take_recorded
from sameloss.store.store import Run, Store
from sameloss.studies.page import Page
from sameloss.studies.parameters import MAX_HOURS, choose
from sameloss.studies.recorded import write_record
from sameloss.studies.same_loss.pages import PRESETS as PART_I_PRESETS
from sameloss.studies.same_loss.pages import RecordPage

PART_I = "verdicts"
"""The page whose record is of all comparisons of Part I."""


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
    if not dry_run:
        for opened in pages:
            _compute(opened, finished=finished)
        for opened in pages:  # not before: a table that has changed makes the tree another
            _write(opened)


def recorded_pages(preset: str) -> tuple[str, ...]:
    """Return the pages that have a record of their own at a preset; that of Part I first."""
    choose("preset", preset, MAX_HOURS)
    studies = [study for study in all_studies().values() if preset in study.presets]
    plans = {name: plan for study in studies for name, plan in study.plans.items()}
    part_one = (PART_I,) if preset in PART_I_PRESETS else ()
    return (*part_one, *(name for name, plan in plans.items() if plan.recorded))


def _open(name: str, preset: str, max_hours: float | None) -> Page[Any]:
    """Open a page that has a record.

    Raises:
        ParameterError: for a preset that is none, or a page that has no record.

    """
    choose("page", name, recorded_pages(preset))
    page = open_page(name, preset=preset, max_hours=max_hours)
    if name != PART_I:
        return page
    return RecordPage(name, replace(PART_I_PRESETS[preset], max_hours=max_hours), page.store)


def _compute(page: Page[Any], *, finished: bool) -> None:
    """Compute the parts of a record one after the other, or nothing; add what is finished to the pool."""
    for name, runs in page.parts().items():
        if not finished:
            print(f"{name}: {announce(page, runs)}", flush=True)
            compute_all(page.store, runs, page.config.workers)
        if page.name != PART_I:  # whose table has all that was found; its loss curves would fill the pool
            record_runs(page.store, runs, POOL)


def _write(page: Page[Any]) -> None:
    """Write the tables of what is finished, if anything is."""
    runs = page.runs()
    if not runs or not all(map(page.store.has, runs)):
        print(f"{page.name}: nothing is finished, and nothing written.")
        return
    tables = page.record_tables() | {"parts": by_part(page)}
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
