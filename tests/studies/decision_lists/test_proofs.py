"""Every step of the proofs, and the flow of Theorem 4.4."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sameloss.studies.decision_lists.proofs import (
    Case,
    measured,
    nearly_ordered_case,
    random_case,
    sketch_slope,
    train_both,
)
from sameloss.studies.decision_lists.theory import (
    DecisionLists,
    Sets,
    correct,
    cyclic_lists,
    forward,
    gradients,
    readout_of_44,
    uniform_sets,
)

# The proofs' steps: cases by definition, bounds that hold and bounds that would not, known numbers.


def generator(seed):
    return torch.Generator().manual_seed(seed)


CASES = [random_case(generator(seed)) for seed in range(15)]


@pytest.mark.parametrize("case", CASES[:5])
def test_gradients_by_query_are_automatic_ones(case):
    """Of one occurrence at a time."""
    sequences = case.sets.sequences
    row, place = len(sequences) // 2, 1
    scores = case.scores.clone().requires_grad_()
    loss = forward(scores, case.read_out, sequences, case.labels).losses[row, place] / sequences.shape[1]
    loss.backward()
    token = int(sequences[row, place])
    torch.testing.assert_close(case.gradient[row, place], scores.grad[:, token], atol=1e-12, rtol=0)


def excess(case):
    numbers = measured(case)
    return np.nanmax([numbers[name] for name in ("on_failing", "elsewhere", "weight", "light")])


@pytest.mark.parametrize("case", CASES)
def test_the_bounds_of_theorem_43_hold(case):
    numbers = measured(case)
    assert max(numbers["identity"], numbers["gradient"]) < 1e-14
    assert excess(case) < 1e-12
    assert numbers["cases"] > 0
    assert max(numbers["curvature"], numbers["read_out_slope"]) <= 1


@pytest.mark.parametrize("seed", range(8))
def test_the_bounds_of_theorem_44_hold(seed):
    case = random_case(generator(seed), radius=True)
    assert case.radius > 0
    assert excess(case) < 1e-12


def test_without_its_epsilon_a_bound_of_theorem_44_would_fail():
    cases = [random_case(generator(seed), radius=True) for seed in range(40)]
    assert max(measured(replace(case, radius=0.0))["weight"] for case in cases) > 0.01


def test_the_failing_set_by_hand():
    """Token 0 with the list (1, 2, 0): scores rank 2 first, so it fails where 1 occurs beside 2."""
    task = DecisionLists((0, 1, 2, 3), ((1, 2, 0), (1,), (2,), (3,)))
    sets = Sets(
        torch.tensor([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]),
        torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64),
    )
    scores = torch.zeros(4, 4, dtype=torch.float64)
    scores[:, 0] = torch.tensor([1.0, 2, 3, 0])
    scores[[1, 2, 3], [1, 2, 3]] = 5.0
    case = Case(task, sets, scores, task.read_out(10.0), 10.0, 0.0)
    assert (~correct(case.computed.logits, case.labels)).nonzero().tolist() == [[0, 0]]
    numbers = measured(case)
    assert numbers["of_triples"] == pytest.approx(0.1 / 0.1)
    assert numbers["of_sets"] == pytest.approx(1)


def test_little_attention_where_it_matters_is_rare():
    """Of a failing set by hand, with hardly any attention on 1."""
    task = DecisionLists((0, 1, 2), ((1, 0), (1,), (2,)))
    sets = Sets(torch.tensor([[0, 1], [0, 2], [1, 2]]), torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64))
    scores = 9.0 * torch.eye(3, dtype=torch.float64)
    case = Case(task, sets, scores, task.read_out(100.0), 100.0, 0.0)
    loss = float(case.computed.losses.mean(1) @ sets.probabilities)
    assert loss == pytest.approx(0.2 * 100 / 2, rel=1e-3)  # of token 0 beside 1 alone
    assert measured(case)["light"] == pytest.approx(0.2 - 8 * loss / 100)


def test_assumption_43_can_be_too_little_off_the_read_out_and_44_is_not():
    numbers = [measured(nearly_ordered_case(generator(seed))) for seed in range(30)]
    assert min(number["of_triples"] for number in numbers) < 0.5
    assert min(number["of_sets"] for number in numbers) >= 1 - 1e-9
    assert all(np.isnan(number["identity"]) for number in numbers)


def test_rare_cases_leave_sets_out():
    probabilities = random_case(generator(3), rare=True).sets.probabilities
    assert (probabilities > 0).all()
    assert float(probabilities.sum()) == pytest.approx(1)
    assert float(probabilities.max() / probabilities.min()) > 10


def test_the_counter_example_to_the_sketch():
    assert sketch_slope((0.05, 0.90, 0.03, 0.02), 50.0, absent=4) == pytest.approx(0.53125, abs=1e-5)
    assert sketch_slope((0.90, 0.05, 0.03, 0.02), 50.0, absent=4) <= 0


# Theorem 4.4: the flow of both matrices beside their gradient descent in tiny steps.


@pytest.mark.parametrize("time", [1e-9, 5e-8, 5e-4])
def test_training_both_matrices_is_descent_in_tiny_steps(time):
    """Euler's steps from the same V; at first everything is wrong, and later nothing is."""
    task, sets = cyclic_lists(9, 3), uniform_sets(9, 3)
    found, labels = train_both(task, sets, 1.0, time, generator(0)), task.labels(sets.sequences)
    noise = 0.5 * (2 * torch.rand(9, 9, generator=generator(0), dtype=torch.float64) - 1)
    assert found.readout == readout_of_44(1.0, task, sets, noise)
    if time > 1e-5:
        assert found.wrong == 0
        assert 0 < found.move < 1e-3
        return
    start, steps = task.read_out(found.readout) + noise, 1000
    scores, read_out = torch.zeros(9, 9, dtype=torch.float64), start
    for _ in range(steps):
        computed = forward(scores, read_out, sets.sequences, labels)
        by_scores, by_read_out = gradients(computed, read_out, *sets)
        scores, read_out = scores - time / steps * by_scores, read_out - time / steps * by_read_out
    wrong = ~correct(forward(scores, read_out, sets.sequences, labels).logits, labels)
    assert found.wrong == pytest.approx(float(wrong.double().mean()), abs=0.02)
    assert found.wrong == pytest.approx(1 if time < 1e-8 else 0, abs=0.5)
    assert found.move == pytest.approx(float((read_out - start).abs().max()), rel=0.02)
