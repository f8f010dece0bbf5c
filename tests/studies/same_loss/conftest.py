"""What the tests of this study share."""

from dataclasses import replace

import matplotlib as mpl
import pandas as pd
import pytest
from made_up import changed, fill, made_up

mpl.use("agg")


@pytest.fixture(scope="session")
def brief(shared):
    """What opens the page on existence at two seeds of two sizes after a brief training, computed once."""
    return {"steps": 40, "seeds": 2, "artifacts": str(shared / "brief")}


@pytest.fixture
def page(opened):
    """The page on existence, as it stands in the book."""
    return opened("02_existence")


@pytest.fixture
def results(page):
    """Made-up results of its main group."""
    return made_up(page.group, page.store)


@pytest.fixture
def three_sizes(results):
    """The same with a third size, flatter and better than the others."""
    larger = results.checkpoints[results.checkpoints["size"] == "3K"]
    larger = larger.assign(size="9K", trace=larger.trace / 2, root=larger.root + 10)
    group = replace(results.group, sizes=("1K", "3K", "9K"))
    return changed(results, pd.concat([results.checkpoints, larger], ignore_index=True), group=group)


@pytest.fixture
def filled(opened):
    """Open a page with made-up results of all that it compares."""
    return lambda name, **given: fill(opened(name, **given))
