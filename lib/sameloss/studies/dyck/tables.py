"""Tables of the chapter on the bracket language: what its runs found, in the form it is shown in."""

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from scipy.stats import t as student

from sameloss.studies.dyck.theory import (
    ZERO_LOSS,
    Inputs,
    Transformer,
    averaged_curvature,
    cancellation,
    conditions,
    hessian_trace,
    kinked_solution,
    kinks,
    lower_bound,
    pretraining_inputs,
    pretraining_loss,
    random_feature_solution,
    transferable_solution,
)


def solutions(length: int, width: int, generator: torch.Generator) -> dict[str, Transformer]:
    """Return the solutions that are compared by hand: Section 5's two and the two with kinks.

    Args:
        length: T.
        width: m of solution (1).
        generator: of random features, as many as there are inputs.

    """
    inputs = pretraining_inputs(length)
    return {
        "solution (1)": transferable_solution(length, width),
        "solution (2), random features": random_feature_solution(inputs, len(inputs.target), generator),
        "kinked, ξ = the mask's sign": kinked_solution(length, "mask"),
        "kinked, ξ = the first token": kinked_solution(length, "token"),
    }


def solution_table(models: dict[str, Transformer], inputs: Inputs) -> pd.DataFrame:
    """Return loss, trace over the bound, cancellation and conditions, one row a model."""
    rows = []
    for name, model in models.items():
        bound = lower_bound(inputs.length, model.width)
        residuals = conditions(model, inputs)
        rows.append(
            {
                "solution": name,
                "m": model.width,
                "loss": float(pretraining_loss(model, inputs)),
                "trace": float(hessian_trace(model, inputs)),
                "trace / bound": float(hessian_trace(model, inputs)) / bound,
                "smoothed / bound": averaged_curvature(model, inputs) / bound,
                "at the kink": float(kinks(model, inputs).double().mean()),
                "cancellation": cancellation(model, inputs),
                "(3)": residuals["balance"],
                "(4)": residuals["cancellation"],
                "(5)": residuals["uniformity"],
            }
        )
    return pd.DataFrame(rows)


def search_table(found: pd.DataFrame) -> pd.DataFrame:
    """Return, for each width, how many restarts reached zero loss and the bound, and what they found."""
    rows = []
    for width, part in found.groupby("width"):
        solved = part[part.loss <= ZERO_LOSS]
        rows.append(
            {
                "m": width,
                "restarts": len(part),
                "zero loss": len(solved),
                "within 0.1 % of the bound": int((solved.ratio < 1.001).sum()),
                "smallest trace / bound": solved.ratio.min(),
                "largest trace / bound": solved.ratio.max(),
                "largest mean sine to ∓[1; 0]": solved.off_direction.max(),
            }
        )
    return pd.DataFrame(rows)


def width_table(features: pd.DataFrame, losses: tuple[float, ...], length: int) -> pd.DataFrame:
    """Return the smallest width whose median loss is small enough, measured, expected and printed.

    `expected` is of the proof's head, (2T² + 3)/ε; `printed` is 2ᵀT³ε⁻² without its logarithms.
    """
    medians = features.groupby("width").loss.median()
    rows = []
    for loss in losses:
        enough = medians.index[medians <= loss]
        rows.append(
            {
                "loss": loss,
                "best head (measured)": float(enough[0]) if len(enough) else np.nan,
                "the proof's head (expected)": (2 * length**2 + 3) / loss,
                "printed": 2.0**length * length**3 / loss**2,
            }
        )
    return pd.DataFrame(rows)


def trained_table(training: pd.DataFrame) -> pd.DataFrame:
    """Return medians over seeds at the end of training, one row a noise."""
    last = training[training.step == training.step.max()]
    columns = ["loss", "ratio", "attention", "off_direction", "error_few", "error_all", "error_own"]
    table = last.groupby("noise")[columns].median()
    table["attention"] /= last.groupby("noise").trace.median()
    return table.reset_index()


def noise_effects(training: pd.DataFrame, quantities: tuple[str, ...]) -> pd.DataFrame:
    """Return by what label noise multiplies a quantity, same initial weights, with 95 % intervals.

    The logarithms of ratios of pairs, Student's t over seeds; no seed is left out.
    """
    last = training[training.step == training.step.max()].set_index(["noise", "seed"])
    rows = []
    for noise in last.index.levels[0][1:]:
        for quantity in quantities:
            pairs = np.log(last.loc[noise][quantity] / last.loc[0.0][quantity])
            half = student.ppf(0.975, len(pairs) - 1) * pairs.std() / len(pairs) ** 0.5
            middle = pairs.mean()
            ends = {"factor": np.exp(middle), "low": np.exp(middle - half), "high": np.exp(middle + half)}
            rows.append({"noise": noise, "quantity": quantity, **ends, "seeds": len(pairs)})
    return pd.DataFrame(rows)


def rank_correlations(training: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's correlation of trace and downstream error at the end, of all and of each noise."""
    last = training[training.step == training.step.max()]
    groups = {"all": last, **{f"noise {noise:g}": part for noise, part in last.groupby("noise")}}
    rows = []
    for name, part in groups.items():
        found = spearmanr(part.ratio, part.error_few)
        rows.append({"models": name, "count": len(part), "ρ": found.statistic, "p": found.pvalue})
    return pd.DataFrame(rows)
