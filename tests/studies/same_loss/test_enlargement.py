"""Small transformers inside large ones: the law of the trace, and what it does to a ladder of sizes."""

import numpy as np
import pytest
import torch

from sameloss.languages import PCFGSpec
from sameloss.models.encoder import EncoderShape
from sameloss.models.sizes import LADDER
from sameloss.runs.sampling import held_out_masked
from sameloss.studies import drawing
from sameloss.studies.same_loss import enlargement, figures
from sameloss.studies.same_loss.models import random_encoder

LANGUAGE = PCFGSpec(2, 3, 3, 3, 3, 6, 3, 0.7, 0.7, smoothing=0.03, seed=1)


@pytest.fixture
def model():
    """A model whose gains and biases are away from their initial values."""
    return random_encoder(EncoderShape(8, 1, 1, 16), 6, 4, torch.Generator().manual_seed(0))


@pytest.fixture
def masked():
    return held_out_masked(LANGUAGE.build(), 8, 0, "tables")


def test_law_and_function_tables(model, masked):
    laws = enlargement.law_table(model, masked)
    assert laws.off.max() < 1e-6
    np.testing.assert_allclose(laws.measured, laws.law, rtol=1e-6)
    functions = enlargement.function_table(model, masked).set_index("change")
    assert functions.moved.drop("post-LN, 2 layers added").max() < 1e-6
    assert functions.moved["post-LN, 2 layers added"] > 1e-3
    assert functions.trace["pre-LN, 2 layers added"] > 1


def test_ladder_of_table_4():
    ladder = enlargement.ladder_table().set_index("size")
    assert list(ladder["printed embeds"]) == ["no"] * 6 + ["yes"]
    assert ladder.ratio["d128"] == 15


def test_inflation_of_every_kind_at_every_width():
    """The widest is enlarged by nothing; twice as narrow an embedding, whose copies are halved, once."""
    table = enlargement.inflation_table(LADDER).set_index(["parameters", "d_model"]).factor
    assert len(table) == 3 * len(LADDER)
    for kind in ("embedding", "matrix", "vector"):
        assert table[kind, 1920] == 1
    assert table["embedding", 960] == pytest.approx(2)
    assert table["matrix", 960] == pytest.approx(1)
    assert table["vector", 960] == pytest.approx(0.5)


def test_the_figure_has_a_line_a_kind():
    (ax,) = drawing.panels(1)
    assert len(figures.predicted_inflation(enlargement.inflation_table(LADDER), ax).lines) == 3
