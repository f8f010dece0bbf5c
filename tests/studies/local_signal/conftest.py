"""What the tests of this study share: its pages at smoke, computed once."""

import pytest

from sameloss.store.pool import compute_all
from sameloss.studies.local_signal.pages import STUDY


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """The page on training."""
    artifacts = str(tmp_path_factory.mktemp("local_signal"))
    page = STUDY.open("ii3_local_signal", {"preset": "smoke", "artifacts": artifacts})
    compute_all(page.store, page.runs(), 1)  # elsewhere, where nothing checks the types of every call
    return page


@pytest.fixture(scope="session")
def found(page):
    """What its runs found."""
    return page.found
