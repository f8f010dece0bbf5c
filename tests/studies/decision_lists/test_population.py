"""The reduction to m + 1 numbers beside all sets with automatic gradients, closed forms, and limits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from sameloss.errors import ParameterError
from sameloss.studies.decision_lists.theory import (
    Column,
    correct,
    forward,
    luce_gradient,
    luce_loss,
    triple_mass,
    weight_on_determining,
)


def whole(task, given):
    """Return W whose columns hold m + 1 entries: those of the list in order, and that of all other tokens."""
    scores = torch.full((task.words, task.words), float(given[-1]), dtype=torch.float64)
    for token, own in enumerate(task.lists):
        scores[list(own), token] = torch.tensor(given[:-1])
    return scores


def entries(seed, rules=3):
    return np.random.default_rng(seed).normal(size=rules + 1)


@pytest.mark.parametrize("readout", [1.0, 7.0, 50.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_and_gradient_are_those_of_all_sets(task, sets, readout, seed):
    w, column = entries(seed), Column(8, 4, 3, readout)
    scores = whole(task, w).requires_grad_()
    labels = task.labels(sets.sequences)
    found = forward(scores, task.read_out(readout), sets.sequences, labels)
    loss = found.losses.mean(1) @ sets.probabilities
    loss.backward()
    assert 8 * column.loss(w) == pytest.approx(float(loss.detach()), abs=1e-12)
    for token, own in enumerate(task.lists):
        others = [other for other in range(8) if other not in own]
        np.testing.assert_allclose(scores.grad[list(own), token], column.gradient(w)[:-1], atol=1e-12)
        np.testing.assert_allclose(scores.grad[others, token], column.gradient(w)[-1], atol=1e-12)


def test_accuracy_and_attention_are_those_of_all_sets(task, sets):
    w, column = entries(0), Column(8, 4, 3, 9.0)
    labels = task.labels(sets.sequences)
    found = forward(whole(task, w), task.read_out(9.0), sets.sequences, labels)
    right = correct(found.logits, labels).double().mean(1) @ sets.probabilities
    paid = weight_on_determining(task, found.attention, sets.sequences).mean(1) @ sets.probabilities
    assert column.accuracy(w) == pytest.approx(float(right))
    assert column.weight_on_determining(w) == pytest.approx(float(paid))


def test_ties_are_errors_and_the_order_of_the_list_is_right():
    column = Column(8, 4, 3, 5.0)
    assert column.accuracy(np.zeros(4)) == 0
    assert column.accuracy(np.array([4.0, 3, 2, 1])) == 1
    assert column.accuracy(np.array([4.0, 4, 2, 1])) < 1


@pytest.mark.parametrize("shape", [(8, 4, 3), (12, 3, 3), (200, 25, 4), (20, 10, 2), (9, 2, 5)])
def test_patterns_are_a_distribution(shape):
    column = Column(*shape, 3.0)
    assert column.masses.sum() == pytest.approx(shape[1] / shape[0])
    assert (column.counts.sum(1) == shape[1]).all()
    assert (column.rivals.sum(1) == shape[1] - 1).all()


@pytest.mark.parametrize("w", [entries(3), 1e-6 * entries(4), 25 * entries(5)])
def test_the_gradient_over_a_column_sums_to_zero(w):
    column = Column(200, 25, 4, 30.0)
    found = column.gradient(np.append(w, 0.0))
    assert abs(column.multiplicities @ found) < 1e-12 * abs(found).max()


def test_the_gradient_is_that_of_the_loss():
    column, w = Column(200, 25, 4, 12.0), entries(2, 4)
    step = 1e-6
    for at in range(5):
        moved = np.eye(5)[at] * step
        slope = (column.loss(w + moved) - column.loss(w - moved)) / (2 * step)
        assert slope == pytest.approx(column.gradient(w)[at] * column.multiplicities[at], rel=1e-6, abs=1e-12)


def test_far_scores_keep_their_digits():
    """Where almost all attention is on one token, 1 − p would be lost in a difference."""
    column = Column(200, 25, 4, 10.0)
    near, far = (column.gradient(np.array([0.0, 0, 0, top, 0.0]))[:3] for top in (40.0, 41.0))
    np.testing.assert_allclose(far / near, np.exp(-1), rtol=1e-9)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(column.loss(np.array([0.0, 0, 0, 900.0, 0.0])))
    assert np.isfinite(replace(column, readout=1e8).gradient(entries(0, 4))).all()


def test_closed_forms(task, sets):
    column = Column(8, 4, 3, 6.0)
    assert column.triple_mass == pytest.approx(triple_mass(task, sets))
    np.testing.assert_allclose(column.first_step(), -column.gradient(np.zeros(4)), atol=1e-15)
    assert column.set_mass == pytest.approx(1 / 70)
    alone = np.array([0.0, 0, 1, 0])
    assert column.plateau == pytest.approx(column.accuracy(alone))


@pytest.mark.parametrize("shape", [(200, 25, 4), (40, 5, 4), (12, 3, 3), (8, 2, 3)])
def test_the_least_triple_of_larger_tasks(shape):
    column = Column(*shape, 1.0)
    if shape == (200, 25, 4):
        assert column.triple_mass == pytest.approx(1.381e-3, rel=1e-3)
        assert column.plateau == pytest.approx(0.67865, abs=1e-5)
        assert column.critical_readout == pytest.approx(5.9877, abs=1e-4)
    np.testing.assert_allclose(column.first_step(), -column.gradient(np.zeros(shape[2] + 1)), atol=1e-15)


def test_the_force_on_the_plateau_turns_at_the_critical_read_out():
    """With nearly all attention on the token itself, its score is pulled back above c*, and up below it."""
    trapped = np.array([0.0, 0, 0, 12.0, 0.0])
    column = Column(400, 50, 4, 1.0)
    star = column.critical_readout
    for readout, sign in ((star - 0.05, -1), (star + 0.05, 1)):
        force = -replace(column, readout=readout).gradient(trapped)[3]
        assert np.sign(force) == -sign


def test_rare_heads():
    column = Column(8, 4, 3, 6.0)
    rare = replace(column, rarity=0.5)
    with_head = column.counts[:, 0] == 1
    np.testing.assert_allclose(rare.masses[with_head], column.masses[with_head] / 2)
    np.testing.assert_allclose(rare.masses[~with_head], column.masses[~with_head])


def test_the_limit_is_luces_model():
    """At c → ∞ with u = c w / n, and against a loop over all sets."""
    u, readout = entries(1), 4e8
    column = Column(8, 4, 3, readout)
    scale = 4 / readout
    np.testing.assert_allclose(column.gradient(u * scale) * scale, luce_gradient(column, u), rtol=1e-5)
    assert column.loss(u * scale) == pytest.approx(luce_loss(column, u), rel=1e-5)
    total = 0.0
    for counts, mass, decides in zip(column.counts, column.masses, column.deciding, strict=True):
        choice = log_softmax(np.repeat(u, counts))
        total -= mass * choice[int(counts[:decides].sum())]
    assert luce_loss(column, u) == pytest.approx(total / 4)


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ((3, 4, 2, 1.0), "needs a vocabulary of as many"),
        ((5, 3, 5, 1.0), "A list of 5 tokens leaves none of the 5 outside"),
        ((50, 3, 13, 1.0), "Lists have at most 12 tokens; got 13"),
        ((8, 4, 3, 0.0), "readout must be positive and finite; got 0"),
        ((8, 4, 3, float("nan")), "readout must be positive"),
        ((8, 4, 3, 1.0, -1.0), "rarity must be positive"),
    ],
)
def test_bad_columns_end_in_one_sentence(shape, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Column(*shape)
