"""Figures of the chapter on the bracket language: a tidy frame or a model in, Axes out."""

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from torch import Tensor

from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.dyck.search import constructed_loss
from sameloss.studies.dyck.theory import Inputs, Transformer, in_words, lower_bound, run


def encoding(inputs: Inputs, which: int, ax: Axes) -> Axes:
    """Draw the encoding of one input: a row a token, a column a feature."""
    tokens, length = inputs.tokens[which], inputs.length
    _signed(tokens, ax)
    ax.axvline(length - 0.5, color="0.3", lw=1)
    ax.set_yticks(range(length), _symbols(in_words(tokens)))
    ax.set_xticks(range(0, 2 * length, 2), map(str, range(1, 2 * length + 1, 2)))
    target = int(inputs.target[which])
    ax.set(xlabel="feature: T brackets, then T masks", ylabel="token", title=f"one input, g* = {target:+d}")
    ax.grid(visible=False)
    return ax


def _signed(values: Float[Tensor, "row column"], ax: Axes) -> None:
    """Draw values from -1 to 1 as a map with its colour bar, red positive."""
    drawn = ax.imshow(values.numpy(), cmap="vlag", vmin=-1, vmax=1, aspect="auto")
    ax.figure.colorbar(drawn, ax=ax, ticks=[-1, 0, 1])


def _symbols(text: str) -> list[str]:
    return [{"M": "mask"}.get(symbol, symbol) for symbol in text.replace("[M]", "M")]


def values(model: Transformer, title: str, ax: Axes) -> Axes:
    """Draw V, a row a neuron (each divided by its largest entry), marked with the sign of u."""
    rows = model.value / model.value.abs().amax(1, keepdim=True)
    _signed(rows, ax)
    ax.axvline(rows.shape[1] / 2 - 0.5, color="0.3", lw=1)
    ax.set_yticks(range(len(rows)), ["u > 0" if u > 0 else "u < 0" for u in model.head], fontsize="small")
    ax.set_xticks(range(0, rows.shape[1], 2), map(str, range(1, rows.shape[1] + 1, 2)))
    ax.set(xlabel="feature: T brackets, then T masks", ylabel="neuron", title=title)
    ax.grid(visible=False)
    return ax


def contributions(models: dict[str, Transformer], inputs: Inputs, which: int, ax: Axes) -> Axes:
    """Draw what each neuron adds to f on one input, running sums as a walk from 0 to g*."""
    for index, (name, model) in enumerate(models.items()):
        parts = (run(model, inputs).preactivations[which].relu() * model.head / model.width).numpy()
        walk = np.concatenate([[0.0], np.cumsum(parts)])
        share = np.linspace(0, 1, len(walk))
        ax.plot(share, walk, color=f"C{index}", marker=MARKERS[index], ms=3, lw=1, label=name)
    ax.axhline(float(inputs.target[which]), color="0.35", ls="--", lw=1)
    ax.set(xlabel="share of the neurons summed", ylabel="sum of $u_i\\,\\sigma(V_i\\cdot h)/m$")
    ax.set_title("the way to the same output")
    ax.legend(fontsize="small")
    return ax


def traces_by_width(found: pd.DataFrame, features: pd.DataFrame, length: int, ax: Axes) -> Axes:
    """Draw the traces of found and of random solutions against the width, with both lower bounds.

    Args:
        found: `width` and `trace` of solutions that a search found.
        features: those of random features with zero loss.
        length: T.
        ax: where to draw.

    """
    widths = [int(found.width.min()), int(features.width.max())]
    bounds = [lower_bound(length, width) for width in widths]
    ax.plot(widths, bounds, color="black", lw=1.2, label="4/(m√T)")
    ax.axhline((4 / length) ** 0.5, color="0.4", ls=":", lw=1.4, label="printed: √(4/T)")
    ax.plot(found.width, found.trace, "o", color="C0", ms=7, mfc="none", label="found by search")
    ax.plot(features.width, features.trace, "s", color="C1", ms=4, alpha=0.7, label="random features")
    ax.set(xscale="log", yscale="log", xlabel="width m (neurons)", ylabel="trace of the Hessian at zero loss")
    ticks = sorted({*found.width, *features.width})
    ax.set_xticks(ticks, ticks)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend(fontsize="small")
    return ax


def failures(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw exact and simulated probabilities of failure against the number of samples."""
    smallest = 0.3 / table.repetitions.iloc[0]
    for index, ((name, length), part) in enumerate(table.groupby(["solution", "length"], sort=False)):
        colour, label = f"C{index}", f"{name}, T = {length}"
        ax.plot(part.samples, part.exact, lw=1.2, color=colour)
        ends = [part.simulated - part.low, part.high - part.simulated]
        ax.errorbar(part.samples, part.simulated, ends, fmt=MARKERS[index], ms=4, capsize=2, label=label,
                    color=colour)  # fmt: skip
    first = table[table.solution == table.solution.iloc[0]].drop_duplicates("samples")
    ax.plot(first.samples, first.printed, ls="--", color="0.35", lw=1.4, label="printed: 2⁻ⁿ")
    ax.set(yscale="log", ylim=(smallest, 1.5))
    ax.set(xlabel="downstream samples n", ylabel="probability of a wrong head")
    ax.legend(fontsize="small")
    return ax


def random_feature_losses(features: pd.DataFrame, length: int, exact: int, ax: Axes) -> Axes:
    """Draw the losses of the best head and of the proof's head against the width."""
    heads = {"loss": "best head", "constructed_loss": "the proof's head"}
    for index, (column, name) in enumerate(heads.items()):
        drawn = features[features[column] > 1e-12]
        ax.plot(drawn.width, drawn[column], MARKERS[index], ms=4, color=f"C{index}", alpha=0.6, label=name)
    widths = [int(width) for width in sorted(features.width.unique())]
    ax.plot(
        widths, [constructed_loss(length, width) for width in widths], color="C1", lw=1, label="(2T² + 3)/m"
    )
    ax.axvline(exact, color="0.35", ls="--", lw=1.2, label=f"zero from m = {exact}")
    _by_width(widths, ax)
    ax.set(ylabel="pre-training loss")
    ax.legend(fontsize="small", loc="lower left")
    return ax


def head_norms(features: pd.DataFrame, length: int, ax: Axes) -> Axes:
    """Draw squared norms of heads against the width, beside T²."""
    heads = {
        "norm": "best head",
        "constructed_norm": "the proof's head",
        "least_norm": "least of any with loss ≤ 0.1",
    }
    for index, (column, name) in enumerate(heads.items()):
        style: Style = {"color": f"C{index}", "marker": MARKERS[index], "ls": "none"}
        ax.plot(features.width, features[column], ms=4, alpha=0.6, label=name, **style)
    ax.axhline(length**2, color="0.35", ls=":", lw=1.4, label="T²")
    _by_width(sorted(features.width.unique().tolist()), ax)
    ax.set(ylabel="‖u‖²")
    ax.legend(fontsize="small", loc="upper left")
    return ax


def _by_width(widths: list[int], ax: Axes) -> None:
    ax.set(xscale="log", yscale="log", xlabel="width m (neurons)")
    ax.set_xticks(widths, map(str, widths), fontsize="small")
    ax.xaxis.set_minor_formatter(NullFormatter())


def along_noisy_training(training: pd.DataFrame, quantity: str, label: str, ax: Axes) -> Axes:
    """Draw a quantity along training, median and middle half of the seeds, one colour a noise."""
    for index, (noise, part) in enumerate(training.groupby("noise")):
        quartiles = part.groupby("step")[quantity].quantile([0.25, 0.5, 0.75]).unstack()
        style: Style = {"color": f"C{index}", "marker": MARKERS[index]}
        ax.plot(quartiles.index, quartiles[0.5], ms=4, lw=1.2, label=f"label noise {noise:g}", **style)
        ax.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], color=f"C{index}", alpha=0.2, lw=0)
    ax.set(yscale="log", xlabel="step of SGD", ylabel=label)
    ax.yaxis.set_major_formatter("{x:g}")
    return ax


def error_against_trace(training: pd.DataFrame, few: int, ax: Axes) -> Axes:
    """Draw downstream error against the trace at the end of training, one point a model."""
    last = training[training.step == training.step.max()]
    for index, (noise, part) in enumerate(last.groupby("noise")):
        style: Style = {"color": f"C{index}", "marker": MARKERS[index], "ls": "none", "mec": "black"}
        ax.plot(part.ratio, part.error_few, ms=6, label=f"label noise {noise:g}", **style)
    ax.axvline(1, color="0.35", lw=1.2)
    ax.set(xscale="log", yscale="log", xlabel="trace / (4/(m√T))")
    ax.set(ylabel=f"downstream error, head from {few} samples")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    return ax
