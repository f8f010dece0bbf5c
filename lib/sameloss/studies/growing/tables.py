"""Tables of growing, and sentences on them."""

from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from sameloss.statistics.bootstrap import Estimate, Interval, seed_interval
from sameloss.statistics.prediction import (
    choose_at,
    halve,
    mean_correlation,
    rank_correlation,
    transition,
    when_settled,
)
from sameloss.studies.growing.claims import (
    FROM_NOTHING,
    MEASURES,
    TELLS,
    UNTRAINED,
    WAY_NAMES,
    Grown,
    Rule,
    Stacks,
)
from sameloss.studies.growing.experiment import NOT_GROWN, WAYS, GrowingSettings, StackingSettings

MAPS = 6
"""Maps of one stage that a table lists."""

Seeds = Float[np.ndarray, " seed"]


def operator_table(grown: Grown) -> pd.DataFrame:
    """Return each operator's mean KL (nats) right after growing, early and at the end, the best first."""
    rows = [
        {
            "operator": operator.name + " (diverged)" * (operator.name in grown.diverged),
            "layers": str(operator.layers(grown.settings.shape.layers, grown.settings.added)),
            "KL at first": grown.kl[:, 0, at].mean(),
            f"after {grown.steps[grown.early]}": grown.kl[:, grown.early, at].mean(),
            "at the end": grown.final[:, at].mean(),
            "standard_error": Estimate.of(torch.from_numpy(grown.final[:, at])).standard_error,
        }
        for at, operator in enumerate(grown.operators)
    ]
    return pd.DataFrame(rows).sort_values("at the end", ignore_index=True)


def choice_table(grown: Grown) -> pd.DataFrame:
    """Return what each way to choose ends with (Table 5.1): KL over the best operator's, in nats."""
    best = grown.final.min(1)
    finals: dict[str, Seeds] = {
        f"LAG@{grown.settings.lag}": grown.chosen(),
        "LAG@0": grown.chosen(0),
        "last layers once more, on top": grown.final[:, grown.at(grown.settings.last)],
        "random layers on top": grown.final[:, grown.at(grown.settings.random_top)],
        "by lot": grown.final.mean(1),
        "not grown": grown.not_grown[:, -1],
        "from nothing, equal FLOPs": grown.scratch[:, -1],
    }
    spread = grown.final.max(1) - best
    rows = []
    for choice, final in finals.items():
        over = seed_interval(final - best)
        rows.append({"choice": choice, "KL": over.value, "low": over.low, "high": over.high,
                     "relative regret": float(((final - best) / spread).mean())})  # fmt: skip
    return pd.DataFrame(rows)


def rules(grown: Grown) -> dict[str, Rule]:
    """Return ways to choose: at LAG's step and before, by halving, and when a choice has settled."""
    lag = grown.settings.lag
    looks = [look for look, step in enumerate(grown.steps) if step <= lag]
    fixed: dict[str, Rule] = {f"LAG@{grown.steps[look]}": partial(choose_at, look=look) for look in looks}
    halving: dict[str, Rule] = {
        f"halving from step {first}": partial(halve, first=first) for first in (lag // 8, lag // 2) if first
    }
    return fixed | halving | {"when settled for half of the steps": when_settled}


def selection_table(grown: Grown) -> pd.DataFrame:
    """Return relative regret, with intervals over shallow models, and cost (%) of ways to choose."""
    rows = []
    for name, rule in rules(grown).items():
        found = grown.selected(rule)
        regret = seed_interval(found.regret.to_numpy())
        cost = 100 * found.cost.mean()
        rows.append({"choice": name, "relative regret": regret.value, **_ends(regret), "cost (%)": cost})
    return pd.DataFrame(rows)


def _ends(found: Interval) -> dict[str, float]:
    return {"low": found.low, "high": found.high}


def task_name(task: str) -> str:
    """Return what readers call a task: whose hidden symbol is asked for.

    >>> task_name("root"), task_name("span4"), task_name("model")
    ('whole sentence', 'first 4 words', 'model')
    """
    if task == "root":
        return "whole sentence"
    return f"first {task.removeprefix('span')} words" if task.startswith("span") else task


def downstream_table(grown: Grown, accuracies: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies (%) at the end by task, mean over shallow models (Table C.1).

    Args:
        grown: what was found.
        accuracies: with the columns `seed`, `operator`, `task`, `accuracy`.

    """
    names, seeds = [operator.name for operator in grown.operators], grown.settings.all_seeds
    picks = {
        "oracle": grown.final.argmin(1),
        f"LAG@{grown.settings.lag}": grown.picked(),
        "LAG@0": grown.picked(0),
        "last layers once more, on top": grown.always(grown.settings.last),
        "random layers on top": grown.always(grown.settings.random_top),
    }
    wanted = {name: [names[at] for at in picked] for name, picked in picks.items()}
    wanted |= {name: [name] * len(seeds) for name in (NOT_GROWN, FROM_NOTHING, UNTRAINED)}
    by_model = accuracies.pivot_table("accuracy", ["seed", "operator"], "task", sort=False)
    rows = [
        {"model": name, **by_model.loc[list(zip(seeds, own, strict=True))].mean()}
        for name, own in wanted.items()
    ]
    return pd.DataFrame(rows).rename(columns=task_name)


def age_table(grown: Grown) -> pd.DataFrame:
    """Return how the picture changes with the steps of the shallow models, means over these."""
    rows = []
    for age, own in sorted(grown.aged.items()):
        rows.append(
            {
                "steps before growing": age,
                "KL before": own.not_grown[:, 0].mean(),
                "KL at the end": own.final.min(1).mean(),
                "gain of depth (%)": 100 * (1 - np.exp(-own.headroom().value)),
                "spread of operators (%)": 100 * own.spread().mean(),
                "Spearman at first": mean_correlation(own.correlations(0)).value,
                f"at step {own.settings.lag}": mean_correlation(
                    own.correlations(own.look(own.settings.lag))
                ).value,
                "tells from step": _known_mean(own.tells_from()),
                "ceiling": own.ceiling(),
                "shared order": own.operator_share(),
            }
        )
    return pd.DataFrame(rows)


def way_table(settings: StackingSettings) -> pd.DataFrame:
    """Return which maps each way chooses among in each stage."""
    rows = []
    for way, name in WAYS.items():
        for stage, layers in enumerate(settings.depths[:-1], start=1):
            operators = settings.tried(way, stage)
            maps = "; ".join(str(operator.layers(layers, settings.added)) for operator in operators[:MAPS])
            more = f"; and {len(operators) - MAPS} more" if len(operators) > MAPS else ""
            rows.append({"way": name, "layers": f"{layers + settings.added} layers", "maps": maps + more})
    table = pd.DataFrame(rows)
    return table.pivot_table("maps", "way", "layers", aggfunc="first", sort=False).reset_index()


def _known_mean(values: Seeds) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def ceiling_in_words(grown: Grown) -> str:
    """Say how well the last look orders operators, which no earlier one can be expected to exceed."""
    found = f"At the end the two halves of the sentences order operators alike up to {grown.ceiling():.2f}"
    if grown.ceiling() >= TELLS:
        return f"{found}: the most that any look could have"
    return f"{found}, less than {TELLS}: they are too few, and no claim about an order is testable here"


def ages_in_words(grown: Grown) -> str:
    """Say how the initial loss orders operators, by the age at which models are grown."""
    found = {age: mean_correlation(own.correlations(0)) for age, own in sorted(grown.aged.items())}
    told = [
        f"{rho.value:.2f} ({rho.low:.2f}, {rho.high:.2f}) after {age:,} steps" for age, rho in found.items()
    ]
    return f"By the steps before growing, the initial loss correlates with the end by {'; '.join(told)}"


def stack_table(stacks: Stacks) -> pd.DataFrame:
    """Return how each way to stack ends (Table C.2): KL over that of stacking the last layers, and FLOPs."""
    fixed = stacks.ends("last")
    rows = []
    for way, name in WAY_NAMES.items():
        end, over = stacks.ends(way), stacks.below("last", way)
        cost = 100 * (end.flops / fixed.flops).mean()
        about = {"way": name, "KL": end.kl.mean(), "over last": over.value}
        rows.append({**about, **_ends(over), "FLOPs (%)": f"{cost:.1f}"})
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
    rows = []
    for way in ("adaptive", "last", "middle", "random"):
        for what in (*stacks.tasks, "accuracy", "trace"):
            found = stacks.at_equal_kl(way, FROM_NOTHING, what)
            ends = [float(np.exp(end)) if what == "trace" else end for end in found]
            named = {"accuracy": "mean of the tasks (points)", "trace": "trace (ratio)"}
            about = {"way": WAY_NAMES[way], "of": named.get(what, f"{task_name(what)} (points)")}
            rows.append(about | dict(zip(Interval._fields, ends, strict=True)))
    return pd.DataFrame(rows).dropna(subset="value", ignore_index=True)


def without_common_kl(stacks: Stacks) -> str:
    """Say which ways to stack cannot be compared with the model from nothing at equal KL."""
    undefined = [way for way in WAYS if np.isnan(stacks.at_equal_kl(way, FROM_NOTHING, "accuracy").value)]
    if not undefined:
        return "In the last stage every way to stack has a KL in common with the model from nothing."
    names = "; ".join(WAYS[way] for way in undefined)
    return f"In the last stage these have no KL in common with the model from nothing: {names}."


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


def landscape_table(grown: Grown) -> pd.DataFrame:
    """Return rank correlations of the final KL with the landscape where an operator puts the model."""
    rows = []
    for measure, name in MEASURES.items():
        pairs = zip(grown.landscape[measure], grown.final, strict=True)
        found = mean_correlation(np.array([rank_correlation(own, final) for own, final in pairs]))
        rows.append({"at growth": name, **found._asdict()})
    return pd.DataFrame(rows)


def flops_table(settings: GrowingSettings) -> pd.DataFrame:
    """Return what training takes, in FLOPs, and over that of one grown model from the shallow one on."""
    words, length = settings.language.words, settings.language.max_length
    shapes, batch = (settings.shape, settings.deep), settings.optimisation.batch
    shallow, deep = (shape.flops(words, length) * batch for shape in shapes)
    others = len(settings.operators) - 1
    steps = {
        "the shallow model": shallow * settings.optimisation.steps,
        "one grown model, to the end": deep * settings.steps,
        f"LAG@{settings.lag}: all others, until one is chosen": deep * others * settings.lag,
        "oracle: all others, to the end": deep * others * settings.steps,
    }
    table = pd.DataFrame({"what": steps.keys(), "FLOPs": steps.values()})
    share = 100 * table.FLOPs / (deep * settings.steps)
    return table.assign(FLOPs=table.FLOPs.map("{:.2g}".format), **{"over one grown model (%)": share})


def transition_in_words(grown: Grown) -> str:
    """Say where looks begin to agree with each other and not with those before."""
    at, gain = transition(grown.mean_self_correlation())
    share = 100 * grown.steps[at] / grown.settings.steps
    return (
        f"Looks agree with each other more than with those before from step {grown.steps[at]} on "
        f"({share:.1f} % of the steps after growing), by {gain:.2f} in the mean correlation"
    )


def headroom_in_words(headroom: Interval) -> str:
    """Say whether depth gains anything, on which all other claims rest."""
    share, *ends = (100 * (1 - np.exp(-end)) for end in headroom)
    if np.isnan(headroom.low):
        return (
            f"{share:.0f} %, of one shallow model: without an interval nothing that depends on it is testable"
        )
    found = f"{share:.0f} % ({ends[0]:.0f} to {ends[1]:.0f})"
    if headroom.low > 0:
        return f"{found}: there is depth to gain, so operators can be compared"
    return f"{found}: depth gains nothing that is told from zero, so what depends on it is not testable here"
