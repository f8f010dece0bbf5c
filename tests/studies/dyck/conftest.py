"""What the tests of this study share: its page at a scale below smoke, computed once."""

from dataclasses import replace

import pytest

from sameloss.store.pool import compute_all
from sameloss.studies.dyck.experiment import PRESETS
from sameloss.studies.dyck.pages import STUDY

LEAST = replace(PRESETS["smoke"], minimisation_steps=250, restarts=2, training_steps=60, repetitions=300)


@pytest.fixture(scope="session")
def page(shared):
    artifacts = str(shared / "dyck")
    page = STUDY.open("05_dyck", {"preset": "smoke", "artifacts": artifacts})
    page.config = LEAST
    compute_all(page.store, page.runs(), 1)  # in a process that does not check types
    return page


@pytest.fixture(scope="session")
def results(page):
    """The tables of its runs, by kind; of the minimisations the widest."""
    return {run.kind: page.store.get(run) for run in page.runs()}
