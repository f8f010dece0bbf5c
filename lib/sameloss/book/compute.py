"""The runs that chapters read, computed beforehand, so that notebooks only read."""

from collections.abc import Iterable

from sameloss.book.costs import announce, chapter_runs
from sameloss.store.pool import compute_all
from sameloss.studies.same_loss.parameters import resolve


def compute(preset: str, chapters: Iterable[str] | None = None) -> None:
    """Compute what is missing of all runs that some chapters (all where None) read, in one pool.

    Raises:
        ParameterError: for a preset that is none, or would take longer than it may.
        StoreError: where the runs cannot be stored.

    """
    setting = resolve({"preset": preset})
    reads = chapter_runs(setting)
    runs = [run for name in chapters or reads for run in reads.get(name, [])]
    print(announce(setting, runs), flush=True)
    compute_all(setting.store, runs, setting.preset.workers)
