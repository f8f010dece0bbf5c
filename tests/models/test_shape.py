"""Shapes build their models and count what these take."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from sameloss.errors import ParameterError
from sameloss.models.bilstm import BiLSTM, BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape, PostBlock
from sameloss.models.masked_model import Shape

SHAPES = [EncoderShape(8, 2, 1, 16), EncoderShape(6, 3, 3, 10), BiLSTMShape(8, 1), BiLSTMShape(6, 3)]
WORDS, LENGTH = 5, 7

every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@every_shape
def test_counts_are_those_of_the_model(shape):
    model = shape.build(WORDS, LENGTH)
    matrices = [p for name, p in model.named_parameters() if "blocks" in name and p.ndim == 2]
    assert shape.matrix_parameters == sum(matrix.numel() for matrix in matrices)
    assert shape.parameter_count(WORDS, LENGTH) == sum(p.numel() for p in model.parameters())


@every_shape
def test_a_seed_makes_the_model_that_the_class_makes(shape):
    kind = {EncoderShape: Encoder, BiLSTMShape: BiLSTM}[type(shape)]
    built, made = shape.build(WORDS, LENGTH, 3).state_dict(), kind(shape, WORDS, LENGTH, 3).state_dict()
    assert all(torch.equal(built[name], made[name]) for name in made)


def test_norm_and_dropout_reach_the_encoder():
    model = SHAPES[1].build(WORDS, LENGTH, norm="post", dropout=0.5)
    assert all(isinstance(block, PostBlock) and block.dropout == 0.5 for block in model.blocks)


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_operations_of_an_encoder_are_those_that_pytorch_counts(shape):
    model = shape.build(WORDS, LENGTH, seed=0)
    masked, positions = torch.ones(1, LENGTH, dtype=torch.long), torch.tensor([2])
    with FlopCounterMode(display=False) as counter:
        model(masked, positions).sum().backward()
    assert shape.flops(WORDS, LENGTH) == counter.get_total_flops()


def test_operations_of_an_lstm_by_hand():
    """Two directions of four gates, each reading d numbers and d/2 of its own; then the head."""
    gates = 2 * 4 * 4 * (8 + 4)
    assert BiLSTMShape(8, 1).flops(WORDS, LENGTH) == 6 * (LENGTH * gates + 8 * 8 + 8 * WORDS)


@every_shape
def test_longer_and_deeper_leaves_more_activations(shape):
    deeper = type(shape)(**{**vars(shape), "layers": shape.layers + 1})
    assert 0 < shape.activations(LENGTH) < deeper.activations(LENGTH)


def test_what_a_family_lacks_is_refused_in_one_sentence():
    message = "An LSTM cannot be trained with post-LN, dropout, .*; choose another family's size"
    with pytest.raises(ParameterError, match=message):
        BiLSTMShape(8, 1).build(WORDS, LENGTH, norm="post", dropout=0.1)
    BiLSTMShape(8, 1).check_plain(False)
    SHAPES[0].check_plain(True)


def test_a_family_that_does_not_say_everything_is_refused():
    class Half(Shape):
        d_model, layers = 2, 1

    with pytest.raises(TypeError, match=r"abstract .*flops"):
        Half()
