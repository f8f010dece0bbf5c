"""A transformer block on the task: without positions, with its attention read off, and trained."""

import pytest
import torch

from sameloss.models.encoder import EncoderShape
from sameloss.studies.decision_lists.theory import cyclic_lists, draw_sequences, uniform_sets
from sameloss.studies.decision_lists.training import (
    attention_of,
    block_looked_at,
    logits_of,
    new_block,
    train_block,
)

TASK, SHAPE = cyclic_lists(8, 3), EncoderShape(16, 1, 1, 32)


def sequences(count=20):
    return draw_sequences(8, 3, count, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("mlp", [False, True])
def test_the_order_of_a_sequence_does_not_matter(mlp):
    model, drawn = new_block(8, 3, SHAPE, mlp, seed=1).double(), sequences()
    logits = logits_of(model, drawn)
    assert logits.shape == (20, 3, 8)
    torch.testing.assert_close(logits_of(model, drawn.flip(1)).flip(1), logits)


def test_without_its_mlp_a_block_has_none_after_training_either():
    model, own = new_block(8, 3, SHAPE, mlp=False, seed=1), torch.Generator().manual_seed(0)
    list(train_block(model, TASK, 1e-2, 8, 3, own))
    block = model.blocks[0]
    assert not block.mlp_out.weight.any()
    assert not model.position.weight.any()
    assert not block._mlp(torch.randn(2, 16)).any()
    assert new_block(8, 3, SHAPE, mlp=True, seed=1).blocks[0].mlp_out.weight.any()


def test_attention_is_what_the_block_attends_with():
    """With it the block's own sum is made again by hand."""
    model, drawn = new_block(8, 3, SHAPE, mlp=False, seed=2).double(), sequences()
    (weights,) = attention_of(model, drawn)
    torch.testing.assert_close(weights.sum(-1), torch.ones(20, 1, 3).double())
    block = model.blocks[0]
    h = model.embedding_norm(model.word(drawn + 1))
    values = (block.attention_norm(h) @ block.attention.qkv.weight[32:].T) + block.attention.qkv.bias[32:]
    by_hand = h + block.attention.out(weights[:, 0] @ values)
    torch.testing.assert_close(block(h, None), by_hand)
    assert not block._forward_pre_hooks


def test_it_learns_where_to_look():
    model, own = new_block(8, 3, SHAPE, mlp=False, seed=3), torch.Generator().manual_seed(3)
    everything = uniform_sets(8, 3).sequences
    before = block_looked_at(model, TASK, everything)
    assert before["attention"] == pytest.approx(1 / 3, abs=0.02)
    assert list(train_block(model, TASK, 1e-2, 64, 200, own)) == list(range(1, 201))
    after = block_looked_at(model, TASK, everything)
    assert after["accuracy"] > 0.95
    assert after["listed_accuracy"] > 0.9
    assert after["attention"] > 0.6


def test_the_best_head_of_all_layers_is_told():
    model = new_block(8, 3, EncoderShape(16, 2, 2, 32), mlp=True, seed=0)
    found = attention_of(model, sequences())
    assert [tuple(layer.shape) for layer in found] == [(20, 2, 3, 3)] * 2
