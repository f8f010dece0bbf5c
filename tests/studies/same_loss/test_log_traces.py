"""Traces of made-up results, whose logarithms are known."""

import numpy as np
import pytest

from sameloss.statistics.bootstrap import UNDEFINED
from sameloss.studies.same_loss.results import LogTraces, excess, log_traces, log_traces_of


def test_traces_are_those_of_the_checkpoints_seed_by_seed(results):
    found = log_traces(results, "3K", step=results.steps[1])
    np.testing.assert_allclose(np.exp(found.value), [25.0, 26.0, 27.0])
    np.testing.assert_allclose(found.error, 0.1 / np.exp(found.value))


def test_between_checkpoints_their_logarithms_are_interpolated(results):
    kl = np.sqrt(0.02 / 2 * 0.02 / 3)
    ends = [log_traces(results, "3K", step=step).value for step in results.steps[1:3]]
    np.testing.assert_allclose(log_traces(results, "3K", kl=kl).value, np.mean(ends, axis=0))


def test_rows_are_taken_in_order(results):
    rows = results.checkpoints.query("size == '3K' and step == @results.steps[-1]")
    assert np.array_equal(log_traces_of(rows[::-1]).value, log_traces_of(rows).value)


def test_an_excess_counts_seeds_and_errors():
    """Twice the trace in every seed, known exactly; then less exactly, or not alike in all seeds."""
    level, exact = np.log([10.0, 20.0, 40.0]), np.zeros(3)
    twice = LogTraces(level + np.log(2), exact), LogTraces(level, exact)
    assert excess([twice]) == pytest.approx((1, 1, 1))
    blurred = excess([(twice[0]._replace(error=exact + 0.1), twice[1])])
    uneven = excess([(LogTraces(level + np.log([1.0, 2.0, 4.0]), exact), twice[1])])
    for wider in (blurred, uneven):
        assert wider.value == pytest.approx(1)
        assert wider.low < 0.95 < 1.05 < wider.high
    assert excess([]) == UNDEFINED
