"""What the tests of this study share: its page at a scale below smoke, computed once."""

import pytest
from quick_workers import quick_workers

from sameloss.book.cells import opened
from sameloss.store.pool import compute_all
from sameloss.store.store import Store


@pytest.fixture(scope="session")
def page(shared):
    page = opened("05_dyck", {"preset": "smoke", "steps": 60}, Store(shared / "dyck"))
    with quick_workers():
        compute_all(page.store, page.runs(), 1)
    return page


@pytest.fixture(scope="session")
def results(page):
    """The tables of its runs, by kind; of the minimisations the widest."""
    return {run.kind: page.store.get(run) for run in page.runs()}
