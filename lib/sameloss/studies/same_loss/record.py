"""Recorded runs: the small tables of presets too long to wait for, kept in `results/` with their origin."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.store.location import book_root
from sameloss.store.provenance import origin_of
from sameloss.store.store import write_atomically
from sameloss.studies.same_loss.arms import ADAMW, ARMS, NOISE, PENALTY, POST_LN, SAM, TRAINED, Study
from sameloss.studies.same_loss.claims import verdict_table
from sameloss.studies.same_loss.groups import Setting
from sameloss.studies.same_loss.tables.comparison import arm_differences, arm_table

ORIGIN = "record.json"
"""The file that makes a folder a record; written last."""


def record(setting: Setting, folder: Path) -> Path:
    """Compute the comparisons of all chapters and write their tables, each checkpoint among them.

    Args:
        setting: of the preset that is recorded.
        folder: `results/`; the tables go into a folder of the preset's name.

    Returns:
        That folder.

    """
    study = Study(setting, ARMS["verdicts"])
    study.prepare()
    tables = {
        "verdicts": verdict_table(study),
        "checkpoints": all_checkpoints(study),
        "algorithms": algorithm_table(study),
        "differences": difference_table(study),
    }
    target = folder / setting.preset.name
    target.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(target / f"{name}.csv", index=False, float_format="%.6g")
    origin = origin_of(setting.store, study.runs()) | {"seeds": setting.preset.seeds}
    write_atomically(target / ORIGIN, (json.dumps(origin, indent=1) + "\n").encode())
    return target


def all_checkpoints(study: Study) -> pd.DataFrame:
    """Return one row a checkpoint of every arm: KL and loss (nats), trace, accuracies (%)."""
    tables = [
        study.of(arm).checkpoints.assign(
            language=arm.language, algorithm=arm.label, steps=study.of(arm).steps[-1]
        )
        for arm in study.arms
    ]
    return pd.concat(tables, ignore_index=True)


def algorithm_table(study: Study) -> pd.DataFrame:
    """Return each algorithm's KL, trace and accuracies at the size of the studies."""
    return arm_table(study, study.present([*COMPARED, *NOISE]), study.setting.tasks)


def difference_table(study: Study) -> pd.DataFrame:
    """Return each algorithm minus AdamW, and each label noise minus none, with intervals."""
    quiet, *noises = study.present(NOISE)
    over = {ADAMW: study.present(COMPARED[1:]), quiet: noises}
    tables = [
        arm_differences(study, arms, study.setting.tasks, reference).assign(reference=reference.label)
        for reference, arms in over.items()
    ]
    return pd.concat(tables, ignore_index=True)


COMPARED = [*TRAINED, SAM, PENALTY, POST_LN]
"""All algorithms at one size and length, AdamW first."""


def records() -> dict[str, dict[str, Any]]:
    """Return the origin of every record, by preset."""
    found = sorted((book_root() / "results").glob(f"*/{ORIGIN}"))
    return {path.parent.name: json.loads(path.read_text()) for path in found}


def recorded(table: str, preset: str = "laptop-long") -> pd.DataFrame:
    """Return a recorded table: verdicts, checkpoints, algorithms or differences."""
    return pd.read_csv(book_root() / "results" / preset / f"{table}.csv")


def said(preset: str) -> str:
    """Say in one line where a record comes from."""
    origin = records()[preset]
    days = " to ".join(dict.fromkeys(origin["days"]))
    return (
        f"Recorded: preset {preset}, {origin['seeds']} pre-training seeds, {origin['runs']} runs, "
        f"{origin['core_hours']:g} core-hours on {', '.join(origin['device'])}, torch "
        f"{', '.join(origin['torch'])}, {days}, source revision {', '.join(origin['revision'])}."
    )


def across_presets(verdicts: pd.DataFrame, preset: str) -> pd.DataFrame:
    """Return the verdicts of a page beside those of every record.

    Args:
        verdicts: from `verdict_table`.
        preset: the page's.

    """
    table = verdicts[["id", "claim"]].assign(**{f"{preset} (this page)": _in_short(verdicts)})
    for name in records():
        other = recorded("verdicts", name).set_index("id").reindex(verdicts.id).reset_index()
        table[f"{name} (recorded)"] = _in_short(other)
    return table


def _in_short(verdicts: pd.DataFrame) -> list[str]:
    """Return verdict, effect and interval as one text a row."""
    return [
        str(row.verdict)
        if pd.isna(row.low)
        else f"{row.verdict}: {row.ours:+.2f} ({row.low:.2f}, {row.high:.2f})"
        for row in verdicts.itertuples()
    ]
