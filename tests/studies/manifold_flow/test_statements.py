"""What is measured of each statement of Section 3, by hand and on the least of runs, and the checks."""

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.manifold_flow import show
from sameloss.studies.manifold_flow.statements import (
    STATEMENTS,
    adam_beside_trace_flow,
    adam_limit,
    checks,
    coefficient_limits,
    extrapolated,
    finite_limit,
    gap_table,
)


@pytest.fixture(scope="module")
def found(page):
    return page.checks


def test_every_statement_is_judged(page, found):
    """Those that need no statistics have their verdicts at any size of the runs."""
    verdicts = page.statements().set_index("id").verdict
    assert list(verdicts.index) == list(STATEMENTS)
    assert verdicts["lem32"] == "holds"
    assert (verdicts[["lem32-covariance", "assumption31"]] == "holds as corrected").all()
    assert found.value.notna().all()
    assert page.verdicts().empty


def test_a_statement_without_a_correction_has_no_check_of_one(found):
    """And one with a correction is checked in both forms."""
    forms = found.groupby("of").printed.agg(set)
    for name, statement in STATEMENTS.items():
        assert forms[name] == ({True, False} if statement.correction else {True}), name


def test_a_wrong_coefficient_would_be_seen(page, tables, found):
    """With half of the theorem's 1/4 in every fit, the check of batch 1 fails."""
    fitted = tables["sgd"]["coefficients"]
    halved = {"coefficients": fitted.assign(coefficient=fitted.coefficient / 2)}
    wrong = checks(page.sgd, tables["sgd"] | halved, tables["adam"], tables["zeros"])
    first, halved_first = (table.query("of == 'thm33'").iloc[0] for table in (found, wrong))
    assert first.passed
    assert not halved_first.passed


def test_extrapolation_is_exact_for_polynomials():
    x = np.array([0.1, 0.2, 0.4, 0.8])
    points = pd.DataFrame({"x": x, "y": 0.25 + x - 3 * x**2 + x**3, "se": 0.01})
    weights = np.linalg.inv(np.vander(x, 4))[-1]
    assert extrapolated(points, "x", "y", "se") == pytest.approx((0.25, 0.01 * np.linalg.norm(weights)))


def test_coefficients_at_a_vanishing_rate():
    """Of each batch by itself, and of what was measured at the minimiser."""
    rate = np.array([0.2, 0.1])
    known = {(1, "minimiser"): 0.25 + rate, (4, "minimiser"): 0.5 - rate, (1, "iterate"): 9 + rate}
    rows = [
        pd.DataFrame({"batch": batch, "measured": measured, "rate": rate, "coefficient": values})
        for (batch, measured), values in known.items()
    ]
    limits = coefficient_limits(pd.concat(rows).assign(standard_error=0.01)).set_index("batch")
    np.testing.assert_allclose(limits.coefficient, [0.25, 0.5])
    np.testing.assert_allclose(limits.standard_error, 0.01 * 5**0.5)


def made_up_sgd():
    """Return trajectories that lie below the flow by the rate, and iterates by twice as much."""
    time = np.array([0.0, 1.0, 2.0])
    flow = pd.DataFrame({"time": time, "trace": 10 - time})
    parts = [
        flow.assign(batch=1, rate=rate, minimiser=flow.trace - rate, iterate=flow.trace - 2 * rate,
                    minimiser_sd=0.4, replicas=16)
        for rate in (0.1, 0.2, 0.4)
    ]  # fmt: skip
    return {"flow": flow, "trajectories": pd.concat(parts)}


def test_distances_from_the_flow():
    gaps = gap_table(made_up_sgd())
    np.testing.assert_allclose(gaps.gap, [0.1, 0.2, 0.4])
    np.testing.assert_allclose(gaps.gap_se, 0.1)
    order, half = show.order_of(gaps)
    assert order == pytest.approx(1)
    assert half == pytest.approx(1.96 * np.hypot(1, 0.5) / np.log(2))
    assert show.order_of(gaps, "spread")[0] == pytest.approx(0)


def test_sgd_is_beside_its_flow_and_not_without_noise(tables):
    gaps = gap_table(tables["sgd"])
    assert (gaps.sort_values("rate").groupby("batch").gap.diff().dropna() > 0).all()
    assert show.order_of(gaps[gaps.batch == 1])[0] == pytest.approx(1, abs=0.5)
    assert coefficient_limits(tables["sgd"]["coefficients"]).coefficient.between(0.15, 0.35).all()
    assert np.ptp(tables["sgd"]["control"].trace) < 1e-9


def test_one_large_rate_between_two_flows():
    """SGD lies below one flow by 1 + 4/B and below the other by 4/B: at an infinite batch it is on it."""
    time = np.array([0.0, 1.0, 2.0])
    parts = [
        pd.DataFrame({"time": time, "batch": batch, "iterate": 0.0, "iterate_sd": 1.0, "replicas": 25,
                      "vanishing": 1 + 4 / batch, "finite": 4 / batch})
        for batch in (1, 2, 4, 8)
    ]  # fmt: skip
    finite = pd.concat(parts)
    known = 0.2 * np.linalg.norm([1, -6, 8]) / 3  # weights of 1/8, 1/4 and 1/2 at zero
    assert finite_limit(finite, "vanishing") == pytest.approx((1, known), abs=1e-12)
    assert finite_limit(finite, "finite") == pytest.approx((0, known), abs=1e-12)


def made_up_adam():
    flows = [
        pd.DataFrame({"flow": "Adam", "time": [0.0, 1.0], "trace": [9.0, 8.0], "sharpness": [3.0, 2.0]}),
        pd.DataFrame({"flow": "trace", "time": [0.0, 9.0], "trace": [9.0, 5.0], "sharpness": [3.0, 1.0]}),
    ]
    seen = pd.DataFrame({"algorithm": "Adam, to its end", "trace": [9.0, 7.0], "sharpness": [3.0, 1.5]})
    coefficients = pd.DataFrame({"rate": [2.0, 1.0], "coefficient": [0.7, 0.6], "standard_error": 0.1})
    return {"flows": pd.concat(flows), "trajectories": seen, "coefficients": coefficients}


def test_adams_end_beside_the_flow_of_the_trace():
    """At a trace of 7 that flow has a sharpness of 2; Adam has three quarters of it."""
    assert adam_beside_trace_flow(made_up_adam()) == pytest.approx(-0.25)
    assert adam_limit(made_up_adam()) == pytest.approx((0.5, 0.1 * 5**0.5))
