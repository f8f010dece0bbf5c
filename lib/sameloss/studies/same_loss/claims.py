"""The questions of Part I, answered from one table: effects, their controls, and verdicts of two words.

Every effect is a difference between two models of one replicate. `chapters/protocol.md` has the rules, and
what each row is for.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import logit

from sameloss.errors import UnreachableKL
from sameloss.statistics.equal_kl import common_kl, weights_at
from sameloss.statistics.intervals import Paired, holm_levels, paired
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.experiment import EXPANDED
from sameloss.training.objectives import NO_TREATMENT, label

TOLERANCE = 0.25
"""An effect is as published if its whole interval lies within this fraction of the published one."""

MOST_KL_CHANGE = 0.2
"""Largest relative difference at which two checkpoints count as having the same KL."""

LITTLE_ACCURACY = 2.0
"""What "does not change much" (App. E) is taken to mean, in points of accuracy."""

MOST_ADVERSARIAL_KL = 2.0
"""An adversary's models count as having AdamW's loss up to this multiple of AdamW's final KL."""

POINTS, LOG_ODDS, RATIO, SLOPE = "points", "log-odds a doubling", "ratio", "points a factor e"
RATE_SLOPE, R_SQUARED = "log trace by log rate", "r²"

PAPER_DOUBLINGS = 8.0
"""Doublings of the parameters in use, from the paper's 9M (2.3M) to its 730M (683M), or of its LSTMs."""

PUBLISHED = {
    ("size", "grammar"): 6.9,  # Figure 2a
    ("size", "hmm"): 4.5,  # Figure 2b
    ("size", "pretrained"): 2.0,  # Figure 2c, on QNLI
    ("steps", "grammar"): 1.6,  # Figure 3: 235M, task C
    ("steps", "hmm"): 4.0,  # Figure 3: 67M, task-10
    ("flatness by size", "grammar"): float(np.log(2.68 / 1.54)),  # Figure 5
    ("enlarged", "grammar"): float(np.log(19.8 / 12.6)),  # Figure 5 (ICML)
    ("flatness as a cause", "grammar"): float((50.3 - 43.2) / np.log(2.68 / 1.54)),  # between sizes, Figure 5
    ("lookup", "grammar"): 14.1,  # Table 1: 235M, the mean of 18.7 and 9.5
    ("adversary", "grammar"): 6.85,  # Table 1: the mean of 6.8 and 6.9
    ("flatness by adversary", "grammar"): float(np.log(19.34 / 8.01)),  # Table 2 (ICML)
}
"""Published effects: points of accuracy (as a cause, for each factor e of trace), log ratios of traces.

Those of size are over `PAPER_DOUBLINGS`.
"""

PUBLISHED_LOG_ODDS = {"grammar": float(logit(0.503) - logit(0.432)) / PAPER_DOUBLINGS}
"""The gain per doubling of parameters, from the accuracies of Figure 5."""


class Model(NamedTuple):
    """A trained model, as the table describes it; None leaves a column open."""

    model: str
    stage: str = "descent"
    lr: float | None = None
    steps: int | None = None


class Quantity(NamedTuple):
    """A measured quantity, as the table describes it; None averages over the tasks."""

    quantity: str
    reading: str = ""
    task: str | None = None

    @property
    def unit(self) -> str:
        return RATIO if self.quantity.endswith("trace") else POINTS


KL, TAKEN, FLATNESS = Quantity("kl"), Quantity("steps taken"), Quantity("trace")
RELATIVE = Quantity("relative trace")
ACCURACY = Quantity("accuracy", EXPANDED)
LOOKUP, TOKENS = (Quantity("accuracy", f"{name}, {EXPANDED}") for name in ("lookup", "tokens"))
BASELINE = Model("none", "baseline")

Row = dict[str, Any]
"""A row of the table of answers, see `COLUMNS`."""


def baseline_kl(table: pd.DataFrame) -> float:
    """The KL that counts as all that can be learnt on one language, see the protocol; NaN if not measured."""
    named = "context" if table.language.iloc[0] == "pretrained" else "bag-of-words kl"
    return float(table[table.quantity == named].value.mean())


class Measurements:
    """The measurements on one language, with its models and peak rates."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table, self.language = table, str(table.language.iloc[0])
        self.cells = dict(list(table.groupby(["model", "stage", "quantity", "reading"])))
        untrained = table[table.stage == "untrained"].drop_duplicates("model")
        sizes = untrained.sort_values("parameters").set_index("model").parameters
        lstms = [name for name in sizes.index if name.startswith("lstm")]
        transformers = [name for name in sizes.index if name not in lstms]
        self.models = sizes.index.tolist()
        self.family, self.others = (transformers, lstms) if transformers else (lstms, [])
        self.small, self.large = self.family[0], self.family[-1]
        self.parameters = sizes
        self.lr = float(untrained.lr.iloc[0])
        descents = table[table.stage == "descent"]
        self.lrs = sorted(descents.lr.unique(), reverse=True)
        self.steps = int(descents.steps.max())
        self.plateau = sorted(table[table.stage == "plateau"].steps.unique())
        self.baseline_kl = baseline_kl(table)

    def trained(self, stage: str) -> list[str]:
        """The models that have a stage."""
        return self.table[self.table.stage == stage].model.unique().tolist()

    @cache  # noqa: B019 - of a few tables in a process, each cell asked for by several questions
    def values(self, model: Model, quantity: Quantity) -> pd.DataFrame:
        """A quantity by replicate and number of steps, larger if the paper is right: minus log traces."""
        cell = model.model, model.stage, quantity.quantity, quantity.reading
        rows = self.cells.get(cell, self.table[:0])
        for name, value in {"lr": model.lr, "steps": model.steps, "task": quantity.task}.items():
            rows = rows if value is None else rows[(rows[name] == value).to_numpy()]
        replicates, row = np.unique(rows.replicate, return_inverse=True)
        steps, column = np.unique(rows.steps, return_inverse=True)
        sums, counts = np.zeros((2, len(replicates), len(steps)))
        np.add.at(sums, (row, column), rows.value)
        np.add.at(counts, (row, column), 1)
        with np.errstate(invalid="ignore"):
            means = sums / counts
        values = pd.DataFrame(means, pd.Index(replicates, name="replicate"), pd.Index(steps, name="steps"))
        return -np.log(values) if quantity.unit == RATIO else values

    def value(self, model: Model, quantity: Quantity) -> pd.Series:
        """A quantity of one checkpoint, by replicate."""
        return self.values(model, quantity).iloc[:, 0]

    def end(self, name: str, quantity: Quantity) -> pd.Series:
        """A quantity after the longest descent at the main rate, by replicate."""
        return self.value(Model(name, lr=self.lr, steps=self.steps), quantity)

    def ends(self, names: list[str]) -> tuple[Model, Model]:
        """The descents of the first and the last of some models at the main rate."""
        return Model(names[0], lr=self.lr), Model(names[-1], lr=self.lr)

    def at_equal_kl(self, pair: tuple[Model, Model], of: Quantity, position: float = 0.0) -> pd.DataFrame:
        """Interpolate two models' complete descents to a KL that both reach.

        Args:
            pair: the models, their numbers of steps left open.
            of: the interpolated quantity.
            position: of that KL on a log scale, from 0 at the smallest common one to 1 at the largest.

        Returns:
            One row per replicate: kl, the values first and second, and the steps that each takes to that KL.
            Replicates whose descents have no KL in common are left out.

        """
        kls, values = ([self.values(model, quantity) for model in pair] for quantity in (KL, of))
        rows = {}
        for replicate in kls[0].index.intersection(kls[1].index):
            curves = [kl.loc[replicate].to_numpy() for kl in kls]
            try:
                smallest = common_kl(curves)
            except UnreachableKL:
                continue
            largest = min(kl.max() for kl in curves)
            target = min(largest, smallest * (largest / smallest) ** position)  # rounding may exceed it
            weights = [weights_at(kl, target) for kl in curves]
            ends = [w @ v.loc[replicate].to_numpy() for w, v in zip(weights, values, strict=True)]
            steps = [w @ kl.columns.to_numpy(float) for w, kl in zip(weights, kls, strict=True)]
            rows[replicate] = (target, *ends, *steps)
        columns = ["kl", "first", "second", "first steps", "second steps"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns, dtype=float)

    def doublings(self, names: Sequence[str]) -> float:
        """Doublings of the parameters from the first to the last of some models."""
        return float(np.log2(self.parameters[names[-1]] / self.parameters[names[0]]))

    def published(self, question: str, names: Sequence[str]) -> float | None:
        """A published effect of size, in proportion to the doublings between some models."""
        effect = PUBLISHED.get((question, self.language))
        return None if effect is None else effect * self.doublings(names) / PAPER_DOUBLINGS


# The table of answers.

COLUMNS = [
    *("question", "language", "row", "model", "unit", "mean", "low", "high", "p", "replicates"),
    *("kl", "unlearnt", "rate", "steps", "published", "direction", "size", "reason", "note", "primary"),
]


def answers(table: pd.DataFrame, questions: Collection[str] | None = None, planned: int = 0) -> pd.DataFrame:
    """Return a table with one row per effect, the main one of each question and language first.

    Args:
        table: of measurements, see `experiment.COLUMNS`.
        questions: the `QUESTIONS` to return; None: all. One that the table has no models for has no rows.
            Holm's correction covers all primary rows, whichever are returned.
        planned: number of primary rows of the finished table, for which Holm's correction is made.

    """
    rows = []
    for _, part in table.groupby("language", sort=False):
        m = Measurements(part)
        blind = _no_better_than_tokens(m)
        for question, ask in QUESTIONS.items():
            asked = list(ask(m))
            published = next((row.get("published") for row in asked if row["row"] == "main"), None)
            for row in asked:
                reason = row["reason"] or (blind if row["unit"] in (POINTS, LOG_ODDS, SLOPE) else None)
                own = row.get("published") if row["unit"] == POINTS else None
                reason = reason or _crowded(row, own or published)
                rows.append(row | {"question": question, "language": m.language, "reason": reason})
    ps = [row["p"] for row in rows if row.get("primary")]
    levels = iter(holm_levels(ps + [1.0] * (planned - len(ps))))
    rows = [row | _judged(row, next(levels) if row.get("primary") else 0.95) for row in rows]
    result = pd.DataFrame([row | {"note": _note(row, rows)} for row in rows], columns=COLUMNS)
    return result if questions is None else result[result.question.isin(questions)].reset_index(drop=True)


@dataclass(frozen=True)
class Comparison:
    """What a chapter compares: its measurements, and the questions that it asks of them."""

    table: pd.DataFrame  # see `experiment.COLUMNS`
    questions: Collection[str]

    @cached_property
    def answers(self) -> pd.DataFrame:
        """Answers to its questions from its own runs."""
        return answers(self.table, self.questions)


def _crowded(row: Row, published: float | None) -> str | None:
    """Why a gain in accuracy could not have shown, if the model that it is over leaves too little room."""
    least = row["margin"] or (published or 0.0) * (1 - TOLERANCE)
    short = row["unit"] in (POINTS, LOG_ODDS) and row.get("room", np.inf) < least
    return f"the model compared with leaves only {row['room']:.1f} points to gain" if short else None


OPPOSITE = {"supported": "against", "against": "supported"}


def _note(main: Row, rows: list[Row]) -> str | None:
    """The other conditions under which the comparison of a main row concludes the opposite."""
    opposite = OPPOSITE.get(main["direction"]) if main["row"] == "main" else None
    names = [
        row["row"]
        for row in rows
        if row["direction"] == opposite
        and row.get("condition")
        and (row["question"], row["language"]) == (main["question"], main["language"])
    ]
    return f"{opposite}: {', '.join(names)}" if names else None


def _row(
    name: str, differences: pd.Series, unit: str, reason: str | None = None, margin: float | None = None,
    **more: Any,
) -> Row:  # fmt: skip
    """A row that is not judged yet; effects on traces are log ratios until it is."""
    differences = differences.dropna()
    if differences.empty:
        reason = reason or "the models have no KL in common"
    values = differences.to_numpy()
    effect = paired(values)
    if margin is not None:  # two one-sided tests, against either end of the margin
        effect = effect._replace(p=max(paired(values + end).p for end in (margin, -margin)))
    row = {"row": name, "differences": differences, "unit": unit, "reason": reason, "margin": margin}
    return row | more | effect._asdict()


def _judged(row: Row, level: float) -> Row:
    """The verdict on a row, and its interval at a level; effects on traces become ratios."""
    effect, published = paired(row["differences"].to_numpy(), level), row.get("published")
    words = verdict(effect, published, row["reason"], row["margin"])
    if not row.get("judged", True):
        words = {"direction": "not judged", "size": None, "reason": None}
    judged: Row = {**effect._asdict(), "p": row["p"], "published": published, **words}
    if row["unit"] == RATIO:
        logs = [name for name in ("mean", "low", "high", "published") if judged[name] is not None]
        judged |= {name: float(np.exp(judged[name])) for name in logs}
    return judged


def verdict(
    effect: Paired, published: float | None, reason: str | None, margin: float | None = None
) -> dict[str, str | None]:
    """Judge direction and size of an effect that is positive if the paper is right.

    Args:
        effect: with its interval.
        published: the effect in the paper; None: only a direction is judged.
        reason: why the effect could not have shown, if so.
        margin: for a claim of no effect, which is supported if the whole interval lies within the margin.

    >>> verdict(Paired(3.0, 2.0, 4.0, 0.01, 8), 6.9, None)["direction"]
    'supported'
    >>> verdict(Paired(0.5, -6.0, 7.0, 0.8, 8), 6.9, None)["reason"]
    'the interval contains zero effect and is wider than the published effect'
    >>> verdict(Paired(9.0, 1.0, 17.0, 0.03, 8), 6.9, None)  # a direction needs no precision
    {'direction': 'supported', 'size': 'imprecise', 'reason': None}
    >>> verdict(Paired(-0.6, -6.7, 5.4, 0.8, 8), None, None, margin=2)["reason"]
    'the interval is wider than the margin of 2 points to either side'

    """
    low, high = effect.low, effect.high
    if np.isnan(low):
        reason = reason or "one draw has no interval"
    if published is not None and low <= 0 <= high and high - low > abs(published):
        reason = reason or "the interval contains zero effect and is wider than the published effect"
    if margin is not None and low <= margin and high >= -margin and high - low > 2 * margin:
        reason = reason or f"the interval is wider than the margin of {margin:g} points to either side"
    if reason is not None:
        return {"direction": "not testable", "size": None, "reason": reason}
    supported, against = low > 0, high < 0
    if margin is not None:
        supported, against = -margin < low and high < margin, low > margin or high < -margin
    direction = "supported" if supported else "against" if against else "unclear"
    size = None if published is None else _size(effect, published)
    return {"direction": direction, "size": size, "reason": None}


def _size(effect: Paired, published: float) -> str:
    low, high = sorted((published * (1 - TOLERANCE), published * (1 + TOLERANCE)))
    if effect.high < low:
        return "smaller"
    if effect.low > high:
        return "larger"
    return "as published" if low <= effect.low and effect.high <= high else "imprecise"


# Rows that several questions share.


def _compared(
    m: Measurements, name: str, pair: tuple[Model, Model], quantity: Quantity, position: float = 0.0,
    **more: Any,
) -> Row:  # fmt: skip
    """The second model's lead over the first, both at one KL."""
    ends = m.at_equal_kl(pair, quantity, position)
    more |= {"kl": _means(ends.kl, digits=4), "unlearnt": 100 * ends.kl.mean() / m.baseline_kl}
    more |= {"room": 100 - ends["first"].mean()}
    more["rate"] = " / ".join(dict.fromkeys(f"{model.lr:g}" for model in pair if model.lr))
    steps = _means(ends["first steps"], ends["second steps"])
    return _row(name, ends["second"] - ends["first"], quantity.unit, steps=steps, **more)


def _checkpoints_compared(
    m: Measurements, name: str, pair: list[Model], quantity: Quantity, reason: str | None = None, **more: Any
) -> Row:
    """The second checkpoint's lead over the first; not testable if their KLs differ."""
    first, second = (m.value(model, quantity) for model in pair)
    kls = [m.value(model, KL) for model in pair]
    along = pair[0].stage.startswith("plateau")  # of one training, so that the number of steps is its place
    steps = _means(*(pd.Series([model.steps]) if along else m.value(model, TAKEN) for model in pair))
    more |= {"kl": _means(*kls, digits=4), "kl_change": (change := _kl_change(*kls))}
    more |= {"unlearnt": 100 * max(kl.mean() for kl in kls) / m.baseline_kl, "room": 100 - first.mean()}
    return _row(name, second - first, quantity.unit, reason or _moved(change), steps=steps, **more)


def _means(*values: pd.Series, digits: int = 0) -> str:
    """Means over replicates, as text; of two models, in order."""
    return " / ".join(f"{value.mean():,.{digits}f}" for value in values if len(value))


def _kl_change(first: pd.Series, second: pd.Series) -> float:
    """Mean absolute difference of two models' log KLs over replicates."""
    return float(np.log(second / first).abs().mean())


def _moved(change: float) -> str | None:
    """Why two models cannot be compared, if their log KLs differ too much."""
    return (
        f"their KLs differ by a factor of {np.exp(change):.2f}" if change > np.log1p(MOST_KL_CHANGE) else None
    )


def _under_other_conditions(m: Measurements, quantity: Quantity) -> Iterator[Row]:
    """Compare the smallest and the largest model with label noise, at other peak rates, and at larger KLs."""
    if {m.small, m.large} <= set(m.trained("cooled")):
        cooled = [Model(name, "cooled", steps=m.plateau[-1]) for name in (m.small, m.large)]
        yield _checkpoints_compared(m, "with label noise, cooled", cooled, quantity, condition=True)
    rates = [("other learning rate", lr, lr) for lr in m.lrs if lr != m.lr]
    if rates:
        rates.append(("learning rate ∝ 1/d", m.lrs[0], m.lrs[-1]))
        best = _best_lr(m, m.small), _best_lr(m, m.large)
        rates += [("best learning rate of each", *best)] if best != (m.lr, m.lr) else []
    for name, low, high in rates:
        pair = Model(m.small, lr=low), Model(m.large, lr=high)
        yield _compared(m, name, pair, quantity, condition=True)
    for name, position in {"halfway to the largest common KL": 0.5, "at the largest common KL": 1.0}.items():
        yield _compared(m, name, m.ends(m.family), quantity, position, condition=True)


def _between_neighbours(m: Measurements, question: str, quantity: Quantity) -> Iterator[Row]:
    """Compare models of neighbouring sizes, which reach smaller KLs than the smallest one does."""
    if len(m.family) > 2:
        for pair in map(list, pairwise(m.family)):
            more = {"model": pair[1], "published": m.published(question, pair)}
            yield _compared(m, f"over {pair[0]}", m.ends(pair), quantity, **more)


def _best_lr(m: Measurements, name: str) -> float:
    """The peak rate with the smallest KL after the longest descent, averaged in log over replicates."""
    return min(m.lrs, key=lambda lr: float(np.log(m.value(Model(name, lr=lr, steps=m.steps), KL)).mean()))


def _no_better_than_tokens(m: Measurements) -> str | None:
    """Why accuracy cannot be judged, on a language where no trained model beats one-hot tokens."""
    ends = [m.end(name, ACCURACY) for name in m.family]
    best = max(ends, key=lambda end: float(end.mean()))
    lead = paired((best - m.value(BASELINE, TOKENS)).dropna().to_numpy())
    words = f"the best one leads by {lead.mean:.1f} points, {lead.low:.1f} to {lead.high:.1f}"
    return f"no size is shown to beat one-hot tokens ({words})" if lead.low <= 0 else None


# The questions.

NAMES = {"features": "features as they are", f"{EXPANDED}, unseen": "unseen test sentences"}
"""Display names of some readings; the rest keep theirs."""


def _size_effect(m: Measurements) -> Iterator[Row]:
    """The gain in accuracy of the largest model over the smallest, under all conditions and readings."""
    if len(m.family) < 2:
        return
    pair = m.ends(m.family)
    main = m.at_equal_kl(pair, ACCURACY)
    published = m.published("size", m.family)
    yield _compared(m, "main", pair, ACCURACY, published=published, primary=True)
    odds = (logit(main["second"] / 100) - logit(main["first"] / 100)) / m.doublings(m.family)
    more = {"published": PUBLISHED_LOG_ODDS.get(m.language), "room": 100 - main["first"].mean()}
    yield _row("main, log-odds", odds, LOG_ODDS, **more)
    yield from _under_other_conditions(m, ACCURACY)
    for task in sorted(filter(None, m.table.task.unique())):
        yield _compared(m, display_name(task), pair, ACCURACY._replace(task=task))
    rows = m.table[(m.table.model == m.small) & (m.table.quantity == "accuracy")]
    for reading in rows.reading.unique():
        if reading in NAMES or not (reading == EXPANDED or reading.endswith(", unseen")):
            yield _compared(m, NAMES.get(reading, reading), pair, ACCURACY._replace(reading=reading))
    small, large = (m.value(Model(name, "untrained"), ACCURACY) for name in (m.small, m.large))
    yield _row("untrained", large - small, POINTS, judged=False)  # evidence for neither side
    yield from _between_neighbours(m, "size", ACCURACY)
    if len(m.others) > 1:
        yield _compared(m, "LSTMs", m.ends(m.others), ACCURACY, published=m.published("size", m.others))


def _flatness_by_size(m: Measurements) -> Iterator[Row]:
    """The trace of the smallest model over that of the largest, under all conditions."""
    if len(m.family) < 2:
        return
    pair, published = m.ends(m.family), m.published("flatness by size", m.family)
    yield _compared(m, "main", pair, FLATNESS, published=published, primary=True)
    yield from _under_other_conditions(m, FLATNESS)
    enlarged = m.published("enlarged", m.family)
    forms = (
        ("relative trace", "relative to squared weights", None),
        ("enlarged trace", "enlarged to one width", enlarged),
    )
    measured = set(m.table[m.table.model == m.small].quantity)
    for quantity, name, published in forms:
        if quantity in measured:
            yield _compared(m, name, pair, Quantity(quantity), published=published)
    yield from _between_neighbours(m, "flatness by size", FLATNESS)
    if len(m.others) > 1:
        published = m.published("flatness by size", m.others)
        yield _compared(m, "LSTMs", m.ends(m.others), FLATNESS, published=published)


def _along_plateau(m: Measurements, quantity: Quantity) -> Iterator[Row]:
    """Compare the first and the last checkpoint of every plateau, as they are and cooled."""
    if len(m.plateau) < 2:
        return
    for stage in ("plateau", "cooled", "plateau, exact labels"):
        rows = {name: _first_and_last(m, stage, name, quantity) for name in m.trained(stage)}
        yield from rows.values()
        family = [rows[name] for name in m.family if name in rows]
        if stage == "plateau" and family:
            published = PUBLISHED.get(("steps", m.language)) if quantity == ACCURACY else None
            yield _mean_of("main", family) | {"model": "all", "published": published, "primary": True}
        elif len(family) > 1:
            yield _mean_of(f"{stage}, mean of sizes", family)
        if quantity == FLATNESS and family:
            relative = [_first_and_last(m, stage, name, RELATIVE) for name in m.family if name in rows]
            where = "" if stage == "plateau" else f"{stage}, "
            yield _mean_of(f"{where}relative to squared weights", relative)


def _first_and_last(m: Measurements, stage: str, name: str, quantity: Quantity) -> Row:
    """A model's last checkpoint of a plateau beside its first."""
    pair = [Model(name, stage, steps=steps) for steps in (m.plateau[0], m.plateau[-1])]
    return _checkpoints_compared(m, stage, pair, quantity, model=name)


def _mean_of(name: str, family: list[Row]) -> Row:
    """The mean over sizes of rows of checkpoints."""
    mean = pd.concat([row["differences"] for row in family], axis=1).mean(axis=1)
    keys = "kl_change", "unlearnt", "room"
    change, unlearnt, room = (float(np.mean([row[key] for row in family])) for key in keys)
    model, unit = None if len(family) > 1 else family[0]["model"], family[0]["unit"]
    return _row(name, mean, unit, _moved(change), model=model, unlearnt=unlearnt, room=room)


def _flatness_by_rate(m: Measurements) -> Iterator[Row]:
    """The slope of log trace on log peak rate, at one size and KL."""
    if len(m.lrs) < 2:
        return
    high, low = m.lrs[0], m.lrs[-1]
    slopes = []
    for name in m.models:
        ends = m.at_equal_kl((Model(name, lr=high), Model(name, lr=low)), FLATNESS)
        slopes.append((ends["second"] - ends["first"]) / np.log(high / low))
        kl = _means(ends.kl, digits=4)
        yield _row("one size", slopes[-1], RATE_SLOPE, model=name, kl=kl, judged=False)
    yield _row("main", pd.concat(slopes, axis=1).mean(axis=1), RATE_SLOPE, model="all", judged=False)


def _lookup(m: Measurements) -> Iterator[Row]:
    """What trained models gain over the lookup table, the worst size first."""
    if len(m.family) < 2 or LOOKUP.reading not in set(m.table.reading):  # one size is not a worst one
        return
    table = m.value(BASELINE, LOOKUP)
    ends = {name: m.end(name, ACCURACY) for name in m.family}
    worst = min(ends, key=lambda name: float(ends[name].mean()))
    yield _row("main", ends[worst] - table, POINTS, model=worst, primary=True)
    shortest = m.values(Model(worst, lr=m.lr), ACCURACY).iloc[:, 0]
    yield _row("after the shortest training", shortest - table, POINTS, model=worst)
    for name, end in ends.items():
        published = PUBLISHED.get(("lookup", m.language)) if name == m.large else None
        room = 100 - table.mean()
        yield _row("one size", end - table, POINTS, model=name, published=published, room=room)


UNTREATED, NOISE, REWARD = (
    label(*algorithm) for algorithm in (NO_TREATMENT, ("sgd-noise", 1.0), ("sharpen-after", 0.03))
)


def _flatness_as_a_cause(m: Measurements) -> Iterator[Row]:
    """Accuracy gained per e-fold drop in the trace of one treated model, at one KL."""
    cooled = m.table[m.table.stage.str.startswith("cooled: ")]
    slopes: list[pd.Series] = []
    reasons: list[str] = []
    unlearnt: dict[str, float] = {}
    for name in cooled.model.unique():
        effects: dict[Quantity, dict[str, pd.Series]] = {FLATNESS: {}, ACCURACY: {}}
        faults: list[str] = []
        base = Model(name, f"cooled: {UNTREATED}")
        for stage in cooled[cooled.model == name].stage.unique():
            model, treatment = Model(name, stage), stage.removeprefix("cooled: ")
            if model == base:
                continue
            kls = m.value(base, KL), m.value(model, KL)
            at: Row = {"kl": _means(*kls, digits=4)}
            at["unlearnt"] = 100 * max(kl.mean() for kl in kls) / m.baseline_kl
            unlearnt[name] = max(unlearnt.get(name, 0.0), at["unlearnt"])
            for verb, of in {"flatter": FLATNESS, "gained": ACCURACY}.items():
                effects[of][treatment] = effect = m.value(model, of) - m.value(base, of)
                yield _row(f"{verb} by: {treatment}", effect, of.unit, model=name, judged=False, **at)
            if moved := _moved(_kl_change(*kls)):
                faults.append(f"{display_name(name)}, {display_name(treatment)}: {moved}")
        flatter, gained = (pd.DataFrame(effects[of]) for of in (FLATNESS, ACCURACY))
        slopes.append((flatter * gained).sum(axis=1) / (flatter**2).sum(axis=1))
        faults += _inconclusive(m, flatter, gained)
        yield _row("one model", slopes[-1], SLOPE, "; ".join(faults) or None, model=name)
        reasons += faults
    yield from _between_sizes(m)
    if slopes:
        mean, reason = pd.concat(slopes, axis=1).mean(axis=1), "; ".join(dict.fromkeys(reasons)) or None
        published = PUBLISHED.get(("flatness as a cause", m.language))
        more: Row = {"published": published, "unlearnt": np.mean([*unlearnt.values()]), "primary": True}
        yield _row("main", mean, SLOPE, reason, model="all", **more)


def _between_sizes(m: Measurements) -> Iterator[Row]:
    """Figure 5's regression of accuracy on minus the log trace, over sizes at the end of training."""
    if len(m.family) > 2:
        x, y = (pd.concat([m.end(name, of) for name in m.family], axis=1) for of in (FLATNESS, ACCURACY))
        fits = [stats.linregress(x.loc[replicate], y.loc[replicate]) for replicate in x.index]
        yield _row("between sizes", pd.Series([fit.slope for fit in fits]), SLOPE, judged=False)
        yield _row("between sizes, r²", pd.Series([fit.rvalue**2 for fit in fits]), R_SQUARED, judged=False)


def _inconclusive(m: Measurements, flatter: pd.DataFrame, gained: pd.DataFrame) -> Iterator[str]:
    """Why the treatments of a model say nothing of flatness, if so."""
    sizes = [m.end(name, FLATNESS).mean() for name in m.family]
    if np.ptp([0.0, *flatter.mean()]) < np.ptp(sizes) / 2:
        yield "treatments change the trace by less than half of what sizes do"
    if {NOISE, REWARD} <= set(flatter):
        slopes = [paired((gained[name] / flatter[name]).dropna().to_numpy()) for name in (NOISE, REWARD)]
        if max(slope.low for slope in slopes) > 0 > min(slope.high for slope in slopes):
            yield "label noise and the reward for a large trace disagree"


def _beside_adamw(
    m: Measurements, row: str, algorithms: Collection[str], quantity: Quantity, *, loss: bool = False,
    **more: Any,
) -> dict[str, Row]:  # fmt: skip
    """The lead of each algorithm over AdamW at one KL, or its loss to AdamW, by the algorithm's label."""
    stages = m.table[m.table.stage.str.startswith("descent: ")].drop_duplicates(["model", "stage"])
    rows = {}
    for trained in stages.itertuples():
        name = trained.stage.removeprefix("descent: ")
        if name.partition(",")[0] in algorithms:
            adamw, other = Model(trained.model, lr=m.lr), Model(trained.model, trained.stage)
            pair = (other, adamw) if loss else (adamw, other)
            rows[name] = _compared(m, row, pair, quantity, model=name, **more)
    return rows


def _adversaries(m: Measurements, question: str, quantity: Quantity) -> Iterator[Row]:
    """How much worse, or sharper, an adversary's models are than AdamW's, by its strength.

    The main row is the strongest adversary that ends near AdamW's KL.
    """
    rows = _beside_adamw(m, "one strength", ["adversarial"], quantity, loss=True)
    if not rows:
        return
    (model,) = m.table[m.table.stage.str.startswith("descent: adversarial")].model.unique()
    kls = {name: m.value(Model(model, f"descent: {name}", steps=m.steps), KL) for name in rows}
    limit, adamw = np.log(MOST_ADVERSARIAL_KL), m.end(model, KL)
    if near := [name for name, kl in kls.items() if np.log(kl / adamw).mean() <= limit]:
        published = PUBLISHED.get((question, m.language))
        yield rows.pop(near[-1]) | {"row": "main", "published": published, "primary": True}
        if quantity == ACCURACY and m.small != model:  # Section 2.3: 235M falls below 9M, on task B
            end = m.value(Model(model, f"descent: {near[-1]}", steps=m.steps), quantity)
            yield _row("AdamW at the smallest size", m.end(m.small, quantity) - end, POINTS, model=near[-1])
    else:
        reason = "no adversary's models come near AdamW's loss"
        yield _row("main", pd.Series(dtype=float), quantity.unit, reason, primary=True)
    yield from rows.values()


REGULARISERS = ("sam", "trace-penalty", "dropout", "weight-decay")


def _regularisers(m: Measurements, quantity: Quantity) -> Iterator[Row]:
    """How much flatter, or better, regularised models are than AdamW's; SAM's is the main row."""
    rows = _beside_adamw(m, "one regulariser", REGULARISERS, quantity, primary=False)
    for name, row in rows.items():
        yield row | {"row": "main", "primary": True} if name.startswith("sam") else row


def _variant(m: Measurements, algorithm: str, margin: float | None = None) -> Iterator[Row]:
    """What a variant of training changes: accuracy, judged if there is a margin, and the trace."""
    judged: dict[str, Any] = {"margin": margin, "judged": margin is not None, "primary": margin is not None}
    yield from _beside_adamw(m, "main", [algorithm], ACCURACY, **judged).values()
    yield from _beside_adamw(m, "trace", [algorithm], FLATNESS, judged=False).values()


QUESTIONS: dict[str, Callable[[Measurements], Iterator[Row]]] = {
    "size": _size_effect,
    "steps": partial(_along_plateau, quantity=ACCURACY),
    "flatness by size": _flatness_by_size,
    "flatness by steps": partial(_along_plateau, quantity=FLATNESS),
    "flatness by rate": _flatness_by_rate,
    "flatness as a cause": _flatness_as_a_cause,
    "lookup": _lookup,
    "adversary": partial(_adversaries, question="adversary", quantity=ACCURACY),
    "flatness by adversary": partial(_adversaries, question="flatness by adversary", quantity=FLATNESS),
    "flatness by regularisers": partial(_regularisers, quantity=FLATNESS),
    "accuracy by regularisers": partial(_regularisers, quantity=ACCURACY),
    "mask rate": partial(_variant, algorithm="mask-rate", margin=LITTLE_ACCURACY),
    "post-LN": partial(_variant, algorithm="post-ln"),
}
"""The questions by name, in the order of the protocol."""
