"""Committed results: executed notebooks, and the record of runs (`results/runs`).

The record can grow over days and machines: what it has is not computed again.
"""

import os
import shlex
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat

from sameloss.book.cells import declared, twins
from sameloss.book.costs import at_once, duration, reference_seconds
from sameloss.book.notebooks import (
    DEFAULT,
    EXECUTED,
    SVG,
    Execution,
    execution_of,
    fingerprints,
    notebooks,
    strip_metadata,
)
from sameloss.book.page import Chapter
from sameloss.book.pages import open_page
from sameloss.book.part_one import CHAPTERS
from sameloss.store.location import SOURCE, revision, source_checkout, uncommitted
from sameloss.store.pool import compute_all
from sameloss.store.provenance import uncommitted_runs
from sameloss.store.record import RUNS, kept_runs
from sameloss.store.store import Run, Store, with_ancestors, write_atomically
from sameloss.studies.parameters import MAX_HOURS, MOST, choose


def compute(
    preset: str,
    chapters: Iterable[str] | None = None,
    max_hours: float | None = None,
    *,
    anew: bool = False,
) -> None:
    """Compute the missing runs of chapters in one pool of workers.

    Args:
        preset: of all chapters.
        chapters: by name; None: all.
        max_hours: limit on the runs; None: the preset's.
        anew: whether to compute what is recorded as well.

    Raises:
        ParameterError: for an unknown preset, or above the limit.
        StoreError: if runs cannot be stored.

    """
    book = open_page("costs", preset=preset, max_hours=max_hours)
    pages = [book] if chapters is None else [open_page(name, preset=preset) for name in chapters]
    runs = [run for page in pages for run in page.runs()]
    if anew:
        book.store = Store(book.store.root)
    print(book.announce(runs), flush=True)
    compute_all(book.store, runs, book.workers)


FRONT_CHAPTER, FRONT_FIGURE = Path("chapters/02_confirmation.ipynb"), Path("images/existence.svg")


def adopt(*, check: bool = False, page: str | None = None) -> None:
    """Make the executed notebooks the committed ones, without traces of this machine, and record their runs.

    Args:
        check: whether to do nothing but to require what is committed.
        page: the only one; None: all.

    Raises:
        SystemExit: if the tree or the source of a finished run is not committed, or a notebook was executed
            at another revision, with another preset, or not at all.
        StoreError: if this folder is not a git repository.

    """
    require_committed()
    paths = notebooks(page)
    book = open_page(page or "costs", preset=DEFAULT)
    require_committed_runs(book.store, book.runs())
    if check:
        return
    here = revision(Path())
    for path, fingerprint in fingerprints(paths, DEFAULT).items():
        execution = execution_of(path)
        if execution is None:
            raise SystemExit(f"{path} was not executed; run `make notebooks`.")
        if execution != Execution(DEFAULT, fingerprint, here):
            raise SystemExit(
                f"{path} was executed at revision {execution.revision} with preset {execution.preset}, "
                f"not as it is at the present {here} with preset {DEFAULT}; run `make notebooks`."
            )
    for path in paths:
        notebook = nbformat.read(EXECUTED / path, as_version=4)
        strip_metadata(notebook)
        write_atomically(path, (nbformat.writes(notebook) + "\n").encode())
    figure = front_figure(nbformat.read(FRONT_CHAPTER, as_version=4))
    FRONT_FIGURE.parent.mkdir(exist_ok=True)
    FRONT_FIGURE.write_bytes(figure)
    print(f"Recorded in {RUNS}: {kept_runs().add(book.store, book.runs())} runs.")


def require_committed(besides: str = "") -> None:
    """Require results to be determined by the present revision.

    Args:
        besides: a folder whose files may have changed.

    Raises:
        SystemExit: for changed files, new ones in `lib` or `chapters`, or a library of another folder.
        StoreError: if this folder is not a git repository.

    """
    if source_checkout() != Path().resolve():
        raise SystemExit(
            f"The library that runs is {SOURCE}, not this folder's; give the folder a .venv of its own."
        )
    changed = uncommitted(Path(), "lib", "chapters")
    if files := [name for name in changed if not (besides and Path(name).is_relative_to(besides))]:
        others = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise SystemExit(
            f"{files[0]}{others} not committed; commit or remove the change, then run this again."
        )


def front_figure(notebook: nbformat.NotebookNode) -> bytes:
    """The figure named `fig-existence`, as SVG."""
    for cell in notebook.cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == "fig-existence":
            return next(o.data[SVG].encode() for o in cell.outputs if SVG in o.get("data", {}))
    raise SystemExit(f"{FRONT_CHAPTER.stem} has no figure named fig-existence.")


def record(
    preset: str,
    page: str | None = None,
    max_hours: float | None = None,
    *,
    finished: bool = False,
    dry_run: bool = False,
    minutes: float | None = None,
) -> None:
    """Compute what the record lacks of a preset, page by page, and add it.

    Args:
        preset: to record.
        page: to record; None: all with a record.
        max_hours: limit on each page; None: the preset's.
        finished: whether to compute nothing, and record what is finished.
        dry_run: whether to compute nothing, and list what is left.
        minutes: after which it stops, to be run again; None: when all is done.

    Raises:
        SystemExit: if the tree, or the source of a finished run, is not committed.
        ParameterError: for an unknown preset, a page without a record, or above the limit.

    """
    if minutes is not None:
        _stop_after(minutes)
    if not dry_run:
        require_committed(besides=RUNS)
    pages = [_open(name, preset, max_hours) for name in ([page] if page else recorded_pages(preset))]
    if not dry_run:
        require_committed_runs(pages[0].store, [run for opened in pages for run in opened.runs()])
    print("\n".join(left_in_words(pages)), flush=True)
    if dry_run:
        return
    for opened in pages:
        if not finished:
            print(f"{opened.name}: {opened.announce()}", flush=True)
            compute_all(opened.store, opened.runs(), opened.workers)
        kept_runs().add(
            opened.store, opened.runs(), lazy=opened.name not in CHAPTERS
        )  # losses take megabytes


def _stop_after(minutes: float) -> None:
    """End this process and its workers after some minutes, as a kill may at any time: nothing is lost."""

    def stop(*_: Any) -> None:
        print(f"Stopped after {minutes:g} minutes; run this again to go on.", flush=True)
        os._exit(os.EX_TEMPFAIL)

    signal.signal(signal.SIGALRM, stop)
    # A timer that is rounded to zero never rings, and one of centuries is refused.
    signal.setitimer(signal.ITIMER_REAL, min(max(60 * minutes, 1e-3), MOST))


def left_in_words(pages: Iterable[Chapter]) -> Iterator[str]:
    """What is left of the record of each page; a run that pages share counts for the first one only."""
    seen = set[str]()
    for page in pages:
        runs, missing = (
            {run.key: run for run in group if run.key not in seen}
            for group in (with_ancestors(page.runs()), page.store.missing(page.runs()))
        )
        seen |= runs.keys()
        hours = sum(map(reference_seconds, missing.values())) / 3600
        left = f"about {duration(hours / at_once(page.workers))} left" if missing else "complete"
        counts = f"{len(runs) - len(missing)} of {len(runs)} runs"
        yield f"Record of {page.name}, {page.about}: {counts}, {left}."


def recorded_pages(preset: str) -> list[str]:
    """Pages with a record at a preset, those that measure models for Part I first."""
    choose("preset", preset, MAX_HOURS)
    others = [name for name in twins() if declared(name).record]
    return [name for name in (*CHAPTERS, *others) if preset in declared(name).presets]


def _open(name: str, preset: str, max_hours: float | None) -> Chapter:
    """Open a page with a record."""
    return open_page(choose("page", name, recorded_pages(preset)), preset=preset, max_hours=max_hours)


def require_committed_runs(store: Store, runs: list[Run]) -> None:
    """Require the source of finished runs that are not recorded to be committed.

    Raises:
        SystemExit: with the number of runs for which it is not.

    """
    recorded = kept_runs()
    if found := [run for run in uncommitted_runs(store, runs) if not recorded.has(run)]:
        folders = shlex.join(str(store.folder(run)) for run in found)
        raise SystemExit(
            f"{len(found)} finished runs come from source that was not committed or is unknown; remove them "
            f"with `rm -r {folders}`, then run this again."
        )
