"""Small balls: enumeration, the counter-example to one reading, and slabs by simulation."""

from itertools import product

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.proofs.bounds import (
    erdos_bound,
    largest_mass,
    leading_bound,
    natural_number,
    proof_log_k,
    rademacher_sums,
    slabs,
)


def test_sums_are_all_there():
    weights = np.array([1.0, 2.5, 1.2])
    by_hand = sorted(float(np.dot(signs, weights)) for signs in product((-1, 1), repeat=3))
    assert rademacher_sums(weights) == pytest.approx(np.array(by_hand))


def test_a_closed_interval_of_length_two_refutes_one_reading():
    assert largest_mass(np.ones(3), 1.0) == 0.75
    assert leading_bound(3, natural_number(1.0, strict_below=False)) == pytest.approx(0.4607, abs=1e-4)
    assert leading_bound(3, natural_number(1.0)) > 0.75


@pytest.mark.parametrize("half", [0.0, 0.4, 1.0, 1.5, 2.0])
def test_the_other_reading_holds_without_its_small_term(half):
    random = np.random.default_rng(0)
    for n in range(1, 11):
        s = natural_number(half)
        for weights in (np.ones(n), 1 + random.exponential(0.5, n)):
            mass = largest_mass(weights, half)
            assert mass <= erdos_bound(n, s) + 1e-12
            assert erdos_bound(n, s) <= leading_bound(n, s)
    assert largest_mass(np.ones(10), half) == pytest.approx(erdos_bound(10, natural_number(half)))


def test_slabs_by_simulation_and_independence():
    random = np.random.default_rng(1)
    x, z = random.normal(size=(2, 200_000))
    y = 0.6 * x + 0.8 * z
    found = slabs(0.5, 1.0, 0.6)
    share = ((abs(x) >= 0.5) & (abs(y) >= 1.0)).mean()
    assert abs(share - found.joint) < 4 * np.sqrt(found.joint / 200_000)
    assert found.joint > found.product
    assert slabs(0.5, 1.0, 0.0).joint == pytest.approx(found.product)
    assert slabs(0.5, 1.0, 1.0).joint == pytest.approx(slabs(0.0, 1.0, 0.0).product)


def test_the_proofs_own_rows():
    assert proof_log_k() / np.log(10) == pytest.approx(44.86, abs=0.01)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rademacher_sums(np.array([0.5])), r"needs \|a_i\| >= 1; got 0.5"),
        (lambda: rademacher_sums(np.ones(17)), "At most 16 signs"),
        (lambda: slabs(1.0, 1.0, 1.5), "lies in"),
        (lambda: erdos_bound(0, 1), "n must be a whole number"),
    ],
)
def test_faults_are_a_sentence(call, said):
    with pytest.raises(ParameterError, match=said):
        call()
