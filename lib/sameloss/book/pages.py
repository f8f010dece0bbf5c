"""All chapters of the book, and what pages about all of them read."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from sameloss.book.cells import declared, opened, twins
from sameloss.book.page import Chapter
from sameloss.store.store import Store

ABOUT_ALL = ("verdicts", "costs")
"""Pages about all others."""


def open_page(page: str, **given: Any) -> Chapter:
    """Open a chapter by name: see `cells.opened`."""
    return opened(page, given)


def pages_at(preset: str, store: Store) -> list[Chapter]:
    """Open all pages with a preset but those about all of them."""
    names = [name for name in twins() if name not in ABOUT_ALL]
    return [opened(name, {"preset": preset}, store) for name in names if preset in declared(name).presets]


def all_statements(pages: Iterable[Chapter]) -> pd.DataFrame:
    """Judgements of the lemmas and theorems of several pages, with their `page`."""
    tables = [page.statements().assign(page=page.name) for page in pages]
    return pd.concat([table for table in tables if len(table)], ignore_index=True)
