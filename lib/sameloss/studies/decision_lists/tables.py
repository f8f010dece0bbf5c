"""Tables of the chapter: what its runs found, in the form it is shown in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import comb, log

import numpy as np
import pandas as pd
import torch

from sameloss.seeds import generator_for
from sameloss.statistics.bootstrap import Estimate, Interval, seed_interval
from sameloss.studies.decision_lists.experiment import CRITICAL_RULES, ListConfig, TaskShape, score_columns
from sameloss.studies.decision_lists.theory import (
    MOST_SETS,
    Column,
    draw_sequences,
    uniform_attention_bound,
    uniform_sets,
)
from sameloss.studies.statement import Statement

DRAWN = 20_000
"""Sequences on which the accuracy of uniform attention is bounded where sets are too many."""


@dataclass(frozen=True)
class Tables:
    """Everything that the page's runs found, one frame a kind."""

    settings: ListConfig
    flows: pd.DataFrame
    curves: pd.DataFrame
    descents: pd.DataFrame
    proofs: pd.DataFrame
    departures: pd.DataFrame
    steps: pd.DataFrame  # with `seed`, as all below
    alone: pd.DataFrame  # with `rate`
    both: pd.DataFrame
    samples: pd.DataFrame
    blocks: pd.DataFrame  # with `layers` and `mlp`
    larger: dict[TaskShape, pd.DataFrame] = field(default_factory=dict)  # as `both`, of larger tasks

    @cached_property
    def perfect(self) -> pd.DataFrame:
        """Return the moment of perfection of every flow, with NaN where it is not within the horizon."""
        about = ["family", "words", "length", "rules", "readout", "rarity"]
        perfect = self.flows[self.flows.accuracy == 1].groupby(about)[["time", "natural"]].min()
        return self.flows[about].drop_duplicates().merge(perfect.reset_index(), "left", about)

    def dropped(self, what: str) -> pd.DataFrame:
        """Return the rows about one departure."""
        return self.departures[self.departures.what == what]

    @property
    def entries(self) -> list[str]:
        """Return the columns of scores in the curves: places of the list, then all others."""
        return score_columns(self.settings.task.rules)

    @property
    def descent(self) -> pd.Series:
        """Return gradient descent as Theorem 4.3 has it, on the page's own task."""
        return self.descents[self.descents.curvature == "everywhere"].iloc[0]

    @property
    def sgd_flow(self) -> pd.DataFrame:
        """Return the events of the flow at the read-out of SGD."""
        readouts = self.flows[self.flows.family == "readout"]
        return readouts[np.isclose(readouts.readout, self.settings.readout)]


def event_table(tables: Tables) -> pd.DataFrame:
    """Return the scaled time from which scores have each order, by read-out; of the last the time, too."""
    found = tables.flows[tables.flows.family.isin(["readout", "luce"])]
    found = found.assign(c=found.readout.where(found.family == "readout", np.inf))
    table = found.pivot(index="c", columns="order", values="time").sort_index(ascending=False)
    table = table[found.order.drop_duplicates()].iloc[:, 1:].map("{:,.0f}".format)
    last = found[found.accuracy == 1].groupby("c").natural.min()
    table["perfect at time"] = last.map("{:.3g}".format)
    names = {c: "c → ∞" if c == np.inf else f"{c:.3g}" for c in table.index}
    return table.rename(names).rename_axis("read-out").reset_index().replace("nan", "–")


def descent_table(tables: Tables) -> pd.DataFrame:
    """Return gradient descent as Theorem 4.3 has it, by task."""
    found = tables.descents[tables.descents.curvature == "everywhere"]
    return pd.DataFrame(
        {
            "L": found.words,
            "n": found.length,
            "m": found.rules,
            "read-out": found.readout.map("{:.3g}".format),
            "steps": found.steps.map("{:,.0f}".format).replace("nan", "–"),
            "promised": found.promised.map("{:.3g}".format),
            "attention": found.attention,
            "1/n": 1 / found.length,
        }
    )


def slope_table(tables: Tables) -> pd.DataFrame:
    """Return local exponents of the scaled time of perfection in L, between neighbours of each sweep."""
    found = {}
    for family, own in tables.perfect[tables.perfect.family.str.startswith("words")].groupby("family"):
        logs = np.log(own.sort_values("words").set_index("words").time)
        slopes = logs.diff() / np.log(logs.index.to_series()).diff()
        found[family.removeprefix("words at ")] = slopes.iloc[1:]
    table = pd.DataFrame(found)
    ranges = [f"to {words:,}" for words in table.index]
    return table.assign(L=ranges)[["L", *found]]


def logarithmic_growth(tables: Tables, family: str) -> float:
    """Return by what s* n / (L² log L) changes between the two largest vocabularies of a sweep."""
    own = tables.perfect[tables.perfect.family == family].sort_values("words").tail(2)
    shares = own.time * own.length / (own.words**2 * np.log(own.words))
    return float(shares.iloc[1] / shares.iloc[0])


def rarity_slope(tables: Tables) -> float:
    """Return the exponent of the time in κ between the two rarest heads of lists."""
    own = tables.perfect[tables.perfect.family == "rarity"].sort_values("rarity").head(2)
    return float(np.diff(np.log(own.time))[0] / np.diff(np.log(own.rarity))[0])


def critical_table(tables: Tables) -> pd.DataFrame:
    """Return the times of perfection around c* by L; NaN: not within the horizon."""
    own = tables.perfect[tables.perfect.family.str.startswith("critical")]
    table = own.pivot(index="words", columns="family", values="natural")
    table.columns = [f"c* {name.split()[1]}" for name in table.columns]
    stars = own[own.family == "critical +0"].set_index("words").readout
    plateaus = {words: Column(words, words // 8, CRITICAL_RULES, 1.0).plateau for words in table.index}
    table.insert(0, "c*", stars)
    table.insert(1, "log L", [log(words) for words in table.index])
    table.insert(2, "plateau (%)", [100 * plateaus[words] for words in table.index])
    order = ["c*", "log L", "plateau (%)", "c* -0.5", "c* +0", "c* +0.5"]
    return table[order].rename_axis("L").reset_index()


def step_table(tables: Tables) -> pd.DataFrame:
    """Return Figure 4.1's step by number of sequences, means over seeds."""
    columns = ["recall", "row_recall", "diagonal", "least", "largest_other"]
    return tables.steps.groupby("count")[columns].mean().reset_index()


def ordered_time(found: pd.DataFrame, rate: float) -> float:
    """Return the time (steps times rate) at which half of the columns have the order of their lists."""
    above = found[found.ordered >= 0.5]
    if above.empty:
        return np.nan
    at = above.index[0]
    if at == found.index[0]:
        return float(found.step[at]) * rate
    before = found.loc[at - 1]
    share = (0.5 - before.ordered) / (found.ordered[at] - before.ordered)
    return float(before.step + share * (found.step[at] - before.step)) * rate


def sgd_table(tables: Tables) -> pd.DataFrame:
    """Return SGD's time to half of all columns over the exact flow's, by rate, with intervals over seeds."""
    exact = tables.sgd_flow
    exact_time = float(exact[exact.accuracy == 1].natural.min())
    rows = []
    for rate, own in tables.alone.groupby("rate"):
        times = [ordered_time(found.reset_index(drop=True), rate) for _, found in own.groupby("seed")]
        rows.append({"rate": rate, **seed_interval(np.array(times) / exact_time)._asdict()})
    return pd.DataFrame(rows)


def joint_table(tables: Tables) -> pd.DataFrame:
    """Return what both matrices reach from nothing: plateau, escape and end, over seeds."""
    return _joint_of(tables.settings.task, tables.both)


def joint_by_vocabulary(tables: Tables) -> pd.DataFrame:
    """Return the same of the page's task, and of larger ones if there are any."""
    tasks = {tables.settings.task: tables.both, **tables.larger}
    parts = [_joint_of(task, found).assign(words=task.words) for task, found in tasks.items()]
    found = pd.concat(parts, ignore_index=True)
    found.insert(0, "vocabulary L", found.pop("words"))
    return found


def _joint_of(task: TaskShape, found: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame([{"seed": seed, **_joint(task, own)} for seed, own in found.groupby("seed")])


def _joint(task: TaskShape, own: pd.DataFrame) -> dict[str, float]:
    plateau = task.column(1.0).plateau
    trapped = own[(own.listed_accuracy < 0.02) & (own.accuracy > 0.5 * plateau)]
    escaped = own[own.listed_accuracy > 0.5]
    return {
        "accuracy on the plateau": trapped.accuracy.median(),
        "plateau to step": trapped.step.max(),
        "escape at step": escaped.step.min(),
        "c then": escaped.readout.iloc[0] if len(escaped) else np.nan,
        "accuracy at the end": own.accuracy.iloc[-1],
        "ordered columns (%)": 100 * own.ordered.iloc[-1],
    }


def needed(samples: pd.DataFrame, error: float) -> float:
    """Return the sample size at which the error falls to a value, log-linear between sizes; NaN: none."""
    own = samples.sort_values("size")
    below = own.index[own.error <= error]
    if not len(below):
        return np.nan
    at = own.index.get_loc(below[0])
    if at == 0:
        return float(own["size"].iloc[0])
    (x0, y0), (x1, y1) = (np.log(own[["size", "error"]].iloc[i].clip(lower=1e-6)) for i in (at - 1, at))
    return float(np.exp(x0 + (np.log(error) - y0) / (y1 - y0) * (x1 - x0)))


def sample_table(tables: Tables) -> pd.DataFrame:
    """Return the sample size for each error by L, geometric means over seeds, beside 1/δ."""
    rows = []
    for words, own in tables.samples.groupby("words"):
        row = {"L": words, "1/δ": 1 / own.mass.iloc[0]}
        for error in tables.settings.samples.errors:
            sizes = [needed(part, error) for _, part in own.groupby("seed")]
            row[f"{100 * error:g} % error"] = float(np.exp(np.mean(np.log(sizes))))
        rows.append(row)
    return pd.DataFrame(rows)


def sample_slope(tables: Tables, error: float) -> Interval:
    """Return the exponent in L of the sample size for an error, with its interval over seeds."""
    slopes = []
    for _, own in tables.samples.groupby("seed"):
        sizes = {words: needed(part, error) for words, part in own.groupby("words")}
        slopes.append(np.polyfit(np.log(list(sizes)), np.log(list(sizes.values())), 1)[0])
    return seed_interval(np.array(slopes))


def block_table(tables: Tables) -> pd.DataFrame:
    """Return accuracies and attention of blocks, means over seeds; the first row of each was not trained."""
    about = ["layers", "mlp", "step"]
    columns = ["accuracy", "listed_accuracy", "attention"]
    return tables.blocks.groupby(about)[columns].mean().reset_index()


def block_table_in_words(tables: Tables) -> pd.DataFrame:
    """Return the same, as it is shown."""
    found = block_table(tables)
    named = found.assign(mlp=found.mlp.map({True: "yes", False: "no"}))
    return named.rename(columns={"mlp": "MLP", "step": "steps", "listed_accuracy": "other deciders"})


def uniform_bound(settings: ListConfig) -> Estimate:
    """Return the accuracy above which uniform attention cannot get: exactly, or over drawn sequences."""
    task, length = settings.task.build(), settings.task.length
    exact = comb(task.words, length) <= MOST_SETS
    if exact:
        sequences = uniform_sets(task.words, length).sequences
    else:
        sequences = draw_sequences(task.words, length, DRAWN, generator_for("lists bound", 0))
    parts = [uniform_attention_bound(task, part) for part in sequences.split(1000)]
    found = Estimate.of(torch.cat(parts).double())
    return found._replace(standard_error=0.0) if exact else found


def in_words(tables: Tables, judged: pd.DataFrame) -> str:
    """Return what the chapter shows in a few sentences, counter-findings first."""
    first, joint, verdicts = tables.descent, joint_table(tables), judged.verdict.value_counts()
    counts = ", ".join(f"{verdict} ({count})" for verdict, count in verdicts.items())
    plateau = joint["plateau to step"].median()
    parts = [
        f"In the regime of Theorem 4.3 attention is not learnt: at perfection it pays "
        f"{first.attention:.6f} to the token that decides, uniform attention {1 / first.length:.6f}.",
        f"The {len(judged)} statements, by verdict: {counts}.",
        f"The theorem's steps are {first.promised / first.steps:.1e} times those that it takes.",
        f"From nothing both matrices reach {100 * joint['accuracy at the end'].mean():.1f} %"
        + (f" after a plateau of {plateau:,.0f} steps." if plateau > 0 else "."),
    ]
    return " ".join(parts)


def checks_in_words(checks: pd.DataFrame, statements: Mapping[str, Statement]) -> pd.DataFrame:
    """Return the checks as they are shown: the place of each, its number, and what it has to be."""
    below = (checks.target == checks.tolerance) & (checks.target > 0)
    wanted = [
        f"at most {2 * row.tolerance:.3g}" if only else f"{row.target:.4g} ± {row.tolerance:.2g}"
        for row, only in zip(checks.itertuples(), below, strict=True)
    ]
    return pd.DataFrame(
        {
            "place": [statements[of].place for of in checks.of],
            "check": checks.text,
            "value": checks.value.map("{:.4g}".format),
            "wanted": wanted,
            "passed": [
                ("yes" if row.passed else "no") + ("" if row.printed else " (corrected)")
                for row in checks.itertuples()
            ],
        }
    )
