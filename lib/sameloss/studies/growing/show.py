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


def operator_table(grown: Grown) -> pd.DataFrame:
    """Mean KL (nats) of each operator right after growing, early and at the end, the best first."""
    table = {
        "operator": [o.name + " (diverged)" * (o.name in grown.diverged) for o in grown.operators],
        "KL at first": grown.kl[:, 0].mean(0),
        f"after {grown.steps[grown.early]}": grown.kl[:, grown.early].mean(0),
        "at the end": grown.final.mean(0),
        "standard_error": pd.DataFrame(grown.final).sem(),
    }
    return pd.DataFrame(table).sort_values("at the end", ignore_index=True)


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
        "from scratch, equal FLOPs": grown.scratch[:, -1],
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
                "tells from step": pd.Series(aged.first_predictive_step()).mean(),  # NaN left out
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
    """Whether depth gains anything, on which all other claims depend."""
    gain, low, high = (100 * (1 - np.exp(-end)) for end in headroom)
    if np.isnan(low):
        return (
            f"{gain:.0f} %, of one shallow model: without an interval nothing that depends on it is testable"
        )
    gains = f"{gain:.0f} % ({low:.0f} to {high:.0f})"
    if low > 0:
        return f"{gains}: there is depth to gain, so operators can be compared"
    return f"{gains}: depth gains nothing that is told from zero, so what depends on it is not testable here"


def ceiling_in_words(grown: Grown) -> str:
    ceiling = grown.ceiling()
    halves = f"At the end the two halves of the sentences order operators alike up to {ceiling:.2f}"
    if ceiling >= PREDICTIVE:
        return f"{halves}: the most that any look could have"
    return f"{halves}, less than {PREDICTIVE}: they are too few, and no claim about an order is testable here"


def transition_in_words(grown: Grown) -> str:
    at, gain = transition(grown.mean_self_correlation())
    percent = 100 * grown.steps[at] / grown.settings.steps
    return (
        f"Looks agree with each other more than with those before from step {grown.steps[at]} on "
        f"({percent:.1f} % of the steps after growing), by {gain:.2f} in the mean correlation"
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
    ax.set(yscale="log", xlabel="FLOPs since the first weights were drawn", ylabel=KL_LABEL)
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
    """Each way minus the model from scratch at equal KL: points by task, trace as a ratio.

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


def at_same_kl(table: pd.DataFrame, ax: Axes) -> None:
    """Draw the accuracy of each way minus that of a model from scratch at equal KL, by task."""
    points = table[table.of.str.contains("points")]
    for at, (way, tasks) in enumerate(points.groupby("way", sort=False)):
        errors = [tasks.value - tasks.low, tasks.high - tasks.value]
        y = -np.arange(len(tasks)) - 0.15 * at
        ax.errorbar(tasks.value, y, xerr=errors, fmt=MARKERS[at], ms=5, capsize=2, label=way)
    names = points.of.drop_duplicates().str.removesuffix(" (points)").str.replace(" of the tasks", "")
    ax.set_yticks(-np.arange(len(names)) - 0.22, names)
    ax.axvline(0, color="0.5", lw=1)
    ax.set_ylim(-len(names) + 0.2, 0.4)
    ax.set(xlabel="accuracy minus that from scratch, at equal KL (points)")


def without_common_kl(stacks: Stacks) -> str:
    """Which ways cannot be compared with the model from scratch at equal KL."""
    names = "; ".join(name for name in WAYS.values() if name not in set(same_kl_table(stacks).way))
    if not names:
        return "In the last stage every way to stack has a KL in common with the model from scratch."
    return f"In the last stage these have no KL in common with the model from scratch: {names}."
