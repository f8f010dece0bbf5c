"""Tables and checks of Section 3, from its runs."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.studies.manifold_flow.experiment import SGDDrift


class Tables(NamedTuple):
    """What the section's runs found."""

    run: SGDDrift
    sgd: dict[str, pd.DataFrame]
    adam: dict[str, pd.DataFrame]
    zeros: pd.DataFrame


def relative_distance(matrix: Float[Tensor, "row column"], reference: Float[Tensor, "row column"]) -> float:
    """Return the Frobenius norm of the difference over that of the reference."""
    return float((matrix - reference).norm() / reference.norm())


def ray_table(run: SGDDrift, directions: int = 8) -> pd.DataFrame:
    """Follow random rays away from the start on Γ: KL, and how far covariance and Hessian are apart.

    Returns:
        `ray`, `step`, `kl` (nats), `distance` (relative, Frobenius), and the traces of both matrices.

    """
    population, _ = run.population()
    start, generator = run.start(), run.generator("rays")
    rows = []
    for ray in range(directions):
        direction = torch.randn(len(start), dtype=torch.float64, generator=generator)
        for step in np.logspace(-5, 0, 11):
            theta = start + step * direction / direction.norm()
            hessian, covariance = population.hessian(theta), population.covariance(theta)
            row = {"ray": ray, "step": step, "kl": float(population.kl(theta))}
            row |= {"hessian": float(hessian.trace()), "covariance": float(covariance.trace())}
            rows.append(row | {"distance": relative_distance(covariance, hessian)})
    return pd.DataFrame(rows)


def extrapolated(x: np.ndarray, values: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """Return at x = 0 the polynomial through all points, and its standard error.

    >>> extrapolated(np.array([1.0, 2.0]), np.array([3.0, 5.0]), np.array([0.1, 0.0]))
    (1.0, 0.2)
    """
    weights = [np.prod([other / (other - own) for other in x if other != own]) for own in x]
    return float(np.dot(weights, values)), float(np.linalg.norm(weights * np.asarray(errors)))


def coefficient_limits(coefficients: pd.DataFrame, measured: str = "minimiser") -> pd.DataFrame:
    """Extrapolate each batch's coefficient to a vanishing rate; `low` and `high` are a 95 % interval.

    Coefficients are of rate² × steps / batch: the theorem says 1/4 of all.
    """
    rows = []
    for batch, part in coefficients[coefficients.measured == measured].groupby("batch"):
        value, error = extrapolated(*part[["rate", "coefficient", "standard_error"]].to_numpy().T)
        bounds = {"low": value - 1.96 * error, "high": value + 1.96 * error}
        rows.append({"batch": batch, "coefficient": value, "standard_error": error, **bounds})
    return pd.DataFrame(rows)


def gap_table(sgd: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return, for each batch and rate, how far mean traces lie from the flow, averaged over times.

    Returns:
        `gap` and `gap_se` at the minimisers close by (the error is an upper bound: all times as if
        they had one error), `gap_iterate` where SGD is, and `spread`, the standard deviation over replicas.

    """
    flow, rows = sgd["flow"], []
    for (batch, rate), part in sgd["trajectories"].query("time > 0").groupby(["batch", "rate"]):
        expected = np.interp(part.time, flow.time, flow.trace)
        rows.append(
            {
                "batch": batch,
                "rate": rate,
                "gap": (expected - part.minimiser).mean(),
                "gap_se": (part.minimiser_sd / part.replicas**0.5).mean(),
                "gap_iterate": (expected - part.iterate).mean(),
                "spread": part.minimiser_sd.mean(),
            }
        )
    return pd.DataFrame(rows)


def order_of(gaps: pd.DataFrame, quantity: str = "gap") -> tuple[float, float]:
    """Return the slope of log gap against log rate at the two smallest rates, and its 95 % half width."""
    small = gaps.sort_values("rate").head(2)
    span = np.log(small.rate.iloc[1] / small.rate.iloc[0])
    slope = np.log(small[quantity].iloc[1] / small[quantity].iloc[0]) / span
    error = np.linalg.norm(small.gap_se / small[quantity]) / span if quantity == "gap" else np.nan
    return float(slope), float(1.96 * error)


def finite_gaps(finite: pd.DataFrame) -> pd.DataFrame:
    """Return, for each batch and both flows, SGD's mean distance from the flow over times."""
    rows = []
    for batch, part in finite.query("time > 0").groupby("batch"):
        error = (part.iterate_sd / part.replicas**0.5).mean()
        for flow in ("vanishing", "finite"):
            rows.append(
                {"batch": batch, "flow": flow, "gap": (part[flow] - part.iterate).mean(), "gap_se": error}
            )
    return pd.DataFrame(rows)


def finite_limits(finite: pd.DataFrame) -> pd.DataFrame:
    """Extrapolate the distances from both flows to an infinite batch, from the three largest."""
    rows = []
    for flow, part in finite_gaps(finite).groupby("flow"):
        largest = part.sort_values("batch").tail(3)
        value, error = extrapolated(1 / largest.batch.to_numpy(), *largest[["gap", "gap_se"]].to_numpy().T)
        rows.append({"flow": flow, "gap": value, "standard_error": error})
    return pd.DataFrame(rows)


def adam_limit(adam: dict[str, pd.DataFrame]) -> tuple[float, float]:
    """Return the coefficient of Adam's flow at a vanishing rate, 1/2 by theory, and its standard error."""
    columns = adam["coefficients"][["rate", "coefficient", "standard_error"]]
    return extrapolated(*columns.to_numpy().T)


def adam_beside_trace_flow(adam: dict[str, pd.DataFrame]) -> float:
    """Return the sharpness of Adam's end over that of the trace's flow at the same trace, less one."""
    flow = adam["flows"].query("flow == 'trace'").sort_values("trace")
    last = adam["trajectories"].query("algorithm == 'Adam, to its end'").iloc[-1]
    return float(last.sharpness / np.interp(last.trace, flow.trace, flow.sharpness) - 1)


def ends_table(adam: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return trace and sharpness of the start, of where SGD and Adam end, and of the flattest points."""
    flows, seen = adam["flows"], adam["trajectories"]
    points = {"start": flows.iloc[0]}
    for name in ("SGD, to its end", "Adam, to its end"):
        points[name] = seen[seen.algorithm == name].iloc[-1]
    names = {"trace": "least trace", "sharpness": "least Tr Diag(H)^½, from Adam's end"}
    points |= {name: flows[flows.flow == flow].iloc[-1] for flow, name in names.items()}
    return pd.DataFrame(
        [{"point": name, "trace": row.trace, "sharpness": row.sharpness} for name, row in points.items()]
    )


def divergence_rate(zeros: pd.DataFrame) -> float:
    """Return how fast logits spread for each factor e of KL gained, at the end of a gradient flow."""
    late = zeros.sort_values("time").iloc[-4:]
    return float(np.polyfit(-np.log(late.kl), late.spread, 1)[0])
