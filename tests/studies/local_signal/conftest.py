"""What tests of the proofs share: the page at smoke."""

import pytest

from sameloss.store.pool import compute_all
from sameloss.studies.local_signal.pages import STUDY


@pytest.fixture(scope="session")
def proofs_page(tmp_path_factory):
    page = STUDY.open(
        "ii3_proofs", {"preset": "smoke", "artifacts": str(tmp_path_factory.mktemp("local_proofs"))}
    )
    compute_all(page.store, page.runs(), 1)
    return page


@pytest.fixture(scope="session")
def proofs(proofs_page):
    return proofs_page.proofs
