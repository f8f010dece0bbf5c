"""What runs found, written to `results/`: tables of those too long for a reader, and all of them in small."""

from pathlib import Path

from sameloss.book.adopt import refuse_uncommitted
from sameloss.book.costs import announce
from sameloss.book.studies import all_studies, open_page
from sameloss.errors import ParameterError
from sameloss.store.pool import compute_all
from sameloss.store.provenance import origin_of, uncommitted_runs
from sameloss.store.recording import record_runs, take_recorded
from sameloss.store.store import Run, Store
from sameloss.studies.page import Page
from sameloss.studies.recorded import write_record
from sameloss.studies.same_loss.pages import WholeStudy
from sameloss.studies.same_loss.record import record as write_whole

PART_I = "verdicts"
"""The page whose record is of all comparisons of Part I."""

RESULTS = Path("results")

RUNS = "runs"
"""The folder, in that of a preset, of its runs in small."""


def keep(preset: str) -> None:
    """Write what the finished runs of all chapters found to `results/`, but for the models' weights.

    Raises:
        SystemExit: where the source of a finished run was not committed.

    """
    book = open_page("costs", preset=preset)
    refuse_uncommitted_runs(book.store, book.runs())
    folder = RESULTS / preset / RUNS
    print(f"Recorded in {folder}: {record_runs(book.store, book.runs(), folder)} runs.")


def take(preset: str) -> None:
    """Put what `keep` wrote in the store, where there is nothing of it: it need not be computed again."""
    book = open_page("costs", preset=preset)
    taken = take_recorded(RESULTS / preset / RUNS, book.store)
    print(f"Taken from {RESULTS / preset / RUNS}: {taken} runs.")


def record(preset: str, page: str | None = None) -> None:
    """Compute everything that has a record at a preset, or one page's, and write its tables to `results/`.

    Raises:
        SystemExit: where the tree, or the source of a finished run, was not committed.
        ParameterError: for a preset that is none, a page that has no record, or what would take longer than
            it may.

    """
    names = (PART_I, *recorded_pages())
    if page not in (None, *names):
        raise ParameterError(f"Page {page!r} has no record; choose one of {', '.join(names)}.")
    refuse_uncommitted()
    for name in names if page is None else [page]:
        if name == PART_I:
            _record_part_i(preset)
        else:
            _record_page(name, preset)


def recorded_pages() -> tuple[str, ...]:
    """Return the pages that have a record of their own."""
    plans = {name: plan for study in all_studies().values() for name, plan in study.plans.items()}
    return tuple(name for name, plan in plans.items() if plan.recorded)


def _record_part_i(preset: str) -> None:
    opened = open_page(PART_I, preset=preset)
    page = WholeStudy(opened.name, opened.settings, opened.store)
    _compute(page)
    print(f"Recorded in {write_whole(page, RESULTS)}")


def _record_page(name: str, preset: str) -> None:
    page = open_page(name, preset=preset)
    _compute(page)
    origin = origin_of(page.store, page.runs()) | {"seeds": page.seeds}
    print(f"Recorded in {write_record(page.record_tables(), origin, RESULTS / preset / name)}")


def _compute(page: Page) -> None:
    refuse_uncommitted_runs(page.store, page.runs())
    print(announce(page), flush=True)
    compute_all(page.store, page.runs(), page.settings.limits.workers)


def refuse_uncommitted_runs(store: Store, runs: list[Run]) -> None:
    """Refuse results whose source nobody can look up.

    Raises:
        SystemExit: naming how many there are.

    """
    found = uncommitted_runs(store, runs)
    if found:
        listing = f"grep -l 'dirty\"' {store.root}/*/*/manifest.json"
        raise SystemExit(
            f"{len(found)} finished runs come from source that was not committed; remove their folders, "
            f"which `{listing}` lists, then run this again."
        )
