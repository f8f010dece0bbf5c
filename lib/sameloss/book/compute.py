"""The runs that chapters read, computed beforehand, so that notebooks only read."""

from collections.abc import Iterable

from sameloss.book.costs import announce
from sameloss.book.studies import open_page
from sameloss.store.pool import compute_all


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
