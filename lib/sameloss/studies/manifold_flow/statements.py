"""The statements of Section 3 and Appendix C, and their checks."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.studies.manifold_flow.experiment import ZEROS_LANGUAGE, SGDDrift
from sameloss.studies.manifold_flow.theory import masked_population, rank_of
from sameloss.studies.statement import Check, check_table, statements_of

STATEMENTS = statements_of("03_implicit_bias")

EXACT = 1e-10  # relative difference of two matrices that counts as none
ERRORS = 4  # standard errors of tolerance: there are many estimates, and none should fail by chance
WITHIN = 0.05  # relative difference between Adam's end and a flow that counts as agreement

Tables = dict[str, pd.DataFrame]


def checks(run: SGDDrift, sgd: Tables, adam: Tables) -> pd.DataFrame:
    """All checks of the statements of Section 3, one row each.

    Args:
        run: SGD beside the flow.
        sgd: its tables.
        adam: tables of Adam beside its flow.

    """
    return check_table([*_bartlett(run), *_assumption(run), *_theorem(sgd), *_adam(adam)])


def _bartlett(run: SGDDrift) -> Iterator[Check]:
    """Lemma 3.2."""
    population, _ = run.population()
    start = run.start()
    away = start + 0.1 * torch.randn(len(start), dtype=torch.float64, generator=run.generator("away"))
    on = relative_distance(population.covariance(start), population.hessian(start))
    yield Check("lem32", "distance of covariance and Hessian on Γ", on, 0.0, EXACT)
    mean, gradients = population.gradient(away), population.label_gradients(away)
    centred = gradients - mean
    defined = torch.einsum("cy,cyi,cyj->ij", population.joint, centred, centred)
    moment = torch.einsum("cy,cyi,cyj->ij", population.joint, gradients, gradients)
    inner = relative_distance(moment - mean @ mean, defined)
    outer = relative_distance(population.covariance(away), defined)
    yield Check("lem32-covariance", "inner product, off Γ: distance from the covariance", inner, 0.0, EXACT)
    yield Check("lem32-covariance", "outer product", outer, 0.0, EXACT, printed=False)


def relative_distance(matrix: Float[Tensor, "row column"], reference: Float[Tensor, "row column"]) -> float:
    """Frobenius norm of the difference, relative to that of the reference."""
    return float((matrix - reference).norm() / reference.norm())


def _assumption(run: SGDDrift) -> Iterator[Check]:
    """Assumption 3.1."""
    _, conditionals = masked_population(ZEROS_LANGUAGE.build())
    text, zeros = "a block-diagonal language: conditionals of zero", int((conditionals == 0).sum())
    yield Check("assumption31", text, zeros, 0, 0)
    population, model = run.population()
    rank, conditions = rank_of(population, run.start()), model.contexts * (model.words - 1)
    text = "no zeros: rank of the Hessian"
    yield Check("assumption31", text, float(rank), float(conditions), 0.0, printed=False)


def _theorem(sgd: Tables) -> Iterator[Check]:
    """Theorem 3.3 for SGD, as the rate vanishes and at a finite one."""
    for row in coefficient_limits(sgd["coefficients"]).itertuples():
        of = "thm33" if row.batch == 1 else "thm33-batch"
        text = f"B × coefficient at B = {row.batch}, η → 0"
        yield Check(of, text, row.coefficient, 0.25, ERRORS * row.standard_error)
    for flow in ("vanishing", "finite"):
        gap, error = finite_limit(sgd["finite"], flow)
        text = f"distance from the flow of the {flow} rate, B → ∞"
        yield Check("thm33-finite", text, gap, 0.0, ERRORS * error, printed=flow == "vanishing")


def extrapolated(table: pd.DataFrame, *columns: str) -> tuple[float, float]:
    """Extrapolate the polynomial through all points to x = 0, with its standard error.

    Args:
        table: one row per point.
        columns: names of x, values and their standard errors.

    >>> points = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 5.0], "se": [0.1, 0.0]})
    >>> extrapolated(points, "x", "y", "se")
    (1.0, 0.2)

    """
    x, values, errors = table[list(columns)].to_numpy().T
    weights = [np.prod([other / (other - at) for other in x if other != at]) for at in x]
    return float(np.dot(weights, values)), float(np.linalg.norm(weights * errors))


def coefficient_limits(coefficients: pd.DataFrame, measured: str = "minimiser") -> pd.DataFrame:
    """Extrapolate the coefficient to a vanishing rate, for each batch size.

    Time is rate² × steps / batch, so that the theorem predicts 1/4 for all.

    Args:
        coefficients: of all batch sizes and rates.
        measured: where the trace was measured, at the `iterate` or at a nearby `minimiser`.

    """
    batches = coefficients[coefficients.measured == measured].groupby("batch")
    rows = [(batch, *extrapolated(part, "rate", "coefficient", "standard_error")) for batch, part in batches]
    return pd.DataFrame(rows, columns=["batch", "coefficient", "standard_error"])


def finite_limit(finite: pd.DataFrame, flow: str) -> tuple[float, float]:
    """Extrapolate SGD's mean distance from a flow to an infinite batch, with its standard error."""
    later = finite.query("time > 0")
    columns = {"gap": later[flow] - later.iterate, "gap_se": later.iterate_sd / later.replicas**0.5}
    gaps = later.assign(**columns).groupby("batch")[list(columns)].mean().tail(3).reset_index()  # the largest
    return extrapolated(gaps.assign(inverse=1 / gaps.batch), "inverse", "gap", "gap_se")


def _adam(adam: Tables) -> Iterator[Check]:
    """Theorem 3.3 read for Adam."""
    text = "sharpness of Adam's end beside the trace's flow at equal trace"
    yield Check("thm33-adam", text, adam_beside_trace_flow(adam), 0.0, WITHIN)
    value, error = adam_limit(adam)
    yield Check("thm33-adam", "coefficient of Adam's flow, η → 0", value, 0.5, ERRORS * error, printed=False)


def adam_limit(adam: Tables) -> tuple[float, float]:
    """Coefficient of Adam's flow at a vanishing rate, 1/2 in theory, and its standard error."""
    return extrapolated(adam["coefficients"], "rate", "coefficient", "standard_error")


def adam_beside_trace_flow(adam: Tables) -> float:
    """Relative difference in sharpness between Adam's end and the trace's flow at the same trace."""
    flow = adam["flows"].query("flow == 'trace'").sort_values("trace")
    last = adam["trajectories"].query("algorithm == 'Adam, to its end'").iloc[-1]
    return float(last.sharpness / np.interp(last.trace, flow.trace, flow.sharpness) - 1)
