"""Tables, figures and sentences of the pages on growing."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from sameloss.statistics.intervals import Interval, seed_interval
from sameloss.statistics.prediction import mean_correlation, transition
from sameloss.studies.drawing import KL_LABEL, MARKERS, Style, interval_line, plain_log_axis
from sameloss.studies.growing.claims import (
    FROM_SCRATCH,
    PREDICTIVE,
    UNTRAINED,
    WAY_NAMES,
    Grown,
    Stacks,
    chosen,
)
from sameloss.studies.growing.experiment import NOT_GROWN

STYLES: dict[str, Style] = {
    filling: {"color": f"C{at}", "marker": MARKERS[at]}
    for at, filling in enumerate(("duplicate", "random", "silent", "muted"))
}

# Figures on growing once


def after_growing(grown: Grown, ax: Axes) -> None:
    """Draw the KL of every operator after growing and of the model not grown, mean over shallow models."""
    steps, kl = _step_axis(grown, ax), grown.kl.mean(0)
    for filling, mask in _fillings(grown):
        lines = ax.plot(steps, kl[:, mask], ms=3, lw=1, **STYLES[filling])
        lines[0].set_label(filling)
    ax.plot(steps, grown.not_grown.mean(0), color="0.35", ls="--", label="not grown")
    ax.set(yscale="log", ylabel=KL_LABEL)
    plain_log_axis(ax.yaxis, pd.Series(kl.ravel()))


def _fillings(grown: Grown) -> Iterator[tuple[str, Any]]:
    """Each filling, and the mask of its operators."""
    for filling in dict.fromkeys(operator.filling for operator in grown.operators):
        yield filling, grown.of(filling)


def _step_axis(grown: Grown, ax: Axes) -> Float[np.ndarray, " step"]:
    """Label a log axis of steps after growing, where 0 is drawn at 1; return the x of all evaluations."""
    labelled = [0, grown.settings.lag, grown.settings.steps]
    ax.set(xscale="log", xlabel="steps after growing")
    ax.set_xticks([1 + step for step in labelled], map(str, labelled))
    ax.xaxis.set_minor_formatter(NullFormatter())
    return 1.0 + np.array(grown.steps)


def early_against_final(grown: Grown, at: int, title: str, ax: Axes) -> None:
    """Draw the final KL against that at an evaluation, each over the mean of its shallow model's."""
    early = grown.chosen_by[:, at] / grown.chosen_by[:, at].mean(1, keepdims=True)
    final = grown.final / grown.final.mean(1, keepdims=True)
    for filling, mask in _fillings(grown):
        points = early[:, mask].ravel(), final[:, mask].ravel()
        ax.plot(*points, ls="none", ms=5, alpha=0.7, label=filling, **STYLES[filling])
    ax.set(xlabel=f"KL {title}, over its mean", ylabel="final KL, over its mean")


def how_early(grown: Grown, axes: Sequence[Axes]) -> pd.DataFrame:
    """Draw Figure 5.3: correlation, self-correlation and regret; return their curves, and those of recall.

    Bands are 95 % intervals over shallow models. Lines in the map show the transition.
    """
    curve = grown.correlation_curve()
    correlation, self_correlation, regret = axes
    _band(curve, "correlation", (-1, 1), grown, correlation)
    correlation.axhline(0, color="0.5", lw=1)
    correlation.set(ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))
    _self_correlation_map(grown, self_correlation)
    _band(curve, "regret", (0, 1), grown, regret)
    at_random = grown.relative_regret(grown.final.mean(1)).mean()
    regret.axhline(at_random, color="0.35", ls="--")
    regret.axvline(1 + grown.settings.lag, color="C1", ls=":")
    regret.set(ylabel="relative regret", ylim=(-0.05, 1.05))
    return curve


def _band(curve: pd.DataFrame, name: str, limits: tuple[float, float], grown: Grown, ax: Axes) -> None:
    steps = _step_axis(grown, ax)
    low, high = (curve[f"{name}_{end}"].clip(*limits) for end in ("low", "high"))
    ax.fill_between(steps, low, high, alpha=0.15, lw=0)
    ax.plot(steps, curve[f"{name}_value"], "o-", ms=4)


def _self_correlation_map(grown: Grown, ax: Axes) -> None:
    correlations = grown.mean_self_correlation()
    image = ax.imshow(correlations, cmap="vlag", vmin=-1, vmax=1, origin="lower")
    at, _ = transition(correlations)
    ax.axvline(at - 0.5, color="0.2", lw=1)
    ax.axhline(at - 0.5, color="0.2", lw=1)
    labelled = list(range(0, len(grown.steps), 2))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(labelled, [str(grown.steps[at]) for at in labelled], fontsize="small")
    ax.tick_params(axis="x", rotation=90)
    ax.set(xlabel="steps after growing", ylabel="steps after growing")
    ax.grid(visible=False)
    ax.figure.colorbar(image, ax=ax, label="Spearman")


def spread_by_age(grown: Grown, ax: Axes) -> None:
    """Draw the spread of operators at the end and the gain of depth by age of the shallow models."""
    ages = sorted(grown.aged)
    series = {
        "spread of operators": [seed_interval(grown.aged[age].spread()) for age in ages],
        "gain from depth": [grown.aged[age].headroom() for age in ages],
    }
    for at, (label, intervals) in enumerate(series.items()):
        interval_line(ax, ages, 100 * np.array(intervals), at, label)
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xscale="log", xlabel="steps before growing", ylabel="log ratio of final KLs (%)")
    ax.set_xticks(ages, [f"{age:,}" for age in ages])
    ax.xaxis.set_minor_formatter(NullFormatter())


def correlation_by_age(grown: Grown, ax: Axes) -> None:
    """Draw the rank correlation with the final KL by step, one line per age of the shallow models."""
    for (age, aged), marker in zip(sorted(grown.aged.items()), MARKERS, strict=False):
        mean = [mean_correlation(aged.correlations(at)).value for at in range(len(aged.steps))]
        ax.plot(_step_axis(aged, ax), mean, marker=marker, ms=4, label=f"grown at {age:,}")
    ax.axhline(0, color="0.5", lw=1)
    ax.set(ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))


# Tables on growing once


def correlation_table(grown: Grown) -> pd.DataFrame:
    """Rank correlations of the initial and the early KL with the final one, for all operators and groups."""
    groups = {"all": None, "copies": grown.of("duplicate"), "random": grown.of("random")}
    groups["the thesis' (copies and random)"] = grown.of("duplicate", "random")
    rows = [
        {"operators": name, "KL": when, **mean_correlation(grown.correlations(at, among))._asdict()}
        for name, among in groups.items()
        for when, at in (("right after growing", 0), (f"after {grown.steps[grown.early]} steps", grown.early))
    ]
    return pd.DataFrame(rows)


def choice_table(grown: Grown) -> pd.DataFrame:
    """Final KL of each choice rule above the best operator's (Table 5.1), in nats."""
    finals = {name: chosen(grown.final, choice) for name, choice in grown.choices.items() if name != "oracle"}
    finals |= {
        "at random": grown.final.mean(1),
        "not grown": grown.not_grown[:, -1],
        WAY_NAMES[FROM_SCRATCH]: grown.scratch[:, -1],
    }
    rows = []
    for name, final in finals.items():
        value, low, high = seed_interval(final - grown.final.min(1))
        regret = float(grown.relative_regret(final).mean())
        rows.append(
            {"choice": name, "KL above the best": value, "low": low, "high": high, "relative regret": regret}
        )
    return pd.DataFrame(rows)


def downstream_table(grown: Grown) -> pd.DataFrame:
    """Final accuracies (%) by task, mean over shallow models (Table C.1)."""
    models = {rule: grown.named(choice) for rule, choice in grown.choices.items()}
    models |= {name: [name] * len(grown.final) for name in (NOT_GROWN, FROM_SCRATCH, UNTRAINED)}
    rows = [{"model": rule, **grown.accuracies(names).mean()} for rule, names in models.items()]
    return pd.DataFrame(rows).rename(columns=task_name)


def task_name(task: str) -> str:
    """Name of a task for readers: the part of a sentence whose hidden symbol is predicted.

    >>> task_name("root"), task_name("span4"), task_name("model")
    ('whole sentence', 'first 4 words', 'model')
    """
    if task == "root":
        return "whole sentence"
    return f"first {task.removeprefix('span')} words" if task.startswith("span") else task


# Sentences on growing once


def headroom_in_words(headroom: Interval) -> str:
    """Whether depth helps, on which all other claims depend."""
    gain = Interval(*(100 * (1 - np.exp(-end)) for end in headroom))
    return f"{gain:.0f} %: {'depth helps' if gain.low > 0 else 'no detectable gain from depth'}"


def after_growing_finding(grown: Grown) -> str:
    """Where copies begin and end, relative to the model that is not grown."""
    copies, kept = grown.kl[:, :, grown.of("duplicate")].mean((0, 2)), grown.not_grown.mean(0)
    begin, *_, end = copies - kept
    return f"Relative to the model not grown, duplicates begin at {begin:+.2g} nats and end at {end:+.2g}."


def early_final_finding(grown: Grown) -> str:
    """The rank correlations of the first and the early KL with the final one."""
    first, early = (mean_correlation(grown.correlations(at)) for at in (0, grown.early))
    return (
        f"The rank correlation with the final KL is {first:.2f} right after growing "
        f"and {early:.2f} after {grown.steps[grown.early]} steps."
    )


def ceiling_in_words(grown: Grown) -> str:
    """How well the evaluation itself orders operators, which limits all earlier evaluations."""
    return (
        f"At the end of training the two halves of the held-out sentences order the operators with a rank "
        f"correlation of {grown.ceiling():.2f}, which limits all earlier evaluations; below {PREDICTIVE}, no "
        "claim about an order is testable."
    )


def how_early_finding(grown: Grown) -> str:
    """How well the final order can be predicted before the end."""
    best = grown.correlation_curve().correlation_value.iloc[:-1].max()
    most = "negative at every evaluation" if best < 0 else f"at most {best:.2f}"
    count = len(grown.operators)
    return f"With {count} operators, the rank correlation with the final KL is {most} before the end."


def transition_in_words(grown: Grown) -> str:
    """The step that best separates early rankings from late ones."""
    step = grown.steps[transition(grown.mean_self_correlation())[0]]
    share = 100 * step / grown.settings.steps
    return f"Early and late rankings are best separated at step {step} ({share:.1f} % of the steps)."


def ages_finding(grown: Grown) -> str:
    """How the gain from depth and the spread of operators change with the age of the shallow model."""
    young, old = min(grown.aged), max(grown.aged)
    (gain, spread), (later_gain, later_spread) = (
        (-100 * np.expm1(-aged.headroom().value), 100 * aged.spread().mean())
        for aged in (grown.aged[young], grown.aged[old])
    )
    none = [f"{age:,}" for age, aged in sorted(grown.aged.items()) if aged.headroom().low <= 0]
    return (
        f"From {young:,} to {old:,} steps before growing, the gain from depth goes from {gain:.0f} to "
        f"{later_gain:.0f} %{', not detectable at ' * bool(none)}{' and '.join(none)}; operators' spread "
        f"goes from {spread:.0f} to {later_spread:.0f} %."
    )


def ages_in_words(grown: Grown) -> str:
    """At which ages depth helps, and how the initial KL orders operators there."""
    ranks = [
        f"{mean_correlation(aged.correlations(0)):.2f} for models grown at {age:,} steps"
        for age, aged in sorted(grown.aged.items())
        if aged.headroom().low > 0
    ]
    return (
        f"The gain from depth is clear at {len(ranks)} of {len(grown.aged)} ages, where the rank correlation "
        f"of the initial with the final KL is {', '.join(ranks) or 'not defined'}."
    )


# Growing in stages


def stacks_by_flops(stacks: Stacks, ax: Axes) -> None:
    """Draw the KL in the last stage against FLOPs since initialisation, one line per way."""
    deepest = stacks.stages[stacks.stages.layers == stacks.stages.groupby("way").layers.transform("max")]
    mean = deepest.groupby(["way", "step"])[["flops", "kl"]].mean()
    for (way, label), marker in zip(WAY_NAMES.items(), MARKERS, strict=False):
        grey: Style = {"color": "0.35", "ls": "--"} if way in (NOT_GROWN, FROM_SCRATCH) else {}
        ax.plot(mean.flops[way], mean.kl[way], marker=marker, ms=5, label=label, **grey)
    ax.set(yscale="log", xlabel="FLOPs since initialisation", ylabel="KL (nats per masked token)")
    plain_log_axis(ax.yaxis, mean.kl)


def stack_table(stacks: Stacks) -> pd.DataFrame:
    """Final KL of each way, its difference to stacking the last layers, and FLOPs (Table C.2)."""
    rows, last = [], stacks.ends("last")
    for way, name in WAY_NAMES.items():
        end, over = stacks.ends(way), stacks.below("last", way)
        interval = {"above last": over.value, "low": over.low, "high": over.high}
        percent = f"{100 * (end.flops / last.flops).mean():.1f}"
        rows.append({"way": name, "KL": end.kl.mean(), **interval, "FLOPs (%)": percent})
    return pd.DataFrame(rows).sort_values("KL", ignore_index=True)


def stacks_finding(stacks: Stacks) -> str:
    """Where adaptive stacking and training from scratch end, relative to stacking the last layers."""
    adaptive, scratch = (stacks.below("last", way) for way in ("adaptive", FROM_SCRATCH))
    return (
        f"Relative to stacking the last layers, adaptive stacking ends at {adaptive:+.4f} nats, "
        f"training from scratch with equal FLOPs at {scratch:+.4f}."
    )
