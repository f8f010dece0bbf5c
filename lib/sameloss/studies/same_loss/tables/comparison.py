"""Tables that compare groups of models: protocols, algorithms, equal steps beside equal KL."""

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np
import pandas as pd

from sameloss.runs.flatness import MEASURES
from sameloss.statistics.association import partial_r2, signed_r2, slope, trajectories_of, within_size_r2
from sameloss.statistics.bootstrap import Interval, percentile_interval
from sameloss.studies.names import display_name
from sameloss.studies.recorded import record_in_words, recorded
from sameloss.studies.same_loss import effects
from sameloss.studies.same_loss.effects import (
    Compared,
    accuracy,
    arm_gain,
    arm_trace_excess,
    gain,
    net_accuracy,
)
from sameloss.studies.same_loss.groups import ADAMW, Arm
from sameloss.studies.same_loss.pages import ComparisonPage
from sameloss.studies.same_loss.recorded import strongest_record
from sameloss.studies.same_loss.results import (
    KEYS,
    WAYS,
    Results,
    enlarged_totals,
    final,
    finetuned,
    law_alone,
    saturated,
)

CHAINLESS = tuple(measure for measure in MEASURES if measure != "learning_coefficient")
"""The measures of flatness that need no chain, and so are taken of every model."""


def correlation_table(results: Results, tasks: Iterable[str]) -> pd.DataFrame:
    """Return associations of accuracy and flatness, with the numbers of checkpoints and runs behind them.

    One row a task, set of checkpoints and statistic: signed r² of the last checkpoints (Figure 5) and of
    all (Figures 3 and 10); of all, the same given log KL and within sizes; and the slope, in points for
    each factor e of the trace.
    """
    every = results.checkpoints
    wanted = [
        ("last", "signed r² (Fig. 5)", signed_r2, effects.ends_of_sizes(results)),
        ("all", "signed r² (Fig. 3, 10)", signed_r2, every[every.saturated]),
        ("all", "signed r² given log KL", partial_r2, every[every.saturated]),
        ("all", "signed r² within sizes", within_size_r2, every[every.saturated]),
        ("all", "slope (points)", slope, every[every.saturated]),
    ]
    return pd.DataFrame(
        {
            "task": task,
            "checkpoints": which,
            "saturated": len(table),
            "runs": len(table.groupby(["size", "seed"])),
            "statistic": name,
            **statistic(trajectories_of(table, task))._asdict(),
        }
        for task in tasks
        for which, name, statistic, table in wanted
    )


def correlations_in_words(correlations: pd.DataFrame, statistic: str) -> str:
    """Say one statistic of every language and task of a recorded table, with the sizes it is over."""
    found = correlations[correlations.statistic == statistic].dropna(subset=["low", "high"])
    return "; ".join(
        f"{row.language}, {display_name(row.task)}: {row.value:+z.2f} ({row.low:.2f} to {row.high:.2f}), "
        + (
            "flatter is better"
            if row.low > 0
            else "flatter is worse"
            if row.high < 0
            else "not told from zero"
        )
        for row in found.itertuples()
    )


def model_table(last: pd.DataFrame) -> pd.DataFrame:
    """Return one row a size: seeds, KL (mean, worst, standard error), share of the context, loss, entropy.

    Args:
        last: the last checkpoint of every run.

    """
    return last.groupby(["size", "parameters"], sort=False, as_index=False).agg(
        seeds=("seed", "size"),
        KL=("kl_mean", "mean"),
        worst_KL=("kl_mean", "max"),
        share=("kl_share", "mean"),
        worst_share=("kl_share", "max"),
        KL_error=("kl_standard_error", "mean"),
        loss=("loss_mean", "mean"),
        entropy=("entropy_mean", "mean"),
    )


def matched_table(results: Results, tasks: Iterable[str]) -> pd.DataFrame:
    """Return the effects of size and of steps, after all steps and at equal KL."""
    wanted = {
        ("larger over smaller size", "after all steps"): effects.size_gain,
        ("larger over smaller size", "at equal KL"): effects.size_gain_matched,
        ("last over first saturated checkpoint", "as they are"): effects.step_gain,
        ("each doubling of the steps", "at equal KL"): effects.step_gain_matched,
    }
    return pd.DataFrame(
        {"task": task, "effect": what, "compared": how, **effect(results, task)._asdict()}
        for task in tasks
        for (what, how), effect in wanted.items()
    )


def protocol_gains(probed: dict[str, Results], task: str) -> pd.DataFrame:
    """Return each size's gain over the lookup table at the last step, by protocol (see `by_protocol`)."""
    rows = []
    for name, models in probed.items():
        lookup = accuracy(models, "lookup table", task)
        for size in models.sizes:
            over = gain([(accuracy(models, size, task), lookup)])
            rows.append(
                {"protocol": name, "lookup table": 100 * lookup.value, "size": size, **over._asdict()}
            )
    return pd.DataFrame(rows)


CONTROLLED = ["task", "protocol", "gradient", "untrained", "trained", "value", "low", "high"]


def control_table(results: Results, probed: dict[str, Results], tasks: Iterable[str]) -> pd.DataFrame:
    """Return the gain of the largest over the smallest saturated size, with and without training.

    Args:
        results: of the models, for what is saturated.
        probed: the same, from `by_protocol`.
        tasks: downstream tasks.

    Returns:
        One row a protocol and task: the largest `gradient` of a probe, which is zero at its optimum; the gain
        (points) of untrained and of trained models; and `value`, the second less the first, with its
        interval. No row where fewer than two sizes end saturated.

    """
    good = effects.saturated_sizes(results)
    ends = [good[0], good[-1]] if len(good) > 1 else []
    rows = [
        {"task": task, "protocol": name, "gradient": models.gradient, **_with_control(models, task, *ends)}
        for task in tasks
        for name, models in probed.items()
        if ends
    ]
    return pd.DataFrame(rows, columns=CONTROLLED)


def _with_control(models: Results, task: str, small: str, large: str) -> dict[str, float]:
    def size_gain(found: Results) -> float:
        return 100 * (accuracy(found, large, task).value - accuracy(found, small, task).value)

    net = gain([(net_accuracy(models, large, task), net_accuracy(models, small, task))])
    return {"untrained": size_gain(models.untrained), "trained": size_gain(models), **net._asdict()}


def control_in_words(control: pd.DataFrame, protocol: str, task: str) -> str:
    """Say what a protocol finds of size in a task, with the control beside it."""
    if control.empty:
        return "not testable here, because fewer than two sizes end saturated"
    (row,) = control[(control.protocol == protocol) & (control.task == task)].itertuples()
    side = "beyond" if row.low > 0 else "below" if row.high < 0 else "not told from"
    return (
        f"{row.trained:+z.1f} points trained and {row.untrained:+z.1f} untrained; net {row.value:+z.1f} "
        f"({row.low:.1f} to {row.high:.1f}), {side} the control"
    )


def trained_and_untrained(
    probed: Mapping[str, Results] | Mapping[int, Results], tasks: Iterable[str]
) -> pd.DataFrame:
    """Return the accuracy (%) of every size before and after all training, by protocol, with intervals."""
    return pd.DataFrame(
        {
            "task": task,
            "protocol": name,
            "size": size,
            "models": models,
            **in_percent(accuracy(found, size, task))._asdict(),
        }
        for task in tasks
        for name, own in probed.items()
        for models, found in {"untrained": own.untrained, "trained": own}.items()
        for size in own.sizes
    )


def finetuned_table(results: Results, tasks: Iterable[str]) -> pd.DataFrame:
    """Return accuracies (%) of linear probes and of fine-tuning, last checkpoints."""
    tuned = finetuned(results)
    return pd.DataFrame(
        {"task": task, "size": size, "evaluation": name, **in_percent(accuracy(found, size, task))._asdict()}
        for task in tasks
        for size in results.sizes
        for name, found in {"linear probe": results, "fine-tuning": tuned}.items()
    )


def in_percent(measured: effects.Accuracy) -> Interval:
    """Return an accuracy (%) with its interval."""
    interval = percentile_interval(measured.value, measured.replicates)
    return Interval(*(min(100 * end, 100.0) for end in interval))  # widened ones may go beyond what there is


def arm_table(page: ComparisonPage, arms: Iterable[Arm], tasks: Iterable[str]) -> pd.DataFrame:
    """Return one row an algorithm: KL (nats), trace, and accuracies (%), means over seeds and sizes."""
    rows = []
    for arm in arms:
        last = final(page.of(arm))
        measured = {"KL": last.kl_mean.mean(), "worst KL": last.kl_mean.max(), "trace": last.trace.mean()}
        accuracies = {task: last[task].mean() for task in tasks}
        rows.append(
            {"algorithm": arm.label, "seeds": len(last), **measured, **accuracies}
            | {"saturated": "yes" if last.saturated.all() else "no"}
        )
    return pd.DataFrame(rows)


def arm_checkpoints(page: ComparisonPage, arms: Iterable[Arm]) -> pd.DataFrame:
    """Return the checkpoints of several algorithms under each other, named in `algorithm`."""
    tables = [page.of(arm).checkpoints.assign(algorithm=arm.label) for arm in arms]
    return pd.concat(tables, ignore_index=True)


def arm_differences(
    page: ComparisonPage,
    arms: Iterable[Arm],
    tasks: Iterable[str],
    reference: Arm = ADAMW,
    comparisons: Iterable[Compared] = (Compared.ENDS, Compared.EQUAL_KL),
) -> pd.DataFrame:
    """Return each algorithm minus the reference, compared in several ways.

    Accuracies in points, the trace as a relative excess; NaN where models are not saturated or do not have
    the KL in question.
    """
    own = page.of(reference)
    rows = []
    for arm, compared in product(arms, comparisons):
        other, about = page.of(arm), {"algorithm": arm.label, "compared": str(compared)}
        rows.append({**about, "quantity": "trace", **arm_trace_excess(other, own, compared)._asdict()})
        rows += [
            {**about, "quantity": task, **arm_gain(other, own, task, compared)._asdict()} for task in tasks
        ]
    return pd.DataFrame(rows)


def differences_or_recorded(
    page: ComparisonPage, arms: Iterable[Arm], tasks: Iterable[str]
) -> tuple[pd.DataFrame, str]:
    """Return `arm_differences`, or the recorded ones where the preset leaves all arms out.

    Returns:
        The differences from AdamW, and a sentence on whose they are.

    """
    arms = list(arms)
    if present := page.present(arms):
        return arm_differences(page, present, tasks), f"Differences of preset {page.config.name}."
    strongest = strongest_record("differences", algorithm=arms[0].label)
    table = recorded("differences", strongest)
    wanted = table.algorithm.isin([arm.label for arm in arms]) & table.quantity.isin(["trace", *tasks])
    return table[wanted], record_in_words(strongest)


def comparison_table(results: Results, traces: pd.DataFrame) -> pd.DataFrame:
    """Return the excess of the smallest size's trace over the largest's, in each way to compare them.

    `law alone` is the excess if both had the same native parts.
    """
    totals, rows = enlarged_totals(traces), []
    for name, alone in law_alone(traces, results.group).items():
        interval = effects.smallest_over_largest(results, totals[totals.way == name])
        rows.append({"comparison": WAYS[name].label, **interval._asdict(), "law alone": alone})
    return pd.DataFrame(rows).rename(columns={"value": "excess"})


def predictor_table(page: ComparisonPage, arms: Iterable[Arm], tasks: Iterable[str]) -> pd.DataFrame:
    """Return the signed r² of accuracy with minus the logarithm of KL and of each measure of flatness.

    Over the last checkpoints of several algorithms at one size, of those algorithms that end saturated
    in every seed; an algorithm stands where a size stands elsewhere, so that its seeds are resampled
    together.
    """
    results = {arm.label: page.of(arm) for arm in arms}
    good = {name: found for name, found in results.items() if saturated(found, *found.sizes)}
    if not good:
        return pd.DataFrame(columns=["task", "measure", "models", *Interval._fields])
    table = pd.concat([_last_measures(found).assign(size=name) for name, found in good.items()])
    rows = []
    for task in tasks:
        for measure in ("kl_mean", *CHAINLESS):
            # A measure stands in the trace's place: there its logarithm is taken and its sign turned.
            runs = trajectories_of(table.drop(columns="trace").assign(trace=table[measure]), task)
            rows.append({"task": task, "measure": measure, "models": len(table), **signed_r2(runs)._asdict()})
    return pd.DataFrame(rows).replace({"measure": {**MEASURES, "kl_mean": "KL", "trace": "Fisher trace"}})


def _last_measures(results: Results) -> pd.DataFrame:
    """Return the last checkpoints with a column for each measure of flatness that needs no chain."""
    found = results.frame("measures").pivot(index=KEYS, columns="part", values="mean")
    return final(results).drop(columns="trace").merge(found.reset_index(), on=KEYS)


def unsaturated(page: ComparisonPage, arms: Iterable[Arm]) -> str:
    """Say in one sentence which algorithms did not reach the same loss."""
    apart = [arm.label for arm in arms if not saturated(page.of(arm), *page.of(arm).sizes)]
    if not apart:
        return "All end saturated in every seed."
    names = "; ".join(map(display_name, apart))
    return (
        f"Not saturated in all seeds, and so not compared after all steps: {names}. "
        "Give them more steps (parameter steps) or another strength."
    )


def wide(differences: pd.DataFrame) -> pd.DataFrame:
    """Return differences with one column a quantity, each as `value (low, high)`."""
    cells = [
        "–" if np.isnan(row.low) else f"{row.value:+z.2f} ({row.low:z.2f}, {row.high:z.2f})"
        for row in differences.itertuples()
    ]
    table = differences.assign(cell=cells).pivot_table(
        index=["algorithm", "compared"], columns="quantity", values="cell", aggfunc="first", sort=False
    )
    return table.reset_index().rename_axis(columns=None)
