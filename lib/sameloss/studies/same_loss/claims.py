"""The questions of Part I, answered from one table: effects, their controls, and verdicts of two words.

Every effect is a difference between two models of one replicate. The rules, and what each row is for, stand
in `chapters/protocol.md`.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logit

from sameloss.errors import UnreachableKL
from sameloss.statistics.equal_kl import common_kl, weights_at
from sameloss.statistics.paired import Paired, holm_levels, paired
from sameloss.studies.same_loss.experiment import EXPANDED
from sameloss.training.algorithms import NO_TREATMENT, label

TOLERANCE = 0.25
"""A published effect is met where the whole interval lies within this fraction of it."""

MOST_KL_CHANGE = 0.2
"""Two models of a plateau have one KL where theirs differ by no more than this fraction."""

LITTLE_ACCURACY = 2.0
"""What "does not change much" may be (App. E), in points of accuracy."""

MOST_ADVERSARIAL_KL = 2.0
"""An adversary's models have AdamW's loss where their KL ends at no more than this multiple of it."""

POINTS, LOG_ODDS, RATIO, SLOPE = "points", "log-odds a doubling", "ratio", "points a factor e"
RATE_SLOPE = "log trace by log rate"

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

    def values(self, of: Model, quantity: str, reading: str = "") -> pd.DataFrame:
        """Return a quantity of a model by replicate and number of steps; of accuracies the tasks' mean."""
        t = self.table
        rows = t[(t.model == of.model) & (t.stage == of.stage) & (t.quantity == quantity)]
        rows = rows[rows.reading == reading] if quantity == "accuracy" else rows
        rows = rows if of.lr is None else rows[rows.lr == of.lr]
        rows = rows if of.steps is None else rows[rows.steps == of.steps]
        return rows.groupby(["replicate", "steps"]).value.mean().unstack("steps")

    def value(self, of: Model, quantity: str, reading: str = "") -> pd.Series:
        """Return a quantity of one checkpoint, by replicate."""
        return self.values(of, quantity, reading).iloc[:, 0]

    def at_equal_kl(
        self, first: Model, second: Model, value: Callable[[Model], pd.DataFrame]
    ) -> pd.DataFrame:
        """Return what two models' complete descents have at the smallest KL that both reach.

        Args:
            first: one of them; its number of steps is left open.
            second: the other.
            value: by replicate and number of steps.

        Returns:
            One row a replicate: kl, first, second; without those whose descents have no KL in common.

        """
        kls = [self.values(model, "kl") for model in (first, second)]
        given = [value(model) for model in (first, second)]
        rows = {}
        for replicate in kls[0].index.intersection(kls[1].index):
            own = [kl.loc[replicate].to_numpy() for kl in kls]
            try:
                target = common_kl(own)
            except UnreachableKL:
                continue
            ends = (
                weights_at(k, target) @ v.loc[replicate].to_numpy() for k, v in zip(own, given, strict=True)
            )
            rows[replicate] = (target, *ends)
        return pd.DataFrame.from_dict(rows, orient="index", columns=["kl", "first", "second"])

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
        "published",
    ),
    *("direction", "size", "reason", "primary"),
]


def answers(table: pd.DataFrame, questions: Collection[str] | None = None) -> pd.DataFrame:
    """Return one row for every effect, the main one of each question and language first.

    Args:
        table: of measurements, see `experiment.Replicate.table`, with a column `language`.
        questions: of `QUESTIONS`; all where None. A question that the table has no models for has no row.

    """
    rows = []
    for language, own in table.groupby("language", sort=False):
        m = Measurements(own)
        blind = _no_better_than_tokens(m)
        for question, ask in QUESTIONS.items():
            for row in ask(m, str(language)) if questions is None or question in questions else ():
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
    return pd.DataFrame(judged).reindex(columns=COLUMNS)


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
    accuracy = partial(m.values, quantity="accuracy", reading=EXPANDED)
    main = m.at_equal_kl(small, large, accuracy)
    published = m.scaled(PUBLISHED.get(("size", language)))
    reason = _not_testable(main, published)
    gain = partial(_gain, m)
    yield _row("main", main["second"] - main["first"], POINTS, reason=reason, published=published,
               kl=main.kl.mean(), primary=True)  # fmt: skip
    odds = (logit(main["second"] / 100) - logit(main["first"] / 100)) / m.doublings()
    odds_published = PUBLISHED_LOG_ODDS.get(language)
    yield _row("main, log-odds", odds, LOG_ODDS, reason=reason, published=odds_published)
    cooled = [Model(name, "cooled", steps=_last_plateau(m)) for name in (m.small, m.large)]
    if all(len(m.values(model, "kl")) for model in cooled):
        ends = [m.value(model, "accuracy", EXPANDED) for model in cooled]
        kls = [m.value(model, "kl") for model in cooled]
        moved = _moved(_kl_change(*kls))
        yield _row("with label noise, cooled", ends[1] - ends[0], POINTS, reason=reason or moved)
    for lr in m.lrs:
        if lr != m.lr:
            yield gain("other rate", small._replace(lr=lr), large._replace(lr=lr), reason=reason)
    if len(m.lrs) > 1:
        falling = small._replace(lr=m.lrs[0]), large._replace(lr=m.lrs[-1])
        yield gain("rate falls as 1 / d", *falling, reason=reason)
        tuned = Model(m.small, lr=_best_lr(m, m.small)), Model(m.large, lr=_best_lr(m, m.large))
        yield gain("best rate of each", *tuned, reason=reason)
    for reading in controls(m):
        yield gain(NAMES.get(reading, reading), small, large, reading=reading)
    untrained = [m.value(Model(name, "untrained"), "accuracy", EXPANDED) for name in (m.small, m.large)]
    yield _row("untrained", untrained[1] - untrained[0], POINTS)
    for name in m.family[1:-1]:
        yield gain(f"over {m.small}", small, Model(name, lr=m.lr), model=name)
    if len(m.others) > 1:
        yield gain("LSTMs", Model(m.others[0], lr=m.lr), Model(m.others[-1], lr=m.lr))


def _gain(
    m: Measurements, name: str, small: Model, large: Model, reading: str = EXPANDED, **more: Any
) -> dict[str, Any]:
    accuracy = partial(m.values, quantity="accuracy", reading=reading)
    found = m.at_equal_kl(small, large, accuracy)
    return _row(name, found["second"] - found["first"], POINTS, kl=found.kl.mean(), **more)


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
    yield from _along_plateau(m, lambda model: m.value(model, "accuracy", EXPANDED), POINTS)


def _along_plateau(
    m: Measurements, value: Callable[[Model], pd.Series], unit: str
) -> Iterator[dict[str, Any]]:
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
            changes[name] = value(late) - value(early)
            moves[name] = _kl_change(m.value(early, "kl"), m.value(late, "kl"))
            yield _row(stage, changes[name], unit, model=name, reason=_moved(moves[name]))
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
    small, large = Model(m.small, lr=m.lr), Model(m.large, lr=m.lr)
    yield _flatter(m, "main", small, large, published=published, primary=True)
    for lr in m.lrs:
        if lr != m.lr:
            yield _flatter(m, "other rate", small._replace(lr=lr), large._replace(lr=lr))
    if len(m.lrs) > 1:
        yield _flatter(m, "rate falls as 1 / d", small._replace(lr=m.lrs[0]), large._replace(lr=m.lrs[-1]))
    forms = {"relative to squared weights": "relative", "enlarged to one width": "enlarged"}
    for name, quantity in forms.items():
        if (m.table[m.table.model == m.small].quantity == f"{quantity} trace").any():
            yield _flatter(m, name, small, large, quantity=f"{quantity} trace")
    if len(m.others) > 1:
        yield _flatter(m, "LSTMs", Model(m.others[0], lr=m.lr), Model(m.others[-1], lr=m.lr))


def _flatter(
    m: Measurements, name: str, first: Model, second: Model, quantity: str = "trace", **more: Any
) -> dict[str, Any]:
    """Return the log ratio of the traces of two models, the first over the second, at one KL."""
    found = m.at_equal_kl(first, second, lambda model: np.log(m.values(model, quantity)))
    return _row(name, found["first"] - found["second"], RATIO, kl=found.kl.mean(), **more)


def flatness_by_steps(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield what tells whether models that were trained for longer are flatter."""
    yield from _along_plateau(m, lambda model: -np.log(m.value(model, "trace")), RATIO)


def flatness_by_rate(m: Measurements, language: str) -> Iterator[dict[str, Any]]:
    """Yield the slope of log trace on log peak rate, at one size and KL."""
    if len(m.lrs) < 2:
        return
    low, high = m.lrs[-1], m.lrs[0]
    slopes = []
    for name in m.models:
        pair = Model(name, lr=high), Model(name, lr=low)
        found = m.at_equal_kl(*pair, lambda model: np.log(m.values(model, "trace")))
        slope = (found["first"] - found["second"]) / np.log(high / low)
        slopes.append(slope)
        yield _row("one size", slope, RATE_SLOPE, model=name, kl=found.kl.mean(), judged=False)
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
    if slopes:
        mean = pd.concat(slopes, axis=1).mean(axis=1)
        yield _row("main", mean, SLOPE, model="all", reason="; ".join(dict.fromkeys(reasons)) or None,
                   primary=True)  # fmt: skip


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
    m: Measurements, algorithms: Collection[str], quantity: str
) -> dict[str, tuple[pd.Series, float]]:
    """Return what other algorithms' models have less AdamW's, at one KL, and that KL: the log of a trace."""
    stages = m.table[m.table.stage.str.startswith("descent: ")].drop_duplicates(["model", "stage"])
    found = {}
    for row in stages.itertuples():
        name = row.stage.removeprefix("descent: ")
        if name.partition(",")[0] in algorithms:
            pair = Model(row.model, lr=m.lr), Model(row.model, row.stage)
            ends = m.at_equal_kl(*pair, partial(_of_checkpoints, m, quantity))
            found[name] = (ends["second"] - ends["first"], float(ends.kl.mean()))
    return found


def _of_checkpoints(m: Measurements, quantity: str, model: Model) -> pd.DataFrame:
    return (
        m.values(model, quantity, EXPANDED) if quantity == "accuracy" else np.log(m.values(model, quantity))
    )


def _adversaries(
    m: Measurements, question: str, language: str, quantity: str, unit: str, sign: int
) -> Iterator[dict[str, Any]]:
    """Yield by how much an adversary's models are worse, or sharper, than AdamW's, a row for each strength.

    The main one is the strongest that ends near AdamW's loss.
    """
    published = PUBLISHED.get((question, language))
    found = _beside_adamw(m, ["adversarial"], quantity)
    if not found:
        return
    (model,) = m.table[m.table.stage.str.startswith("descent: adversarial")].model.unique()
    own = {name: m.value(Model(model, f"descent: {name}", steps=m.steps), "kl") for name in found}
    ordinary = m.value(Model(model, lr=m.lr, steps=m.steps), "kl")
    near = [n for n, kl in own.items() if np.log(kl / ordinary).mean() <= np.log(MOST_ADVERSARIAL_KL)]
    if near:
        differences, kl = found[near[-1]]
        yield _row("main", sign * differences, unit, model=near[-1], kl=kl, published=published, primary=True)
    else:
        reason = "no adversary's models come near AdamW's loss"
        yield _row("main", pd.Series(dtype=float), unit, reason=reason, primary=True)
    for name, (differences, kl) in found.items():
        yield _row("one strength", sign * differences, unit, model=name, kl=kl)


REGULARISERS = ("sam", "trace-penalty", "dropout", "weight-decay")


def _regularisers(m: Measurements, quantity: str, unit: str, sign: int) -> Iterator[dict[str, Any]]:
    """Yield by how much regularised models are flatter, or better, than AdamW's; SAM's is the main row."""
    for name, (differences, kl) in _beside_adamw(m, REGULARISERS, quantity).items():
        main = name.startswith("sam")
        row = "main" if main else "one regulariser"
        yield _row(row, sign * differences, unit, model=name, kl=kl, primary=main)


def _variant(m: Measurements, algorithm: str, **main: Any) -> Iterator[dict[str, Any]]:
    """Yield what a variant of training changes: accuracy, judged as `main` says, and the trace."""
    for name, (differences, kl) in _beside_adamw(m, [algorithm], "accuracy").items():
        yield _row("main", differences, POINTS, model=name, kl=kl, **main)
    for name, (differences, kl) in _beside_adamw(m, [algorithm], "trace").items():
        yield _row("trace", -differences, RATIO, model=name, kl=kl, judged=False)


QUESTIONS: dict[str, Callable[[Measurements, str], Iterator[dict[str, Any]]]] = {
    "size": size,
    "steps": steps,
    "flatness by size": flatness_by_size,
    "flatness by steps": flatness_by_steps,
    "flatness by rate": flatness_by_rate,
    "flatness as a cause": flatness_as_a_cause,
    "lookup": lookup,
    "adversary": lambda m, language: _adversaries(m, "adversary", language, "accuracy", POINTS, -1),
    "flatness by adversary": lambda m, language: _adversaries(
        m, "flatness by adversary", language, "trace", RATIO, 1
    ),
    "flatness by regularisers": lambda m, _: _regularisers(m, "trace", RATIO, -1),
    "accuracy by regularisers": lambda m, _: _regularisers(m, "accuracy", POINTS, 1),
    "mask rate": lambda m, _: _variant(m, "mask-rate", margin=LITTLE_ACCURACY, primary=True),
    "post-LN": lambda m, _: _variant(m, "post-ln", judged=False),
}
"""The questions by name, in the order of the protocol."""
