"""The model of equation (4.1): by the formula, gradients against automatic ones, ties, symmetries."""

import pytest
import torch

from sameloss.studies.decision_lists.theory import (
    correct,
    cyclic_lists,
    draw_sequences,
    fixed_read_out_gradient,
    forward,
    gradients,
    random_lists,
    uniform_attention_bound,
    uniform_sets,
    weight_on_determining,
)


def drawn(words=7, length=4, count=6, seed=0, tokens_repeat=False):
    own = torch.Generator().manual_seed(seed)
    task = random_lists(words, 4, own)
    scores = torch.randn(words, words, generator=own, dtype=torch.float64)
    read_out = 5 * torch.randn(words, words, generator=own, dtype=torch.float64)
    if tokens_repeat:
        sequences = torch.randint(words, (count, length), generator=own)
    else:
        sequences = draw_sequences(words, length, count, own)
    weights = torch.rand(count, generator=own, dtype=torch.float64)
    return task, scores, read_out, sequences, weights / weights.sum()


def by_formula(scores, read_out, sequence):
    """σ(V X σ(XᵀWX)) of one sequence, as printed; columns are tokens."""
    x = torch.nn.functional.one_hot(sequence, len(scores)).double().T
    attention = (x.T @ scores @ x).softmax(0)
    return (read_out @ x @ attention).softmax(0)


@pytest.mark.parametrize("tokens_repeat", [False, True])
def test_outputs_are_those_of_the_formula(tokens_repeat):
    task, scores, read_out, sequences, _ = drawn(tokens_repeat=tokens_repeat)
    found = forward(scores, read_out, sequences, task.labels(sequences))
    for row, sequence in enumerate(sequences):
        expected = by_formula(scores, read_out, sequence).T
        torch.testing.assert_close(found.logits[row].softmax(-1), expected)
        labels = task.labels(sequences)[row]
        torch.testing.assert_close(found.losses[row], -expected[range(len(labels)), labels].log())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tokens_repeat", [False, True])
def test_gradients_by_hand_are_the_automatic_ones(seed, tokens_repeat):
    task, scores, read_out, sequences, weights = drawn(seed=seed, tokens_repeat=tokens_repeat)
    scores.requires_grad_()
    read_out.requires_grad_()
    found = forward(scores, read_out, sequences, task.labels(sequences))
    (found.losses.mean(1) @ weights).backward()
    with torch.no_grad():
        by_hand = gradients(found, read_out, sequences, weights)
    torch.testing.assert_close(by_hand.scores, scores.grad, atol=1e-12, rtol=0)
    torch.testing.assert_close(by_hand.read_out, read_out.grad, atol=1e-12, rtol=0)


@pytest.mark.parametrize("readout", [1.0, 50.0, 1e4])
def test_the_fast_gradient_is_the_other_one(readout):
    task, scores, _, sequences, _ = drawn(words=9)
    fixed, weights = task.read_out(readout), torch.full((6,), 1 / 6, dtype=torch.float64)
    found = forward(scores, fixed, sequences, task.labels(sequences))
    slow = gradients(found, fixed, sequences, weights).scores
    fast = fixed_read_out_gradient(scores, readout, task, sequences)
    torch.testing.assert_close(fast, slow, atol=1e-12 * readout, rtol=1e-10)


def test_a_drawn_gradient_is_unbiased():
    """Its mean over batches lies within its error of the exact one; a bias of an eighth would be seen."""
    task, batches = cyclic_lists(5, 2), 4000
    own = torch.Generator().manual_seed(3)
    scores = torch.randn(5, 5, generator=own)
    sets = uniform_sets(5, 3)
    exact = fixed_read_out_gradient(scores.double(), 4.0, task, sets.sequences)
    drawn_ones = torch.stack(
        [
            fixed_read_out_gradient(scores, 4.0, task, draw_sequences(5, 3, 2, own)).double()
            for _ in range(batches)
        ]
    )
    error = drawn_ones.std(0) / batches**0.5
    assert ((drawn_ones.mean(0) - exact).abs() < 4.5 * error + 1e-7).all()
    assert 4.5 * float(error.max()) < float(exact.abs().max()) / 8


def test_ties_are_errors():
    task = cyclic_lists(6, 2)
    sequences = uniform_sets(6, 3).sequences
    labels = task.labels(sequences)
    found = forward(torch.zeros(6, 6).double(), task.read_out(10.0), sequences, labels)
    assert not correct(found.logits, labels).any()


def test_the_order_of_a_sequence_and_the_names_of_tokens_do_not_matter(task, sets):
    own = torch.Generator().manual_seed(1)
    scores = torch.randn(8, 8, generator=own, dtype=torch.float64)
    read_out, labels = task.read_out(7.0), task.labels(sets.sequences)
    losses = forward(scores, read_out, sets.sequences, labels).losses
    turned = sets.sequences.flip(1)
    torch.testing.assert_close(forward(scores, read_out, turned, labels.flip(1)).losses.flip(1), losses)
    moved = torch.arange(8).roll(3)  # token i is called moved[i]; labels keep their names
    renamed, columns = torch.empty_like(scores), torch.empty_like(read_out)
    renamed[moved[:, None], moved[None, :]] = scores
    columns[:, moved] = read_out
    torch.testing.assert_close(forward(renamed, columns, moved[sets.sequences], labels).losses, losses)


def test_uniform_attention_pays_the_nth_part_and_has_a_bound(task, sets):
    labels = task.labels(sets.sequences)
    found = forward(torch.zeros(8, 8).double(), task.read_out(1.0), sets.sequences, labels)
    assert weight_on_determining(task, found.attention, sets.sequences).unique().tolist() == [0.25]
    bound = uniform_attention_bound(task, sets.sequences)
    for row, own in zip(bound.tolist(), labels.tolist(), strict=True):
        assert row == max(own.count(label) for label in own) / 4


def test_the_bound_is_met_by_no_read_out():
    """Uniform attention at twenty random V never classifies more than the bound."""
    task, sequences = cyclic_lists(12, 3), uniform_sets(12, 3).sequences
    labels, own = task.labels(sequences), torch.Generator().manual_seed(0)
    bound = uniform_attention_bound(task, sequences)
    assert float(bound.double().mean()) == pytest.approx(0.60606, abs=1e-5)
    for _ in range(20):
        read_out = torch.randn(12, 12, generator=own)
        logits = forward(torch.zeros(12, 12), read_out, sequences, labels).logits
        assert (correct(logits, labels).float().mean(1) <= bound).all()
