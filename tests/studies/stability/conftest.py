"""Fixtures of this study: the page at the smoke preset, computed once."""

import pytest

from sameloss.store.pool import compute_all
from sameloss.studies.stability.pages import STUDY


@pytest.fixture(scope="session")
def page(shared):
    """The page at the smoke preset."""
    page = STUDY.open("ii2_stability", {"preset": "smoke", "artifacts": str(shared / "stability")})
    compute_all(page.store, page.runs(), 1)
    return page


@pytest.fixture(scope="session")
def results(page):
    return page.results
