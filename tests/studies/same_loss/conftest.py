"""What the tests of this study share."""

import matplotlib as mpl
import pytest
from made_up import fill, made_up

mpl.use("agg")


@pytest.fixture
def page(opened):
    """The page on existence, as it stands in the book."""
    return opened("02_existence")


@pytest.fixture
def results(page):
    """Made-up results of its main group."""
    return made_up(page.group, page.store)


@pytest.fixture
def filled(opened):
    """Open a page with made-up results of all that it compares."""
    return lambda name, **given: fill(opened(name, **given))
