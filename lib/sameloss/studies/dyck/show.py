"""Tables and figures of the chapter on the bracket language."""

from itertools import product

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from torch import Tensor

from sameloss.statistics.intervals import paired
from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.dyck import theory
from sameloss.studies.dyck.experiment import measured
from sameloss.studies.dyck.theory import Inputs, Transformer, lower_bound
from sameloss.studies.statement import Judgement

# Tables


def solutions(inputs: Inputs, width: int, generator: torch.Generator) -> dict[str, Transformer]:
    """The two solutions of Section 5 and the one with kinks.

    Args:
        inputs: all inputs of pre-training.
        width: m of solution (1); solution (2) has as many random features as there are inputs.
        generator: of the random features.

    """
    random = theory.random_feature_solution(inputs, len(inputs.target), generator)
    return {
        "solution (1)": theory.transferable_solution(inputs.length, width),
        "solution (2), random features": random,
        "kinked solution": theory.kinked_solution(inputs.length),
    }


def solution_table(models: dict[str, Transformer], inputs: Inputs) -> pd.DataFrame:
    """Loss, trace, cancellation and residuals of the conditions of Lemma F.1, a row per model."""
    rows = []
    for name, model in models.items():
        found, residuals = measured(model, inputs), theory.conditions(model, inputs)
        rows.append(
            {
                "solution": name,
                "m": model.width,
                "loss": found["loss"],
                "trace": found["trace"],
                "trace / bound": found["ratio"],
                "at the kink": float(theory.kinks(model, inputs).double().mean()),
                "cancellation": theory.cancellation(model, inputs),
                "(3)": residuals["balance"],
                "(4)": residuals["cancellation"],
                "(5)": residuals["uniformity"],
            }
        )
    return pd.DataFrame(rows)


def trained_table(last: pd.DataFrame) -> pd.DataFrame:
    """Medians over seeds at the end of training, a row per noise; `attention` as a fraction of the trace."""
    columns = ["loss", "ratio", "attention", "off_direction", "error_few", "error_all", "error_own"]
    medians = last.groupby("noise")[[*columns, "trace"]].median()
    return medians.assign(attention=medians.attention / medians.trace)[columns].reset_index()


def noise_effects(last: pd.DataFrame, quantities: tuple[str, ...]) -> pd.DataFrame:
    """Factors by which label noise changes quantities, paired by initial weights, with 95 % intervals.

    Student's t over seeds, on the logarithms of the ratios.
    """
    indexed = last.set_index(["noise", "seed"])
    rows = []
    for noise, quantity in product(indexed.index.levels[0][1:], quantities):
        pairs = np.log(indexed.loc[noise][quantity] / indexed.loc[0.0][quantity])
        rows.append((noise, quantity, *np.exp(paired(pairs.to_numpy())[:3]), len(pairs)))
    return pd.DataFrame(rows, columns=["noise", "quantity", "factor", "low", "high", "seeds"])


# Sentences


def conclusion(verdicts: pd.DataFrame, effects: pd.DataFrame, ends: pd.DataFrame) -> str:
    """What the page found, and how sure it is.

    Args:
        verdicts: of all statements.
        effects: of label noise, from `noise_effects`.
        ends: medians at the end of training, from `trained_table`.

    """
    by, last = verdicts.verdict.value_counts(), ends.iloc[-1]
    most = effects[effects.noise == last.noise].set_index("quantity")
    factors = most.apply("{0.factor:.2g} (95 % interval {0.low:.2g} to {0.high:.2g})".format, axis=1)
    return f"""
Of the {len(verdicts)} statements judged below, {by.get(Judgement.HOLDS, 0)} hold as printed and
{by.get(Judgement.CORRECTED, 0)} only as corrected. They are checked exactly, by enumerating all sentences,
but only for a few lengths. Label noise {last.noise:g} multiplies the trace by {factors["trace"]}, the
downstream error of a head from few samples by {factors["error_few"]}, and the pre-training loss by
{factors["loss"]}, in {most.seeds.max()} pairs of models of one width that start from the same weights. SGD
then ends at a median trace of {last.ratio:.1f} times the bound and a median downstream error of
{last.error_few:.2g}; for the flattest solution, Theorem 5.1 predicts zero with high probability.
"""


# Figures


def encoding(inputs: Inputs, which: int, ax: Axes) -> None:
    """Draw the encoding of one input, a row per token and a column per feature."""
    tokens = inputs.tokens[which]
    brackets = tokens[:, : inputs.length].sum(1).int().tolist()
    labels = [{1: "⟨", -1: "⟩", 0: "mask"}[bracket] for bracket in brackets]
    _feature_map(tokens, labels, ax)
    ax.set(ylabel="token", title=f"one input, g* = {int(inputs.target[which]):+d}")


def values(model: Transformer, title: str, ax: Axes) -> None:
    """Draw V, each row divided by its largest entry and labelled with the sign of u."""
    labels = ["u > 0" if u > 0 else "u < 0" for u in model.head]
    _feature_map(model.value / model.value.abs().amax(1, keepdim=True), labels, ax)
    ax.set(ylabel="neuron", title=title)


def _feature_map(rows: Float[Tensor, "row feature"], labels: list[str], ax: Axes) -> None:
    """Draw values in [-1, 1] as a heat map."""
    drawn = ax.imshow(rows.numpy(), cmap="vlag", vmin=-1, vmax=1, aspect="auto")
    ax.figure.colorbar(drawn, ax=ax, ticks=[-1, 0, 1])
    features = rows.shape[1]
    ax.axvline(features / 2 - 0.5, color="0.3", lw=1)
    ax.set_yticks(range(len(rows)), labels, fontsize="small")
    ax.set_xticks(range(0, features, 2), map(str, range(1, features + 1, 2)))
    ax.set(xlabel="feature: T brackets, then T masks")
    ax.grid(visible=False)


def traces_by_width(solved: pd.DataFrame, features: pd.DataFrame, length: int, ax: Axes) -> None:
    """Draw traces of solutions, from the search and of random features, with both lower bounds."""
    widths = sorted({*solved.width, *features.width})
    bounds = [lower_bound(length, width) for width in widths]
    ax.plot(widths, bounds, color="black", lw=1.2, label="4/(m√T)")
    ax.axhline((4 / length) ** 0.5, color="0.4", ls=":", lw=1.4, label="printed: √(4/T)")
    ax.plot(solved.width, solved.trace, "o", color="C0", ms=7, mfc="none", label="found by search")
    ax.plot(features.width, features.trace, "s", color="C1", ms=4, alpha=0.7, label="random features")
    ax.set(xscale="log", yscale="log", xlabel="width m (neurons)", ylabel="trace of the Hessian at zero loss")
    ax.set_xticks(widths, map(str, widths), fontsize="small")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(fontsize="small")


def failures(table: pd.DataFrame, ax: Axes) -> None:
    """Draw exact and simulated failure probabilities against the number of samples."""
    for index, ((name, length), part) in enumerate(table.groupby(["solution", "length"], sort=False)):
        style: Style = {"color": f"C{index}", "lw": 1.2}
        ax.plot(part.samples, part.exact, **style)
        ends = [part.simulated - part.low, part.high - part.simulated]
        style |= {"fmt": MARKERS[index], "ms": 4, "capsize": 2, "label": f"{name}, T = {length}"}
        ax.errorbar(part.samples, part.simulated, ends, **style)
    ax.plot(part.samples, part.printed, ls="--", color="0.35", lw=1.4, label="printed: 2⁻ⁿ")
    ax.set(yscale="log", ylim=(0.3 / table.repetitions.iloc[0], 1.5))
    ax.set(xlabel="downstream samples n", ylabel="probability of a wrong head")
    ax.legend(fontsize="small")


def along_noisy_training(training: pd.DataFrame, quantity: str, label: str, ax: Axes) -> None:
    """Draw a quantity along training by noise: median and interquartile range over seeds."""
    for index, (noise, part) in enumerate(training.groupby("noise")):
        quartiles = part.groupby("step")[quantity].quantile([0.25, 0.5, 0.75]).unstack()
        style: Style = {"color": f"C{index}", "marker": MARKERS[index]}
        ax.plot(quartiles.index, quartiles[0.5], ms=4, lw=1.2, label=f"label noise {noise:g}", **style)
        ax.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], color=f"C{index}", alpha=0.2, lw=0)
    ax.set(yscale="log", xlabel="step of SGD", ylabel=label)
    ax.yaxis.set_major_formatter("{x:g}")
