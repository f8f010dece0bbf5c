"""Figures of training on patches: what was found in, Axes out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from sameloss.seeds import stream_seed
from sameloss.studies.drawing import MARKERS, plain_log_axis
from sameloss.studies.local_signal.found import THEIRS, Found
from sameloss.studies.local_signal.tables import reached_at
from sameloss.studies.local_signal.theory import Filter, Patches, accuracy, soft_threshold

SHOWN = 1000
"""Rows of the image that is drawn."""

WITHOUT, WITH = 0.0, -0.6
"""Bias without a threshold, and with one that is right in 96 % at k = 1,000."""


def one_image(b: float, ax: Axes) -> Axes:
    """Draw what a filter along w* answers to each row of one image."""
    patches = Patches(SHOWN)
    x, y = patches.draw(np.array([1.0]), 1, np.random.default_rng(stream_seed("one image", 0)))
    answers = soft_threshold(x[0, :, 0], b)
    signal = int(np.argmax(x[0, :, 0] == y[0]))
    at = np.arange(SHOWN + 1)
    up_and_down = np.stack(
        [0 * answers, answers, np.full(len(answers), np.nan)], 1
    )  # one path, not a thousand
    ax.plot(np.repeat(at, 3), up_and_down.ravel(), color="0.6", lw=0.8)
    ax.plot([signal, signal], [0, answers[signal]], color="C3", lw=3)
    ax.plot(signal, answers[signal], MARKERS[0], color="C3", label=f"signal, label {y[0]:+d}")
    ax.axhline(0, color="0.3", lw=0.8)
    ax.set(xlabel="row", ylabel="answer to the row", title=f"b = {b:g}: the sum is {answers.sum():+.2f}")
    return ax


def thresholds(rows_of_noise: Sequence[int], ax: Axes) -> Axes:
    """Draw how often a filter along w* is right, against its threshold."""
    ratios = np.linspace(0, 0.995, 80)
    for at, k in enumerate(rows_of_noise):
        right = [accuracy(Patches(k), Filter(1.0, 0.0, -ratio)) for ratio in ratios]
        ax.plot(ratios, right, color=f"C{at}", label=f"k = {k:,}")
        best = int(np.argmax(right))
        ax.plot(ratios[best], right[best], MARKERS[at], color=f"C{at}")
    ax.set(xlabel="threshold |b|/c", ylabel="accuracy")
    return ax


def parameters(found: Found, ax: Axes) -> Axes:
    """Draw c and b of the flow, and of every seed of stochastic descent (Figure 3.3, left)."""
    for at, (column, name) in enumerate({"c": "w along w*", "b": "bias b"}.items()):
        _beside(found, found.flow[column], found.by_seed(column), at, name, ax)
    ax.set(ylabel="value")
    return ax


def ratio(found: Found, ax: Axes) -> Axes:
    """Draw |b|/c (Figure 3.3, middle)."""
    seeds = found.by_seed("b").abs() / found.by_seed("c").abs()
    _beside(found, found.flow.b.abs() / found.flow.c, seeds, 2, "|b|/c", ax)
    ax.set(ylabel="|b|/c", ylim=(0, None))
    return ax


def training_accuracy(found: Found, ax: Axes) -> Axes:
    """Draw the accuracy (Figure 3.3, right)."""
    _beside(found, found.flow.accuracy, found.by_seed("accuracy"), 3, "accuracy", ax)
    ax.set(ylabel="accuracy", ylim=(0.5, 1.0))
    return ax


def _beside(
    found: Found, exact: "pd.Series[float]", seeds: pd.DataFrame, at: int, name: str, ax: Axes
) -> None:
    """Draw the flow to the figure's last step as a line, and seeds as thin ones."""
    shown = found.flow.step <= max(THEIRS, seeds.index.max())
    ax.plot(seeds.index, seeds, color=f"C{at}", lw=0.7, alpha=0.5)
    ax.plot(found.flow.step[shown], exact[shown], color=f"C{at}", lw=2, label=name)
    ax.set(xlabel="step")


def how_large(found: Found, ax: Axes) -> Axes:
    """Draw what the best filter and the linear model reach, against k."""
    own = found.best[found.best.multiplier == 1]
    for at, (column, name) in enumerate({"network": "best filter", "linear": "linear model"}.items()):
        ax.plot(own.noise, own[column], marker=MARKERS[at], color=f"C{at}", label=name)
    ax.axhline(0.99, color="0.4", ls="--", lw=1, label="99 %")
    ax.set(xscale="log", xlabel="rows of noise, k", ylabel="accuracy")
    plain_log_axis(ax.xaxis, own.noise)
    return ax


def how_long(found: Found, ax: Axes) -> Axes:
    """Draw accuracy against steps, a flow a line."""
    own = found.phase[(found.phase.multiplier == 1) & (found.phase.step > 0)]
    for at, (k, flow) in enumerate(own.groupby("noise")):
        ax.plot(
            flow.step,
            flow.accuracy,
            color=sns.color_palette("viridis", own.noise.nunique())[at],
            label=f"{k:,}",
        )
    ax.axhline(0.99, color="0.4", ls="--", lw=1)
    ax.axvline(THEIRS, color="0.4", ls=":", lw=1)
    ax.set(xscale="log", xlabel="step", ylabel="accuracy")
    ax.legend(title="k", fontsize="x-small", title_fontsize="small")
    return ax


def phase(table: pd.DataFrame, title: str, ax: Axes) -> Axes:
    """Draw accuracies by k and strength of noise, from a table with a row a strength."""
    shown = table.sort_index(ascending=False)
    sns.heatmap(
        100 * shown,
        annot=True,
        fmt=".0f",
        vmin=50,
        vmax=100,
        cmap="viridis",
        cbar=False,
        ax=ax,
        annot_kws={"size": 8},
    )
    ax.set(title=title, xlabel="rows of noise, k", ylabel="σ over log k/√k")
    ax.set_xticklabels([f"{k:g}" for k in shown.columns], rotation=45)
    ax.set_yticklabels([f"{m:g}" for m in shown.index], rotation=0)
    return ax


def best_phase(found: Found, model: str, ax: Axes) -> Axes:
    """Draw what the best `network` or the `linear` model reaches."""
    own = found.best.pivot(index="multiplier", columns="noise", values=model)
    return phase(own, {"network": "best filter", "linear": "linear model"}[model], ax)


def phase_at(found: Found, step: float, ax: Axes) -> Axes:
    """Draw what the flows have reached after some steps."""
    return phase(reached_at(found.phase, step), f"after {step:,.0f} steps", ax)
