"""The keys of all runs of the smoke preset."""

import tempfile

from sameloss.book.pages import pages_at
from sameloss.store.store import Run, Store, with_ancestors

FILE = "keys.json"


def page_runs() -> dict[str, list[Run]]:
    """The runs that each page reads at the smoke preset."""
    with tempfile.TemporaryDirectory() as folder:
        return {page.name: page.runs() for page in pages_at("smoke", Store(folder))}


def found() -> list[str]:
    """`Kind/key` of every run that a page reads, and of their ancestors."""
    runs = with_ancestors(run for runs in page_runs().values() for run in runs)
    return sorted(f"{run.kind}/{run.key}" for run in runs)
