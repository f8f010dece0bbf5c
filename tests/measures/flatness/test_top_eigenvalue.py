"""The largest eigenvalue against the dense Hessian's, in float64."""

import pytest
import torch
from tiny_models import Unigram, one_word_sentences, predictions, reparametrised

from sameloss.errors import ModelError, ParameterError
from sameloss.measures.flatness.hessian import dense_hessian, top_eigenvalue

UNIFORM = one_word_sentences([0, 1, 2, 3, 4] * 10)


@pytest.mark.parametrize("shift", [None, 0, 1])
def test_top_eigenvalue_matches_the_dense_hessian(tiny_model, masked, shift):
    """Away from saturation the smallest eigenvalue is the largest in absolute value."""
    truth = None if shift is None else predictions(tiny_model, masked).roll(shift, -1)
    eigenvalues = torch.linalg.eigvalsh(dense_hessian(tiny_model, masked, truth))
    assert shift == 0 or eigenvalues[0] < -1.5 * eigenvalues[-1]
    assert top_eigenvalue(tiny_model, masked, truth) == pytest.approx(eigenvalues[-1].item(), rel=1e-3)


def test_top_eigenvalue_is_reproducible(tiny_model, masked):
    assert top_eigenvalue(tiny_model.float(), masked, seed=3) == top_eigenvalue(tiny_model, masked, seed=3)


@pytest.mark.parametrize("name", ["heads rotated", "neurons permuted"])
def test_eigenvalues_are_invariant_under_rotations(tiny_model, masked, name):
    changed = reparametrised(tiny_model, name)
    expected = pytest.approx(top_eigenvalue(tiny_model, masked), rel=1e-9)
    assert top_eigenvalue(changed, masked, seed=1) == expected


def test_lanczos_that_does_not_converge_says_so():
    """The largest eigenvalues of diag(p) - pp^T crowd together."""
    ramp = torch.arange(1.0, 2001).double()
    truth = (ramp / ramp.sum()).expand(50, -1)
    with pytest.raises(ParameterError, match=r"did not find .* in 2 restarts; allow a larger tolerance"):
        top_eigenvalue(Unigram(truth[0].tolist()), UNIFORM, truth, tolerance=1e-9, restarts=2)


def test_what_cannot_be_measured_is_refused(tiny_model, broken, masked):
    with pytest.raises(ModelError, match="no masked sentences"):
        top_eigenvalue(tiny_model, masked.rows(slice(0)))
    with pytest.raises(ModelError, match="head_bias holds values that are not finite"):
        top_eigenvalue(broken, masked)
