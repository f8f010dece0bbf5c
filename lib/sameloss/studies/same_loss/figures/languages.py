"""Figures of the languages: their sentences, words and entropies; a tidy frame or a tree in, Axes out."""

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from sameloss.studies.drawing import MARKERS, Style, plain_log_axis

if TYPE_CHECKING:
    from nltk import Tree


SIDE_BY_SIDE = 90
"""So many characters stand side by side on the width of a page."""

MOST_CHARACTERS = 16
"""Of a word or a symbol, of which the rest is cut off."""


def parse_tree(tree: "Tree", ax: Axes) -> Axes:
    """Draw a derivation tree, words at the bottom in sentence order, upright where they are long."""
    places = itertools.count()
    upright = sum(len(_cut(word)) + 2 for word in tree.leaves()) > SIDE_BY_SIDE

    def draw(node: "Tree | str", depth: int) -> float:
        if isinstance(node, str):
            x = float(next(places))
            ax.text(x, -tree.height() + 1, _cut(node), ha="center", va="top" if upright else "center",
                    rotation=90 if upright else 0, color="C0", parse_math=False)  # fmt: skip
            ax.plot([x, x], [-depth + 1, -tree.height() + 1], color="0.8", lw=1, ls=":", zorder=0)
            return x
        below = [draw(child, depth + 1) for child in node]
        x = sum(below) / len(below)
        for child, at in zip(node, below, strict=True):
            if not isinstance(child, str):
                ax.plot([x, at], [-depth, -depth - 1], color="0.6", lw=1, zorder=0)
        ax.text(x, -depth, _cut(str(node.label())), ha="center", va="center", parse_math=False,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
        return x

    draw(tree, 0)
    ax.autoscale_view()  # now: an axis that is off is scaled after room is made for the words, far outside
    ax.set_axis_off()
    return ax


def _cut(name: str) -> str:
    return name if len(name) <= MOST_CHARACTERS else f"{name[: MOST_CHARACTERS - 1]}…"


def sentence_lengths(table: pd.DataFrame, name: str, ax: Axes) -> Axes:
    """Draw sampled shares of sentence lengths as bars, exact probabilities as points."""
    ax.bar(table.length, table.sampled, color="C0", alpha=0.4, label="sampled")
    ax.plot(table.length, table.probability, "o", color="black", ms=3, label="exact")
    ax.set(xlabel="sentence length (tokens)", ylabel="probability", title=name)
    return ax


def word_frequencies(table: pd.DataFrame, name: str, ax: Axes) -> Axes:
    """Draw the share of each word, most frequent first."""
    shares = table.share.sort_values(ascending=False).to_numpy()
    ax.plot(range(1, len(shares) + 1), shares, ".-", ms=4, label=name)
    ax.set(xlabel="rank of the word", ylabel="share of tokens", xscale="log", yscale="log")
    return ax


def calibration_curve(tried: pd.DataFrame, published: float, chosen: float, name: str, ax: Axes) -> Axes:
    """Draw the entropy of everything a calibration tried, with the published one and our choice."""
    tried = tried.sort_values("concentration")
    ax.errorbar(tried.concentration, tried["mean"], 1.96 * tried.standard_error, fmt="o-", ms=4, capsize=2)
    ax.axhline(published, color="0.35", ls="--", lw=1.2, label=f"published: {published:g} nats")
    ax.axvline(chosen, color="0.35", ls=":", lw=1.2, label=f"chosen: {chosen:g}")
    ax.set(xscale="log", xlabel="concentration", ylabel="entropy (nats a masked token)", title=name)
    ax.legend(loc="lower right", fontsize="small")
    plain_log_axis(ax.xaxis, tried.concentration)
    return ax


def entropy_by_masks(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the entropy of one masked token against the number of masks, one line a language."""
    for index, (name, part) in enumerate(table.groupby("language", sort=False)):
        style: Style = {"color": f"C{index}", "marker": MARKERS[index]}
        ax.errorbar(part.masks, part.entropy, 1.96 * part.standard_error, capsize=2, label=name, **style)
        ax.axhline(np.log(part.words.iloc[0]), color=f"C{index}", ls=":", lw=1)
    ax.set(xlabel="masked tokens of the sentence", ylabel="entropy of one of them (nats)")
    return ax
