"""Tables of runs too long for a reader, computed once and written to `results/`."""

from pathlib import Path

from sameloss.book.adopt import refuse_uncommitted
from sameloss.book.costs import announce, chapter_runs
from sameloss.store.provenance import uncommitted_runs
from sameloss.store.store import Run, Store
from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.same_loss.record import record as write_record


def record(preset: str) -> None:
    """Compute every comparison at a preset and write its tables to `results/`.

    Raises:
        SystemExit: where the tree, or the source of a finished run, was not committed.
        ParameterError: for a preset that is none, or would take longer than it may.

    """
    refuse_uncommitted()
    setting = resolve({"preset": preset})
    runs = chapter_runs(setting)["verdicts"]
    refuse_uncommitted_runs(setting.store, runs)
    print(announce(setting, runs), flush=True)
    print(f"Recorded in {write_record(setting, Path('results'))}")


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
