"""Lists, their population loss, theorems, attention, one step, flows."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from scipy.integrate import OdeSolution

from sameloss.studies.decision_lists.theory import (
    Column,
    DecisionLists,
    Flow,
    correct,
    cyclic_lists,
    decides,
    descend,
    draw_sequences,
    fixed_gradient,
    flow,
    forward,
    gradients,
    order_of,
    population_loss,
    random_lists,
    readout_of_44,
    triple_mass,
    uniform_sets,
)

# Decision lists: labels by the definition, sets and their probabilities, and what is refused.


def by_definition(task, sequence):
    return [task.permutation[next(b for b in task.lists[a] if b in sequence)] for a in sequence]


def test_labels_are_those_of_the_definition(sets):
    for seed in range(5):
        task = random_lists(8, 4, torch.Generator().manual_seed(seed))
        labels = task.labels(sets.sequences).tolist()
        assert labels == [by_definition(task, sequence) for sequence in sets.sequences.tolist()]


def test_a_token_decides_its_own_label_where_nothing_before_it_occurs():
    task = DecisionLists((0, 1, 2, 3), ((1, 2, 0), (1,), (2,), (3,)))
    sequences = torch.tensor([[0, 3], [0, 2], [2, 0]])
    assert task.determining(sequences).tolist() == [[0, 3], [2, 2], [2, 2]]


def test_the_printed_lists_of_figure_41():
    task = cyclic_lists(200, 4)
    assert task.lists[0] == (10, 20, 30, 0)
    assert task.lists[195] == (5, 15, 25, 195)
    assert task.permutation[185] == 5
    assert sorted(task.permutation) == list(range(200))


def test_the_read_out_turns_a_token_into_its_label(task):
    assert task.read_out(3.0).argmax(0).tolist() == list(task.permutation)
    assert task.read_out(3.0).sum() == 3 * task.words


def test_drawn_sequences_have_no_token_twice_and_all_sets_alike():
    drawn = draw_sequences(5, 2, 10_000, torch.Generator().manual_seed(0))
    counts = Counter(tuple(sorted(row)) for row in drawn.tolist())
    assert set(counts) == set(combinations(range(5), 2))
    assert max(abs(count - 1000) for count in counts.values()) < 4 * 900**0.5


def test_the_least_triple_by_counting(task, sets):
    """4 of 70 sets: the second of a list decides, with the token and another one behind it or outside."""
    assert triple_mass(task, sets) == pytest.approx(4 / 70)
    alone = DecisionLists((0, 1, 2, 3), ((0,), (1,), (2,), (3,)))
    assert triple_mass(alone, uniform_sets(4, 2)) == pytest.approx(1 / 6)


# The reduction to m + 1 numbers beside all sets with automatic gradients, closed forms, and limits.


def whole(task, w):
    """W with the same m + 1 entries in every column: those of the list in order, and that of all others."""
    scores = torch.full((task.words, task.words), float(w[-1]), dtype=torch.float64)
    for token, listed in enumerate(task.lists):
        scores[list(listed), token] = torch.tensor(w[:-1])
    return scores


def entries(seed, rules=3):
    return np.random.default_rng(seed).normal(size=rules + 1)


@pytest.mark.parametrize("readout", [1.0, 7.0, 50.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_and_gradient_are_those_of_all_sets(task, sets, readout, seed):
    w, column = entries(seed), Column(8, 4, 3, readout)
    scores = whole(task, w).requires_grad_()
    loss = population_loss(scores, task.read_out(readout), task, sets)
    loss.backward()
    assert 8 * column.loss(w) == pytest.approx(float(loss.detach()), abs=1e-12)
    for token, listed in enumerate(task.lists):
        others = [other for other in range(8) if other not in listed]
        np.testing.assert_allclose(scores.grad[list(listed), token], column.gradient(w)[:-1], atol=1e-12)
        np.testing.assert_allclose(scores.grad[others, token], column.gradient(w)[-1], atol=1e-12)


def test_accuracy_and_attention_are_those_of_all_sets(task, sets):
    w, column = entries(0), Column(8, 4, 3, 9.0)
    labels = task.labels(sets.sequences)
    computed = forward(whole(task, w), task.read_out(9.0), sets.sequences, labels)
    right = correct(computed.logits, labels).double().mean(1) @ sets.probabilities
    paid = (computed.attention * decides(task, sets.sequences)).sum(-1).mean(1) @ sets.probabilities
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
    alone = np.array([0.0, 0, 1, 0])
    assert column.plateau == pytest.approx(column.accuracy(alone))


@pytest.mark.parametrize("shape", [(200, 25, 4), (40, 5, 4), (12, 3, 3), (8, 2, 3)])
def test_the_least_triple_of_larger_tasks(shape):
    column = Column(*shape, 1.0)
    if shape == (200, 25, 4):
        assert column.triple_mass == pytest.approx(1.381e-3, rel=1e-3)
        assert column.plateau == pytest.approx(0.67865, abs=1e-5)
        assert column.critical_readout == pytest.approx(5.9877, abs=1e-4)
    assert -column.gradient(np.zeros(shape[2] + 1)) == pytest.approx(first_step(*shape), abs=1e-15)


def first_step(words, length, rules):
    """(1/n²) (Pr[a and k occur, k decides] − Pr[a and k occur]/n), by counting sets."""
    total = comb(words, length)
    decides = [comb(words - place - 2, length - 2) / total for place in range(rules - 1)]
    decides += [comb(words - rules, length - 1) / total, 0]
    both = length * (length - 1) / (words * (words - 1))
    occurs = [both] * (rules - 1) + [length / words, both]
    return [(one - other / length) / length**2 for one, other in zip(decides, occurs, strict=True)]


def test_the_force_on_the_plateau_turns_at_the_critical_read_out():
    """With nearly all attention on the token itself, its score is pulled back above c*, and up below it."""
    trapped = np.array([0.0, 0, 0, 12.0, 0.0])
    column = Column(400, 50, 4, 1.0)
    star = column.critical_readout
    for readout, sign in ((star - 0.05, -1), (star + 0.05, 1)):
        force = -replace(column, readout=readout).gradient(trapped)[3]
        assert np.sign(force) == -sign


# What the theorems ask for: their printed numbers, and the bound on all Hessians against the Hessians.


def test_the_printed_setting():
    column = Column(200, 25, 4, 9.591e6)
    assert column.promised_time * column.curvature_bound == pytest.approx(1.39e12, rel=1e-2)
    assert column.gradient_bound == pytest.approx(0.43863, rel=1e-4)


@pytest.mark.parametrize("readout", [1.0, 8.0, 60.0])
def test_no_hessian_of_the_population_loss_is_above_the_bound(readout):
    task, sets = cyclic_lists(6, 3), uniform_sets(6, 3)
    fixed, rng = task.read_out(readout), torch.Generator().manual_seed(0)
    task.labels(sets.sequences)  # caches tensors that must not be created inside the Hessian

    def loss(flat):
        return population_loss(flat.view(6, 6), fixed, task, sets)

    bound, largest = Column(6, 3, 3, readout).curvature_bound, []
    for _ in range(10):
        spread = 3 * torch.rand((), generator=rng, dtype=torch.float64)
        at = spread * torch.randn(36, generator=rng, dtype=torch.float64)
        largest.append(float(torch.linalg.eigvalsh(torch.func.hessian(loss)(at)).abs().max()))
    assert max(largest) <= bound
    assert max(largest) > bound / 200


@pytest.mark.parametrize(("radius", "expected"), [(1.0, 1.903e5), (0.1, 4.808e5)])
def test_the_least_read_out_of_44(radius, expected):
    """The pilot's, with the loss that V = cP has at W = 0."""
    task, sets = cyclic_lists(12, 3), uniform_sets(12, 3)
    readout = readout_of_44(radius, task, sets, torch.zeros(12, 12, dtype=torch.float64))
    assert readout == pytest.approx(expected, rel=1e-3)
    first_loss = 12 * Column(12, 3, 3, readout).loss(np.zeros(4))
    slope = 4 * max(1, first_loss) * (3 / radius) ** 0.5 + 6 * radius / 3
    assert readout >= (slope * 90 * 220 + 4 * radius) * (1 - 1e-12)


# The model of equation (4.1): by the formula, gradients against automatic ones, ties, symmetries.


def drawn(words=7, length=4, count=6, seed=0, tokens_repeat=False):
    rng = torch.Generator().manual_seed(seed)
    task = random_lists(words, 4, rng)
    scores = torch.randn(words, words, generator=rng, dtype=torch.float64)
    read_out = 5 * torch.randn(words, words, generator=rng, dtype=torch.float64)
    if tokens_repeat:
        sequences = torch.randint(words, (count, length), generator=rng)
    else:
        sequences = draw_sequences(words, length, count, rng)
    weights = torch.rand(count, generator=rng, dtype=torch.float64)
    return task, scores, read_out, sequences, weights / weights.sum()


def by_formula(scores, read_out, sequence):
    """σ(V X σ(XᵀWX)) of one sequence, as printed; columns are tokens."""
    x = torch.nn.functional.one_hot(sequence, len(scores)).double().T
    attention = (x.T @ scores @ x).softmax(0)
    return (read_out @ x @ attention).softmax(0)


@pytest.mark.parametrize("tokens_repeat", [False, True])
def test_outputs_are_those_of_the_formula(tokens_repeat):
    task, scores, read_out, sequences, _ = drawn(tokens_repeat=tokens_repeat)
    computed = forward(scores, read_out, sequences, task.labels(sequences))
    for row, sequence in enumerate(sequences):
        expected = by_formula(scores, read_out, sequence).T
        torch.testing.assert_close(computed.logits[row].softmax(-1), expected)
        labels = task.labels(sequences)[row]
        torch.testing.assert_close(computed.losses[row], -expected[range(len(labels)), labels].log())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tokens_repeat", [False, True])
def test_gradients_by_hand_are_the_automatic_ones(seed, tokens_repeat):
    task, scores, read_out, sequences, weights = drawn(seed=seed, tokens_repeat=tokens_repeat)
    scores.requires_grad_()
    read_out.requires_grad_()
    computed = forward(scores, read_out, sequences, task.labels(sequences))
    (computed.losses.mean(1) @ weights).backward()
    with torch.no_grad():
        by_hand = gradients(computed, read_out, sequences, weights)
    torch.testing.assert_close(by_hand, (scores.grad, read_out.grad), atol=1e-12, rtol=0)


@pytest.mark.parametrize("readout", [1.0, 50.0, 1e4])
def test_the_fast_gradient_is_the_other_one(readout):
    task, scores, _, sequences, _ = drawn(words=9)
    fixed, weights = task.read_out(readout), torch.full((6,), 1 / 6, dtype=torch.float64)
    computed = forward(scores, fixed, sequences, task.labels(sequences))
    slow, _ = gradients(computed, fixed, sequences, weights)
    fast = fixed_gradient(scores, readout, task, sequences)
    torch.testing.assert_close(fast, slow, atol=1e-12 * readout, rtol=1e-10)


def test_a_drawn_gradient_is_unbiased():
    """Its mean over batches lies within its error of the exact one; a bias of an eighth would be seen."""
    task, batches = cyclic_lists(5, 2), 4000
    rng = torch.Generator().manual_seed(3)
    scores = torch.randn(5, 5, generator=rng)
    sets = uniform_sets(5, 3)
    exact = fixed_gradient(scores.double(), 4.0, task, sets.sequences)
    drawn_ones = torch.stack(
        [fixed_gradient(scores, 4.0, task, draw_sequences(5, 3, 2, rng)).double() for _ in range(batches)]
    )
    error = drawn_ones.std(0) / batches**0.5
    assert ((drawn_ones.mean(0) - exact).abs() < 4.5 * error + 1e-7).all()
    assert 4.5 * float(error.max()) < float(exact.abs().max()) / 8


def test_the_order_of_a_sequence_and_the_names_of_tokens_do_not_matter(task, sets):
    rng = torch.Generator().manual_seed(1)
    scores = torch.randn(8, 8, generator=rng, dtype=torch.float64)
    read_out, labels = task.read_out(7.0), task.labels(sets.sequences)
    losses = forward(scores, read_out, sets.sequences, labels).losses
    turned = sets.sequences.flip(1)
    torch.testing.assert_close(forward(scores, read_out, turned, labels.flip(1)).losses.flip(1), losses)
    moved = torch.arange(8).roll(3)  # token i is called moved[i]; labels keep their names
    renamed, columns = torch.empty_like(scores), torch.empty_like(read_out)
    renamed[moved[:, None], moved[None, :]] = scores
    columns[:, moved] = read_out
    torch.testing.assert_close(forward(renamed, columns, moved[sets.sequences], labels).losses, losses)


# Flows: beside descent with tiny steps, events of a path with known crossings, known times.

COLUMN = Column(12, 3, 3, 30.0)


def test_descent_with_tiny_steps_is_the_flow():
    """Euler's error is of the order of the step: half of it, half the error."""
    end = 2.0
    path, errors = flow(COLUMN, end * (30 / 3) ** 2), []
    exact = path.scores(path.horizon)
    for steps in (500, 1000):
        errors.append(abs(descend(COLUMN, end / steps, steps, stop=False)[2] - exact).max())
    assert errors[1] < 2e-3
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)


class Circling(OdeSolution):
    """Four scores that are cosines: their order is known at any time."""

    def __init__(self):
        self.ts = np.linspace(1e-6, 6, 60)

    def __call__(self, time):
        return np.cos(time + 2 * np.pi * np.arange(4) / 4)


def test_events_are_the_crossings_of_a_known_path():
    path = Flow(Column(8, 4, 3, 5.0), Circling(), 6.0)
    times = [event.time for event in path.events]
    expected = [np.pi / 4 * k for k in range(1, 8)]
    np.testing.assert_allclose(times[1:], [time for time in expected if time < 6], atol=1e-8)
    for event, until in zip(path.events, [*times[1:], 6.0], strict=True):
        middle = (event.time * until) ** 0.5
        assert event.order == order_of(Circling()(middle))


@pytest.mark.parametrize(("readout", "perfect"), [(1e5, 12_389), (100, 5798), (10, 1507), (7, 1965)])
def test_scaled_times_of_the_printed_setting(readout, perfect):
    """Those of the pilot, which integrated with code of its own."""
    path = flow(Column(200, 25, 4, float(readout)), 1e6)
    assert path.perfect == pytest.approx(perfect, rel=1e-3)
    assert [event.order for event in path.events] == ["4123o", "1423o", "1243o", "1234o"]
    assert path.events[0].accuracy == pytest.approx(path.column.plateau)
    assert path.perfect / path.column.time_scale == pytest.approx(path.perfect * (25 / readout) ** 2)


def test_times_converge_as_the_read_out_grows():
    """To that of Luce's model, followed by another program."""
    assert flow(Column(200, 25, 4, 1e7), 1e6).perfect == pytest.approx(12_404, rel=1e-3)


def test_the_sum_over_a_column_is_conserved_and_the_loss_falls():
    path = flow(COLUMN, 1e5)
    weights = COLUMN.multiplicities
    times = np.logspace(-5, 5, 40)
    assert max(abs(weights @ path.at(time)) for time in times) < 1e-6
    assert (np.diff([COLUMN.loss(path.scores(time)) for time in times]) < 0).all()


def test_a_plateau_that_lasts_has_no_perfect_time():
    below = Column(200, 25, 4, 4.0)
    assert np.isnan(flow(below, 1e6).perfect)
    assert [event.accuracy for event in flow(below, 1e6).events] == [pytest.approx(below.plateau)]


def test_descent_at_the_theorems_rate():
    column = Column(40, 5, 4, 4e5)
    perfect, losses, _ = descend(column, 1 / column.curvature_bound, 1000)
    assert 0 < perfect < 1000
    assert (np.diff(losses) < 0).all()
    assert descend(column, 1e-12, 3)[0] == 0


def test_the_curvature_at_the_start_is_that_of_the_loss():
    """Along random directions, by differences of the loss, there is none that is larger."""
    column, step, rng = Column(8, 4, 3, 6.0), 1e-3, np.random.default_rng(0)
    for direction in rng.normal(size=(50, 4)):
        moved = step * direction / np.linalg.norm(direction) / column.multiplicities**0.5
        second = (column.loss(moved) - 2 * column.loss(0 * moved) + column.loss(-moved)) / step**2
        assert second <= column.curvature_at_start() * (1 + 1e-3)
