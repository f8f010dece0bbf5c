"""Both sides of Lemma B.12, against one filter's closed form and a count by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from sameloss.studies.local_signal.proofs.bounds import (
    FILTERS,
    STARTS,
    both_sides,
    open_gates,
    several_filters,
)
from sameloss.studies.local_signal.tangent.rows import threshold_at_signal
from sameloss.studies.local_signal.theory import Patches

PATCHES = Patches(1000)


def kernel(overlap):
    """One filter whose gate opens from `overlap` on, in units of σ."""
    along = overlap * PATCHES.sigma
    return threshold_at_signal(PATCHES, np.array([[along, np.sqrt(1 - along**2)]]))


@pytest.mark.parametrize("overlap", [0.2, 1.0, 2.0])
def test_one_filter_in_closed_form(overlap):
    own, x = kernel(overlap), np.random.default_rng(0).standard_normal((200_000, 2))
    found = both_sides(own, own.filters, x)
    same = 2 * norm.sf(overlap)
    assert found["same"] == pytest.approx(same, abs=5e-3)
    assert norm.cdf(found["strength"]) - norm.cdf(-found["strength"]) == pytest.approx(found["same"] / 2)
    # W along the filter: g(ε) is at least D where the gate is open, and Cσ g(w*) is far below
    assert found["heard"] == pytest.approx(found["same"], abs=1e-9)


def test_shares_are_counted_row_by_row():
    own = kernel(1.0)
    two = replace(own, filters=np.eye(2), thresholds=np.array([1.0, 0.5]), sees_signal=np.array([1.0, 0.0]))
    x = np.array([[2.0, 0.1], [2.0, 1.0], [0.1, 0.1], [-1.5, 0.2]])
    assert open_gates(two, x).tolist() == [[True, False], [True, True], [False, False], [True, False]]
    found = both_sides(two, np.array([[1.0, 0.0], [-2.0, 0.0]]), x)
    assert found["same"] == 0.5
    assert found["strength"] == pytest.approx(norm.ppf(0.625))
    assert found["heard"] == 0.75  # 2, 2 - 4, 0 and -1.5 beside 0.32


def test_every_set_of_gates_is_tried_and_q_falls_with_the_filters():
    found = several_filters(0)
    assert len(found) == sum(2 * STARTS * (2**m - 1) for m in FILTERS)
    assert (found.same / 2 <= found.heard).all()
    assert found.groupby("filters").same.median().is_monotonic_decreasing
