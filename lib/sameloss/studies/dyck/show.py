"""Tables and figures of the chapter on the bracket language."""

from itertools import product

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from scipy.stats import spearmanr
from torch import Tensor

from sameloss.statistics.intervals import paired
from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.dyck import theory
from sameloss.studies.dyck.theory import ZERO_LOSS, Inputs, Transformer, lower_bound
from sameloss.studies.statement import Judgement

REACHED = 1.001  # trace over its lower bound up to which a search counts as having reached the bound

# Tables


def solutions(inputs: Inputs, width: int, generator: torch.Generator) -> dict[str, Transformer]:
    """The two solutions of Section 5 and the two with kinks.

    Args:
        inputs: all inputs of pre-training.
        width: m of solution (1); solution (2) has as many random features as there are inputs.
        generator: of the random features.

    """
    random = theory.random_feature_solution(inputs, len(inputs.target), generator)
    return {
        "solution (1)": theory.transferable_solution(inputs.length, width),
        "solution (2), random features": random,
        "kinked, ξ = the mask's sign": theory.kinked_solution(inputs.length, "mask"),
        "kinked, ξ = the first token": theory.kinked_solution(inputs.length, "token"),
    }


def solution_table(models: dict[str, Transformer], inputs: Inputs) -> pd.DataFrame:
    """Loss, trace, cancellation and residuals of the conditions of Lemma F.1, a row per model."""
    rows = []
    for name, model in models.items():
        bound, trace = lower_bound(inputs.length, model.width), float(theory.hessian_trace(model, inputs))
        residuals = theory.conditions(model, inputs)
        rows.append(
            {
                "solution": name,
                "m": model.width,
                "loss": float(theory.run(model, inputs).loss),
                "trace": trace,
                "trace / bound": trace / bound,
                "smoothed / bound": theory.averaged_curvature(model, inputs) / bound,
                "at the kink": float(theory.kinks(model, inputs).double().mean()),
                "cancellation": theory.cancellation(model, inputs),
                "(3)": residuals["balance"],
                "(4)": residuals["cancellation"],
                "(5)": residuals["uniformity"],
            }
        )
    return pd.DataFrame(rows)


def search_table(searches: pd.DataFrame) -> pd.DataFrame:
    """By width: how many restarts reached zero loss and the lower bound, and the range of their traces."""
    rows = []
    for width, part in searches.groupby("width"):
        solved = part[part.loss <= ZERO_LOSS]
        rows.append(
            {
                "m": width,
                "restarts": len(part),
                "zero loss": len(solved),
                "within 0.1 % of the bound": (solved.ratio < REACHED).sum(),
                "smallest trace / bound": solved.ratio.min(),
                "largest trace / bound": solved.ratio.max(),
                "largest mean sine to ∓[1; 0]": solved.off_direction.max(),
            }
        )
    return pd.DataFrame(rows)


def width_table(features: pd.DataFrame, losses: tuple[float, ...], length: int) -> pd.DataFrame:
    """Smallest width that reaches each loss ε: measured (median), expected and printed.

    Expected for the head of the proof is (2T² + 3)/ε; printed is 2ᵀT³ε⁻², without logarithms.
    """
    medians, loss = features.groupby("width").loss.median(), np.array(losses)
    return pd.DataFrame(
        {
            "loss": loss,
            "best head (measured)": [medians.index[medians <= most].min() for most in losses],
            "the proof's head (expected)": theory.constructed_loss(length, 1) / loss,
            "printed": 2.0**length * length**3 / loss**2,
        }
    )


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


def rank_correlations(last: pd.DataFrame) -> pd.DataFrame:
    """Spearman correlation of trace and downstream error at the end, over all models and by noise."""
    groups = {"all": last, **{f"noise {noise:g}": part for noise, part in last.groupby("noise")}}
    rows = [(name, len(part), *spearmanr(part.ratio, part.error_few)) for name, part in groups.items()]
    return pd.DataFrame(rows, columns=["models", "count", "ρ", "p"])


# Sentences


def bound_finding(solved: pd.DataFrame, fitted: pd.DataFrame) -> str:
    """Whether any solution is flatter than the lower bound 4/(m√T).

    Args:
        solved: solutions found by search.
        fitted: solutions of random features.

    """
    least = min([*solved.ratio, *fitted.ratio], default=None)
    if least is None:
        return "No search and no width of random features reached zero loss."
    return (
        f"{'No solution is' if least > 1 - 1e-9 else 'Some solutions are'} flatter than the bound 4/(m√T): "
        f"the smallest trace is {least:.3f} times it."
    )


def restarts_in_words(searches: pd.DataFrame) -> str:
    """How many restarts reach the lower bound, and in which direction their neurons point."""
    solved = searches[searches.loss <= ZERO_LOSS]
    reached = solved[solved.ratio < REACHED]
    failed = len(searches) - len(solved)
    sentences = [f"{len(reached)} of {len(searches)} restarts come within 0.1 % of the bound."]
    if len(reached):
        sentences += [
            r"On average, weighted by $|u_i|\lVert V_i\rVert$, the sine of the angle between their neurons "
            r"and $\mp[\mathbf 1;\mathbf 0]$, the direction of solution (1), is at most "
            f"{reached.off_direction.max():.4f}."
        ]
    if failed:
        sentences += [f"{failed} did not reach zero loss and are left out."]
    sentences += [
        "A search can miss solutions: the next section constructs some that are as flat by the paper's "
        "convention."
    ]
    return " ".join(sentences)


def correlations_in_words(correlations: pd.DataFrame) -> str:
    """What the correlations of trace and downstream error show; `rank_correlations`, indexed by models."""
    within = correlations.drop("all")
    separate = (within.p < 0.05).sum() or "none"
    return f"""
Label noise changes both quantities, so the correlation over all {correlations["count"]["all"]} models
(p = {correlations.p["all"]:.1g}) mixes its effects. Only the correlations among models with equal noise could
separate flatness itself from other effects of the noise, and {separate} of these {len(within)} differs from
zero at p < 0.05 ({within["count"].max()} models each).
"""


def conclusion(verdicts: pd.DataFrame, effects: pd.DataFrame, ends: pd.DataFrame) -> str:
    """What the page found, what it did not, and how sure it is.

    Args:
        verdicts: of all statements.
        effects: of label noise, from `noise_effects`.
        ends: medians at the end of training, from `trained_table`.

    """
    by, last = verdicts.verdict.value_counts(), ends.iloc[-1]
    most = effects[effects.noise == last.noise].set_index("quantity")
    factors = {
        row.Index: f"{row.factor:.2g} (95 % interval {row.low:.2g} to {row.high:.2g})"
        for row in most.itertuples()
    }
    better = most.loc["loss"].low > 1 and most.loc["error_few"].high < 1
    although = ": the flatter models are better downstream although their loss is higher" if better else ""
    reaches = "reaches" if last.ratio < REACHED else "does not reach"
    return f"""
**Found.** Of the {len(verdicts)} statements judged below, {by.get(Judgement.HOLDS, 0)} hold as printed and
{by.get(Judgement.CORRECTED, 0)} only as corrected. Label noise {last.noise:g} multiplies the trace by
{factors["trace"]}, the downstream error of a head from few samples by {factors["error_few"]}, and the
pre-training loss by {factors["loss"]}{although}.

**Not found.** SGD {reaches} the flattest solution: with the most noise, the median trace is
{last.ratio:.1f} times the bound, and the median downstream error is {last.error_few:.2g}, where Theorem 5.1
has zero with high probability.

**How sure.** The statements are checked exactly, by enumerating all sentences, but only for a few lengths.
The factors come from {most.seeds.max()} pairs of models of one width, which start from the same weights.
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


def contributions(models: dict[str, Transformer], inputs: Inputs, which: int, ax: Axes) -> None:
    """Draw the cumulative sums over neurons of their contributions to f on one input."""
    for index, (name, model) in enumerate(models.items()):
        parts = (theory.run(model, inputs).features[which] * model.head / model.width).numpy()
        walk = np.concatenate([[0.0], np.cumsum(parts)])
        x = np.linspace(0, 1, len(walk))
        ax.plot(x, walk, color=f"C{index}", marker=MARKERS[index], ms=3, lw=1, label=name)
    ax.axhline(float(inputs.target[which]), color="0.35", ls="--", lw=1)
    ax.set(xlabel="share of the neurons summed", ylabel="sum of $u_i\\,\\sigma(V_i\\cdot h)/m$")
    ax.set_title("the way to the same output")
    ax.legend(fontsize="small")


def traces_by_width(solved: pd.DataFrame, features: pd.DataFrame, length: int, ax: Axes) -> None:
    """Draw traces of solutions, from the search and of random features, with both lower bounds."""
    widths = sorted({*solved.width, *features.width})
    bounds = [lower_bound(length, width) for width in widths]
    ax.plot(widths, bounds, color="black", lw=1.2, label="4/(m√T)")
    ax.axhline((4 / length) ** 0.5, color="0.4", ls=":", lw=1.4, label="printed: √(4/T)")
    ax.plot(solved.width, solved.trace, "o", color="C0", ms=7, mfc="none", label="found by search")
    ax.plot(features.width, features.trace, "s", color="C1", ms=4, alpha=0.7, label="random features")
    _against_width(widths, ax)
    ax.set(ylabel="trace of the Hessian at zero loss")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(fontsize="small")


def _against_width(widths: list[int], ax: Axes) -> None:
    ax.set(xscale="log", yscale="log", xlabel="width m (neurons)")
    ax.set_xticks(widths, map(str, widths), fontsize="small")
    ax.xaxis.set_minor_formatter(NullFormatter())


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


def random_feature_losses(features: pd.DataFrame, inputs: Inputs, ax: Axes) -> None:
    """Draw losses of the best head and of the head of the proof against the width."""
    widths = _heads(features, {"loss": "best head", "constructed_loss": "the proof's head"}, ax)
    expected = [theory.constructed_loss(inputs.length, width) for width in widths]
    ax.plot(widths, expected, color="C1", lw=1, label="(2T² + 3)/m")
    exact = theory.exact_width(inputs)
    ax.axvline(exact, color="0.35", ls="--", lw=1.2, label=f"zero from m = {exact}")
    ax.set(ylabel="pre-training loss")
    ax.legend(fontsize="small", loc="lower left")


def head_norms(features: pd.DataFrame, length: int, ax: Axes) -> None:
    """Draw squared norms of heads against the width, beside T²."""
    least = f"least of any with loss ≤ {theory.SMALL_LOSS}"
    _heads(features, {"norm": "best head", "constructed_norm": "the proof's head", "least_norm": least}, ax)
    ax.axhline(length**2, color="0.35", ls=":", lw=1.4, label="T²")
    ax.set(ylabel="‖u‖²")
    ax.legend(fontsize="small", loc="upper left")


def _heads(features: pd.DataFrame, columns: dict[str, str], ax: Axes) -> list[int]:
    """Draw the non-zero values of some columns against the width; return all widths."""
    for index, (column, name) in enumerate(columns.items()):
        drawn = features[features[column] > theory.RIGHT]
        ax.plot(drawn.width, drawn[column], MARKERS[index], ms=4, color=f"C{index}", alpha=0.6, label=name)
    widths = sorted(features.width.unique().tolist())
    _against_width(widths, ax)
    return widths


def along_noisy_training(training: pd.DataFrame, quantity: str, label: str, ax: Axes) -> None:
    """Draw a quantity along training by noise: median and interquartile range over seeds."""
    for index, (noise, part) in enumerate(training.groupby("noise")):
        quartiles = part.groupby("step")[quantity].quantile([0.25, 0.5, 0.75]).unstack()
        style: Style = {"color": f"C{index}", "marker": MARKERS[index]}
        ax.plot(quartiles.index, quartiles[0.5], ms=4, lw=1.2, label=f"label noise {noise:g}", **style)
        ax.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], color=f"C{index}", alpha=0.2, lw=0)
    ax.set(yscale="log", xlabel="step of SGD", ylabel=label)
    ax.yaxis.set_major_formatter("{x:g}")


def error_against_trace(last: pd.DataFrame, few: int, ax: Axes) -> None:
    """Draw downstream error against trace at the end of training, a point per model."""
    for index, (noise, part) in enumerate(last.groupby("noise")):
        style: Style = {"color": f"C{index}", "marker": MARKERS[index], "ls": "none", "mec": "black"}
        ax.plot(part.ratio, part.error_few, ms=6, label=f"label noise {noise:g}", **style)
    ax.axvline(1, color="0.35", lw=1.2)
    ax.set(xscale="log", yscale="log", xlabel="trace / (4/(m√T))")
    ax.set(ylabel=f"downstream error, head from {few} samples")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.legend(fontsize="small")
