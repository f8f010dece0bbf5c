"""Made-up results whose answer is known."""

from dataclasses import replace

import numpy as np
import pandas as pd

from sameloss.studies.same_loss.results import Results

ACCURACY = {"1K": 0.6, "3K": 0.8}

SATURATED = 0.008
"""The KL (nats) up to which a checkpoint is saturated: from the third on. It is the preset's share of the
context information, which is made up to fit."""


def made_up(group, store):
    """Return results of a group of the smoke preset, as if its runs had been computed.

    The larger size is 20 points better at its end; each gains 10 points along its checkpoints, whose KL
    falls as 1/1, 1/2, 1/3, ..., and whose trace falls likewise, the larger size's being half as large.
    Untrained models of both sizes are right in the same half of the sentences.
    """
    rng = np.random.default_rng(5)

    def probe(accuracies):
        return np.stack([rng.random((3, 400, len(group.tasks))) < accuracy for accuracy in accuracies])

    trained = {
        (size, seed): probe(np.linspace(ACCURACY[size] - 0.1, ACCURACY[size], len(group.steps)))
        for size in group.sizes
        for seed in range(group.seeds)
    }
    baselines = {"lookup table": probe([0.5]), "one-hot tokens": probe([0.4])}
    majority = dict.fromkeys(group.tasks, 0.3)
    alike = [probe([0.5]) for _ in range(group.seeds)]
    untrained = {(size, seed): right for size in group.sizes for seed, right in enumerate(alike)}
    drawn = Results(group, store, untrained, baselines, majority)
    return changed(replace(drawn, probes=trained, drawn=drawn), table(group))


def table(group):
    """Return its checkpoints; the first task's accuracies vary, the others' do not."""
    first, *others = group.tasks
    context = SATURATED / group.settings.evaluation.saturated_share
    rows = [
        {
            "size": size,
            "seed": seed,
            "step": step,
            "kl_mean": 0.02 / (1 + at),
            "kl_standard_error": 0.0001,
            "kl_share": 0.02 / (1 + at) / context,
            "context_mean": context,
            "trace": 100 / (1 + at) / (1 + (size == "3K")) + seed,
            "trace_se": 0.1,
            first: 100 * ACCURACY[size] + at + seed,
            **dict.fromkeys(others, 50.0),
            "parameters": {"1K": 1, "3K": 2}[size],
            "saturated": group.cooled or 0.02 / (1 + at) <= SATURATED,
        }
        for size in group.sizes
        for seed in range(group.seeds)
        for at, step in enumerate(group.steps)
    ]
    return pd.DataFrame(rows)


def changed(results, checkpoints, **changes):
    """Return results with another table of checkpoints, and other fields."""
    other = replace(results, **changes)
    other = replace(other, drawn=replace(other.drawn, group=other.group))
    other.__dict__["checkpoints"] = checkpoints
    return other


def fill(page):
    """Give a page made-up results of all that it compares."""
    for arm in page.arms:
        page._found[arm] = made_up(arm.group(page.config), page.store)
    return page
