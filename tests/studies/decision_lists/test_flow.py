"""Flows: beside descent with tiny steps, events of a path with known crossings, known times."""

import numpy as np
import pytest
from scipy.integrate import OdeSolution

from sameloss.errors import ParameterError
from sameloss.studies.decision_lists.theory import (
    Column,
    Flow,
    curvature_bound,
    descend,
    flow,
    luce_flow,
    order_of,
)

COLUMN = Column(12, 3, 3, 30.0)


def test_descent_with_tiny_steps_is_the_flow():
    """Euler's error is of the order of the step: half of it, half the error."""
    end = 2.0
    found, errors = flow(COLUMN, end * (30 / 3) ** 2), []
    exact = found.scores(found.horizon)
    for steps in (500, 1000):
        errors.append(abs(descend(COLUMN, end / steps, steps, to_the_end=True).scores - exact).max())
    assert errors[1] < 2e-3
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)


class Circling(OdeSolution):
    """Four scores that are cosines: their order is known at any time."""

    def __init__(self):
        self.ts = np.linspace(1e-6, 6, 60)

    def __call__(self, time):
        return np.cos(time + 2 * np.pi * np.arange(4) / 4)


def test_events_are_the_crossings_of_a_known_path():
    found = Flow(Column(8, 4, 3, 5.0), Circling(), 6.0)
    times = [event.time for event in found.events]
    expected = [np.pi / 4 * k for k in range(1, 8)]
    np.testing.assert_allclose(times[1:], [time for time in expected if time < 6], atol=1e-8)
    for event, until in zip(found.events, [*times[1:], 6.0], strict=True):
        middle = (event.time * until) ** 0.5
        assert event.order == order_of(Circling()(middle))


@pytest.mark.parametrize(("readout", "perfect"), [(1e5, 12_389), (100, 5798), (10, 1507), (7, 1965)])
def test_scaled_times_of_the_printed_setting(readout, perfect):
    """Those of the pilot, which integrated with code of its own."""
    found = flow(Column(200, 25, 4, float(readout)), 1e6)
    assert found.perfect == pytest.approx(perfect, rel=1e-3)
    assert [event.order for event in found.events] == ["4123o", "1423o", "1243o", "1234o"]
    assert found.events[0].accuracy == pytest.approx(found.column.plateau)
    assert found.natural(found.perfect) == pytest.approx(found.perfect * (25 / readout) ** 2)


def test_the_limit_of_large_read_outs():
    limit = luce_flow(Column(200, 25, 4, 1.0), 1e6).perfect
    assert limit == pytest.approx(12_404, rel=1e-3)
    assert flow(Column(200, 25, 4, 1e7), 1e6).perfect == pytest.approx(limit, rel=1e-4)


def test_the_sum_over_a_column_is_conserved_and_the_loss_falls():
    found = flow(COLUMN, 1e5)
    weights = COLUMN.multiplicities
    times = np.logspace(-5, 5, 40)
    assert max(abs(weights @ found.at(time)) for time in times) < 1e-6
    assert (np.diff([COLUMN.loss(found.scores(time)) for time in times]) < 0).all()


def test_a_plateau_that_lasts_has_no_perfect_time():
    below = Column(200, 25, 4, 4.0)
    assert np.isnan(flow(below, 1e6).perfect)
    assert [event.accuracy for event in flow(below, 1e6).events] == [pytest.approx(below.plateau)]


def test_descent_at_the_theorems_rate():
    column = Column(40, 5, 4, 4e5)
    found = descend(column, 1 / curvature_bound(5 / 40, 4e5, 5), 1000)
    assert 0 < found.perfect < 1000
    assert (np.diff(found.losses) < 0).all()
    assert descend(column, 1e-12, 3).perfect == 0


@pytest.mark.parametrize("horizon", [0.0, 1e16, float("nan")])
def test_a_horizon_beyond_the_digits_is_refused(horizon):
    with pytest.raises(ParameterError, match="up to a scaled time from 1e-06 to 1e\\+15"):
        flow(COLUMN, horizon)


def test_a_start_that_is_no_number_is_refused():
    with pytest.raises(ParameterError, match="A flow starts from finite scores; got"):
        flow(COLUMN, 10.0, np.array([0.0, np.nan, 0.0, 0.0]))


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_moves_nothing_is_refused(rate):
    with pytest.raises(ParameterError, match="learning rate must be positive and finite"):
        descend(COLUMN, rate, 3)
