"""What the tests of this study share."""

from dataclasses import replace

import matplotlib as mpl
import pandas as pd
import pytest
from made_up import changed, fill, made_up

from sameloss.studies.same_loss import record as module
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.same_loss.groups import EVERYTHING
from sameloss.studies.same_loss.pages import WholeStudy
from sameloss.studies.same_loss.record import StudyRecord
from sameloss.studies.same_loss.tables import causal

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


WITH_RUNS = [claim for claim in CLAIMS if claim.id == "fig5-enlarged"]
"""Claims whose effects read a measurement that made-up results do not have."""


@pytest.fixture
def record_of(opened, monkeypatch):
    """Return a record of made-up results of which some arms alone are finished, or all."""

    def make(*finished):
        some = opened("02_existence")
        page = StudyRecord("verdicts", some.config, some.store)
        own = [arm.of(page.config.shown) for arm in finished or EVERYTHING]
        read_by = {arm: page.read_by(arm) for arm in own}
        there = {run for runs in read_by.values() for run in runs}
        monkeypatch.setattr(some.store, "has", there.__contains__)
        return fill(page)

    monkeypatch.setattr(StudyRecord, "claims", claims_of_made_up)
    monkeypatch.setattr(module, "by_protocol", lambda results, names: dict.fromkeys(names, results))
    monkeypatch.setattr(module, "by_labels", lambda results: {8: results, 16: results})
    lengths = pd.DataFrame({"treatment": ["none"], "steps": [20.0]})
    monkeypatch.setattr(causal, "cooled_table", lambda page, tasks: lengths)  # which made-up runs have not
    return make


def claims_of_made_up(page):
    return [claim for claim in WholeStudy.claims(page) if claim not in WITH_RUNS]
