"""What the tests of this study share: the page at smoke, computed once."""

from dataclasses import replace

import pytest

from sameloss.store.pool import compute_all
from sameloss.studies.local_signal_images import pages
from sameloss.studies.local_signal_images.training import PooledCNN


@pytest.fixture(scope="session")
def page(shared):
    """The page at the smoke preset, its network smaller still."""
    page = pages.STUDY.open(
        "ii3_images", {"preset": "smoke", "artifacts": str(shared / "images"), "steps": 10}
    )
    smaller = replace(page.config, network=PooledCNN((2, 3), (2, 2)), examples=60)
    page = replace(page, config=smaller)
    compute_all(page.store, page.runs(), 1)
    return page


@pytest.fixture(scope="session")
def found(page):
    """What it measured."""
    return page.found
