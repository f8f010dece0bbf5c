"""Shape annotations are executed: every library call made by a test is checked."""

from jaxtyping import install_import_hook

with install_import_hook("sameloss", "beartype.beartype"):
    import sameloss.claims
    import sameloss.figures
    import sameloss.models.bilstm
    import sameloss.models.huggingface  # noqa: F401

import pytest
import torch

from sameloss.languages import PCFGSpec
from sameloss.models.encoder import Encoder, EncoderShape

torch.set_num_threads(1)

TINY = PCFGSpec(
    levels=2,
    start_symbols=2,
    symbols=2,
    start_rules=2,
    rules=3,
    words=3,
    words_per_symbol=2,
    rule_concentration=1.0,
    emission_concentration=1.0,
    smoothing=0.1,
    seed=3,
)


@pytest.fixture
def tiny_spec():
    """A grammar of sentences of four tokens, small enough to enumerate."""
    return TINY


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
