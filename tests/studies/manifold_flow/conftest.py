"""What the tests of this study share: one tiny population, and its page on the least that shows anything."""

from dataclasses import replace

import pytest
import torch

from sameloss.studies.manifold_flow.experiment import FLOW_LANGUAGE, PRESETS
from sameloss.studies.manifold_flow.pages import STUDY
from sameloss.studies.manifold_flow.theory import LogBilinear, Population, masked_population

LEAST = replace(
    PRESETS["smoke"],
    halvings=1,
    replicas=40,
    horizon=1.0,
    adam_replicas=8,
    adam_horizon=0.05,
    end_horizon=0.1,
    flat_horizon=0.5,
    landscape_steps=400,
)


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """The page of Section 3 with short runs of few replicas, computed once."""
    artifacts = str(tmp_path_factory.mktemp("manifold_flow"))
    page = STUDY.open("03_implicit_bias", {"preset": "smoke", "artifacts": artifacts})
    page.config = LEAST
    return page


@pytest.fixture(scope="session")
def tables(page):
    """What its runs found."""
    return dict(zip(("sgd", "adam", "zeros", "path"), map(page.store.get, page.runs()), strict=True))


@pytest.fixture(scope="session")
def population():
    """Six masked sentences of three words, and the log-bilinear model of them."""
    weights, conditionals = masked_population(FLOW_LANGUAGE.build())
    return Population(weights, conditionals, LogBilinear(6, 3, 3))


@pytest.fixture(scope="session")
def start(population):
    """A minimiser that is not flat."""
    return population.logits.minimiser(population.conditionals, torch.Generator().manual_seed(0), 3.0)


@pytest.fixture(scope="session")
def away(start):
    """A point off the manifold."""
    generator = torch.Generator().manual_seed(1)
    return start + 0.2 * torch.randn(len(start), dtype=torch.float64, generator=generator)
