"""A page of next to no work."""

from typing import Any

from sameloss.book.page import Chapter
from sameloss.store.store import Run, Store


def page_of(store: Store, runs: list[Run], name: str = "squares", **values: Any) -> Chapter:
    """Return a page with some runs, at a preset that is none of the book's unless another is given."""
    return Chapter(name, {"preset": "toy", "max_hours": 1.0, "workers": 2, **values}, store, listed=runs)
