"""Tables by the number of labels: accuracy, and the length of a code for the labels."""

from collections.abc import Iterable, Mapping
from math import log2

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.bootstrap import Interval, Resamples, percentile_interval
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.effects import accuracy, gain, net_accuracy, saturated_sizes
from sameloss.studies.same_loss.results import NO_SIZE, Bits, Results
from sameloss.studies.same_loss.tables.comparison import in_percent, trained_and_untrained

FEW_SHOT = range(16, 257)
"""Numbers of labels to set beside those of Section 5."""


def accuracy_by_labels(read: Mapping[int, Results], tasks: Iterable[str]) -> pd.DataFrame:
    """Return the accuracy (%) of every representation by the number of labelled sentences.

    Args:
        read: from `by_labels`.
        tasks: downstream tasks.

    Returns:
        task, sentences, size, models (`untrained`, `trained`, or the name of a baseline), value, low, high.

    """
    tasks = tuple(tasks)
    trained = trained_and_untrained(read, tasks).rename(columns={"protocol": "sentences"})
    baselines = pd.DataFrame(
        {
            "task": task,
            "sentences": count,
            "size": NO_SIZE,
            "models": name,
            **in_percent(accuracy(found, name, task))._asdict(),
        }
        for task in tasks
        for count, found in read.items()
        for name in found.baselines
    )
    return pd.concat([trained, baselines], ignore_index=True)


def code_table(results: Results, bits: Bits, tasks: Iterable[str]) -> pd.DataFrame:
    """Return the bits for the labels of all sentences, and the share of the uniform code's that they are (%).

    Intervals count pre-training seeds, and the sentences by their probe seeds.
    """
    downstream, classes = results.group.settings.evaluation.downstream, results.group.labelled.classes
    rows = []
    for task in tasks:
        at = results.group.tasks.index(task)
        uniform = downstream.train * log2(classes[at])
        for (size, models), found in bits.items():
            interval = _interval(results, found[..., at], pretrained=size != NO_SIZE)
            about = {"task": task, "size": size, "models": models, "bits": interval.value}
            ends = {"low": interval.low, "high": interval.high, "uniform": uniform}
            rows.append({**about, **ends, "share": 100 * interval.value / uniform})
    return pd.DataFrame(rows)


def _interval(
    results: Results, values: Float[np.ndarray, "model seed"], *, pretrained: bool = True
) -> Interval:
    """Return the mean of values that no test sentence has a part in."""
    downstream = results.group.settings.evaluation.downstream
    resamples = Resamples(results.group.seeds, downstream.probe_seeds, examples=1)
    replicates = resamples.accuracy(values[..., None], pretrained=pretrained)
    return percentile_interval(float(values.mean()), replicates)


CONTROLLED = ["task", "measure", "untrained", "trained", "value", "low", "high"]

FEW_LABELS_GAIN = f"{FEW_SHOT[0]} to {FEW_SHOT[-1]} labels, points"
BITS_SHORTER = "code, bits shorter"


def label_control(
    results: Results, read: Mapping[int, Results], bits: Bits, tasks: Iterable[str]
) -> pd.DataFrame:
    """Return what the largest saturated size has over the smallest, with and without training.

    Returns:
        Three rows a task: the gain in accuracy (points) with few labels, the mean of their numbers, and with
        all; and the bits by which its code is shorter. `value` is the gain of trained models less that of
        untrained ones. No row where fewer than two sizes end saturated.

    """
    good = saturated_sizes(results)
    if len(good) < 2:
        return pd.DataFrame(columns=CONTROLLED)
    small, large = good[0], good[-1]
    every = max(read)
    few = [found for count, found in read.items() if count in FEW_SHOT and count < every]
    rows = []
    for task in tasks:
        for name, found in {FEW_LABELS_GAIN: few, f"{every} labels, points": [read[every]]}.items():
            rows.append({"task": task, "measure": name, **_gains(found, task, small, large)})
        shorter = _shorter(results, bits, task, small, large)
        rows.append({"task": task, "measure": BITS_SHORTER, **shorter})
    return pd.DataFrame(rows, columns=CONTROLLED)


def _gains(read: Iterable[Results], task: str, small: str, large: str) -> dict[str, float]:
    """Return the mean gain in points over numbers of labels."""

    def size_gain(models: Iterable[Results]) -> float:
        return gain([(accuracy(own, large, task), accuracy(own, small, task)) for own in models]).value

    read = list(read)
    net = gain([(net_accuracy(own, large, task), net_accuracy(own, small, task)) for own in read])
    return {
        "untrained": size_gain(models.untrained for models in read),
        "trained": size_gain(read),
        **net._asdict(),
    }


def _shorter(results: Results, bits: Bits, task: str, small: str, large: str) -> dict[str, float]:
    """Return the bits by which the code of the larger size is shorter."""
    at = results.group.tasks.index(task)
    saved = {
        models: bits[small, models][..., at] - bits[large, models][..., at]
        for models in ("untrained", "trained")
    }
    net = _interval(results, saved["trained"] - saved["untrained"])
    return {**{models: float(own.mean()) for models, own in saved.items()}, **net._asdict()}


def codes_in_words(control: pd.DataFrame) -> str:
    """Say for each task of `label_control` whether the larger size's code is shorter, beyond the control."""
    if control.empty:
        return "not testable here, because fewer than two sizes end saturated"
    return "; ".join(
        f"{display_name(row.task)} {row.value:+z,.0f} ({row.low:,.0f} to {row.high:,.0f}), "
        + ("shorter" if row.low > 0 else "longer" if row.high < 0 else "not told apart")
        for row in control[control.measure == BITS_SHORTER].itertuples()
    )
