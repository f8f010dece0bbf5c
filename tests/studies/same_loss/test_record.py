"""What is recorded of a preset can be read again, with its origin."""

import numpy as np
import pandas as pd
import pytest
from made_up import fill

from sameloss.statistics.bootstrap import Interval
from sameloss.studies import recorded
from sameloss.studies.same_loss import record as module
from sameloss.studies.same_loss.arms import EVERYTHING
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.same_loss.pages import WholeStudy
from sameloss.studies.same_loss.record import (
    COMPARED,
    all_checkpoints,
    all_controls,
    all_differences,
    record,
)
from sameloss.studies.same_loss.results import final
from sameloss.studies.same_loss.tables import causal
from sameloss.studies.verdict import judge

WITH_RUNS = [claim for claim in CLAIMS if claim.id == "fig5-enlarged"]
"""Claims whose effects read a measurement that made-up results do not have."""


@pytest.fixture
def whole(opened, monkeypatch):
    monkeypatch.setattr(WholeStudy, "claims", lambda page: [c for c in CLAIMS if c not in WITH_RUNS])
    monkeypatch.setattr(module, "by_protocol", lambda results, names: dict.fromkeys(names, results))
    some = opened("02_existence")
    return fill(WholeStudy("verdicts", some.settings, some.store))


def test_the_effect_of_size_is_there_of_every_language_and_reading(whole):
    """Each with its own tasks, trained, untrained and net."""
    table = all_controls(whole).set_index(["language", "task", "protocol"])
    readings = ("solved", "solved, 16 dimensions", "AdamW")
    tasks = {"PCFG": ("root", "span2"), "HMM": ("state2", "state3"), "OPT": ("topic",)}
    assert list(table.index) == [
        (language, task, name) for language, own in tasks.items() for task in own for name in readings
    ]
    np.testing.assert_allclose(table.value, table.trained - table.untrained, atol=1e-9)
    assert (table.untrained == 0).all()  # as it was made up
    assert table.trained.tolist() == pytest.approx(len(table) * [20], abs=3)


def test_every_checkpoint_of_every_group_is_there(whole):
    table = all_checkpoints(whole)
    assert len(table) == sum(len(whole.of(arm).checkpoints) for arm in whole.arms)
    assert len(whole.arms) == len({arm.of(whole.settings.shown) for arm in EVERYTHING})
    noisy = table[table.algorithm == "sgd-noise, s = 1"]
    assert set(noisy.steps) == {320}  # twice as long as the others
    assert set(table[table.language == "HMM"].steps) == {160}


def test_algorithms_are_compared_with_adamw_and_noises_with_none(whole):
    table = all_differences(whole)
    assert set(table.reference) == {"adamw", "sgd-noise, s = 0"}
    assert set(table[table.reference == "adamw"].algorithm) == {arm.label for arm in COMPARED[1:]}
    assert set(table[table.reference != "adamw"].algorithm) == {"sgd-noise, s = 0.5", "sgd-noise, s = 1"}
    assert COMPARED[0].label == "adamw"


def test_what_was_recorded_is_read_again(whole, tmp_path, monkeypatch):
    origin = {"days": ["2026-01-01"], "runs": 1, "core_hours": 0.5}
    origin |= {name: ["x"] for name in ("device", "torch", "revision")}
    monkeypatch.setattr(module, "origin_of", lambda store, runs: origin)
    lengths = pd.DataFrame({"treatment": ["none"], "steps": [20.0]})
    monkeypatch.setattr(causal, "cooled_table", lambda page, tasks: lengths)  # which made-up runs have not
    monkeypatch.setattr(recorded, "book_root", lambda: tmp_path)
    assert record(whole, tmp_path / "results") == tmp_path / "results" / "smoke"
    assert recorded.records() == {"smoke": {**origin, "seeds": 3}}
    verdicts = recorded.recorded("verdicts", "smoke").set_index("id")
    assert set(verdicts.index) == {claim.id for claim in whole.claims()}
    by_id = {claim.id: claim for claim in CLAIMS}
    for row in verdicts.itertuples():
        assert row.verdict == judge(Interval(row.ours, row.low, row.high), by_id[row.Index])
    algorithms = recorded.recorded("algorithms", "smoke").set_index("algorithm")
    adamw = final(whole.of(COMPARED[0]))
    assert algorithms.root["adamw"] == pytest.approx(adamw.root.mean(), rel=1e-5)
    assert len(recorded.recorded("checkpoints", "smoke")) == len(all_checkpoints(whole))
    assert set(recorded.recorded("differences", "smoke").reference) == {"adamw", "sgd-noise, s = 0"}
    assert recorded.recorded("treated", "smoke").steps.tolist() == [20]
    ours, found = recorded.recorded("bought", "smoke"), causal.bought_flatness(whole, whole.tasks)
    assert ours.way.tolist() == found.way.tolist()
    assert ours.value.tolist() == pytest.approx(found.value.tolist(), rel=1e-5)
    assert recorded.recorded("doses", "smoke").task.tolist() == list(whole.tasks)
    assert len(recorded.recorded("control", "smoke")) == len(all_controls(whole))
