"""Tables, figures and sentences of the pages on growing."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from sameloss.statistics.intervals import Estimate, Interval, seed_interval
from sameloss.statistics.prediction import choose_at, halve, mean_correlation, transition, when_settled
from sameloss.studies.drawing import KL_LABEL, MARKERS, Style, plain_log_axis
from sameloss.studies.growing.claims import (
    FROM_NOTHING,
    MEASURES,
    TELLS,
    UNTRAINED,
    WAY_NAMES,
    Grown,
    Stacks,
    landscape_correlation,
    of_each,
)
from sameloss.studies.growing.experiment import NOT_GROWN, WAYS, StackingSettings

STYLES: dict[str, Style] = {
    filling: {"color": f"C{at}", "marker": MARKERS[at]}
    for at, filling in enumerate(("duplicate", "random", "silent", "muted"))
}
MAPS = 6  # of one stage that a table lists

# Growing once: the operators, and what the losses after growing tell.


def layer_maps(grown: Grown, ax: Axes) -> None:
    """Draw which layer stands where under each map: kept ones grey, new ones in colour, numbered from 0."""
    shallow, added = grown.settings.shape.layers, grown.settings.added
    places = list(dict.fromkeys((o.index, o.block) for o in grown.operators))
    maps = {(o.index, o.block): o.layers(shallow, added) for o in grown.operators}
    for at, place in enumerate(places):
        for x, (source, new) in enumerate(zip(maps[place].sources, maps[place].new, strict=True)):
            box = {"boxstyle": "round", "fc": "#cfe8f7" if new else "0.92", "ec": "0.5"}
            ax.text(x, -at, f"({source})" if new else str(source), ha="center", va="center", bbox=box)
    ax.set_yticks(-np.arange(len(places)), [f"i = {index}, b = {block}" for index, block in places])
    ax.set(
        xlabel="layer of the grown model", xlim=(-0.6, shallow + added - 0.4), ylim=(0.6 - len(places), 0.6)
    )
    ax.set_xticks(range(shallow + added))
    ax.grid(visible=False)


def after_growing(grown: Grown, ax: Axes) -> None:
    """Draw the KL of every operator after growing, mean over shallow models, and of the one not grown."""
    for filling in dict.fromkeys(operator.filling for operator in grown.operators):
        lines = ax.plot(
            _steps(grown, ax), grown.kl.mean(0)[:, grown.of(filling)], ms=3, lw=1, **STYLES[filling]
        )
        lines[0].set_label(filling)
    ax.plot(_steps(grown, ax), grown.not_grown.mean(0), color="0.35", ls="--", label="not grown")
    ax.set(yscale="log", ylabel=KL_LABEL)
    plain_log_axis(ax.yaxis, pd.Series(grown.kl.mean(0).ravel()))


def _steps(grown: Grown, ax: Axes) -> Float[np.ndarray, " look"]:
    """Label a logarithmic axis of steps after growing, on which 0 stands at 1; return the looks' places."""
    shown = [0, grown.settings.lag, grown.settings.steps]
    ax.set(xscale="log", xlabel="steps after growing")
    ax.set_xticks([1 + step for step in shown], map(str, shown))
    ax.xaxis.set_minor_formatter(NullFormatter())
    return 1.0 + np.array(grown.steps)


def operator_table(grown: Grown) -> pd.DataFrame:
    """Return each operator's mean KL (nats) right after growing, early and at the end, the best first."""
    rows = [
        {
            "operator": operator.name + " (diverged)" * (operator.name in grown.diverged),
            "KL at first": grown.kl[:, 0, at].mean(),
            f"after {grown.steps[grown.early]}": grown.kl[:, grown.early, at].mean(),
            "at the end": grown.final[:, at].mean(),
            "standard_error": Estimate.of(torch.from_numpy(grown.final[:, at])).standard_error,
        }
        for at, operator in enumerate(grown.operators)
    ]
    return pd.DataFrame(rows).sort_values("at the end", ignore_index=True)


def early_against_final(grown: Grown, look: int, title: str, ax: Axes) -> None:
    """Draw the final KL against that at a look, each over the mean of its shallow model's candidates."""
    early = grown.chosen_by[:, look] / grown.chosen_by[:, look].mean(1, keepdims=True)
    final = grown.final / grown.final.mean(1, keepdims=True)
    for filling in dict.fromkeys(operator.filling for operator in grown.operators):
        kept = grown.of(filling)
        points = early[:, kept].ravel(), final[:, kept].ravel()
        ax.plot(*points, ls="none", ms=5, alpha=0.7, label=filling, **STYLES[filling])
    ax.set(xlabel=f"KL {title}, over its mean", ylabel="final KL, over its mean")


def correlation_table(grown: Grown) -> pd.DataFrame:
    """Return rank correlations with the final KL: initial and early, over all operators and within."""
    groups = {"all": None, "copies": grown.of("duplicate"), "random": grown.of("random")}
    groups["the thesis' (copies and random)"] = grown.of("duplicate", "random")
    rows = [
        {"operators": name, "KL": when, **mean_correlation(grown.correlations(look, among))._asdict()}
        for name, among in groups.items()
        for when, look in (("at first", 0), (f"after {grown.steps[grown.early]} steps", grown.early))
    ]
    return pd.DataFrame(rows)


def how_early(grown: Grown, axes: Sequence[Axes]) -> pd.DataFrame:
    """Draw Figure 5.3: correlation, self-correlation, recall and regret; return their curves.

    Intervals, 95 %, are over shallow models. Lines in the map show where later looks begin to agree.
    """
    curve = grown.correlation_curve()
    correlation, self_correlation, recall, regret = axes
    _band(curve, "correlation", (-1, 1), grown, correlation)
    correlation.axhline(0, color="0.5", lw=1)
    correlation.set(ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))
    _self_correlation_map(grown, self_correlation)
    for among, marker in zip((1, 2, 3), MARKERS, strict=False):
        place = _steps(grown, recall)
        recall.plot(place, curve[f"recall@{among}"], marker=marker, ms=4, label=f"best {among}")
    recall.set(ylabel="recall of the best operator", ylim=(-0.05, 1.05))
    recall.legend(title="among the", fontsize="small")
    _band(curve, "regret", (0, 1), grown, regret)
    regret.axhline(grown.by_lot().mean(), color="0.35", ls="--", label="by lot")
    regret.axvline(1 + grown.settings.lag, color="C1", ls=":", label=f"LAG@{grown.settings.lag}")
    regret.set(ylabel="relative regret", ylim=(-0.05, 1.05))
    regret.legend(fontsize="small")
    return curve


def _band(curve: pd.DataFrame, name: str, within: tuple[float, float], grown: Grown, ax: Axes) -> None:
    low, high = (curve[f"{name}_{end}"].clip(*within) for end in ("low", "high"))
    ax.fill_between(_steps(grown, ax), low, high, alpha=0.15, lw=0)
    ax.plot(_steps(grown, ax), curve[f"{name}_value"], "o-", ms=4)


def _self_correlation_map(grown: Grown, ax: Axes) -> None:
    correlations = grown.mean_self_correlation()
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


def choice_table(grown: Grown) -> pd.DataFrame:
    """Return what each way to choose ends with (Table 5.1): KL over the best operator's, in nats."""
    finals = {
        name: of_each(grown.final, picked) for name, picked in grown.choices.items() if name != "oracle"
    }
    finals |= {
        "by lot": grown.final.mean(1),
        "not grown": grown.not_grown[:, -1],
        "from nothing, equal FLOPs": grown.scratch[:, -1],
    }
    best, worst = grown.final.min(1), grown.final.max(1)
    rows = [
        {"choice": choice, "KL": over.value, "low": over.low, "high": over.high,
         "relative regret": float(((final - best) / (worst - best)).mean())}
        for choice, final in finals.items()
        for over in [seed_interval(final - best)]
    ]  # fmt: skip
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
    """Return relative regret, with intervals over shallow models, and cost (%) of ways to choose.

    They are LAG at its step and before, halving, and a choice when it has settled. The cost is what training
    the others takes, over one grown model.
    """
    lag, steps = grown.settings.lag, np.array(grown.steps)
    rules: dict[str, Callable[..., Any]] = {
        f"LAG@{step}": partial(choose_at, look=at) for at, step in enumerate(steps) if step <= lag
    }
    rules |= {
        f"halving from step {first}": partial(halve, first=first) for first in (lag // 8, lag // 2) if first
    }
    rules["when settled for half of the steps"] = when_settled
    rows = []
    for name, rule in rules.items():
        candidates, others = np.array([rule(own, steps) for own in grown.chosen_by]).T
        regret, cost = seed_interval(grown.regret_of(candidates)), 100 * others.mean() / steps[-1]
        ends = {"low": regret.low, "high": regret.high}
        rows.append({"choice": name, "relative regret": regret.value, **ends, "cost (%)": cost})
    return pd.DataFrame(rows)


def regret_by_cost(choices: pd.DataFrame, lot: float, ax: Axes) -> None:
    """Draw the relative regret of each way to choose against its cost, with intervals, beside a lot."""
    kinds = {"LAG": ("LAG@k", "o-"), "halving": ("halving", "s"), "when": ("when settled", "^")}
    for kind, (name, form) in kinds.items():
        own = choices[choices.choice.str.startswith(kind)]
        regret, cost = own["relative regret"], own["cost (%)"].clip(lower=0.1)
        ends = [regret - own.low.clip(0), own.high.clip(upper=1) - regret]
        ax.errorbar(cost, regret, yerr=ends, fmt=form, capsize=2, ms=5, label=name)
    ax.axhline(lot, color="0.35", ls="--", label="by lot")
    ax.set(xscale="log", xlabel="cost over that of one grown model (%; 0 stands at 0.1)")
    ax.set(ylabel="relative regret", ylim=(-0.05, 1.05))
    ax.xaxis.set_major_formatter("{x:g}")


def downstream_table(grown: Grown, accuracies: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies (%) at the end by task, mean over shallow models (Table C.1).

    Args:
        grown: what was found.
        accuracies: with the columns `seed`, `operator`, `task`, `accuracy`.

    """
    names, seeds = [operator.name for operator in grown.operators], grown.settings.all_seeds
    models = {choice: [names[at] for at in picked] for choice, picked in grown.choices.items()}
    models |= {name: [name] * len(seeds) for name in (NOT_GROWN, FROM_NOTHING, UNTRAINED)}
    by_model = accuracies.pivot_table("accuracy", ["seed", "operator"], "task", sort=False)
    rows = [
        {"model": name, **by_model.loc[list(zip(seeds, own, strict=True))].mean()}
        for name, own in models.items()
    ]
    return pd.DataFrame(rows).rename(columns=task_name)


def task_name(task: str) -> str:
    """Return what readers call a task: whose hidden symbol is asked for.

    >>> task_name("root"), task_name("span4"), task_name("model")
    ('whole sentence', 'first 4 words', 'model')
    """
    if task == "root":
        return "whole sentence"
    return f"first {task.removeprefix('span')} words" if task.startswith("span") else task


def landscape_table(grown: Grown) -> pd.DataFrame:
    """Return rank correlations of the final KL with the landscape where an operator puts the model."""
    rows = [
        {"at growth": name, **landscape_correlation(grown, own)._asdict()} for own, name in MEASURES.items()
    ]
    return pd.DataFrame(rows)


def age_table(grown: Grown) -> pd.DataFrame:
    """Return how the picture changes with the steps of the shallow models, means over these."""
    rows = []
    for age, own in sorted(grown.aged.items()):
        initial = mean_correlation(own.correlations(0))
        rows.append(
            {
                "steps before growing": age,
                "KL before": own.not_grown[:, 0].mean(),
                "KL at the end": own.final.min(1).mean(),
                "Spearman at first": initial.value,
                "low": initial.low,
                "high": initial.high,
                "tells from step": pd.Series(own.tells_from()).mean(),  # of those that tell
                "ceiling": own.ceiling(),
                "shared order": own.shared_order().value,
            }
        )
    return pd.DataFrame(rows)


def spread_by_age(grown: Grown, ax: Axes) -> None:
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
    ax.set_xticks(ages, [f"{age:,}" for age in ages])
    ax.xaxis.set_minor_formatter(NullFormatter())


def correlation_by_age(grown: Grown, ax: Axes) -> None:
    """Draw the rank correlation with the final KL by step, one line an age of the shallow models."""
    for (age, own), marker in zip(sorted(grown.aged.items()), MARKERS, strict=False):
        mean = [mean_correlation(own.correlations(look)).value for look in range(len(own.steps))]
        ax.plot(_steps(own, ax), mean, marker=marker, ms=4, label=f"{age:,} steps")
    ax.axhline(0, color="0.5", lw=1)
    ax.set(ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))


def headroom_in_words(headroom: Interval) -> str:
    """Say whether depth gains anything, on which all other claims rest."""
    share, low, high = (100 * (1 - np.exp(-end)) for end in headroom)
    if np.isnan(low):
        return (
            f"{share:.0f} %, of one shallow model: without an interval nothing that depends on it is testable"
        )
    found = f"{share:.0f} % ({low:.0f} to {high:.0f})"
    if low > 0:
        return f"{found}: there is depth to gain, so operators can be compared"
    return f"{found}: depth gains nothing that is told from zero, so what depends on it is not testable here"


def ceiling_in_words(grown: Grown) -> str:
    """Say how well the last look orders operators, which no earlier one can be expected to exceed."""
    found = f"At the end the two halves of the sentences order operators alike up to {grown.ceiling():.2f}"
    if grown.ceiling() >= TELLS:
        return f"{found}: the most that any look could have"
    return f"{found}, less than {TELLS}: they are too few, and no claim about an order is testable here"


def transition_in_words(grown: Grown) -> str:
    """Say where looks begin to agree with each other and not with those before."""
    at, gain = transition(grown.mean_self_correlation())
    share = 100 * grown.steps[at] / grown.settings.steps
    return (
        f"Looks agree with each other more than with those before from step {grown.steps[at]} on "
        f"({share:.1f} % of the steps after growing), by {gain:.2f} in the mean correlation"
    )


# Growing in stages.


def way_table(settings: StackingSettings) -> pd.DataFrame:
    """Return which maps each way chooses among in each stage, a row a way."""
    table = pd.DataFrame({"way": WAYS.values()})
    for stage, layers in enumerate(settings.depths[:-1], start=1):
        cells = []
        for way in WAYS:
            maps = [str(operator.layers(layers, settings.added)) for operator in settings.tried(way, stage)]
            more = f"; and {len(maps) - MAPS} more" if len(maps) > MAPS else ""
            cells.append("; ".join(maps[:MAPS]) + more)
        table[f"{layers + settings.added} layers"] = cells
    return table


def stacks_by_flops(stacks: Stacks, ax: Axes) -> None:
    """Draw the KL in the last stage against everything that was computed until then, one line a way."""
    deepest = stacks.stages[stacks.stages.layers == stacks.stages.groupby("way").layers.transform("max")]
    mean = deepest.groupby(["way", "step"])[["flops", "kl"]].mean()
    for (way, name), marker in zip(WAY_NAMES.items(), MARKERS, strict=False):
        grey: Style = {"color": "0.35", "ls": "--"} if way in (NOT_GROWN, FROM_NOTHING) else {}
        ax.plot(mean.flops[way], mean.kl[way], marker=marker, ms=5, label=name, **grey)
    ax.set(yscale="log", xlabel="FLOPs since the first weights were drawn", ylabel=KL_LABEL)
    plain_log_axis(ax.yaxis, mean.kl)


def stack_table(stacks: Stacks) -> pd.DataFrame:
    """Return how each way to stack ends (Table C.2): KL over that of stacking the last layers, and FLOPs."""
    rows = []
    for way, name in WAY_NAMES.items():
        end, over = stacks.ends(way), stacks.below("last", way)
        about = {
            "way": name,
            "KL": end.kl.mean(),
            "over last": over.value,
            "low": over.low,
            "high": over.high,
        }
        rows.append({**about, "FLOPs (%)": f"{100 * (end.flops / stacks.ends('last').flops).mean():.1f}"})
    return pd.DataFrame(rows).sort_values("KL", ignore_index=True)


def choices_of_stages(stacks: Stacks) -> pd.DataFrame:
    """Return which layers adaptive stacking repeated, stage by stage, one column a seed."""
    own = stacks.stages[stacks.stages.way == "adaptive"]
    chosen = own.groupby(["layers", "seed"]).operator.last().str.removeprefix("duplicate, ").unstack()
    return chosen.rename(columns=lambda seed: f"seed {seed}").reset_index(names="layers after growing")


def same_kl_table(stacks: Stacks) -> pd.DataFrame:
    """Return each way minus the model trained from nothing at equal KL: points by task, trace as a ratio.

    Ways that have no KL in common with it are left out: see `without_common_kl`.
    """
    names = {task: f"{task_name(task)} (points)" for task in stacks.tasks}
    names |= {"accuracy": "mean of the tasks (points)", "trace": "trace (ratio)"}
    rows = []
    for way in WAYS:
        for what, name in names.items():
            found = stacks.at_equal_kl(way, FROM_NOTHING, what)
            ends = Interval(*map(float, np.exp(found))) if what == "trace" else found
            rows.append({"way": WAYS[way], "of": name, **ends._asdict()})
    return pd.DataFrame(rows).dropna(subset="value", ignore_index=True)


def at_same_kl(table: pd.DataFrame, ax: Axes) -> None:
    """Draw by how many points each way reads better than a model from nothing at equal KL, by task."""
    points = table[table.of.str.contains("points")]
    for at, (way, own) in enumerate(points.groupby("way", sort=False)):
        ends = [own.value - own.low, own.high - own.value]
        place = -np.arange(len(own)) - 0.15 * at
        ax.errorbar(own.value, place, xerr=ends, fmt=MARKERS[at], ms=5, capsize=2, label=way)
    names = points.of.drop_duplicates().str.removesuffix(" (points)").str.replace(" of the tasks", "")
    ax.set_yticks(-np.arange(len(names)) - 0.22, names)
    ax.axvline(0, color="0.5", lw=1)
    ax.set_ylim(-len(names) + 0.2, 0.4)
    ax.set(xlabel="accuracy minus that from nothing, at equal KL (points)")


def without_common_kl(stacks: Stacks) -> str:
    """Say which ways to stack cannot be compared with the model from nothing at equal KL."""
    names = "; ".join(name for name in WAYS.values() if name not in set(same_kl_table(stacks).way))
    if not names:
        return "In the last stage every way to stack has a KL in common with the model from nothing."
    return f"In the last stage these have no KL in common with the model from nothing: {names}."
