"""What the tests of this study share: its page at a scale below smoke, computed once."""

import pytest

from sameloss.book.cells import opened
from sameloss.store.pool import compute_all
from sameloss.store.store import Store


@pytest.fixture(scope="session")
def page(shared):
    page = opened("05_dyck", {"preset": "smoke", "steps": 60}, Store(shared / "dyck"))
    compute_all(page.store, page.runs(), 1)  # in a process that does not check types
    return page


@pytest.fixture(scope="session")
def results(page):
    """The tables of its runs, by kind; of the minimisations the widest."""
    return {run.kind: page.store.get(run) for run in page.runs()}
