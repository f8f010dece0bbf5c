"""Fixtures of this study: a small task, all its sets, and the page at the smoke preset."""

import pytest
from quick_workers import quick_workers

from sameloss.book.cells import opened
from sameloss.store.pool import compute_all
from sameloss.store.store import Store
from sameloss.studies.decision_lists.theory import cyclic_lists, uniform_sets

WORDS, LENGTH, RULES = 8, 4, 3


@pytest.fixture(scope="session")
def task():
    """Lists of three of eight tokens."""
    return cyclic_lists(WORDS, RULES)


@pytest.fixture(scope="session")
def sets():
    """All 70 sets of four."""
    return uniform_sets(WORDS, LENGTH)


@pytest.fixture(scope="session")
def page(shared):
    """The page at the smoke preset, computed once."""
    page = opened("ii4_decision_lists", {"preset": "smoke"}, Store(shared / "decision_lists"))
    with quick_workers():
        compute_all(page.store, page.runs(), 1)
    return page


@pytest.fixture(scope="session")
def tables(page):
    """What its runs found."""
    return page.results
