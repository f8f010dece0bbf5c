"""What the theorems ask for: their printed numbers, and the bound on all Hessians against the Hessians."""

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.studies.decision_lists.theory import (
    Column,
    curvature_bound,
    cyclic_lists,
    first_loss,
    forward,
    gradient_bound,
    horizon_of_43,
    readout_of_43,
    readout_of_44,
    uniform_sets,
)


def test_the_printed_setting():
    column = Column(200, 25, 4, 1.0)
    readout = readout_of_43(200, 25, column.triple_mass)
    assert readout == pytest.approx(9.591e6, rel=1e-3)
    steps = horizon_of_43(200, 4) * curvature_bound(25 / 200, readout, 25)
    assert steps == pytest.approx(1.39e12, rel=1e-2)
    assert gradient_bound(200, 4) == pytest.approx(0.43863, rel=1e-4)


@pytest.mark.parametrize("readout", [1.0, 10.0, 300.0])
def test_the_first_loss(readout):
    task, sets = cyclic_lists(8, 3), uniform_sets(8, 4)
    labels = task.labels(sets.sequences)
    found = forward(torch.zeros(8, 8).double(), task.read_out(readout), sets.sequences, labels)
    assert float(found.losses.mean()) == pytest.approx(first_loss(8, 4, readout))


@pytest.mark.parametrize("readout", [1.0, 8.0, 60.0])
def test_no_hessian_of_the_population_loss_is_above_the_bound(readout):
    task, sets = cyclic_lists(6, 3), uniform_sets(6, 3)
    labels, fixed = task.labels(sets.sequences), task.read_out(readout)
    own = torch.Generator().manual_seed(0)

    def loss(flat):
        losses = forward(flat.view(6, 6), fixed, sets.sequences, labels).losses
        return losses.mean(1) @ sets.probabilities

    bound, largest = curvature_bound(3 / 6, readout, 3), []
    for _ in range(10):
        spread = 3 * torch.rand((), generator=own, dtype=torch.float64)
        at = spread * torch.randn(36, generator=own, dtype=torch.float64)
        largest.append(float(torch.linalg.eigvalsh(torch.func.hessian(loss)(at)).abs().max()))
    assert max(largest) <= bound
    assert max(largest) > bound / 200


def test_the_least_read_out_of_44():
    """The pilot's, with the loss that V = cP has at W = 0."""
    loss = lambda c: first_loss(12, 3, c)  # noqa: E731
    for radius, expected in ((1.0, 1.903e5), (0.1, 4.808e5)):
        readout = readout_of_44(radius, 3, 3, 1 / 220, loss)
        assert readout == pytest.approx(expected, rel=1e-3)
        slope = 4 * max(1, loss(readout)) * (3 / radius) ** 0.5 + 6 * radius / 3
        assert readout >= slope * 90 * 220 + 4 * radius


@pytest.mark.parametrize("mass", [0.0, -0.1, 1.5, float("nan")])
def test_a_mass_of_nothing_is_refused(mass):
    with pytest.raises(ParameterError, match=r"in \(0, 1\]"):
        readout_of_43(10, 3, mass)


@pytest.mark.parametrize("radius", [0.0, 65.0, float("nan")])
def test_a_radius_outside_of_the_theorem_is_refused(radius):
    with pytest.raises(ParameterError, match=r"ε must lie in \(0, 16M\] = \(0, 64\]"):
        readout_of_44(radius, 4, 3, 0.1, lambda c: 1.0)
