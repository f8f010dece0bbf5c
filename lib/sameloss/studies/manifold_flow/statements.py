"""The statements of Section 3 and Appendix C, with what is checked of each."""

from collections.abc import Iterator

import pandas as pd
import torch

from sameloss.studies.manifold_flow.experiment import SGDDrift
from sameloss.studies.manifold_flow.tables import (
    Tables,
    adam_beside_trace_flow,
    adam_limit,
    coefficient_limits,
    divergence_rate,
    extrapolated,
    finite_limits,
    gap_table,
    relative_distance,
)
from sameloss.studies.manifold_flow.theory import rank_of
from sameloss.studies.statement import Check, Statement, check_table

STATEMENTS = {
    "lem32": Statement("Lemma 3.2", "On Γ the gradient's covariance is the Hessian."),
    "lem32-covariance": Statement(
        "Lemma 3.2",
        "The covariance is the second moment less an inner product of the mean gradient.",
        "The last term is an outer product, as in Appendix C.",
    ),
    "assumption31": Statement(
        "Assumption 3.1",
        "The minimisers form a manifold Γ.",
        "Where no conditional is zero. Otherwise no parameters attain the least loss.",
    ),
    "thm33": Statement("Theorem 3.3", "SGD follows the flow of ¼ Tr ∇²L as η → 0."),
    "thm33-batch": Statement("Below Theorem 3.3", "With batch size B the coefficient is 1/(4B)."),
    "thm33-finite": Statement(
        "Theorem 3.3 at a finite rate",
        "With little noise, SGD at a rate that is not small follows the same flow.",
        "It follows the flow of −(1/2η) tr log(1 − ηH/2), whose first term is ¼ Tr H.",
    ),
    "thm33-adam": Statement(
        "Theorem 3.3 read for AdamW",
        "Adam moves as the flow of the trace does.",
        "It follows the flow of Tr(Diag(H)^½), in its own metric.",
    ),
}

EXACT = 1e-10
"""Relative difference of two matrices that counts as none."""

ERRORS = 4
"""Standard errors within which an estimate is equal: many are made, and none may fail by chance."""

WITHIN = 0.05
"""Relative difference that counts as agreement of Adam's end with a flow."""


def checks(tables: Tables) -> pd.DataFrame:
    """Return everything that is checked of the section's statements, one row each."""
    return check_table(
        [*_bartlett(tables.run), *_assumption(tables), *_theorem(tables.sgd), *_adam(tables.adam)]
    )


def _bartlett(run: SGDDrift) -> Iterator[Check]:
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


def _assumption(tables: Tables) -> Iterator[Check]:
    for zeros, part in tables.zeros.groupby("zeros", sort=False):
        text = f"{zeros} zeros: growth of the logits for each factor e of KL"
        yield Check("assumption31", text, divergence_rate(part), 0.0, 0.1, printed=bool(zeros))
    population, model = tables.run.population()
    rank = rank_of(population, tables.run.start())
    known = model.contexts * (model.words - 1)
    yield Check(
        "assumption31", "no zeros: rank of the Hessian", float(rank), float(known), 0.0, printed=False
    )


def _theorem(sgd: dict[str, pd.DataFrame]) -> Iterator[Check]:
    limits = coefficient_limits(sgd["coefficients"])
    for row in limits.itertuples():
        of = "thm33" if row.batch == 1 else "thm33-batch"
        text = f"B × coefficient at B = {row.batch}, η → 0"
        yield Check(of, text, row.coefficient, 0.25, ERRORS * row.standard_error)
    gaps = gap_table(sgd).query("batch == 1")
    gap, error = extrapolated(*gaps[["rate", "gap", "gap_se"]].to_numpy().T)
    yield Check("thm33", "mean distance of the trace from the flow, η → 0", gap, 0.0, ERRORS * error)
    for row in finite_limits(sgd["finite"]).sort_values("flow", ascending=False).itertuples():
        text = f"distance from the flow of the {row.flow} rate, B → ∞"
        printed = row.flow == "vanishing"
        yield Check("thm33-finite", text, row.gap, 0.0, ERRORS * row.standard_error, printed=printed)


def _adam(adam: dict[str, pd.DataFrame]) -> Iterator[Check]:
    beside = adam_beside_trace_flow(adam)
    text = "sharpness of Adam's end beside the trace's flow at equal trace"
    yield Check("thm33-adam", text, beside, 0.0, WITHIN)
    value, error = adam_limit(adam)
    yield Check("thm33-adam", "coefficient of Adam's flow, η → 0", value, 0.5, ERRORS * error, printed=False)
