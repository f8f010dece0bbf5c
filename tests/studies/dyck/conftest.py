"""What the tests of this study share: its page at a scale below smoke, computed once."""

from dataclasses import replace

import pytest

from sameloss.studies.dyck.experiment import PRESETS
from sameloss.studies.dyck.pages import STUDY

LEAST = replace(PRESETS["smoke"], minimisation_steps=250, restarts=2, training_steps=60, repetitions=300)


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    artifacts = str(tmp_path_factory.mktemp("dyck"))
    page = STUDY.open("05_dyck", {"preset": "smoke", "artifacts": artifacts})
    page.config = LEAST
    return page


@pytest.fixture(scope="session")
def results(page):
    """The tables of its runs, by kind; of the minimisations the widest."""
    return {run.kind: page.store.get(run) for run in page.runs()}
