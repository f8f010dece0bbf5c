"""Tables of runs too long for a reader, computed once and written to `results/`."""

from pathlib import Path

from sameloss.book.adopt import refuse_uncommitted
from sameloss.book.costs import announce
from sameloss.book.studies import open_page
from sameloss.store.pool import compute_all
from sameloss.store.provenance import uncommitted_runs
from sameloss.store.store import Run, Store
from sameloss.studies.same_loss.pages import WholeStudy
from sameloss.studies.same_loss.record import record as write_record


def record(preset: str) -> None:
    """Compute every comparison at a preset and write its tables to `results/`.

    Raises:
        SystemExit: where the tree, or the source of a finished run, was not committed.
        ParameterError: for a preset that is none, or would take longer than it may.

    """
    refuse_uncommitted()
    opened = open_page("verdicts", preset=preset)
    page = WholeStudy(opened.name, opened.settings, opened.store)
    refuse_uncommitted_runs(page.store, page.runs())
    print(announce(page), flush=True)
    compute_all(page.store, page.runs(), page.settings.limits.workers)
    print(f"Recorded in {write_record(page, Path('results'))}")


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
