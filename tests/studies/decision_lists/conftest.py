"""Fixtures of this study: a small task, all its sets, and the page at the smoke preset."""

from dataclasses import replace

import pytest

from sameloss.store.pool import compute_all
from sameloss.studies.decision_lists.pages import STUDY
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
    artifacts = str(shared / "decision_lists")
    page = STUDY.open("ii4_decision_lists", {"preset": "smoke", "artifacts": artifacts})
    page.config = replace(page.config, cases=10)
    compute_all(page.store, page.runs(), 1)  # elsewhere, where nothing checks the types of every call
    return page


@pytest.fixture(scope="session")
def tables(page):
    """What its runs found."""
    return page.results
