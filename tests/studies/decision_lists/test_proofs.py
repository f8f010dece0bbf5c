"""Every step of the proofs, and flows of whole matrices."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sameloss.studies.decision_lists.proofs import (
    Case,
    MatrixFlow,
    lost_again,
    measured,
    nearly_ordered_case,
    random_case,
    sketch_slope,
)
from sameloss.studies.decision_lists.theory import (
    Column,
    DecisionLists,
    Sets,
    correct,
    cyclic_lists,
    flow,
    forward,
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


# Flows of whole matrices: beside a column's, first times, and the token that is lost again.

TASK, SETS = cyclic_lists(9, 3), uniform_sets(9, 3)


def exact_flow(readout, horizon, **options):
    return MatrixFlow(TASK, SETS, TASK.read_out(readout), readout, horizon, **options)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_it_is_the_flow_of_every_column(method):
    path, column = exact_flow(30.0, 5.0, method=method), flow(Column(9, 3, 3, 30.0), 1e4)
    assert path.perfect() == pytest.approx(column.natural(column.perfect), rel=1e-4)
    exact = column.scores(5.0 * (30 / 3) ** 2)
    scores, _ = path.at(5.0)
    for token, listed in enumerate(TASK.lists):
        np.testing.assert_allclose(scores[list(listed), token], exact[:3], rtol=1e-4)


def test_both_matrices_move_only_if_asked_to():
    assert torch.equal(exact_flow(30.0, 1.0).at(1.0)[1], TASK.read_out(30.0))
    moved = exact_flow(30.0, 1.0, trains_read_out=True).at(1.0)[1] - TASK.read_out(30.0)
    assert 0 < float(moved.abs().max()) < 1


def test_first_times_lie_between_two_steps_of_the_solver():
    path = exact_flow(30.0, 5.0)
    for token in (0, 5):
        at = path.perfect(token)
        assert not path.wrong(at, token).any()
        assert path.wrong(at * (1 - 1e-6), token).any()
    assert np.isnan(path.first(lambda time: False))
    assert path.first(lambda time: True) == 0
    assert np.isnan(exact_flow(30.0, 1e-3).perfect())


def test_all_sequences_with_their_repeats():
    rows, probabilities = uniform_sets(4, 3, repeats=True)
    assert len({tuple(row) for row in rows.tolist()}) == 64
    assert float(probabilities.sum()) == pytest.approx(1)


def test_a_token_is_perfect_and_lost_again():
    task, sets = lost_again()
    step = 3 / (50 * 0.7829 * (1e10 / 8))  # the fiftieth part of 1/λ
    path = MatrixFlow(task, sets, task.read_out(1e5), 1e5, 200 * step)
    assert [bool(path.wrong(n * step, 0).any()) for n in (0, 1, 30, 100)] == [True, False, False, True]
