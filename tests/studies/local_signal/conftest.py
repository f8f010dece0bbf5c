"""What the tests of this study share: its pages at smoke, computed once."""

import pytest

from sameloss.store.pool import compute_all
from sameloss.studies.local_signal.pages import STUDY


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    """Open a page of the study and compute its runs; the tangent kernels are those of both."""
    artifacts = str(tmp_path_factory.mktemp("local_signal"))

    def open_page(name):
        page = STUDY.open(name, {"preset": "smoke", "artifacts": artifacts})
        compute_all(page.store, page.runs(), 1)  # elsewhere, where nothing checks the types of every call
        return page

    return open_page


@pytest.fixture(scope="session")
def page(opened):
    """The page on training."""
    return opened("ii3_local_signal")


@pytest.fixture(scope="session")
def found(page):
    """What its runs found."""
    return page.results


@pytest.fixture(scope="session")
def proofs_page(opened):
    """The page on the proofs."""
    return opened("ii3_proofs")


@pytest.fixture(scope="session")
def proofs(proofs_page):
    """What its runs found."""
    return proofs_page.results
