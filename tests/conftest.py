"""What tests share: a tiny language, a tiny model, a pre-training of a second."""

import os

import pytest
import shapes  # noqa: F401  # before the library
import torch
from hypothesis import HealthCheck, settings
from toy_runs import TINY

from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling
from sameloss.store.location import HOME
from sameloss.training.loop import Optimisation

torch.set_num_threads(1)
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder of all processes that run these tests, which compute there once what several of them read."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of a book without records, in which the test runs."""
    (tmp_path / "_config.yml").touch()
    (tmp_path / "chapters").mkdir()
    monkeypatch.setenv(HOME, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def opened(home):
    """Open a page of the book, of the smoke preset unless another is given, with a store of its own."""
    from sameloss.book.pages import open_page  # which imports every study

    return lambda page, **given: open_page(page, **{"preset": "smoke"} | given)


@pytest.fixture(scope="session")
def tiny_spec():
    """A grammar of sentences of four tokens, small enough to enumerate."""
    return TINY


@pytest.fixture(scope="session")
def tiny_run(tiny_spec):
    """A pre-training of a second; tests replace what they are about."""
    return Pretraining(
        corpus=CorpusSampling(tiny_spec, 300, seed=0),
        shape=EncoderShape(8, 2, 1, 16),
        optimisation=Optimisation(steps=60, batch=16, lr=1e-2),
        seed=0,
        checkpoints=(20, 60),
        micro_batch=16,
        resume_every=10,
    )


@pytest.fixture
def tiny_language():
    return TINY.build()


@pytest.fixture
def tiny_model():
    """A float64 encoder of about 300 parameters, all of them away from their initial zeros."""
    model = Encoder(EncoderShape(4, 2, 1, 8), words=3, max_length=4, seed=0).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator).double())
    return model
