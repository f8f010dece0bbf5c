"""Writes the small tables of a preset that is too long to wait for to `results/`, with their origin."""

from pathlib import Path

import pandas as pd

from sameloss.store.provenance import origin_of
from sameloss.studies.recorded import write_record
from sameloss.studies.same_loss.arms import ADAMW, EVERYWHERE, NOISE, PENALTY, POST_LN, SAM, TRAINED
from sameloss.studies.same_loss.groups import readings
from sameloss.studies.same_loss.pages import WholeStudy
from sameloss.studies.same_loss.results import by_protocol
from sameloss.studies.same_loss.tables import causal
from sameloss.studies.same_loss.tables.comparison import (
    arm_differences,
    arm_table,
    control_table,
)

COMPARED = (*TRAINED, SAM, PENALTY, POST_LN)
"""All algorithms at one size and length, AdamW first."""


def record(page: WholeStudy, folder: Path) -> Path:
    """Write the tables of all comparisons, each checkpoint among them; their runs are in the store.

    Args:
        page: of the preset that is recorded.
        folder: `results/`; the tables go into a folder of the preset's name.

    Returns:
        That folder.

    """
    tables = {
        "verdicts": page.verdicts(),
        "checkpoints": all_checkpoints(page),
        "algorithms": arm_table(page, page.present([*COMPARED, *NOISE]), page.tasks),
        "differences": all_differences(page),
        "control": all_controls(page),
        "treated": causal.cooled_table(page, page.tasks),
        "bought": causal.bought_flatness(page, page.tasks),
        "doses": causal.dose_table(page, page.tasks),
    }
    origin = origin_of(page.store, page.runs()) | {"seeds": page.settings.training.seeds}
    return write_record(tables, origin, folder / page.settings.name)


def all_checkpoints(page: WholeStudy) -> pd.DataFrame:
    """Return one row a checkpoint of every arm: KL and loss (nats), trace, accuracies (%)."""
    tables = [
        page.of(arm).checkpoints.assign(
            language=arm.language, algorithm=arm.label, steps=page.of(arm).steps[-1]
        )
        for arm in page.arms
    ]
    return pd.concat(tables, ignore_index=True)


def all_controls(page: WholeStudy) -> pd.DataFrame:
    """Return the effect of size on every language, trained, untrained and net, by protocol and task."""
    tables = []
    for arm in page.present(EVERYWHERE):
        results = page.of(arm)
        probed = by_protocol(results, readings(results.group))
        tables.append(control_table(results, probed, results.group.tasks).assign(language=arm.language))
    return pd.concat(tables, ignore_index=True)


def all_differences(page: WholeStudy) -> pd.DataFrame:
    """Return each algorithm minus AdamW, and each label noise minus none, with intervals."""
    quiet, *noises = page.present(NOISE)
    over = {ADAMW: page.present(COMPARED[1:]), quiet: noises}
    tables = [
        arm_differences(page, arms, page.tasks, reference).assign(reference=reference.label)
        for reference, arms in over.items()
    ]
    return pd.concat(tables, ignore_index=True)
