"""Fixtures of this study: the page at the smoke preset, computed once."""

import pytest
from quick_workers import quick_workers

from sameloss.book.cells import opened
from sameloss.store.store import Store


@pytest.fixture(scope="session")
def page(shared):
    """The page at the smoke preset."""
    store = Store(shared / "stability")
    with quick_workers():
        return opened("ii2_stability", {"preset": "smoke", "workers": 1}, store, compared=True)


@pytest.fixture(scope="session")
def results(page):
    return page.results
