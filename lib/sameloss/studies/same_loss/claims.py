"""The questions of Part I, answered from one table: effects, their controls, and verdicts of two words.

Every effect is a difference between two models of one replicate. The rules, and what each row is for, stand
in `chapters/protocol.md`.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
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
"""A published effect is met where the whole interval lies within this fraction of it."""

MOST_KL_CHANGE = 0.2
"""Two models of a plateau have one KL where theirs differ by no more than this fraction."""

LITTLE_ACCURACY = 2.0
"""What "does not change much" may be (App. E), in points of accuracy."""

MOST_ADVERSARIAL_KL = 2.0
"""An adversary's models have AdamW's loss where their KL ends at no more than this multiple of it."""

POINTS, LOG_ODDS, RATIO, SLOPE = "points", "log-odds a doubling", "ratio", "points a factor e"
RATE_SLOPE, R_SQUARED = "log trace by log rate", "r²"

PAPER_DOUBLINGS = 6.0
PUBLISHED = {
    ("size", "grammar"): 6.9,  # Figure 2a
    ("size", "hmm"): 4.5,  # Figure 2b
    ("flatness by size", "grammar"): float(np.log(2.68 / 1.54)),  # Figure 5
    ("lookup", "grammar"): 14.1,  # Table 1: the mean of 18.7 and 9.5
    ("adversary", "grammar"): 6.85,  # Table 1: the mean of 6.8 and 6.9
    ("flatness by adversary", "grammar"): float(np.log(19.34 / 8.01)),  # Table 2 (ICML)
}
"""Published effects, of sizes over `PAPER_DOUBLINGS`: points, of traces the log of their ratio."""

PUBLISHED_LOG_ODDS = {"grammar": float(logit(0.503) - logit(0.432)) / PAPER_DOUBLINGS}
"""The gain of size a doubling, from the accuracies of Figure 5."""


class Model(NamedTuple):
    """A model of a replicate: what it is, and how it was trained."""

    model: str
    stage: str = "descent"
    lr: float | None = None
    steps: int | None = None


Value = Callable[[Model], pd.DataFrame]
"""What is compared of models: by replicate and number of steps, larger where the paper's claim is right."""


class Measurements:
    """One language of the table, with its models and rates."""

    def __init__(self, table: pd.DataFrame) -> None:
        """Take the rows of one language."""
        self.table = table
        trained = table[table.stage == "untrained"].drop_duplicates("model")
        self.models = trained.sort_values("parameters").model.tolist()
        transformers, lstms = (
            [n for n in self.models if n.startswith("lstm") == lstm] for lstm in (False, True)
        )
        self.family, self.others = (transformers, lstms) if transformers else (lstms, transformers)
        self.small, self.large = (*self.family[:1], *self.family[-1:])
        self.lr = float(trained.lr.iloc[0])
        descents = table[table.stage == "descent"]
        self.lrs = sorted(descents.lr.unique(), reverse=True)
        self.steps = int(descents.steps.max())

    def values(self, of: Model, quantity: str, reading: str = "", task: str | None = None) -> pd.DataFrame:
        """Return a quantity of a model by replicate and number of steps; of accuracies the tasks' mean."""
        t = self.table
        rows = t[(t.model == of.model) & (t.stage == of.stage) & (t.quantity == quantity)]
        rows = rows[rows.reading == reading] if quantity == "accuracy" else rows
        rows = rows if task is None else rows[rows.task == task]
        rows = rows if of.lr is None else rows[rows.lr == of.lr]
        rows = rows if of.steps is None else rows[rows.steps == of.steps]
        return rows.groupby(["replicate", "steps"]).value.mean().unstack("steps")

    def value(self, of: Model, quantity: str, reading: str = "") -> pd.Series:
        """Return a quantity of one checkpoint, by replicate."""
        return self.values(of, quantity, reading).iloc[:, 0]

    def accuracy(self, reading: str = EXPANDED, task: str | None = None) -> "Value":
        """Return what gives a model's accuracy, read in one way; of one task, or the tasks' mean."""
        return lambda model: self.values(model, "accuracy", reading, task)

    def flatness(self, quantity: str = "trace") -> "Value":
        """Return what gives minus the logarithm of a model's trace."""
        return lambda model: -np.log(self.values(model, quantity))

    def at_equal_kl(self, first: Model, second: Model, value: "Value", position: float = 0.0) -> pd.DataFrame:
        """Return what two models' complete descents have at a KL that both reach.

        Args:
            first: one of them; its number of steps is left open.
            second: the other.
            value: by replicate and number of steps.
            position: of that KL, in its logarithm: 0 is the smallest that both reach, 1 the largest.

        Returns:
            One row a replicate: kl, the values first and second, and the steps that each takes to that KL;
            without those whose descents have no KL in common.

        """
        kls = [self.values(model, "kl") for model in (first, second)]
        given = [value(model) for model in (first, second)]
        rows = {}
        for replicate in kls[0].index.intersection(kls[1].index):
            own = [kl.loc[replicate].to_numpy() for kl in kls]
            try:
                smallest = common_kl(own)
            except UnreachableKL:
                continue
            largest = min(kl.max() for kl in own)
            target = smallest * (largest / smallest) ** position
            weights = [weights_at(kl, target) for kl in own]
            ends = [w @ v.loc[replicate].to_numpy() for w, v in zip(weights, given, strict=True)]
            steps = [w @ kl.columns.to_numpy(float) for w, kl in zip(weights, kls, strict=True)]
            rows[replicate] = (target, *ends, *steps)
        columns = ["kl", "first", "second", "first steps", "second steps"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def doublings(self) -> float:
        """Return how many times the parameters double from the smallest to the largest transformer."""
        parameters = self.table.drop_duplicates("model").set_index("model").parameters
        return float(np.log2(parameters[self.large] / parameters[self.small]))

    def scaled(self, published: float | None) -> float | None:
        """Return a published effect of size in proportion to our doublings of the parameters."""
        return None if published is None else published * self.doublings() / PAPER_DOUBLINGS


# Rows of the table of answers.

COLUMNS = [
    *(
        "question",
        "language",
        "row",
        "model",
        "unit",
        "mean",
        "low",
        "high",
        "p",
        "replicates",
        "kl",
        "steps",
        "published",
    ),
    *("direction", "size", "reason", "note", "primary"),
]


def answers(table: pd.DataFrame, questions: Collection[str] | None = None) -> pd.DataFrame:
    """Return one row for every effect, the main one of each question and language first.

    Args:
        table: of measurements, see `experiment.Replicate.table`, with a column `language`.
        questions: of `QUESTIONS` that are shown; all where None. A question that the table has no models for
            has no row. Holm's correction is over all primary rows of the table, whatever is shown of it.

    """
    rows = []
    for language, own in table.groupby("language", sort=False):
        m = Measurements(own)
        blind = _no_better_than_tokens(m)
        for question, ask in QUESTIONS.items():
            for row in ask(m, str(language)):
                reason = row.get("reason") or (blind if row["unit"] in (POINTS, LOG_ODDS, SLOPE) else None)
                rows.append(row | {"question": question, "language": language, "reason": reason})
    if not rows:
        return pd.DataFrame(columns=COLUMNS)
    found = pd.DataFrame(rows).reindex(columns=COLUMNS)
    primary = found.primary.fillna(False).astype(bool)
    levels = iter(holm_levels(found[primary].p.tolist()))
    judged = [
        row | _judged(row, next(levels) if first else 0.95) for row, first in zip(rows, primary, strict=True)
    ]
    for row in judged:
        row["note"] = _note(row, judged)
    found = pd.DataFrame(judged).reindex(columns=COLUMNS)
    return found if questions is None else found[found.question.isin(questions)].reset_index(drop=True)


OTHER_CONDITIONS = (
    *("halfway to the largest common KL", "at the largest common KL", "with label noise, cooled"),
    *("other rate", "rate falls as 1 / d", "best rate of each"),
)

OPPOSITE = {"supported": "against", "against": "supported"}


def _note(main: dict[str, Any], rows: list[dict[str, Any]]) -> str | None:
    """Return under which other conditions the comparison of a main row concludes the opposite."""
    opposite = OPPOSITE.get(main["direction"]) if main["row"] == "main" else None
    names = [
        row["row"]
        for row in rows
        if opposite == row["direction"]
        and row["row"] in OTHER_CONDITIONS
        and (row["question"], row["language"]) == (main["question"], main["language"])
    ]
    return f"{opposite}: {', '.join(names)}" if opposite and names else None


def _row(name: str, differences: pd.Series, unit: str, **more: Any) -> dict[str, Any]:
    """Return a row of an effect, in the unit's own scale: of ratios the logarithm until it is judged."""
    known = differences.dropna().to_numpy()
    if not len(known):
        more["reason"] = more.get("reason") or "the models have no KL in common"
    effect = paired(known)
    if margin := more.get("margin"):  # of two one-sided tests, against either end of the margin
        effect = effect._replace(p=max(paired(known + margin).p, paired(known - margin).p))
        inside = abs(effect.mean) < margin
        effect = effect if inside else effect._replace(p=1.0)
    return {"row": name, "differences": known, "unit": unit, **more} | effect._asdict()


def _judged(row: dict[str, Any], level: float) -> dict[str, Any]:
    """Return the interval at a level and the two words; of ratios the numbers as ratios."""
    effect = paired(row["differences"], level)
    shown = effect._asdict() | verdict(effect, row.get("published"), row.get("reason"), row.get("margin"))
    if not row.get("judged", True):
        shown |= {"direction": "not judged", "size": None, "reason": None}
    if row["unit"] == RATIO:
        shown |= {name: float(np.exp(shown[name])) for name in ("mean", "low", "high")}
        if row.get("published") is not None:
            shown["published"] = float(np.exp(row["published"]))
    return shown


def verdict(
    effect: Paired, published: float | None, reason: str | None, margin: float | None = None
) -> dict[str, str | None]:
    """Return direction and size of an effect that is positive where the paper is right.

    Args:
        effect: with its interval.
        published: the effect in the paper; None: it has a direction only.
        reason: why the effect could not have shown, where that is so.
        margin: of a claim that there is no effect: the whole interval has to lie within it.

    >>> verdict(Paired(3.0, 2.0, 4.0, 0.01, 8), 6.9, None)["direction"]
    'supported'
    >>> verdict(Paired(0.5, -4.0, 5.0, 0.8, 8), 6.9, None)["reason"]
    'the interval is wider than the published effect'

    """
    if reason is None and np.isnan(effect.low):
        reason = "there are fewer than two replicates"
    across = effect.low <= 0 <= effect.high
    if reason is None and margin is not None:
        little = -margin < effect.low and effect.high < margin
        large = effect.low > margin or effect.high < -margin
        return {
            "direction": "supported" if little else "against" if large else "unclear",
            "size": None,
            "reason": None,
        }
    if reason is None and published is not None and across and effect.high - effect.low > abs(published):
        reason = "the interval is wider than the published effect"
    if reason is not None:
        return {"direction": "not testable", "size": None, "reason": reason}
    direction = "unclear" if across else "supported" if effect.low > 0 else "against"
    if published is None:
        return {"direction": direction, "size": None, "reason": None}
    edges = sorted([published * (1 - TOLERANCE), published * (1 + TOLERANCE)])
    if effect.high < edges[0]:
        size = "smaller"
    elif effect.low > edges[1]:
        size = "larger"
    else:
        size = "as published" if edges[0] <= effect.low and effect.high <= edges[1] else "imprecise"
    return {"direction": direction, "size": size, "reason": None}


# The questions.

NAMES = {"features": "features as they are", f"{EXPANDED}, unseen": "unseen test sentences"}
"""Display names of some readings; the rest keep theirs."""


def controls(m: Measurements) -> list[str]:
    """Return the other ways in which the two models of the size effect were read."""
    read = m.table[(m.table.model == m.small) & (m.table.quantity == "accuracy")].reading.unique()
    main = {EXPANDED, *(name for name in read if name.endswith(", unseen"))} - NAMES.keys()
    return [name for name in read if name not in main]


def size(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield what tells whether larger models are better."""
    if len(m.family) < 2:
        return
    small, large = Model(m.small, lr=m.lr), Model(m.large, lr=m.lr)
    main = m.at_equal_kl(small, large, m.accuracy())
    published = m.scaled(PUBLISHED.get(("size", language)))
    reason = _not_testable(main, published)
    gain = partial(_compared, m, unit=POINTS)
    yield gain("main", small, large, m.accuracy(), reason=reason, published=published, primary=True)
    odds = (logit(main["second"] / 100) - logit(main["first"] / 100)) / m.doublings()
    odds_published = PUBLISHED_LOG_ODDS.get(language)
    yield _row("main, log-odds", odds, LOG_ODDS, reason=reason, published=odds_published)
    yield from _under_other_conditions(m, m.accuracy(), POINTS, reason)
    for name, position in {"halfway to the largest common KL": 0.5, "at the largest common KL": 1.0}.items():
        yield gain(name, small, large, m.accuracy(), position=position)
    for task in sorted(filter(None, m.table.task.unique())):
        yield gain(display_name(task), small, large, m.accuracy(task=task))
    for reading in controls(m):
        yield gain(NAMES.get(reading, reading), small, large, m.accuracy(reading))
    untrained = [m.value(Model(name, "untrained"), "accuracy", EXPANDED) for name in (m.small, m.large)]
    yield _row("untrained", untrained[1] - untrained[0], POINTS)
    for name in m.family[1:-1]:
        yield gain(f"over {m.small}", small, Model(name, lr=m.lr), m.accuracy(), model=name)
    if len(m.others) > 1:
        yield gain("LSTMs", Model(m.others[0], lr=m.lr), Model(m.others[-1], lr=m.lr), m.accuracy())


def _compared(
    m: Measurements, name: str, first: Model, second: Model, value: Value, unit: str,
    position: float = 0.0, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return a row of what the second model has more than the first, both at one KL."""
    ends = m.at_equal_kl(first, second, value, position)
    steps = [f"{ends[f'{which} steps'].mean():,.0f}" for which in ("first", "second") if len(ends)]
    return _row(
        name, ends["second"] - ends["first"], unit, kl=ends.kl.mean(), steps=" / ".join(steps), **more
    )


def _under_other_conditions(
    m: Measurements, value: Value, unit: str, reason: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the comparison of the smallest and the largest model with label noise, and at other rates."""
    cooled = [Model(name, "cooled", steps=_last_plateau(m)) for name in (m.small, m.large)]
    kls, taken = ([m.values(model, of) for model in cooled] for of in ("kl", "steps taken"))
    if all(map(len, kls)):
        first, second = (value(model).iloc[:, 0] for model in cooled)
        moved = _moved(_kl_change(*(kl.iloc[:, 0] for kl in kls)))
        steps = " / ".join(f"{count.to_numpy().mean():,.0f}" for count in taken)
        yield _row("with label noise, cooled", second - first, unit, reason=reason or moved, steps=steps)
    rates = {}
    if len(m.lrs) > 1:
        (other,) = (lr for lr in m.lrs if lr != m.lr)
        rates["other rate"] = other, other
        rates["rate falls as 1 / d"] = m.lrs[0], m.lrs[-1]
        rates["best rate of each"] = _best_lr(m, m.small), _best_lr(m, m.large)
    for name, (low, high) in rates.items():
        pair = Model(m.small, lr=low), Model(m.large, lr=high)
        yield _compared(m, name, *pair, value, unit, reason=reason)


def _not_testable(main: pd.DataFrame, published: float | None) -> str | None:
    """Return why a difference between sizes could not have shown, or None."""
    if main.empty:
        return "the sizes have no KL in common"
    room = 100 - float(main["first"].mean())
    if published is not None and room < published * (1 - TOLERANCE):
        return f"the smaller model leaves {room:.1f} points of room"
    return None


def _no_better_than_tokens(m: Measurements) -> str | None:
    """Return that the language is one on which trained models are read no better than bare tokens."""
    tokens = m.value(Model("none", "baseline"), "accuracy", f"tokens, {EXPANDED}")
    ends = [m.value(Model(name, lr=m.lr, steps=m.steps), "accuracy", EXPANDED) for name in m.family]
    beyond = paired((max(ends, key=lambda end: float(end.mean())) - tokens).dropna().to_numpy())
    return "no trained model is read better than its bare tokens" if beyond.low <= 0 else None


def _last_plateau(m: Measurements) -> int:
    return int(m.table[m.table.stage == "plateau"].steps.max()) if (m.table.stage == "plateau").any() else 0


def _best_lr(m: Measurements, name: str) -> float:
    """Return the rate with the smallest KL after the longest descent, averaged in log over replicates."""
    ends = {lr: np.log(m.value(Model(name, lr=lr, steps=m.steps), "kl")).mean() for lr in m.lrs}
    return min(ends, key=lambda lr: float(ends[lr]))


def steps(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield what tells whether more steps help once the loss has converged."""
    yield from _along_plateau(m, m.accuracy(), POINTS)


def _along_plateau(m: Measurements, value: Value, unit: str) -> Iterator[dict[str, Any]]:
    """Yield last less first checkpoint of every plateau, and of both once they are cooled."""
    kept = sorted(m.table[m.table.stage == "plateau"].steps.unique())
    if len(kept) < 2:
        return
    exact = m.table[m.table.stage == "plateau, exact labels"].model.unique().tolist()
    shown = m.table[m.table.stage == "plateau"].model.unique().tolist()
    cooled = m.table[m.table.stage == "cooled"].model.unique().tolist()
    for stage, names in {"plateau": shown, "cooled": cooled, "plateau, exact labels": exact}.items():
        changes, moves = {}, {}
        for name in names:
            early, late = (Model(name, stage, steps=at) for at in (kept[0], kept[-1]))
            changes[name] = value(late).iloc[:, 0] - value(early).iloc[:, 0]
            moves[name] = _kl_change(m.value(early, "kl"), m.value(late, "kl"))
            steps = " / ".join(f"{m.value(model, 'steps taken').mean():,.0f}" for model in (early, late))
            yield _row(stage, changes[name], unit, model=name, reason=_moved(moves[name]), steps=steps)
        own = [name for name in m.family if name in changes]
        if stage == "plateau" and own:
            mean = pd.concat([changes[name] for name in own], axis=1).mean(axis=1)
            reason = _moved(float(np.mean([moves[name] for name in own])))
            yield _row("main", mean, unit, model="all", reason=reason, primary=True)


def _kl_change(first: pd.Series, second: pd.Series) -> float:
    """Return by how much the logarithms of two models' KLs differ, the mean over replicates."""
    return float(np.log(second / first).abs().mean())


def _moved(change: float) -> str | None:
    """Return that two models differ in KL, where they do; the change is of its logarithm."""
    return f"their KLs differ {np.exp(change):.1f}-fold" if change > np.log1p(MOST_KL_CHANGE) else None


def flatness_by_size(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield what tells whether larger models are flatter."""
    if len(m.family) < 2:
        return
    published = m.scaled(PUBLISHED.get(("flatness by size", language)))
    pair = Model(m.small, lr=m.lr), Model(m.large, lr=m.lr)
    flatter = partial(_compared, m, unit=RATIO)
    yield flatter("main", *pair, m.flatness(), published=published, primary=True)
    yield from _under_other_conditions(m, m.flatness(), RATIO)
    forms = {"relative to squared weights": "relative trace", "enlarged to one width": "enlarged trace"}
    for name, quantity in forms.items():
        if (m.table[m.table.model == m.small].quantity == quantity).any():
            yield flatter(name, *pair, m.flatness(quantity))
    if len(m.others) > 1:
        yield flatter("LSTMs", Model(m.others[0], lr=m.lr), Model(m.others[-1], lr=m.lr), m.flatness())


def flatness_by_steps(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield what tells whether models that were trained for longer are flatter."""
    yield from _along_plateau(m, m.flatness(), RATIO)


def flatness_by_rate(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield the slope of log trace on log peak rate, at one size and KL."""
    if len(m.lrs) < 2:
        return
    low, high = m.lrs[-1], m.lrs[0]
    slopes = []
    for name in m.models:
        pair = Model(name, lr=high), Model(name, lr=low)
        ends = m.at_equal_kl(*pair, m.flatness())
        slopes.append((ends["second"] - ends["first"]) / np.log(high / low))
        yield _row("one size", slopes[-1], RATE_SLOPE, model=name, kl=ends.kl.mean(), judged=False)
    yield _row("main", pd.concat(slopes, axis=1).mean(axis=1), RATE_SLOPE, model="all", judged=False)


def lookup(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield what trained models gain over the lookup table, the worst size first."""
    table = m.value(Model("none", "baseline"), "accuracy", f"lookup, {EXPANDED}")
    if len(m.family) < 2:  # which is worst cannot be asked of one
        return
    ends = {name: m.value(Model(name, lr=m.lr, steps=m.steps), "accuracy", EXPANDED) for name in m.family}
    worst = min(ends, key=lambda name: float(ends[name].mean()))
    published = PUBLISHED.get(("lookup", language))
    yield _row("main", ends[worst] - table, POINTS, model=worst, published=published, primary=True)
    for name, end in ends.items():
        yield _row("one size", end - table, POINTS, model=name, published=published)


UNTREATED, NOISE, REWARD = (
    label(*how) for how in (NO_TREATMENT, ("sgd-noise", 1.0), ("sharpen-after", 0.03))
)


def flatness_as_a_cause(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield the accuracy points gained per e-fold fall in the trace of one treated model, at one KL."""
    cooled = m.table[m.table.stage.str.startswith("cooled: ")]
    slopes: list[pd.Series] = []
    reasons: list[str] = []
    for name in cooled.model.unique():
        base = Model(name, f"cooled: {UNTREATED}")
        flatter, gained, own_reasons = {}, {}, list[str]()
        for stage in cooled[cooled.model == name].stage.unique():
            treatment = stage.removeprefix("cooled: ")
            if treatment == UNTREATED:
                continue
            own = Model(name, stage)
            flatter[treatment] = -np.log(m.value(own, "trace") / m.value(base, "trace"))
            gained[treatment] = m.value(own, "accuracy", EXPANDED) - m.value(base, "accuracy", EXPANDED)
            if moved := _moved(_kl_change(m.value(base, "kl"), m.value(own, "kl"))):
                own_reasons.append(f"{name}, {treatment}: {moved}")
            yield _row(f"flatter by: {treatment}", flatter[treatment], RATIO, model=name, judged=False)
            yield _row(f"gained by: {treatment}", gained[treatment], POINTS, model=name, judged=False)
        x, y = pd.DataFrame(flatter), pd.DataFrame(gained)
        slopes.append((x * y).sum(axis=1) / (x**2).sum(axis=1))
        own_reasons += _unlike(m, x, y)
        yield _row("one model", slopes[-1], SLOPE, model=name, reason="; ".join(own_reasons) or None)
        reasons += own_reasons
    yield from _between_sizes(m)
    if slopes:
        mean = pd.concat(slopes, axis=1).mean(axis=1)
        yield _row("main", mean, SLOPE, model="all", reason="; ".join(dict.fromkeys(reasons)) or None,
                   primary=True)  # fmt: skip


def _between_sizes(m: Measurements) -> Iterator[dict[str, Any]]:
    """Yield Figure 5's regression of accuracy on minus the log trace, over sizes at the end of training."""
    ends = [Model(name, lr=m.lr, steps=m.steps) for name in m.family]
    if len(ends) > 2:
        x, y = (pd.concat([value(end) for end in ends], axis=1) for value in (m.flatness(), m.accuracy()))
        fits = [stats.linregress(x.loc[replicate], y.loc[replicate]) for replicate in x.index]
        yield _row("between sizes", pd.Series([fit.slope for fit in fits]), SLOPE, judged=False)
        yield _row("between sizes, r²", pd.Series([fit.rvalue**2 for fit in fits]), R_SQUARED, judged=False)


def _unlike(m: Measurements, flatter: pd.DataFrame, gained: pd.DataFrame) -> list[str]:
    """Return why the treatments of a model say nothing of flatness, where that is so."""
    ends = [np.log(m.value(Model(name, lr=m.lr, steps=m.steps), "trace")).mean() for name in m.family]
    treated = [0.0, *flatter.mean()]
    found = []
    if np.ptp(treated) < np.ptp(ends) / 2:
        found.append("treatments change the trace by less than half of what sizes do")
    if {NOISE, REWARD} <= set(flatter):
        slopes = [paired((gained[name] / flatter[name]).dropna().to_numpy()) for name in (NOISE, REWARD)]
        if max(slope.low for slope in slopes) > 0 > min(slope.high for slope in slopes):
            found.append("label noise and the reward for a large trace disagree")
    return found


def _beside_adamw(
    m: Measurements, algorithms: Collection[str], value: Value, unit: str, *, less: bool = False
) -> dict[str, dict[str, Any]]:
    """Return a row for each algorithm: what its models have more, or less, than AdamW's, at one KL."""
    stages = m.table[m.table.stage.str.startswith("descent: ")].drop_duplicates(["model", "stage"])
    rows = {}
    for trained in stages.itertuples():
        name = trained.stage.removeprefix("descent: ")
        if name.partition(",")[0] in algorithms:
            pair = [Model(trained.model, lr=m.lr), Model(trained.model, trained.stage)]
            first, second = reversed(pair) if less else pair
            rows[name] = _compared(m, "one algorithm", first, second, value, unit, model=name)
    return rows


def _adversaries(
    m: Measurements, question: str, language: str, value: Value, unit: str
) -> Iterator[dict[str, Any]]:
    """Yield by how much an adversary's models are worse, or sharper, than AdamW's, a row for each strength.

    The main one is the strongest that ends near AdamW's loss.
    """
    rows = _beside_adamw(m, ["adversarial"], value, unit, less=True)
    if not rows:
        return
    (model,) = m.table[m.table.stage.str.startswith("descent: adversarial")].model.unique()
    own = {name: m.value(Model(model, f"descent: {name}", steps=m.steps), "kl") for name in rows}
    ordinary = m.value(Model(model, lr=m.lr, steps=m.steps), "kl")
    near = [n for n, kl in own.items() if np.log(kl / ordinary).mean() <= np.log(MOST_ADVERSARIAL_KL)]
    if near:
        yield rows[near[-1]] | {
            "row": "main",
            "published": PUBLISHED.get((question, language)),
            "primary": True,
        }
    else:
        reason = "no adversary's models come near AdamW's loss"
        yield _row("main", pd.Series(dtype=float), unit, reason=reason, primary=True)
    yield from (row | {"row": "one strength"} for row in rows.values())


REGULARISERS = ("sam", "trace-penalty", "dropout", "weight-decay")


def _regularisers(m: Measurements, value: Value, unit: str) -> Iterator[dict[str, Any]]:
    """Yield by how much regularised models are flatter, or better, than AdamW's; SAM's is the main row."""
    for name, row in _beside_adamw(m, REGULARISERS, value, unit).items():
        main = name.startswith("sam")
        yield row | {"row": "main" if main else "one regulariser", "primary": main}


def _variant(m: Measurements, algorithm: str, margin: float | None = None) -> Iterator[dict[str, Any]]:
    """Yield what a variant of training changes: accuracy, judged where there is a margin, and the trace."""
    for row in _beside_adamw(m, [algorithm], m.accuracy(), POINTS).values():
        about = {name: row[name] for name in ("model", "kl", "steps")}
        judged = {"margin": margin, "judged": margin is not None, "primary": margin is not None}
        yield _row("main", pd.Series(row["differences"]), POINTS, **about, **judged)
    for row in _beside_adamw(m, [algorithm], m.flatness(), RATIO).values():
        yield row | {"row": "trace", "judged": False}


QUESTIONS: dict[str, Callable[[Measurements, str], Iterator[dict[str, Any]]]] = {
    "size": size,
    "steps": steps,
    "flatness by size": flatness_by_size,
    "flatness by steps": flatness_by_steps,
    "flatness by rate": flatness_by_rate,
    "flatness as a cause": flatness_as_a_cause,
    "lookup": lookup,
    "adversary": lambda m, language: _adversaries(m, "adversary", language, m.accuracy(), POINTS),
    "flatness by adversary": lambda m, language: _adversaries(
        m, "flatness by adversary", language, m.flatness(), RATIO
    ),
    "flatness by regularisers": lambda m, _: _regularisers(m, m.flatness(), RATIO),
    "accuracy by regularisers": lambda m, _: _regularisers(m, m.accuracy(), POINTS),
    "mask rate": lambda m, _: _variant(m, "mask-rate", LITTLE_ACCURACY),
    "post-LN": lambda m, _: _variant(m, "post-ln"),
}
"""The questions by name, in the order of the protocol."""
