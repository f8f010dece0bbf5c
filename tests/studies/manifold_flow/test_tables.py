"""Tables of Section 3: extrapolations and distances by hand, and on the least of runs."""

import numpy as np
import pandas as pd
import pytest
import torch

from sameloss.studies.manifold_flow.tables import (
    adam_beside_trace_flow,
    adam_limit,
    coefficient_limits,
    divergence_rate,
    ends_table,
    extrapolated,
    finite_gaps,
    finite_limits,
    gap_table,
    order_of,
    ray_table,
    relative_distance,
)


def test_relative_distance():
    zero = torch.zeros(2, 2)
    assert relative_distance(2 * torch.eye(2), torch.eye(2)) == pytest.approx(1)
    assert relative_distance(zero, torch.eye(2)) == 1


def test_extrapolation_is_exact_for_polynomials():
    x = np.array([0.1, 0.2, 0.4, 0.8])
    value, error = extrapolated(x, 0.25 + x - 3 * x**2 + x**3, np.full(4, 0.01))
    weights = np.linalg.inv(np.vander(x, 4))[-1]
    assert (value, error) == pytest.approx((0.25, 0.01 * np.linalg.norm(weights)))


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
    np.testing.assert_allclose(limits.high - limits.low, 2 * 1.96 * 0.01 * 5**0.5)


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
    np.testing.assert_allclose(gaps.gap_iterate, [0.2, 0.4, 0.8])
    np.testing.assert_allclose(gaps.gap_se, 0.1)
    order, half = order_of(gaps)
    assert order == pytest.approx(1)
    assert half == pytest.approx(1.96 * np.hypot(1, 0.5) / np.log(2))
    assert order_of(gaps, "gap_iterate")[0] == pytest.approx(1)


def test_sgd_is_beside_its_flow_and_not_without_noise(tables):
    gaps = gap_table(tables.sgd)
    assert (gaps.sort_values("rate").groupby("batch").gap.diff().dropna() > 0).all()
    assert order_of(gaps[gaps.batch == 1])[0] == pytest.approx(1, abs=0.5)
    assert coefficient_limits(tables.sgd["coefficients"]).coefficient.between(0.15, 0.35).all()
    assert np.ptp(tables.sgd["control"].trace) < 1e-9


def test_covariance_and_hessian_part_as_the_root_of_kl(tables):
    """Near the manifold both grow from zero, the KL quadratically."""
    rays = ray_table(tables.run, directions=2).query("1e-11 < kl < 1e-5")
    slope = np.polyfit(np.log(rays.kl), np.log(rays.distance), 1)[0]
    assert slope == pytest.approx(0.5, abs=0.02)


def test_one_large_rate_between_two_flows():
    """SGD lies below one flow by 1 + 4/B and below the other by 4/B: at an infinite batch it is on it."""
    time = np.array([0.0, 1.0, 2.0])
    parts = [
        pd.DataFrame({"time": time, "batch": batch, "iterate": 0.0, "iterate_sd": 1.0, "replicas": 25,
                      "vanishing": 1 + 4 / batch, "finite": 4 / batch})
        for batch in (1, 2, 4, 8)
    ]  # fmt: skip
    finite = pd.concat(parts)
    gaps = finite_gaps(finite).set_index(["flow", "batch"])
    assert gaps.gap["finite", 2] == pytest.approx(2)
    assert gaps.gap_se["vanishing", 2] == pytest.approx(0.2)
    limits = finite_limits(finite).set_index("flow").gap
    assert limits.to_dict() == pytest.approx({"finite": 0, "vanishing": 1})


def made_up_adam():
    flows = [
        pd.DataFrame({"flow": "Adam", "time": [0.0, 1.0], "trace": [9.0, 8.0], "sharpness": [3.0, 2.0]}),
        pd.DataFrame({"flow": "trace", "time": [0.0, 9.0], "trace": [9.0, 5.0], "sharpness": [3.0, 1.0]}),
        pd.DataFrame({"flow": "sharpness", "time": [0.0, 9.0], "trace": [7.0, 6.0], "sharpness": [2, 0.5]}),
    ]
    seen = [
        pd.DataFrame({"algorithm": f"{name}, to its end", "trace": [9.0, 7.0], "sharpness": [3.0, sharpness]})
        for name, sharpness in {"SGD": 2.0, "Adam": 1.5}.items()
    ]
    coefficients = pd.DataFrame({"rate": [2.0, 1.0], "coefficient": [0.7, 0.6], "standard_error": 0.1})
    return {"flows": pd.concat(flows), "trajectories": pd.concat(seen), "coefficients": coefficients}


def test_adams_end_beside_the_flow_of_the_trace():
    """At a trace of 7 that flow has a sharpness of 2; Adam has three quarters of it."""
    assert adam_beside_trace_flow(made_up_adam()) == pytest.approx(-0.25)
    assert adam_limit(made_up_adam()) == pytest.approx((0.5, 0.1 * 5**0.5))


def test_where_all_end():
    table = ends_table(made_up_adam()).set_index("point")
    assert table.trace.tolist() == [9, 7, 7, 5, 6]
    assert table.sharpness.tolist() == [3, 2, 1.5, 1, 0.5]
    assert table.index[-2] == "least trace"


def test_logits_that_spread_by_a_half_for_each_factor_of_kl():
    kl = np.exp(-np.arange(6.0))
    table = pd.DataFrame({"time": range(6), "kl": kl, "spread": 7 + np.arange(6) / 2})
    assert divergence_rate(table.sample(frac=1, random_state=0)) == pytest.approx(0.5)
