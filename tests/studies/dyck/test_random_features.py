"""Random features: their rank, the head of the paper's proof, and the least norm of any head."""

import numpy as np
import pytest
import torch

from sameloss.studies.dyck.search import (
    constructed_head,
    constructed_loss,
    exact_width,
    least_norm,
    measured,
    random_start,
)
from sameloss.studies.dyck.theory import (
    ZERO_LOSS,
    downstream_inputs,
    pretraining_inputs,
    pretraining_loss,
    run,
)


def test_the_proofs_head_has_the_expected_loss():
    """(2T² + 3)/m within 4 s.e., the s.e. below a tenth; Lemma F.7's weights."""
    inputs, generator = pretraining_inputs(6), torch.Generator().manual_seed(0)
    start = random_start(6, 500, 100, generator, 1, (6**0.5, 1.0)).uniform()
    heads = torch.stack([constructed_head(start.model(at), 6) for at in range(100)])
    losses = pretraining_loss(start._replace(head=heads), inputs) / constructed_loss(6, 500)
    error = float(losses.std()) / 10
    assert error < 0.1
    assert float(losses.mean()) == pytest.approx(1, abs=4 * error)
    assert float(heads.square().mean()) == pytest.approx(4 * 36, rel=0.05)


def test_random_features_have_the_predicted_rank():
    inputs, downstream = pretraining_inputs(6), downstream_inputs(6)
    generator = torch.Generator().manual_seed(0)
    model = random_start(6, 300, 1, generator, 1).model(0).uniform()
    assert (
        int(torch.linalg.matrix_rank(run(model, inputs).preactivations.relu())) == exact_width(inputs) == 132
    )
    few, enough = (measured(inputs, downstream, width, 16, generator) for width in (100, 160))
    assert few["loss"] > 1e-8
    assert enough["loss"] < ZERO_LOSS
    for row in (few, enough):
        assert row["norm"] > row["least_norm"]


def test_no_head_is_smaller_than_the_least_norm():
    """Ridge regressions of every strength, as far as their loss is at most 0.1."""
    inputs = pretraining_inputs(6)
    model = random_start(6, 150, 1, torch.Generator().manual_seed(1), 1).model(0).uniform()
    features = run(model, inputs).preactivations.relu() / 150
    least, smallest = least_norm(model, inputs), float("inf")
    for strength in np.logspace(-9, 1, 40):
        gram = features.T @ features / 240 + strength * torch.eye(150).double()
        head = torch.linalg.solve(gram, features.T @ inputs.target / 240)
        if float((features @ head - inputs.target).square().mean()) <= 0.1:
            smallest = min(smallest, float(head.square().sum()))
    assert least < smallest < 1e9
