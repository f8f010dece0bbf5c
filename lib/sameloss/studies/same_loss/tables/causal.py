"""The causal experiment: what flatness, bought in different ways, does to accuracy at equal KL."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.runs.flatness import MEASURES
from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.studies.names import display_name
from sameloss.studies.same_loss import effects
from sameloss.studies.same_loss.effects import Compared, arm_gain, arm_trace_excess, kl_difference
from sameloss.studies.same_loss.groups import ADAMW, ADVERSARIAL, ALL_SIZES, COOLED, NOISY, UNTREATED
from sameloss.studies.same_loss.pages import ComparisonPage
from sameloss.studies.same_loss.results import Results, by_labels, final
from sameloss.studies.same_loss.tables.comparison import CHAINLESS
from sameloss.studies.same_loss.tables.labels import FEW_SHOT

FEW = f"{FEW_SHOT[0]} to {FEW_SHOT[-1]}"
SIZE, ADVERSARY = "largest size over smallest", "adversary over AdamW"


def cooled_table(page: ComparisonPage, tasks: Iterable[str]) -> pd.DataFrame:
    """Return the models after their treatment and cool-down, means over seeds.

    Returns:
        One row a treatment: the `steps` of its cool-down, KL (nats) and its share of the context, how far the
        KL is from that of the untreated models in standard errors, trace, and accuracies (%).

    """
    untreated, *_ = arms = page.present(COOLED)
    return pd.DataFrame(_cooled_row(page.of(arm), page.of(untreated), arm.label, tasks) for arm in arms)


def _cooled_row(own: Results, untreated: Results, name: str, tasks: Iterable[str]) -> dict[str, object]:
    last, (size,) = final(own), own.sizes
    difference, error = kl_difference(own, untreated, size)
    steps = [len(own.store.get(run).history) for run in own.group.pretrainings().values()]
    return {
        "treatment": name,
        "steps": round(sum(steps) / len(steps)),
        "KL": last.kl_mean.mean(),
        "share": last.kl_share.mean(),
        "apart (s.e.)": difference / error if error else 0.0,
        "trace": last.trace.mean(),
        **{task: last[task].mean() for task in tasks},
    }


def bought_flatness(page: ComparisonPage, tasks: Iterable[str]) -> pd.DataFrame:
    """Return what each way to change flatness does to trace and accuracy, at equal KL.

    Treatments of one saturated point against none, the adversary that is judged against AdamW, and the
    largest size against the smallest, net of untrained models.

    Returns:
        One row a way and task: `way`, `task`; `trace`, its relative excess, with `trace_low`, `trace_high`;
        `value` (points), `low` and `high` of the accuracy. NaN where KLs are not equal.

    """
    tasks, rows = list(tasks), []
    for way, trace, accuracy in _ways(page):
        flatter = trace()._asdict()
        about = {
            "way": way,
            "trace": flatter["value"],
            "trace_low": flatter["low"],
            "trace_high": flatter["high"],
        }
        rows += [{**about, "task": task, **accuracy(task=task)._asdict()} for task in tasks]
    return pd.DataFrame(rows)


Way = tuple[str, Callable[[], Interval], Callable[..., Interval]]
"""Its name, and what gives its effect on the trace and, for a task, on accuracy."""


def _ways(page: ComparisonPage) -> Iterator[Way]:
    untreated, *treated = page.present(COOLED)
    for arm in treated:
        yield _way(arm.label, page.of(arm), page.of(untreated), Compared.COOLED)
    attacked = effects.strongest_saturated(page.of(arm) for arm in page.present(ADVERSARIAL))
    if attacked is not None:
        yield _way(ADVERSARY, attacked, page.of(ADAMW), Compared.EQUAL_KL)
    sizes = page.of(ALL_SIZES)
    yield SIZE, partial(effects.trace_of_larger_matched, sizes), partial(effects.size_gain_matched, sizes)


def _way(name: str, first: Results, second: Results, compared: Compared) -> Way:
    excess = partial(arm_trace_excess, first, second, compared)
    return name, excess, partial(arm_gain, first, second, compared=compared)


def dose_table(page: ComparisonPage, tasks: Iterable[str]) -> pd.DataFrame:
    """Return, for each task, the points gained where a treatment makes the trace fall by a factor e."""
    treated = [page.of(arm) for arm in page.present(COOLED)]
    return pd.DataFrame({"task": task, **effects.dose_response(treated, task)._asdict()} for task in tasks)


def refused(page: ComparisonPage) -> str:
    """Say in one sentence which treatments did not come to the untreated models' KL."""
    treated = {arm.label: page.of(arm) for arm in page.present(COOLED)}
    equal = effects.equally_cooled(treated.values())
    apart = [name for name, results in treated.items() if not any(results is other for other in equal)]
    if not apart:
        return "All came to the KL of the untreated models."
    return f"Not compared, because their KL is not shown to be equal: {'; '.join(apart)}."


def invariant_measures(page: ComparisonPage) -> pd.DataFrame:
    """Return measures of flatness of the treated models over those of the untreated ones.

    Returns:
        One row a treatment, one column a measure: the geometric mean over seeds of the ratio.

    """
    logs = {arm.label: _log_measures(page.of(arm)) for arm in page.present(COOLED)}
    untreated = next(iter(logs.values()))
    ratios = {name: np.exp((own - untreated).mean()) for name, own in logs.items()}
    return pd.DataFrame(ratios).T.rename(columns=MEASURES).rename_axis("treatment").reset_index()


def _log_measures(results: Results) -> pd.DataFrame:
    """Return the logarithms of the measures that need no chain, one row a seed."""
    return np.log(
        results.frame("measures").pivot(index="seed", columns="part", values="mean")[list(CHAINLESS)]
    )


def errors_by_labels(page: ComparisonPage, tasks: Iterable[str]) -> pd.DataFrame:
    """Return what label noise does to the probe's error at equal KL, by the number of labelled sentences.

    Returns:
        One row a task and number of `labels`, and one for all few numbers together (`FEW`): `factor`, the
        error of models that were trained with label noise over that of untreated ones, with `low` and `high`.
        No row where the two KLs are not equal.

    """
    untreated, noisy = page.of(UNTREATED), page.of(NOISY)
    if len(effects.equally_cooled([untreated, noisy])) < 2:
        return pd.DataFrame(columns=["task", "labels", "factor", "low", "high"])
    own, other = by_labels(noisy), by_labels(untreated)
    counts = {str(count): [count] for count in own} | {FEW: [count for count in own if count in FEW_SHOT]}
    return pd.DataFrame(
        {
            "task": task,
            "labels": name,
            **error_factor([(own[count], other[count]) for count in some], task)._asdict(),
        }
        for task in tasks
        for name, some in counts.items()
    ).rename(columns={"value": "factor"})


def error_factor(pairs: Iterable[tuple[Results, Results]], task: str) -> Interval:
    """Return by what the error of last models is a multiple of others', the geometric mean over (own, other).

    Its interval is over pre-training seeds, which are paired. It is undefined where a model makes no error.
    """
    errors = np.array([[_errors(results, task) for results in pair] for pair in pairs])
    if errors.min() <= 0:
        return UNDEFINED
    found = seed_interval(np.log(errors[:, 0] / errors[:, 1]).mean(0))
    return Interval(*(float(np.exp(end)) for end in found))


def _errors(results: Results, task: str) -> Float[np.ndarray, " seed"]:
    """Return the share of sentences that are read wrongly, of the last model of each seed."""
    (size,) = results.sizes
    return 1 - results.correct(size, task).mean((1, 2))


def few_labels_in_words(errors: pd.DataFrame) -> str:
    """Say what label noise does to the error from few labels, task by task."""
    few = errors[errors.labels == FEW].dropna()
    if few.empty:
        return "not testable here: the two did not come to one KL, a model makes no error, or seeds are few"
    return "; ".join(
        f"{display_name(row.task)} × {row.factor:.2f} ({row.low:.2f} to {row.high:.2f}), "
        + ("fewer errors" if row.high < 1 else "more errors" if row.low > 1 else "not told from one")
        for row in few.itertuples()
    )


def in_words(slopes: pd.DataFrame, bought: pd.DataFrame) -> str:
    """Say in one sentence what flatness does to accuracy where one model was treated, at equal KL.

    Args:
        slopes: from `dose_table`.
        bought: from `bought_flatness`.

    """
    slopes, moved = slopes.dropna(), bought[~bought.way.isin([SIZE, ADVERSARY])].trace.dropna()
    if slopes.empty or moved.empty:
        return "Not testable here: too few treatments, or seeds, came to one KL."
    numbers = "; ".join(
        f"{display_name(row.task)} {row.value:+z.2f} ({row.low:.2f} to {row.high:.2f}), {_side(row)}"
        for row in slopes.itertuples()
    )
    return (
        f"At equal KL, with the trace of one model moved by {100 * moved.min():+.0f} % to "
        f"{100 * moved.max():+.0f} %, accuracy gains for each factor e by which the trace falls, in points: "
        f"{numbers}."
    )


def _side(slope: Any) -> str:
    if slope.low > 0:
        return "flatter is better"
    return "flatter is worse" if slope.high < 0 else "no effect is told from zero"
