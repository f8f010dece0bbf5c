"""Comparisons near the lowest loss: the questions of the protocol's second edition.

`chapters/protocol_second.md` fixes them. They read one table with a row for each cell, see `cells`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from math import isinf, log
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from sameloss.statistics.intervals import LEVEL, Interval, holm_levels, p_value, seed_interval
from sameloss.studies.verdict import NARROW, TOLERANCE, Direction, Verdict, judge

PUBLISHED = 6.9 * 3.90 / 8.0
"""Points gained by the largest model (Figure 2a), in proportion to our doublings of parameters."""

PUBLISHED_SLOPE = (50.3 - 43.2) / log(2.68 / 1.54)
"""Points for each factor e of trace between the sizes of Figure 5: an association."""

OWN, CAPACITY, TUNED = "own features", "beyond capacity", "fine-tuned"

READINGS = {
    OWN: ("features",),
    CAPACITY: ("features", "expanded to 384", "expanded"),
    TUNED: ("fine-tuned, rate 0.001", "fine-tuned, rate 0.003"),
    "as many features": ("expanded",),
    "projected": ("projected to 96",),
}
"""How accuracy is read: the best of these readings of the table, for each draw, size, length and task."""

TRACES = {"log trace": "trace", "log relative trace": "relative trace"}


def cells(table: pd.DataFrame, bag_of_words: Mapping[int, float]) -> pd.DataFrame:
    """Average the trainings of each cell.

    Args:
        table: of measurements, see `experiment.model_measurement`, with the columns of the result's index.
        bag_of_words: KL of the bag of words by draw, in nats.

    Returns:
        A row for each draw, stage, model, peak rate and number of steps, with the geometric mean of the KL
        in percent of the bag of words' (kl), accuracies in percent by `READINGS`, and mean log traces.

    """
    by = ["replicate", "stage", "model", "lr", "steps"]
    numbers = table[table.quantity.isin(["kl", *TRACES.values()])]
    logs = np.log(numbers.set_index([*by, "quantity"]).value).groupby([*by, "quantity"]).mean().unstack()
    draws = logs.index.get_level_values("replicate").map(bag_of_words)
    found = pd.DataFrame({"kl": 100 * np.exp(logs["kl"]) / draws})
    for name, quantity in TRACES.items():
        found[name] = logs[quantity]
    rows = table[table.quantity == "accuracy"]
    accuracies = rows.groupby([*by, "task", "reading"]).value.mean().unstack("reading")
    for name, readings in READINGS.items():
        if {*readings} <= {*accuracies}:
            found[name] = accuracies[[*readings]].max(axis=1).groupby(by).mean()
    return found


class Place(NamedTuple):
    """A model of one draw at a KL, between the two lengths of training that enclose it."""

    value: float
    steps: float
    bounds: tuple[float, float]  # the values at the neighbour of larger KL, and of smaller


def course(curve: pd.DataFrame, of: str) -> list[tuple[float, float, float]]:
    """Log KL, value and steps of the trainings of one model and draw, from the largest KL to the smallest.

    Where a longer training has the larger KL, the two lengths are averaged into one.
    """
    points = [
        (np.log(row["kl"]), row[of], float(steps)) for steps, row in curve.sort_index().iterrows() if steps
    ]
    decreasing: list[list[tuple[float, float, float]]] = []
    for point in points:
        decreasing.append([point])
        while len(decreasing) > 1 and _mean(decreasing[-1])[0] >= _mean(decreasing[-2])[0]:
            decreasing[-2:] = [[*decreasing[-2], *decreasing[-1]]]
    return [_mean(group) for group in decreasing]


def _mean(points: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    log_kl, value, steps = np.mean(points, axis=0).tolist()
    return log_kl, value, steps


def at_kl(curve: pd.DataFrame, kl: float, of: str) -> Place | None:
    """Interpolate the cells of one model and draw, linearly in log KL; None if they do not enclose the KL.

    Args:
        curve: the cells by steps, one length a row.
        kl: in percent of the bag of words'.
        of: name of the interpolated column.

    >>> curve = pd.DataFrame({"kl": [8.0, 2.0], "own": [60.0, 70.0]}, index=[100, 200])
    >>> at_kl(curve, 4.0, "own").value
    65.0

    """
    for before, after in pairwise(course(curve, of)):
        if before[0] >= log(kl) >= after[0]:
            share = (before[0] - log(kl)) / (before[0] - after[0])
            value, steps = ((1 - share) * before[i] + share * after[i] for i in (1, 2))
            return Place(value, steps, (before[1], after[1]))
    return None


class Arm(NamedTuple):
    """One side of a comparison: how its models were trained."""

    model: str
    lr: float = 0.005
    stage: str = "descent"


SMALL, LARGE = Arm("d24"), Arm("d96")

PAIRS = tuple(product((SMALL, Arm("d24", 0.01)), (LARGE, Arm("d96", 0.0025))))
"""Both sizes at every pair of peak rates that some draws have; the first is that of all draws."""


def curve_of(cells: pd.DataFrame, draw: int, arm: Arm, of: str) -> pd.DataFrame:
    """The trained cells of an arm on a draw, by steps; empty if there are none."""
    at = cells.index.get_level_values
    of_arm = (at("replicate") == draw) & (at("stage") == arm.stage) & (at("model") == arm.model)
    found = cells[of_arm & np.isclose(at("lr"), arm.lr)]
    return found.droplevel(["replicate", "stage", "model", "lr"]).dropna(subset=[of])


def values_at(cells: pd.DataFrame, arm: Arm, of: str, kl: float = 3.0) -> pd.Series:
    """What an arm has at a KL, by draw; draws whose trainings do not enclose it are left out."""
    draws = cells.index.unique("replicate")
    places = {draw: at_kl(curve_of(cells, draw, arm, of), kl, of) for draw in draws}
    return pd.Series({draw: place.value for draw, place in places.items() if place}, dtype=float)


def leads(cells: pd.DataFrame, first: Arm, second: Arm, of: str, kl: float = 3.0) -> pd.DataFrame:
    """The second arm's value less the first's, both at one KL.

    Where one of them does not come down to that KL, both are compared at its end.

    Returns:
        A row for each draw in which both pass that KL: lead, least (without interpolation, at its least), kl,
        first steps and second steps.

    """
    rows = {}
    for draw in cells.index.unique("replicate"):
        curves = [curve_of(cells, draw, arm, of) for arm in (first, second)]
        if not all(courses := [course(curve, of) for curve in curves]):
            continue
        target = max(kl, *(float(np.exp(points[-1][0])) * (1 + 1e-9) for points in courses))
        one, two = (at_kl(curve, target, of) for curve in curves)
        if one and two:
            least = two.bounds[0] - max(one.bounds)
            rows[draw] = (two.value - one.value, least, target, one.steps, two.steps)
    columns = ["lead", "least", "kl", "first steps", "second steps"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns, dtype=float)


def by_rate(cells: pd.DataFrame, of: str, kl: float = 3.0) -> dict[tuple[Arm, Arm], pd.DataFrame]:
    """Leads, see `leads`, at each pair of peak rates, on the draws that have all of them."""
    found = {pair: leads(cells, *pair, of, kl) for pair in PAIRS}
    draws = sorted(set.intersection(*({*rows.index} for rows in found.values())))
    return {pair: rows.loc[draws] for pair, rows in found.items()}


def untrained_leads(cells: pd.DataFrame, first: Arm, second: Arm, of: str) -> pd.Series:
    """What the second arm's model leads by before any training, by draw."""
    found = cells.xs("untrained", level="stage")[of].groupby(["replicate", "model"]).mean().unstack()
    return found[second.model] - found[first.model]


# Verdicts.


class Answer(NamedTuple):
    """The answer to a question: an effect, its verdict, and how sure it is."""

    question: str
    effect: Interval  # plain
    decides: Interval  # after Holm's correction
    verdict: Verdict
    remarks: tuple[str, ...] = ()


def answer(question: str, differences: np.ndarray, level: float = LEVEL) -> Answer:
    """Judge a lead: its direction at a level, its size by the plain intervals of 95 and 90 %."""
    effect, decides, narrow = (seed_interval(differences, own) for own in (LEVEL, level, NARROW))
    margin = TOLERANCE * PUBLISHED
    verdict = judge(decides, PUBLISHED, sized=effect, narrow=narrow, margin=margin)
    return Answer(question, effect, decides, verdict)


def downstream(cells: pd.DataFrame, first: Arm = SMALL, second: Arm = LARGE, kl: float = 3.0) -> list[Answer]:
    """Judge whether the second arm leads: own features first, then beyond capacity and fine-tuned (Holm)."""
    found = {of: leads(cells, first, second, of, kl) for of in (OWN, CAPACITY, TUNED)}
    later = holm_levels([p_value(found[of].lead.to_numpy()) for of in (CAPACITY, TUNED)])
    answers: list[Answer] = []
    for (of, rows), level in zip(found.items(), [LEVEL, *later], strict=True):
        given, remarks = answer(of, rows.lead.to_numpy(), level), []
        if answers and answers[0].verdict.direction not in (Direction.SUPPORTED, Direction.AGAINST):
            given = given._replace(verdict=given.verdict._replace(direction=Direction.NOT_REACHED))
        if given.verdict.direction is Direction.SUPPORTED:
            beyond = (rows.lead - untrained_leads(cells, first, second, of)).dropna()
            remarks = [] if seed_interval(rows.least, level).low > 0 else ["by interpolation"]
            wider = seed_interval(beyond).low > 0
            remarks.append("beyond untrained width" if wider else "not distinguished from width alone")
            if of == OWN:
                main, *others = (pair.lead.mean() for pair in by_rate(cells, of, kl).values())
                remarks += ["depends on the rate"] if min(others) < main / 2 else []
        answers.append(given._replace(remarks=tuple(remarks)))
    return answers


# Does flatness carry the effect?


def ratio_interval(numerator: np.ndarray, denominator: np.ndarray, level: float) -> tuple[float, float]:
    """Invert Student's test of numerator − s × denominator, paired over draws (Fieller's interval).

    Returns:
        Both ends; infinite where the denominator is not shown to differ from zero.

    >>> low, high = ratio_interval(np.array([1.0, 2.0, 3.1]), np.array([1.0, 2.0, 3.0]), 0.95)
    >>> low < 1.0 < high
    True

    """
    count = len(numerator)
    quantile = float(stats.t.ppf((1 + level) / 2, count - 1)) ** 2 / count
    covariance = np.cov(numerator, denominator)
    a = denominator.mean() ** 2 - quantile * covariance[1, 1]
    b = numerator.mean() * denominator.mean() - quantile * covariance[0, 1]
    c = numerator.mean() ** 2 - quantile * covariance[0, 0]
    if a <= 0:
        return -np.inf, np.inf
    root = float(np.sqrt(max(0.0, b**2 - a * c)))
    return float((b - root) / a), float((b + root) / a)


class Line(NamedTuple):
    """What an intervention within one size says about flatness."""

    gained: Interval  # points, at one KL
    flatter: Interval  # factors e of the trace
    slope: tuple[float, float, float]  # points for each factor e: the value and its interval
    share: tuple[float, float, float]  # of the effect of size that flatness carries at this slope
    leverage: bool


LEVERAGE = 0.3
"""An intervention has leverage if the interval of its change of the log trace lies beyond this."""


def line(cells: pd.DataFrame, arm: Arm, lines: int, trace: str = "log trace", kl: float = 3.0) -> Line:
    """Compare an intervention with AdamW at one size and KL; see the protocol for the share carried.

    Args:
        cells: of the intervention, of AdamW at its size, and of both sizes of the confirmation.
        arm: the intervention.
        lines: their number, for which the slope's interval is corrected.
        trace: native or relative.
        kl: where models are compared.

    """
    base = Arm(arm.model)
    gained, flatter = (leads(cells, base, arm, of, kl).lead for of in (OWN, trace))
    draws = gained.index.intersection(flatter.index)
    x, y = -flatter[draws].to_numpy(), gained[draws].to_numpy()
    slope = (float(y.mean() / x.mean()), *ratio_interval(y, x, 1 - (1 - LEVEL) / lines))
    sizes = pd.concat({of: leads(cells, SMALL, LARGE, of, kl).lead for of in (OWN, trace)}, axis=1).dropna()
    effect, ratios = sizes[OWN].to_numpy(), -sizes[trace].to_numpy()
    wide = (
        ratio_interval(y, x, 1 - (1 - LEVEL) / 2 / lines),
        ratio_interval(ratios, effect, 1 - (1 - LEVEL) / 2),
    )
    known = not any(map(isinf, (*wide[0], *wide[1])))
    products = [s * r for s in wide[0] for r in wide[1]] if known else [-np.inf, np.inf]
    share = (slope[0] * float(ratios.mean() / effect.mean()), min(products), max(products))
    change = seed_interval(x)
    return Line(seed_interval(y), change, slope, share, change.low > LEVERAGE or change.high < -LEVERAGE)


def carried(lines: Mapping[str, Line], relative: Mapping[str, Line], lost: Interval) -> Direction:
    """Answer whether flatness carries the effect of size.

    Args:
        lines: the interventions by name, with the native trace.
        relative: the same with the relative trace.
        lost: points that the positive control loses; unless they are above zero, a no is open.

    """
    able = {name: found for name, found in lines.items() if found.leverage}
    if able and all(found.share[1] > 0.5 for found in able.values()):
        return Direction.SUPPORTED
    for name, found in able.items():
        little = found.share[2] < 0.5 and found.slope[2] < PUBLISHED_SLOPE / 2
        if little and not relative[name].share[1] > 0.5:
            return Direction.AGAINST if lost.low > 0 else Direction.OPEN
    return Direction.OPEN
