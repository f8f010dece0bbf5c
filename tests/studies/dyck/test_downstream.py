"""Probabilities of success, exact, against exhaustive samples and simulations."""

from itertools import product

import pytest
import torch

from sameloss.errors import ModelError
from sameloss.studies.dyck.search import random_start
from sameloss.studies.dyck.theory import (
    RIGHT,
    downstream_inputs,
    downstream_loss,
    error_after,
    failure_probability,
    kinked_solution,
    missing_sign_probability,
    run,
    simulated_failures,
    smallest_head,
    transferable_solution,
)


@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("kind", ["solution (1)", "mask", "token"])
def test_failures_by_every_possible_sample(samples, kind):
    """All 16ⁿ samples of strings of four brackets, each with its fitted head."""
    inputs = downstream_inputs(4)
    model = transferable_solution(4, 3) if kind == "solution (1)" else kinked_solution(4, kind)
    rows = torch.tensor(list(product(range(16), repeat=samples)))
    features = run(model, inputs).preactivations.relu()
    heads = smallest_head(model, inputs.rows(rows), features[rows])
    share = float((downstream_loss(model, heads, inputs) > RIGHT).double().mean())
    (exact,) = failure_probability(model, inputs, [samples])
    assert exact == pytest.approx(share, abs=1e-9)
    if kind != "token":
        assert exact == pytest.approx(missing_sign_probability(4, samples), abs=1e-9)


def test_the_published_bound_is_too_good():
    """n = 5, T = 6: 0.240, not 2⁻⁵."""
    (exact,) = failure_probability(transferable_solution(6, 4), downstream_inputs(6), [5])
    balanced = 20 / 64
    assert exact == pytest.approx(2 * ((1 + balanced) / 2) ** 5 - balanced**5, abs=1e-9)
    assert exact == pytest.approx(0.2405, abs=1e-4)


def test_simulation_agrees_with_the_count():
    model, inputs = kinked_solution(6, "token"), downstream_inputs(6)
    (exact,) = failure_probability(model, inputs, [5])
    failures = simulated_failures(model, inputs, 5, 2000, torch.Generator().manual_seed(0))
    assert failures / 2000 == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 2000) ** 0.5)
    assert abs(exact - missing_sign_probability(6, 5)) > 0.1


def test_no_head_is_right_on_few_random_features():
    model = random_start(6, 3, 1, torch.Generator().manual_seed(0), 1).model(0)
    with pytest.raises(ModelError, match="No head"):
        failure_probability(model, downstream_inputs(6), [3])


def test_downstream_is_learnt_from_solution_one():
    model, inputs = transferable_solution(6, 4), downstream_inputs(6)
    assert float(downstream_loss(model, model.head, inputs)) < 1e-20
    assert error_after(model, inputs, 30, torch.Generator().manual_seed(0)) < 1e-20
