"""The questions of Part I, answered from one table: effects, their controls, and verdicts.

Every effect is a difference between two models of one replicate. `chapters/protocol.md` has the rules, and
what each row is for.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from math import inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import logit

from sameloss.errors import UnreachableKL
from sameloss.statistics import intervals
from sameloss.statistics.equal_kl import common_kl, weights_at
from sameloss.statistics.intervals import LEVEL, UNDEFINED, Interval, p_value, seed_interval
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.experiment import EXPANDED, FEATURES, LSTMS, OTHER
from sameloss.studies.verdict import TOLERANCE, Direction, Verdict, judge
from sameloss.training.objectives import NO_TREATMENT, label

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
    variant: str = ""
    lr: float | None = None
    steps: int | None = None


class Quantity(NamedTuple):
    """A measured quantity, as the table describes it; None averages over the tasks."""

    quantity: str
    reading: str = ""
    task: str | None = None

    @property
    def unit(self) -> str:
        return RATIO if self in TRACES else POINTS


KL, TAKEN = Quantity("kl"), Quantity("steps taken")
TRACES = FLATNESS, RELATIVE, ENLARGED = [Quantity(f"{way}trace") for way in ("", "relative ", "enlarged ")]
ACCURACY = Quantity("accuracy", EXPANDED)
LOOKUP, TOKENS = (Quantity("accuracy", f"{name}, {EXPANDED}") for name in ("lookup", "tokens"))
BASELINE = Model("none", "baseline")


def baseline_kl(table: pd.DataFrame) -> float:
    """The KL that counts as all that can be learnt on one language, see the protocol; NaN if not measured."""
    named = "context" if table.language.iloc[0] == "pretrained" else "bag-of-words kl"
    return float(table[table.quantity == named].value.mean())


class Measurements:
    """The measurements on one language, with its models and peak rates."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table, self.language = table, str(table.language.iloc[0])
        self.cells = dict(list(table.groupby(["model", "stage", "variant", "quantity", "reading"])))
        untrained = table[table.stage == "untrained"].drop_duplicates("model")
        sizes = untrained.sort_values("parameters").set_index("model").parameters
        lstms = [name for name in sizes.index if name in LSTMS]
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
        cell = model.model, model.stage, model.variant, quantity.quantity, quantity.reading
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

MAIN, EACH = "main", "each model"
"""Names of rows: the comparison that answers a question, and its part for one model."""


@dataclass
class Row:
    """An effect, positive if the paper is right, with its verdict; those on traces are log ratios."""

    row: str  # what is compared
    unit: str
    differences: pd.Series  # by replicate
    model: str | None = None
    over: str | None = None  # the neighbouring size that it is compared with
    treatment: str | None = None  # of the model
    published: float | None = None
    margin: float | None = None  # of a claim of no effect
    reason: str = ""  # why it is not testable
    judged: bool = True
    primary: bool = False  # whether Holm's correction is for it
    condition: bool = False  # whether it is the main comparison under another condition
    room: float = inf  # points that the model compared with leaves to gain
    kl: str = ""
    kl_change: float = 0.0
    unlearnt: float = nan
    rate: str = ""
    steps: str = ""
    question: str = ""
    language: str = ""
    effect: Interval = UNDEFINED
    verdict: Verdict | None = None
    wide: bool = False  # whether it is not testable because of its interval
    note: Sequence[str] = ()  # the other conditions under which the comparison concludes the opposite

    def __post_init__(self) -> None:
        self.differences = self.differences.dropna()
        if self.differences.empty:
            self.reason = self.reason or "the models have no KL in common"

    @property
    def p(self) -> float:
        """Of no effect; for a claim of no effect, of two one-sided tests against either end of the margin."""
        ends = (0.0,) if self.margin is None else (self.margin, -self.margin)
        return max(p_value(self.differences.to_numpy() + end) for end in ends)

    def judged_at(self, level: float) -> "Row":
        """The row with its interval at a level and its verdict."""
        effect = seed_interval(self.differences, level)
        if not self.judged:
            return replace(self, effect=effect, reason="")
        reason = self.reason or ("one draw has no interval" if isnan(effect.low) else "")
        wide = "" if reason else _too_wide(effect, self.published, self.margin)
        decides = effect if self.margin is None else intervals.within(effect, self.margin)
        verdict = judge(decides, self.published, sized=effect, reason=reason or wide)
        return replace(self, effect=effect, verdict=verdict, reason=verdict.reason, wide=bool(wide))

    def cells(self) -> dict[str, Any]:
        """Its cells in the table of answers, see `COLUMNS`."""
        known = [nan if end is None else end for end in (*self.effect, self.published)]
        mean, low, high, published = np.exp(known) if self.unit == RATIO else known
        direction, size, _ = self.verdict or ("", None, "")
        numbers = {"mean": mean, "low": low, "high": high, "p": self.p, "replicates": len(self.differences)}
        words = {"direction": str(direction), "size": str(size or ""), "published": published}
        return vars(self) | numbers | words


COLUMNS = [
    *("question", "language", "row", "model", "over", "treatment", "unit"),
    *("mean", "low", "high", "p", "replicates", "kl", "unlearnt", "rate", "steps", "published"),
    *("direction", "size", "reason", "wide", "note", "judged", "primary"),
]


def answers(table: pd.DataFrame, questions: Collection[str] | None = None, planned: int = 0) -> pd.DataFrame:
    """Return a table with one row per effect, the main one of each question and language first.

    Args:
        table: of measurements, see `experiment.COLUMNS`.
        questions: the `QUESTIONS` to return; None: all. One that the table has no models for has no rows.
            Holm's correction covers all primary rows, whichever are returned.
        planned: number of primary rows of the finished table, for which Holm's correction is made.

    """
    rows: list[Row] = []
    for _, part in table.groupby("language", sort=False):
        m = Measurements(part)
        blind = _no_better_than_tokens(m)
        for question, ask in QUESTIONS.items():
            asked = list(ask(m))
            published = next((row.published for row in asked if row.row == MAIN), None)
            for row in asked:
                reason = row.reason or (blind if row.unit in (POINTS, LOG_ODDS, SLOPE) else "")
                own = row.published if row.unit == POINTS else None
                reason = reason or _crowded(row, own or published)
                rows.append(replace(row, question=question, language=m.language, reason=reason))
    ps = [row.p for row in rows if row.primary]
    levels = iter(intervals.holm_levels(ps + [1.0] * (planned - len(ps))))
    rows = [row.judged_at(next(levels) if row.primary else LEVEL) for row in rows]
    cells = [replace(row, note=_turned(row, rows)).cells() for row in rows]
    result = pd.DataFrame(cells, columns=COLUMNS)
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


def _crowded(row: Row, published: float | None) -> str:
    """Why a gain in accuracy could not have shown, if the model that it is over leaves too little room."""
    least = row.margin or (published or 0.0) * (1 - TOLERANCE)
    short = row.unit in (POINTS, LOG_ODDS) and row.room < least
    return f"the model compared with leaves only {row.room:.1f} points to gain" if short else ""


def _too_wide(effect: Interval, published: float | None, margin: float | None) -> str:
    """Why an interval says nothing, if it holds no effect as well as one of the published size.

    >>> _too_wide(Interval(0.5, -6.0, 7.0), 6.9, None)
    'the interval contains zero effect and is wider than the published effect'
    >>> _too_wide(Interval(-0.6, -6.7, 5.4), None, 2.0)
    'the interval is wider than the margin of 2 points to either side'
    """
    _, low, high = effect
    if published is not None and low <= 0 <= high and high - low > abs(published):
        return "the interval contains zero effect and is wider than the published effect"
    if margin is not None and low <= margin and high >= -margin and high - low > 2 * margin:
        return f"the interval is wider than the margin of {margin:g} points to either side"
    return ""


OPPOSITE = {Direction.SUPPORTED: Direction.AGAINST, Direction.AGAINST: Direction.SUPPORTED}


def _turned(main: Row, rows: list[Row]) -> Sequence[str]:
    """The other conditions under which the comparison of a main row concludes the opposite."""
    opposite = OPPOSITE.get(main.verdict.direction) if main.row == MAIN and main.verdict else None
    asked = main.question, main.language
    others = [row for row in rows if row.condition and (row.question, row.language) == asked and row.verdict]
    return [row.row for row in others if row.verdict and row.verdict.direction == opposite]


# Rows that several questions share.

PLATEAU, EXACT_LABELS = "plateau", "plateau, exact labels"
"""The stages of continued training at a constant rate."""


def _compared(
    m: Measurements, name: str, pair: tuple[Model, Model], quantity: Quantity, position: float = 0.0,
    **more: Any,
) -> Row:  # fmt: skip
    """The second model's lead over the first, both at one KL."""
    ends = m.at_equal_kl(pair, quantity, position)
    return Row(
        name,
        quantity.unit,
        ends["second"] - ends["first"],
        kl=_means(ends.kl, digits=4),
        unlearnt=100 * ends.kl.mean() / m.baseline_kl,
        room=100 - ends["first"].mean(),
        rate=" / ".join(dict.fromkeys(f"{model.lr:g}" for model in pair if model.lr)),
        steps=_means(ends["first steps"], ends["second steps"]),
        **more,
    )


def _checkpoints_compared(
    m: Measurements, name: str, pair: list[Model], quantity: Quantity, **more: Any
) -> Row:
    """The second checkpoint's lead over the first; not testable if their KLs differ."""
    first, second = (m.value(model, quantity) for model in pair)
    kls = [m.value(model, KL) for model in pair]
    along = pair[0].stage in (
        PLATEAU,
        EXACT_LABELS,
    )  # of one training, so that the number of steps is its place
    steps = _means(*(pd.Series([model.steps]) if along else m.value(model, TAKEN) for model in pair))
    change = _kl_change(*kls)
    return Row(
        name,
        quantity.unit,
        second - first,
        reason=_moved(change),
        kl=_means(*kls, digits=4),
        kl_change=change,
        unlearnt=100 * max(kl.mean() for kl in kls) / m.baseline_kl,
        room=100 - first.mean(),
        steps=steps,
        **more,
    )


def _means(*values: pd.Series, digits: int = 0) -> str:
    """Means over replicates, as text; of two models, in order."""
    return " / ".join(f"{value.mean():,.{digits}f}" for value in values if len(value))


def _kl_change(first: pd.Series, second: pd.Series) -> float:
    """Mean absolute difference of two models' log KLs over replicates."""
    return float(np.log(second / first).abs().mean())


def _moved(change: float) -> str:
    """Why two models cannot be compared, if their log KLs differ too much."""
    much = change > np.log1p(MOST_KL_CHANGE)
    return f"their KLs differ by a factor of {np.exp(change):.2f}" if much else ""


def _under_other_conditions(m: Measurements, quantity: Quantity) -> Iterator[Row]:
    """Compare the smallest and the largest model with label noise, at other peak rates, and at larger KLs."""
    if {m.small, m.large} <= set(m.trained("cooled")):
        cooled = [Model(name, "cooled", steps=m.plateau[-1]) for name in (m.small, m.large)]
        yield _checkpoints_compared(m, "with label noise, cooled", cooled, quantity, condition=True)
    rates = [("at the other learning rate", lr, lr) for lr in m.lrs if lr != m.lr]
    if rates:
        rates.append(("with a learning rate that falls as 1/d", m.lrs[0], m.lrs[-1]))
        best = _best_lr(m, m.small), _best_lr(m, m.large)
        rates += [("at the best learning rate of each size", *best)] if best != (m.lr, m.lr) else []
    for name, low, high in rates:
        pair = Model(m.small, lr=low), Model(m.large, lr=high)
        yield _compared(m, name, pair, quantity, condition=True)
    for name, position in {"halfway to the largest common KL": 0.5, "at the largest common KL": 1.0}.items():
        yield _compared(m, name, m.ends(m.family), quantity, position, condition=True)


def _between_neighbours(m: Measurements, question: str, quantity: Quantity) -> Iterator[Row]:
    """Compare models of neighbouring sizes, which reach smaller KLs than the smallest one does."""
    if len(m.family) > 2:
        for pair in map(list, pairwise(m.family)):
            of = {"over": pair[0], "model": pair[1], "published": m.published(question, pair)}
            yield _compared(m, "neighbouring sizes", m.ends(pair), quantity, **of)


def _best_lr(m: Measurements, name: str) -> float:
    """The peak rate with the smallest KL after the longest descent, averaged in log over replicates."""
    return min(m.lrs, key=lambda lr: float(np.log(m.value(Model(name, lr=lr, steps=m.steps), KL)).mean()))


def _no_better_than_tokens(m: Measurements) -> str:
    """Why accuracy cannot be judged, on a language where no trained model beats one-hot tokens."""
    ends = [m.end(name, ACCURACY) for name in m.family]
    best = max(ends, key=lambda end: float(end.mean()))
    lead = seed_interval((best - m.value(BASELINE, TOKENS)).dropna())
    words = f"the best one's lead is {lead.value:.1f} points, {lead.low:.1f} to {lead.high:.1f}"
    return f"no size is shown to beat one-hot tokens ({words})" if lead.low <= 0 else ""


# The questions.

NAMES = {FEATURES: "with features as they are", f"{EXPANDED}, unseen": "unseen test sentences"}
"""Display names of some readings; the rest keep theirs."""


def _size_effect(m: Measurements) -> Iterator[Row]:
    """The gain in accuracy of the largest model over the smallest, under all conditions and readings."""
    if len(m.family) < 2:
        return
    pair = m.ends(m.family)
    main = m.at_equal_kl(pair, ACCURACY)
    published = m.published("size", m.family)
    yield _compared(m, MAIN, pair, ACCURACY, published=published, primary=True)
    odds = (logit(main["second"] / 100) - logit(main["first"] / 100)) / m.doublings(m.family)
    per_doubling, room = PUBLISHED_LOG_ODDS.get(m.language), 100 - main["first"].mean()
    yield Row("main comparison, log-odds", LOG_ODDS, odds, published=per_doubling, room=room)
    yield from _under_other_conditions(m, ACCURACY)
    for task in sorted(filter(None, m.table.task.unique())):
        yield _compared(m, display_name(task), pair, ACCURACY._replace(task=task))
    rows = m.table[(m.table.model == m.small) & (m.table.quantity == "accuracy")]
    readings = rows.reading.unique()
    of_unseen = [f"{reading}, unseen" for reading in readings]
    for reading in readings:
        if reading in NAMES or reading not in (EXPANDED, *of_unseen):
            yield _compared(m, NAMES.get(reading, reading), pair, ACCURACY._replace(reading=reading))
    small, large = (m.value(Model(name, "untrained"), ACCURACY) for name in (m.small, m.large))
    yield Row("untrained", POINTS, large - small, judged=False)  # evidence for neither side
    yield from _between_neighbours(m, "size", ACCURACY)
    if len(m.others) > 1:
        yield _compared(m, "LSTMs", m.ends(m.others), ACCURACY, published=m.published("size", m.others))


def _flatness_by_size(m: Measurements) -> Iterator[Row]:
    """The trace of the smallest model over that of the largest, under all conditions."""
    if len(m.family) < 2:
        return
    pair, published = m.ends(m.family), m.published("flatness by size", m.family)
    yield _compared(m, MAIN, pair, FLATNESS, published=published, primary=True)
    yield from _under_other_conditions(m, FLATNESS)
    enlarged = m.published("enlarged", m.family)
    forms = (
        (RELATIVE, "relative to squared weights", None),
        (ENLARGED, "enlarged to one width", enlarged),
    )
    measured = set(m.table[m.table.model == m.small].quantity)
    for of, name, published in forms:
        if of.quantity in measured:
            yield _compared(m, name, pair, of, published=published)
    yield from _between_neighbours(m, "flatness by size", FLATNESS)
    if len(m.others) > 1:
        published = m.published("flatness by size", m.others)
        yield _compared(m, "LSTMs", m.ends(m.others), FLATNESS, published=published)


def _along_plateau(m: Measurements, quantity: Quantity) -> Iterator[Row]:
    """Compare the first and the last checkpoint of every plateau, as they are and cooled."""
    if len(m.plateau) < 2:
        return
    for stage in (PLATEAU, "cooled", EXACT_LABELS):
        rows = {name: _first_and_last(m, stage, name, quantity) for name in m.trained(stage)}
        yield from rows.values()
        family = [rows[name] for name in m.family if name in rows]
        if stage == PLATEAU and family:
            published = PUBLISHED.get(("steps", m.language)) if quantity == ACCURACY else None
            yield replace(_mean_of(MAIN, family), model="all", published=published, primary=True)
        elif len(family) > 1:
            yield _mean_of(f"{stage}, mean of sizes", family)
        if quantity == FLATNESS and family:
            relative = [_first_and_last(m, stage, name, RELATIVE) for name in m.family if name in rows]
            where = "" if stage == PLATEAU else f"{stage}, "
            yield _mean_of(f"{where}relative to squared weights", relative)


def _first_and_last(m: Measurements, stage: str, name: str, quantity: Quantity) -> Row:
    """A model's last checkpoint of a plateau beside its first."""
    pair = [Model(name, stage, steps=steps) for steps in (m.plateau[0], m.plateau[-1])]
    return _checkpoints_compared(m, stage, pair, quantity, model=name)


def _mean_of(name: str, family: list[Row]) -> Row:
    """The mean over sizes of rows of checkpoints."""
    mean = pd.concat([row.differences for row in family], axis=1).mean(axis=1)
    numbers = [(row.kl_change, row.unlearnt, row.room) for row in family]
    change, unlearnt, room = map(float, np.mean(numbers, axis=0))
    model, unit = None if len(family) > 1 else family[0].model, family[0].unit
    return Row(name, unit, mean, model=model, reason=_moved(change), unlearnt=unlearnt, room=room)


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
        yield Row(EACH, RATE_SLOPE, slopes[-1], model=name, kl=kl, judged=False)
    yield Row(MAIN, RATE_SLOPE, pd.concat(slopes, axis=1).mean(axis=1), model="all", judged=False)


def _lookup(m: Measurements) -> Iterator[Row]:
    """What trained models gain over the lookup table, the worst size first."""
    if len(m.family) < 2 or LOOKUP.reading not in set(m.table.reading):  # one size is not a worst one
        return
    table = m.value(BASELINE, LOOKUP)
    ends = {name: m.end(name, ACCURACY) for name in m.family}
    worst = min(ends, key=lambda name: float(ends[name].mean()))
    yield Row(MAIN, POINTS, ends[worst] - table, model=worst, primary=True)
    shortest = m.values(Model(worst, lr=m.lr), ACCURACY).iloc[:, 0]
    yield Row("after the shortest training", POINTS, shortest - table, model=worst)
    for name, end in ends.items():
        published = PUBLISHED.get(("lookup", m.language)) if name == m.large else None
        room = 100 - table.mean()
        yield Row(EACH, POINTS, end - table, model=name, published=published, room=room)


TREATED, FLATTER, GAINED = "treated, cooled", "flatter", "gained"
"""The stage of treated models, and the rows of what treatments do to trace and accuracy."""

UNTREATED, NOISE, REWARD = (
    label(*algorithm) for algorithm in (NO_TREATMENT, ("sgd-noise", 1.0), ("sharpen-after", 0.03))
)


def _flatness_as_a_cause(m: Measurements) -> Iterator[Row]:
    """Accuracy gained per e-fold drop in the trace of one treated model, at one KL."""
    cooled = m.table[m.table.stage == TREATED]
    slopes: list[pd.Series] = []
    reasons: list[str] = []
    unlearnt: dict[str, float] = {}
    for name in cooled.model.unique():
        effects: dict[Quantity, dict[str, pd.Series]] = {FLATNESS: {}, ACCURACY: {}}
        faults: list[str] = []
        base = Model(name, TREATED, UNTREATED)
        for treatment in cooled[cooled.model == name].variant.unique():
            model = Model(name, TREATED, treatment)
            if model == base:
                continue
            kls = m.value(base, KL), m.value(model, KL)
            at = {
                "kl": _means(*kls, digits=4),
                "unlearnt": 100 * max(kl.mean() for kl in kls) / m.baseline_kl,
            }
            unlearnt[name] = max(unlearnt.get(name, 0.0), at["unlearnt"])
            for row, of in {FLATTER: FLATNESS, GAINED: ACCURACY}.items():
                effects[of][treatment] = effect = m.value(model, of) - m.value(base, of)
                yield Row(row, of.unit, effect, model=name, treatment=treatment, judged=False, **at)
            if moved := _moved(_kl_change(*kls)):
                faults.append(f"{display_name(name)}, {display_name(treatment)}: {moved}")
        flatter, gained = (pd.DataFrame(effects[of]) for of in (FLATNESS, ACCURACY))
        slopes.append((flatter * gained).sum(axis=1) / (flatter**2).sum(axis=1))
        faults += _inconclusive(m, flatter, gained)
        yield Row(EACH, SLOPE, slopes[-1], model=name, reason="; ".join(faults))
        reasons += faults
    yield from _between_sizes(m)
    if slopes:
        mean, reason = pd.concat(slopes, axis=1).mean(axis=1), "; ".join(dict.fromkeys(reasons))
        published = PUBLISHED.get(("flatness as a cause", m.language))
        left = float(np.mean([*unlearnt.values()]))
        main = Row(MAIN, SLOPE, mean, model="all", published=published, reason=reason, unlearnt=left)
        yield replace(main, primary=True)


def _between_sizes(m: Measurements) -> Iterator[Row]:
    """Figure 5's regression of accuracy on minus the log trace, over sizes at the end of training."""
    if len(m.family) > 2:
        x, y = (pd.concat([m.end(name, of) for name in m.family], axis=1) for of in (FLATNESS, ACCURACY))
        fits = [stats.linregress(x.loc[replicate], y.loc[replicate]) for replicate in x.index]
        yield Row("between sizes", SLOPE, pd.Series([fit.slope for fit in fits]), judged=False)
        yield Row("between sizes, r²", R_SQUARED, pd.Series([fit.rvalue**2 for fit in fits]), judged=False)


def _inconclusive(m: Measurements, flatter: pd.DataFrame, gained: pd.DataFrame) -> Iterator[str]:
    """Why the treatments of a model say nothing of flatness, if so."""
    sizes = [m.end(name, FLATNESS).mean() for name in m.family]
    if np.ptp([0.0, *flatter.mean()]) < np.ptp(sizes) / 2:
        yield "treatments change the trace by less than half of what sizes do"
    if {NOISE, REWARD} <= set(flatter):
        slopes = [seed_interval((gained[name] / flatter[name]).dropna()) for name in (NOISE, REWARD)]
        if max(slope.low for slope in slopes) > 0 > min(slope.high for slope in slopes):
            yield "label noise and the reward for a large trace disagree"


def _beside_adamw(
    m: Measurements, algorithms: Collection[str], quantity: Quantity, row: str = EACH, *, loss: bool = False,
    **more: Any,
) -> list[Row]:  # fmt: skip
    """The lead of each algorithm over AdamW at one KL, or its loss to AdamW."""
    trained = m.table[(m.table.stage == OTHER) & m.table.algorithm.isin(list(algorithms))]
    rows = []
    for model, variant in trained[["model", "variant"]].drop_duplicates().itertuples(index=False):
        adamw, other = Model(model, lr=m.lr), Model(model, OTHER, variant)
        pair = (other, adamw) if loss else (adamw, other)
        rows.append(_compared(m, row, pair, quantity, model=variant, **more))
    return rows


def _adversaries(m: Measurements, question: str, quantity: Quantity) -> Iterator[Row]:
    """How much worse, or sharper, an adversary's models are than AdamW's, by its strength.

    The main row is the strongest adversary that ends near AdamW's KL.
    """
    rows = _beside_adamw(m, ["adversarial"], quantity, loss=True)
    if not rows:
        return
    (model,) = m.table[m.table.algorithm == "adversarial"].model.unique()
    adamw, limit = m.end(model, KL), np.log(MOST_ADVERSARIAL_KL)
    trained = [Model(model, OTHER, str(row.model), steps=m.steps) for row in rows]
    near = [i for i, own in enumerate(trained) if np.log(m.value(own, KL) / adamw).mean() <= limit]
    if near:
        published = PUBLISHED.get((question, m.language))
        yield replace(rows.pop(near[-1]), row=MAIN, published=published, primary=True)
        if quantity == ACCURACY and m.small != model:  # Section 2.3: 235M falls below 9M, on task B
            strongest = trained[near[-1]]
            lead = m.end(m.small, quantity) - m.value(strongest, quantity)
            yield Row("AdamW at the smallest size", POINTS, lead, model=strongest.variant)
    else:
        reason = "no adversary's models come near AdamW's loss"
        yield Row(MAIN, quantity.unit, pd.Series(dtype=float), reason=reason, primary=True)
    yield from rows


REGULARISERS = ("trace-penalty", "dropout", "weight-decay")


def _regularisers(m: Measurements, quantity: Quantity) -> Iterator[Row]:
    """How much flatter, or better, regularised models are than AdamW's; SAM's is the main row."""
    yield from _beside_adamw(m, ["sam"], quantity, MAIN, primary=True)
    yield from _beside_adamw(m, REGULARISERS, quantity)


def _variant(m: Measurements, algorithm: str, margin: float | None = None) -> Iterator[Row]:
    """What a variant of training changes: accuracy, judged if there is a margin, and the trace."""
    judged = margin is not None
    yield from _beside_adamw(m, [algorithm], ACCURACY, MAIN, margin=margin, judged=judged, primary=judged)
    yield from _beside_adamw(m, [algorithm], FLATNESS, "trace", judged=False)


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
