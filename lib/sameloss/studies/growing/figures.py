"""Figures of growing: what was found in, Axes out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from sameloss.statistics.bootstrap import seed_interval
from sameloss.statistics.prediction import mean_correlation, transition
from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.growing.claims import FROM_NOTHING, WAY_NAMES, Grown, Stacks
from sameloss.studies.growing.experiment import NOT_GROWN

COLOURS = {"duplicate": "C0", "random": "C1", "silent": "C2", "muted": "C3"}
STYLES: dict[str, Style] = {
    filling: {"color": colour, "marker": marker}
    for (filling, colour), marker in zip(COLOURS.items(), MARKERS, strict=False)
}
KL = "KL to the truth (nats a masked token)"


def layer_maps(grown: Grown, ax: Axes) -> Axes:
    """Draw which layer stands where under each map: kept ones grey, new ones in colour, numbered from 0."""
    settings = grown.settings
    maps = {str(o.layers(settings.shape.layers, settings.added)): o for o in settings.operators}
    for at, operator in enumerate(maps.values()):
        layers = operator.layers(settings.shape.layers, settings.added)
        for place, (source, new) in enumerate(zip(layers.sources, layers.new, strict=True)):
            box = {"boxstyle": "round", "fc": "#cfe8f7" if new else "0.92", "ec": "0.5"}
            ax.text(place, -at, f"({source})" if new else str(source), ha="center", va="center", bbox=box)
    ax.set_yticks(range(0, -len(maps), -1), [f"i = {o.index}, b = {o.block}" for o in maps.values()])
    ax.set(xlabel="layer of the grown model", xlim=(-0.6, settings.deep.layers - 0.4))
    ax.set_ylim(0.6 - len(maps), 0.6)
    ax.set_xticks(range(settings.deep.layers))
    ax.grid(visible=False)
    return ax


def after_growing(grown: Grown, ax: Axes) -> Axes:
    """Draw the KL of every operator after growing, mean over shallow models, and of the one not grown."""
    steps = _shifted(grown)
    for at, operator in enumerate(grown.operators):
        mean = grown.kl[:, :, at].mean(0)
        first = at == [o.filling for o in grown.operators].index(operator.filling)
        label = operator.filling if first else None
        ax.plot(steps, mean, ms=3, lw=1, label=label, **STYLES[operator.filling])
    ax.plot(steps, grown.not_grown.mean(0), color="0.35", ls="--", label="not grown")
    ax.set(xscale="log", yscale="log", ylabel=KL)
    _label_steps(grown, ax)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("{x:g}")
    ax.tick_params(axis="y", which="both", labelsize="small")
    return ax


def early_against_final(grown: Grown, look: int, title: str, ax: Axes) -> Axes:
    """Draw the final KL against that at a look, each over the mean of its shallow model's candidates."""
    early = grown.chosen_by[:, look] / grown.chosen_by[:, look].mean(1, keepdims=True)
    final = grown.final / grown.final.mean(1, keepdims=True)
    for filling in dict.fromkeys(operator.filling for operator in grown.operators):
        kept = grown.of(filling)
        points = early[:, kept].ravel(), final[:, kept].ravel()
        ax.plot(*points, ls="none", ms=5, alpha=0.7, label=filling, **STYLES[filling])
    ax.set(xlabel=f"KL {title}, over its mean", ylabel="final KL, over its mean")
    return ax


def how_early(grown: Grown, axes: Sequence[Axes]) -> pd.DataFrame:
    """Draw Figure 5.3: correlation, self-correlation, recall and regret; return their curves."""
    curve = grown.correlation_curve()
    correlation_by_step(curve, grown, axes[0])
    self_correlation_map(grown.mean_self_correlation(), grown, axes[1])
    recall_by_step(curve, grown, axes[2])
    regret_by_step(curve, grown, axes[3])
    return curve


def correlation_by_step(curve: pd.DataFrame, grown: Grown, ax: Axes) -> Axes:
    """Draw the rank correlation with the final KL by step, with its 95 % interval over shallow models."""
    steps = _shifted(grown)
    ax.fill_between(steps, curve.correlation_low, curve.correlation_high, alpha=0.15, lw=0)
    ax.plot(steps, curve.correlation_value, "o-", ms=4)
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xscale="log", ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))
    _label_steps(grown, ax)
    return ax


def self_correlation_map(correlations: Float[np.ndarray, "look look"], grown: Grown, ax: Axes) -> Axes:
    """Draw the correlation between any two looks, and where later ones begin to agree."""
    drawn = ax.imshow(correlations, cmap="vlag", vmin=-1, vmax=1, origin="lower")
    at, _ = transition(correlations)
    ax.axvline(at - 0.5, color="0.2", lw=1)
    ax.axhline(at - 0.5, color="0.2", lw=1)
    shown = range(0, len(grown.steps), 2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(list(shown), [str(grown.steps[look]) for look in shown], fontsize="small")
    ax.tick_params(axis="x", rotation=90)
    ax.set(xlabel="steps after growing", ylabel="steps after growing")
    ax.grid(visible=False)
    ax.figure.colorbar(drawn, ax=ax, label="Spearman")
    return ax


def recall_by_step(curve: pd.DataFrame, grown: Grown, ax: Axes) -> Axes:
    """Draw the share of shallow models whose best operator is among so many that look best."""
    for among, marker in zip((1, 2, 3), MARKERS, strict=False):
        ax.plot(_shifted(grown), curve[f"recall@{among}"], marker=marker, ms=4, label=f"best {among}")
    ax.set(xscale="log", ylabel="recall of the best operator", ylim=(-0.05, 1.05))
    _label_steps(grown, ax)
    ax.legend(title="among the", fontsize="small")
    return ax


def regret_by_step(curve: pd.DataFrame, grown: Grown, ax: Axes) -> Axes:
    """Draw the relative regret of choosing at each step, beside a choice by lot and LAG's step."""
    steps = _shifted(grown)
    ax.fill_between(steps, curve.regret_low.clip(0), curve.regret_high.clip(upper=1), alpha=0.15, lw=0)
    ax.plot(steps, curve.regret_value, "o-", ms=4)
    ax.axhline(grown.by_lot().mean(), color="0.35", ls="--", label="by lot")
    ax.axvline(1 + grown.settings.lag, color="C1", ls=":", label=f"LAG@{grown.settings.lag}")
    ax.set(xscale="log", ylabel="relative regret", ylim=(-0.05, 1.05))
    _label_steps(grown, ax)
    ax.legend(fontsize="small")
    return ax


def final_losses(choices: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the final KL of each way to choose, with its 95 % interval over shallow models."""
    for at, row in enumerate(choices.itertuples()):
        ends = [[row.KL - row.low], [row.high - row.KL]]
        ax.errorbar(row.KL, -at, xerr=ends, fmt="o", color="C0", capsize=3)
    ax.set_yticks(range(0, -len(choices), -1), choices.choice)
    ax.set(xlabel="final KL over that of the best operator (nats)")
    ax.axvline(0, color="0.5", lw=1)
    return ax


def regret_by_cost(choices: pd.DataFrame, lot: float, ax: Axes) -> Axes:
    """Draw the relative regret of each way to choose against its cost, with intervals, beside a lot."""
    styles = {"LAG": ("o-", "C0"), "halving": ("s", "C1"), "when": ("^", "C2")}
    for kind, (form, colour) in styles.items():
        own = choices[choices.choice.str.startswith(kind)]
        ends = [own["relative regret"] - own.low.clip(0), own.high.clip(upper=1) - own["relative regret"]]
        cost = own["cost (%)"].clip(lower=0.1)
        name = {"LAG": "LAG@k", "when": "when settled"}.get(kind, kind)
        ax.errorbar(
            cost, own["relative regret"], yerr=ends, fmt=form, color=colour, capsize=2, ms=5, label=name
        )
    ax.axhline(lot, color="0.35", ls="--", label="by lot")
    ax.set(xscale="log", xlabel="cost over that of one grown model (%; 0 stands at 0.1)")
    ax.set(ylabel="relative regret", ylim=(-0.05, 1.05))
    ax.xaxis.set_major_formatter("{x:g}")
    return ax


def spread_by_age(grown: Grown, ax: Axes) -> Axes:
    """Draw how much operators differ at the end, and what depth gains, by the age of the shallow models."""
    ages = sorted(grown.aged)
    series = {
        "spread of operators": [seed_interval(grown.aged[age].spread()) for age in ages],
        "gain of depth": [grown.aged[age].headroom() for age in ages],
    }
    for (name, found), form in zip(series.items(), ("o-", "s--"), strict=True):
        value, low, high = 100 * np.array(found).T
        ax.errorbar(ages, value, yerr=[value - low, high - value], fmt=form, capsize=3, label=name)
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xscale="log", xlabel="steps before growing", ylabel="log ratio of final KLs (%)")
    _label_ages(ages, ax)
    return ax


def correlation_by_age(grown: Grown, ax: Axes) -> Axes:
    """Draw the rank correlation with the final KL by step, one line an age of the shallow models."""
    for (age, own), marker in zip(sorted(grown.aged.items()), MARKERS, strict=False):
        mean = [mean_correlation(own.correlations(look)).value for look in range(len(own.steps))]
        ax.plot(_shifted(own), mean, marker=marker, ms=4, label=f"{age:,} steps")
        last = own
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xscale="log", ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))
    _label_steps(last, ax)
    return ax


def _label_ages(ages: list[int], ax: Axes) -> None:
    ax.set_xticks(ages, [f"{age:,}" for age in ages])
    ax.xaxis.set_minor_formatter(NullFormatter())


def stacks_by_flops(stacks: Stacks, ax: Axes) -> Axes:
    """Draw the KL in the last stage against everything that was computed until then, one line a way."""
    for (way, name), marker in zip(WAY_NAMES.items(), MARKERS, strict=False):
        own = stacks.stages[stacks.stages.way == way]
        deepest = own[own.layers == own.layers.max()]
        mean = deepest.groupby("step")[["flops", "kl"]].mean()
        grey: Style = {"color": "0.35", "ls": "--"} if way in (NOT_GROWN, FROM_NOTHING) else {}
        ax.plot(mean.flops, mean.kl, marker=marker, ms=5, label=name, **grey)
    ax.set(yscale="log", xlabel="FLOPs since the first weights were drawn", ylabel="KL (nats a masked token)")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("{x:g}")
    ax.tick_params(axis="y", which="both", labelsize="small")
    return ax


def at_same_kl(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw by how many points each way reads better than a model from nothing at equal KL, by task."""
    points = table[table.of.str.contains("points")]
    for (way, own), marker in zip(points.groupby("way", sort=False), MARKERS, strict=False):
        place = -np.arange(len(own)) - 0.15 * MARKERS.index(marker)
        ends = [own.value - own.low, own.high - own.value]
        ax.errorbar(own.value, place, xerr=ends, fmt=marker, ms=5, capsize=2, label=way)
    names = points.of.drop_duplicates().str.removesuffix(" (points)").str.replace(" of the tasks", "")
    ax.set_yticks(-np.arange(len(names)) - 0.22, names)
    ax.axvline(0, color="0.5", lw=1)
    ax.set_ylim(-len(names) + 0.2, 0.4)
    ax.set(xlabel="accuracy minus that from nothing, at equal KL (points)")
    return ax


def _shifted(grown: Grown) -> Float[np.ndarray, " look"]:
    """Return steps after growing for a logarithmic axis, on which 0 stands at 1."""
    return 1.0 + np.array(grown.steps)


def _label_steps(grown: Grown, ax: Axes) -> None:
    shown = [step for step in grown.steps if step in (0, grown.settings.lag, grown.settings.steps)]
    ax.set_xticks([1 + step for step in shown], [str(step) for step in shown])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel="steps after growing")
