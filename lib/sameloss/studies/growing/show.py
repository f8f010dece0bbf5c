"""Tables, figures and sentences of the pages on growing."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from sameloss.statistics.intervals import Interval, seed_interval
from sameloss.statistics.prediction import choose_at, halve, mean_correlation, transition, when_settled
from sameloss.studies.drawing import KL_LABEL, MARKERS, Style, plain_log_axis
from sameloss.studies.growing.claims import (
    FROM_SCRATCH,
    MEASURES,
    PREDICTIVE,
    UNTRAINED,
    WAY_NAMES,
    Grown,
    Stacks,
    chosen,
)
from sameloss.studies.growing.experiment import NOT_GROWN, WAYS, Settings

STYLES: dict[str, Style] = {
    filling: {"color": f"C{at}", "marker": MARKERS[at]}
    for at, filling in enumerate(("duplicate", "random", "silent", "muted"))
}
MAX_MAPS = 6  # per stage, in a table

# Growing once


def layer_maps(grown: Grown, ax: Axes) -> None:
    """Draw the source of each layer, one row per map: kept layers grey, new ones in colour, from 0."""
    shallow, deep = grown.settings.shape.layers, grown.settings.deep.layers
    maps = {(o.index, o.block): o.layers(shallow, deep - shallow) for o in grown.operators}
    for row, layers in enumerate(maps.values()):
        for x, (source, new) in enumerate(zip(layers.sources, layers.new, strict=True)):
            box = {"boxstyle": "round", "fc": "#cfe8f7" if new else "0.92", "ec": "0.5"}
            ax.text(x, -row, f"({source})" if new else str(source), ha="center", va="center", bbox=box)
    ax.set_yticks(-np.arange(len(maps)), [f"i = {index}, b = {block}" for index, block in maps])
    ax.set(xlabel="layer of the grown model", xlim=(-0.6, deep - 0.4), ylim=(0.6 - len(maps), 0.6))
    ax.set_xticks(range(deep))
    ax.grid(visible=False)


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


def correlation_table(grown: Grown) -> pd.DataFrame:
    """Rank correlations of the initial and the early KL with the final one, for all operators and groups."""
    groups = {"all": None, "copies": grown.of("duplicate"), "random": grown.of("random")}
    groups["the thesis' (copies and random)"] = grown.of("duplicate", "random")
    rows = [
        {"operators": name, "KL": when, **mean_correlation(grown.correlations(at, among))._asdict()}
        for name, among in groups.items()
        for when, at in (("at first", 0), (f"after {grown.steps[grown.early]} steps", grown.early))
    ]
    return pd.DataFrame(rows)


def how_early(grown: Grown, axes: Sequence[Axes]) -> pd.DataFrame:
    """Draw Figure 5.3: correlation, self-correlation, recall and regret; return their curves.

    Bands are 95 % intervals over shallow models. Lines in the map show the transition.
    """
    curve = grown.correlation_curve()
    correlation, self_correlation, recall, regret = axes
    _band(curve, "correlation", (-1, 1), grown, correlation)
    correlation.axhline(0, color="0.5", lw=1)
    correlation.set(ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))
    _self_correlation_map(grown, self_correlation)
    steps = _step_axis(grown, recall)
    for among, marker in zip((1, 2, 3), MARKERS, strict=False):
        recall.plot(steps, curve[f"recall@{among}"], marker=marker, ms=4, label=f"best {among}")
    recall.set(ylabel="recall of the best operator", ylim=(-0.05, 1.05))
    recall.legend(title="among the", fontsize="small")
    _band(curve, "regret", (0, 1), grown, regret)
    regret.axhline(grown.random_choice_regret().mean(), color="0.35", ls="--", label="at random")
    regret.axvline(1 + grown.settings.lag, color="C1", ls=":", label=f"LAG@{grown.settings.lag}")
    regret.set(ylabel="relative regret", ylim=(-0.05, 1.05))
    regret.legend(fontsize="small")
    return curve


def _band(curve: pd.DataFrame, name: str, limits: tuple[float, float], grown: Grown, ax: Axes) -> None:
    steps = _step_axis(grown, ax)
    ax.fill_between(
        steps, curve[f"{name}_low"].clip(*limits), curve[f"{name}_high"].clip(*limits), alpha=0.15, lw=0
    )
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
        rows.append({"choice": name, "KL": value, "low": low, "high": high, "relative regret": regret})
    return pd.DataFrame(rows)


PUBLISHED_CHOICES = pd.DataFrame(
    [
        ("oracle", 1.7461, 0.0, 2.1254, 0.0),
        ("LAG@200, LAG@2000", 1.7461, 0.0, 2.1268, 0.0895),
        ("LAG@0", 1.7875, 0.7986, 2.1398, 0.9202),
        ("last layers once more, on top", 1.7747, 0.5517, 2.1357, 0.6582),
        ("random layers on top", 1.7875, 0.7986, 2.1398, 0.9202),
    ],
    columns=["choice", "BERT loss", "BERT relative regret", "UL2 loss", "UL2 relative regret"],
)
"""Tables 5.1 and 5.2 of the thesis; one trial an operator."""


def selection_table(grown: Grown) -> pd.DataFrame:
    """Relative regret, with intervals over shallow models, and cost (%) of choice rules.

    The rules are LAG up to its own step, successive halving, and waiting until the choice has settled. The
    cost is that of training the other candidates, relative to one grown model.
    """
    lag, steps = grown.settings.lag, np.array(grown.steps)
    rules: dict[str, Callable[..., Any]] = {
        f"LAG@{step}": partial(choose_at, at=at) for at, step in enumerate(steps) if step <= lag
    }
    rules |= {
        f"halving from step {first}": partial(halve, first=first) for first in (lag // 8, lag // 2) if first
    }
    rules["when settled for half of the steps"] = when_settled
    rows = []
    for name, rule in rules.items():
        choice, others = np.array([rule(losses, steps) for losses in grown.chosen_by]).T
        regret, cost = seed_interval(grown.regret(choice)), 100 * others.mean() / steps[-1]
        ends = {"low": regret.low, "high": regret.high}
        rows.append({"choice": name, "relative regret": regret.value, **ends, "cost (%)": cost})
    return pd.DataFrame(rows)


def regret_by_cost(choices: pd.DataFrame, random_regret: float, ax: Axes) -> None:
    """Draw relative regret with intervals against cost for each choice rule."""
    kinds = {"LAG": ("LAG@k", "o-"), "halving": ("halving", "s"), "when": ("when settled", "^")}
    for kind, (label, form) in kinds.items():
        rules = choices[choices.choice.str.startswith(kind)]
        regret, cost = rules["relative regret"], rules["cost (%)"].clip(lower=0.1)
        errors = [regret - rules.low.clip(0), rules.high.clip(upper=1) - regret]
        ax.errorbar(cost, regret, yerr=errors, fmt=form, capsize=2, ms=5, label=label)
    ax.axhline(random_regret, color="0.35", ls="--", label="at random")
    ax.set(xscale="log", xlabel="cost over that of one grown model (%; 0 stands at 0.1)")
    ax.set(ylabel="relative regret", ylim=(-0.05, 1.05))
    ax.xaxis.set_major_formatter("{x:g}")


def downstream_table(grown: Grown, accuracies: pd.DataFrame) -> pd.DataFrame:
    """Final accuracies (%) by task, mean over shallow models (Table C.1).

    Args:
        grown: the results of growing once.
        accuracies: columns `seed`, `operator`, `task`, `accuracy`.

    """
    names, seeds = [operator.name for operator in grown.operators], grown.settings.all_seeds
    models = {rule: [names[at] for at in choice] for rule, choice in grown.choices.items()}
    models |= {name: [name] * len(seeds) for name in (NOT_GROWN, FROM_SCRATCH, UNTRAINED)}
    by_model = accuracies.pivot_table("accuracy", ["seed", "operator"], "task", sort=False)
    rows = [
        {"model": rule, **by_model.loc[list(zip(seeds, operators, strict=True))].mean()}
        for rule, operators in models.items()
    ]
    return pd.DataFrame(rows).rename(columns=task_name)


def task_name(task: str) -> str:
    """Name of a task for readers: the part of a sentence whose hidden symbol is predicted.

    >>> task_name("root"), task_name("span4"), task_name("model")
    ('whole sentence', 'first 4 words', 'model')
    """
    if task == "root":
        return "whole sentence"
    return f"first {task.removeprefix('span')} words" if task.startswith("span") else task


def landscape_table(grown: Grown) -> pd.DataFrame:
    """Rank correlations of the landscape at growth with the final KL."""
    return pd.DataFrame(
        {"at growth": name, **mean_correlation(grown.landscape_correlations(measure))._asdict()}
        for measure, name in MEASURES.items()
    )


def age_table(grown: Grown) -> pd.DataFrame:
    """Headroom, initial correlation and predictive step by age of the shallow models, means over these."""
    rows = []
    for age, aged in sorted(grown.aged.items()):
        initial = mean_correlation(aged.correlations(0))
        rows.append(
            {
                "steps before growing": age,
                "KL before": aged.not_grown[:, 0].mean(),
                "KL at the end": aged.final.min(1).mean(),
                "Spearman at first": initial.value,
                "low": initial.low,
                "high": initial.high,
                "predictive from step": pd.Series(aged.first_predictive_step()).mean(),  # NaN left out
                "ceiling": aged.ceiling(),
                "shared order": aged.shared_order().value,
            }
        )
    return pd.DataFrame(rows)


def spread_by_age(grown: Grown, ax: Axes) -> None:
    """Draw the spread of operators at the end and the gain of depth by age of the shallow models."""
    ages = sorted(grown.aged)
    series = {
        "spread of operators": [seed_interval(grown.aged[age].spread()) for age in ages],
        "gain of depth": [grown.aged[age].headroom() for age in ages],
    }
    for (label, intervals), form in zip(series.items(), ("o-", "s--"), strict=True):
        value, low, high = 100 * np.array(intervals).T
        ax.errorbar(ages, value, yerr=[value - low, high - value], fmt=form, capsize=3, label=label)
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xscale="log", xlabel="steps before growing", ylabel="log ratio of final KLs (%)")
    ax.set_xticks(ages, [f"{age:,}" for age in ages])
    ax.xaxis.set_minor_formatter(NullFormatter())


def correlation_by_age(grown: Grown, ax: Axes) -> None:
    """Draw the rank correlation with the final KL by step, one line per age of the shallow models."""
    for (age, aged), marker in zip(sorted(grown.aged.items()), MARKERS, strict=False):
        mean = [mean_correlation(aged.correlations(at)).value for at in range(len(aged.steps))]
        ax.plot(_step_axis(aged, ax), mean, marker=marker, ms=4, label=f"{age:,} steps")
    ax.axhline(0, color="0.5", lw=1)
    ax.set(ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))


def headroom_in_words(headroom: Interval) -> str:
    """Whether depth helps, on which all other claims depend."""
    gain, low, high = (100 * (1 - np.exp(-end)) for end in headroom)
    if np.isnan(low):
        return (
            f"{gain:.0f} %, for one shallow model: without an interval, claims that depend on it are not "
            f"testable"
        )
    gains = f"{gain:.0f} % ({low:.0f} to {high:.0f})"
    if low > 0:
        return f"{gains}: depth helps, so operators can be compared"
    return f"{gains}: no detectable gain from depth, so claims that depend on it are not testable here"


def after_growing_finding(grown: Grown) -> str:
    """Where copies begin and end, relative to the model that is not grown."""
    copies, kept = grown.kl[:, :, grown.of("duplicate")].mean((0, 2)), grown.not_grown.mean(0)
    begin, end = (
        f"{abs(gap):.2g} nats {'above' if gap > 0 else 'below'}" for gap in (copies - kept)[[0, -1]]
    )
    return f"Copies begin {begin} the model that is not grown, and end {end} it."


def early_final_finding(grown: Grown) -> str:
    """The rank correlations of the first and the early KL with the final one."""
    first, early = (mean_correlation(grown.correlations(at)).value for at in (0, grown.early))
    return (
        f"The rank correlation with the final KL is {first:.2f} right after growing "
        f"and {early:.2f} after {grown.steps[grown.early]} steps."
    )


def early_final_in_words(grown: Grown) -> str:
    """The intervals of these correlations, beside the thesis', and what limits them."""
    first, early = (mean_correlation(grown.correlations(at)) for at in (0, grown.early))
    if np.isnan(first.low):
        return f"Without a second shallow model there is no interval. {ceiling_in_words(grown)}."
    return (
        f"The 95 % intervals over {len(grown.final)} shallow models are {first.low:.2f} to {first.high:.2f} "
        f"and {early.low:.2f} to {early.high:.2f}; the thesis has -0.418 and 0.986. "
        f"{ceiling_in_words(grown)}."
    )


def how_early_finding(grown: Grown) -> str:
    """From which step on the final order can be predicted, if any before the end."""
    before = grown.correlation_curve().set_index("step").correlation_value.iloc[:-1]
    predictive = before[before >= PREDICTIVE]
    if predictive.empty:
        return (
            f"No evaluation before the end predicts the final order: "
            f"the rank correlation is at most {before.max():.2f}."
        )
    return f"The rank correlation with the final KL first reaches {PREDICTIVE} at step {predictive.index[0]}."


def ceiling_in_words(grown: Grown) -> str:
    """How well the evaluation itself orders operators, which limits all earlier evaluations."""
    ceiling = grown.ceiling()
    halves = (
        f"At the end of training the two halves of the held-out sentences order the operators with a rank "
        f"correlation of {ceiling:.2f}"
    )
    if ceiling >= PREDICTIVE:
        return f"{halves}, which limits all earlier evaluations"
    return f"{halves}, below {PREDICTIVE}: there are too few, and no claim about an order is testable here"


def transition_in_words(grown: Grown) -> str:
    """The step at which rankings change most."""
    at, gain = transition(grown.mean_self_correlation())
    percent = 100 * grown.steps[at] / grown.settings.steps
    return (
        f"Rankings change most at step {grown.steps[at]} ({percent:.1f} % of the steps after growing): later "
        f"evaluations agree with each other better than with earlier ones, by {gain:.2f} in mean correlation"
    )


def regret_finding(selection: pd.DataFrame, random_regret: float) -> str:
    """Regret and cost of LAG, beside a random choice."""
    lag = selection[selection.choice.str.startswith("LAG")].iloc[-1]
    return (
        f"{lag.choice} has a relative regret of {lag['relative regret']:.2f}, a random choice "
        f"{random_regret:.2f}; trials cost {lag['cost (%)']:.0f} % of one training."
    )


def ages_finding(grown: Grown) -> str:
    """How the gain from depth and the spread of operators change with the age of the shallow model."""
    youngest, oldest = (grown.aged[age] for age in (min(grown.aged), max(grown.aged)))
    gains, spreads = (
        [f"{100 * value:.0f}" for value in values]
        for values in (
            (youngest.headroom().value, oldest.headroom().value),
            (youngest.spread().mean(), oldest.spread().mean()),
        )
    )
    return (
        f"From {min(grown.aged):,} to {max(grown.aged):,} steps before growing, the gain from depth goes "
        f"from {gains[0]} to {gains[1]} %, operators' spread from {spreads[0]} to {spreads[1]} %."
    )


def ages_in_words(grown: Grown) -> str:
    """At which ages depth helps, and how the initial KL orders operators there."""
    helped = [age for age in sorted(grown.aged) if grown.aged[age].headroom().low > 0]
    if not helped:
        return "The gain from depth is not clear at any age, so operators cannot be compared."
    ranks = []
    for age in helped:
        value, low, high = mean_correlation(grown.aged[age].correlations(0))
        ranks.append(f"{value:.2f} ({low:.2f} to {high:.2f}) after {age:,} steps")
    return (
        f"The gain from depth is clear only where the shallow model was trained for "
        f"{' or '.join(f'{age:,}' for age in helped)} steps. There the rank correlation of the initial with "
        f"the final KL is {', '.join(ranks)}."
    )


# Growing in stages


def way_table(settings: Settings) -> pd.DataFrame:
    """The maps that each way tries in each stage, one row per way."""
    table = pd.DataFrame({"way": WAYS.values()})
    for stage, (layers, deeper) in enumerate(pairwise(settings.depths), start=1):
        cells = []
        for way in WAYS:
            operators = settings.stage_operators(way, stage)
            maps = [str(operator.layers(layers, deeper - layers)) for operator in operators]
            more = f"; and {len(maps) - MAX_MAPS} more" if len(maps) > MAX_MAPS else ""
            cells.append("; ".join(maps[:MAX_MAPS]) + more)
        table[f"{deeper} layers"] = cells
    return table


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
        interval = {"over last": over.value, "low": over.low, "high": over.high}
        percent = f"{100 * (end.flops / last.flops).mean():.1f}"
        rows.append({"way": name, "KL": end.kl.mean(), **interval, "FLOPs (%)": percent})
    return pd.DataFrame(rows).sort_values("KL", ignore_index=True)


def choices_of_stages(stacks: Stacks) -> pd.DataFrame:
    """The layers that adaptive stacking repeated, one row per stage and one column per seed."""
    adaptive = stacks.stages[stacks.stages.way == "adaptive"]
    operators = adaptive.groupby(["layers", "seed"]).operator.last().str.removeprefix("duplicate, ").unstack()
    return operators.rename(columns=lambda seed: f"seed {seed}").reset_index(names="layers after growing")


def same_kl_table(stacks: Stacks) -> pd.DataFrame:
    """Each way minus the model trained from scratch at equal KL: points by task, trace as a ratio.

    Ways without a common KL are left out: see `without_common_kl`.
    """
    names = {task: f"{task_name(task)} (points)" for task in stacks.tasks}
    names |= {"accuracy": "mean of the tasks (points)", "trace": "trace (ratio)"}
    rows = []
    for way in WAYS:
        for what, name in names.items():
            difference = stacks.at_equal_kl(way, FROM_SCRATCH, what)
            ends = Interval(*map(float, np.exp(difference))) if what == "trace" else difference
            rows.append({"way": WAYS[way], "of": name, **ends._asdict()})
    return pd.DataFrame(rows).dropna(subset="value", ignore_index=True)


def accuracy_against_kl(stacks: Stacks, ax: Axes) -> None:
    """Draw the mean accuracy over tasks against KL in the last stage, one line per way, means over seeds."""
    known = stacks.known.assign(accuracy=stacks.known[stacks.tasks].mean(axis=1))
    mean = known.groupby(["way", "step"])[["kl", "accuracy"]].mean()
    for way, marker in zip([*WAYS, FROM_SCRATCH], MARKERS, strict=False):
        grey: Style = {"color": "0.35", "ls": "--"} if way == FROM_SCRATCH else {}
        ax.plot(mean.kl[way], mean.accuracy[way], marker=marker, ms=5, label=WAY_NAMES[way], **grey)
    ax.set(xscale="log", xlabel=KL_LABEL, ylabel="accuracy, mean of the tasks (%)")
    plain_log_axis(ax.xaxis, mean.kl)


def same_kl_finding(stacks: Stacks) -> str:
    """Whether stacked models can be compared with training from scratch at equal KL, and how they differ."""
    same = same_kl_table(stacks)
    points = same[same.of.str.startswith("mean")].value
    if points.empty:
        return "In the last stage, stacked models cannot be compared with training from scratch at equal KL."
    return (
        f"At equal KL, accuracies of stacked models differ from those of training from scratch by "
        f"{points.min():+.1f} to {points.max():+.1f} points."
    )


def stacks_finding(stacks: Stacks) -> str:
    """Where adaptive stacking and training from scratch end, relative to stacking the last layers."""
    adaptive, scratch = (
        f"{abs(gap):.2g} nats {'above' if gap > 0 else 'below'}"
        for way in ("adaptive", FROM_SCRATCH)
        for gap in [stacks.below("last", way).value]
    )
    return (
        f"Adaptive stacking ends {adaptive} stacking the last layers, "
        f"training from scratch with equal FLOPs {scratch}."
    )


def stacks_in_words(stacks: Stacks) -> str:
    """Whether these differences are clear, and whether growing in the last stage helps at all."""
    adaptive, scratch = (stacks.below("last", way) for way in ("adaptive", FROM_SCRATCH))
    gain, low, high = (100 * (1 - np.exp(-end)) for end in stacks.headroom())
    if np.isnan(low):
        return "Without a second first stage there is no interval."
    helps = "helps" if low > 0 else "has no detectable effect"
    return (
        f"The 95 % intervals of these differences over first stages are {adaptive.low:.4f} to "
        f"{adaptive.high:.4f} and {scratch.low:.4f} to {scratch.high:.4f} nats. Growing in the last stage "
        f"{helps}: it changes the final KL by {-gain:+.0f} % ({-high:+.0f} to {-low:+.0f})."
    )


def without_common_kl(stacks: Stacks) -> str:
    """Which ways cannot be compared with the model trained from scratch at equal KL."""
    compared = set(same_kl_table(stacks).way)
    names = [name for name in WAYS.values() if name not in compared]
    if not names:
        return "Every way to stack has a KL in common with the model trained from scratch."
    if len(names) == len(WAYS):
        return "No way to stack has a KL in common with the model trained from scratch."
    return f"These have no KL in common with the model trained from scratch: {'; '.join(names)}."
