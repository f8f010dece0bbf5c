"""SGD on drawn sequences, and Transformer blocks."""

import pytest
import torch

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.models.encoder import EncoderShape
from sameloss.studies.decision_lists.theory import Column, cyclic_lists, draw_sequences, flow, uniform_sets
from sameloss.studies.decision_lists.training import (
    Look,
    Steps,
    attention_of,
    block_looked_at,
    both_by_sgd,
    error_of,
    logits_of,
    looked_at,
    new_block,
    ordered_columns,
    scores_by_sgd,
    train_block,
    trained_on,
)

# SGD: equal seeds and equal bits, beside the exact flow, both matrices, and what is told of a look.

TASK = cyclic_lists(12, 3)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_looks_are_at_equal_distances_from_the_first():
    assert Steps(1.0, 8, 10, 4).look_steps == [0, 2, 5, 8, 10]
    found = list(scores_by_sgd(TASK, 3, 30.0, Steps(0.1, 8, 10, 4), generator()))
    assert [look.step for look in found] == [0, 2, 5, 8, 10]
    assert not found[0].scores.any()


@pytest.mark.parametrize("both", [False, True])
def test_equal_seeds_give_equal_bits(both):
    how = Steps(0.5, 8, 6, 2)

    def end(seed):
        train = both_by_sgd(TASK, 3, how, generator(seed)) if both else None
        return list(train or scores_by_sgd(TASK, 3, 30.0, how, generator(seed)))[-1]

    assert torch.equal(end(1).scores, end(1).scores)
    assert not torch.equal(end(1).scores, end(2).scores)


def test_with_small_steps_and_large_batches_it_is_the_flow():
    how = Steps(0.005, 4000, 100, 1)
    *_, last = scores_by_sgd(TASK, 3, 30.0, how, generator())
    found = flow(Column(12, 3, 3, 30.0), 0.5 * (30 / 3) ** 2).scores(50.0)
    columns = torch.stack([last.scores[list(own), token] for token, own in enumerate(TASK.lists)])
    assert columns.mean(0).tolist() == pytest.approx(found[:3].tolist(), abs=0.02)


def test_both_matrices_learn_the_task():
    *_, last = both_by_sgd(TASK, 3, Steps(5.0, 64, 150, 1), generator())
    told = looked_at(TASK, last, uniform_sets(12, 3).sequences)
    assert told["accuracy"] > 0.98
    assert told["readout"] > 3
    assert told["attention"] > 0.5


def test_what_a_look_tells():
    sets = uniform_sets(12, 3).sequences
    nothing = looked_at(TASK, Look(0, torch.zeros(12, 12), TASK.read_out(30.0).float()), sets)
    assert nothing["accuracy"] == nothing["ordered"] == 0
    assert nothing["attention"] == pytest.approx(1 / 3)
    assert nothing["readout"] == 30
    scores = torch.zeros(12, 12)
    for token, own in enumerate(TASK.lists):
        scores[list(own), token] = torch.tensor([3.0, 2.0, 1.0])
    told = looked_at(TASK, Look(7, scores, TASK.read_out(30.0).float()), sets)
    assert (told["step"], told["accuracy"], told["listed_accuracy"], told["ordered"]) == (7, 1, 1, 1)


def test_columns_are_ordered_only_with_all_others_below():
    scores = torch.zeros(12, 12)
    scores[list(TASK.lists[0]), 0] = torch.tensor([3.0, 2.0, 1.0])
    scores[list(TASK.lists[1]), 1] = torch.tensor([3.0, 1.0, 2.0])
    scores[list(TASK.lists[2]), 2] = torch.tensor([3.0, 2.0, 0.0])
    assert ordered_columns(TASK, scores).tolist() == [1.0] + 11 * [0.0]


def test_a_fixed_sample_is_learnt_and_new_sequences_less():
    drawn, new = draw_sequences(12, 3, 20, generator()), uniform_sets(12, 3).sequences
    scores = trained_on(TASK, 30.0, 0.3, drawn, 500)
    assert error_of(TASK, 30.0, scores, drawn) == 0
    few = error_of(TASK, 30.0, scores, new)
    more = trained_on(TASK, 30.0, 0.3, draw_sequences(12, 3, 300, generator(1)), 500)
    assert 0 < error_of(TASK, 30.0, more, new) + 0.001 < few


def test_a_rate_that_is_too_large_is_named():
    with pytest.raises(NonFiniteLoss, match="diverged at the rate 1e\\+38; choose a smaller one"):
        list(both_by_sgd(TASK, 3, Steps(1e38, 8, 20, 1), generator()))


@pytest.mark.parametrize("given", [(0.0, 8, 10, 2), (1.0, 0, 10, 2), (1.0, 8, 0, 2), (1.0, 8, 10, 0)])
def test_steps_that_lead_nowhere_are_refused(given):
    with pytest.raises(ParameterError, match="must be"):
        Steps(*given)


# A transformer block on the task: without positions, with its attention read off, and trained.

TASK_BLOCK, SHAPE = cyclic_lists(8, 3), EncoderShape(16, 1, 1, 32)


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
    list(train_block(model, TASK_BLOCK, 1e-2, 8, 3, own))
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
    before = block_looked_at(model, TASK_BLOCK, everything)
    assert before["attention"] == pytest.approx(1 / 3, abs=0.02)
    assert list(train_block(model, TASK_BLOCK, 1e-2, 64, 200, own)) == list(range(1, 201))
    after = block_looked_at(model, TASK_BLOCK, everything)
    assert after["accuracy"] > 0.95
    assert after["listed_accuracy"] > 0.9
    assert after["attention"] > 0.6


def test_the_best_head_of_all_layers_is_told():
    model = new_block(8, 3, EncoderShape(16, 2, 2, 32), mlp=True, seed=0)
    found = attention_of(model, sequences())
    assert [tuple(layer.shape) for layer in found] == [(20, 2, 3, 3)] * 2
