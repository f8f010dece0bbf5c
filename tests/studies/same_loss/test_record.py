"""What is recorded of a preset can be read again, with what is finished of it."""

import numpy as np
import pytest

from sameloss.statistics.bootstrap import Interval
from sameloss.studies import recorded
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.same_loss.groups import ADAMW, EVERYTHING, HMM, MAIN, NOISE, OPT
from sameloss.studies.same_loss.pages import WholeStudy
from sameloss.studies.same_loss.record import COMPARED, TABLES
from sameloss.studies.same_loss.results import KEYS, final
from sameloss.studies.same_loss.tables import causal
from sameloss.studies.verdict import judge


@pytest.fixture
def whole(record_of):
    return record_of()


def test_the_effect_of_size_is_there_of_every_language_and_reading(whole):
    """Each with its own tasks, trained, untrained and net."""
    table = TABLES["control"](whole).set_index(["language", "task", "protocol"])
    readings = ("solved", "solved, 16 dimensions", "AdamW")
    tasks = {"PCFG": ("root", "span2"), "HMM": ("state2", "state3"), "OPT": ("topic",)}
    assert list(table.index) == [
        (language, task, name) for language, own in tasks.items() for task in own for name in readings
    ]
    np.testing.assert_allclose(table.value, table.trained - table.untrained, atol=1e-9)
    assert (table.untrained == 0).all()  # as it was made up
    assert table.trained.tolist() == pytest.approx(len(table) * [20], abs=3)


def test_every_checkpoint_of_every_group_is_there_once(whole):
    """Also where two groups have a size in common."""
    table = TABLES["checkpoints"](whole)
    known = {
        (arm.language, arm.label, *row)
        for arm in whole.arms
        for row in whole.of(arm).checkpoints[KEYS].itertuples(index=False)
    }
    assert len(table) == len(known)
    assert not table.duplicated(["language", "algorithm", *KEYS]).any()
    assert len(whole.arms) == len({arm.of(whole.config.shown) for arm in EVERYTHING})
    noisy = table[table.algorithm == "sgd-noise, s = 1"]
    assert set(noisy.steps) == {320}  # twice as long as the others
    assert set(table[table.language == "HMM"].steps) == {160}


def test_algorithms_are_compared_with_adamw_and_noises_with_none(whole):
    table = TABLES["differences"](whole)
    assert set(table.reference) == {"adamw", "sgd-noise, s = 0"}
    assert set(table[table.reference == "adamw"].algorithm) == {arm.label for arm in COMPARED[1:]}
    assert set(table[table.reference != "adamw"].algorithm) == {"sgd-noise, s = 0.5", "sgd-noise, s = 1"}
    assert COMPARED[0].label == "adamw"


def test_what_was_recorded_is_read_again(whole, home):
    recorded.write_record(whole.record_tables(), {"seeds": whole.seeds}, home / "results" / "smoke")
    assert recorded.records() == {"smoke": {"seeds": 3}}
    verdicts = recorded.recorded("verdicts", "smoke").set_index("id")
    assert set(verdicts.index) == {claim.id for claim in whole.claims()}
    by_id = {claim.id: claim for claim in CLAIMS}
    for row in verdicts.itertuples():
        assert row.verdict == judge(Interval(row.ours, row.low, row.high), by_id[row.Index])
    algorithms = recorded.recorded("algorithms", "smoke").set_index("algorithm")
    adamw = final(whole.of(COMPARED[0]))
    assert algorithms.root["adamw"] == pytest.approx(adamw.root.mean(), rel=1e-5)
    assert recorded.recorded("treated", "smoke").steps.tolist() == [20]
    ours, found = recorded.recorded("bought", "smoke"), causal.bought_flatness(whole, whole.tasks)
    assert ours.way.tolist() == found.way.tolist()
    assert ours.value.tolist() == pytest.approx(found.value.tolist(), rel=1e-5)
    for name in ("checkpoints", "control", "doses", "labels", "correlations", "matched", "differences"):
        assert len(recorded.recorded(name, "smoke")) == len(TABLES[name](whole))


def test_a_record_that_is_not_complete_has_what_is_finished(record_of):
    """And judges no claim on what is not, nor reads anything of it."""
    page = record_of(MAIN, HMM)
    tables = page.record_tables()
    assert set(tables["checkpoints"].language) == {"PCFG", "HMM"}
    assert set(tables["control"].language) == {"PCFG", "HMM"}
    assert tables["algorithms"].algorithm.tolist() == ["adamw"] * len(tables["algorithms"])
    assert not {"differences", "treated", "bought", "doses", "rates"} & set(tables)
    judged = [claim for claim in page.claims() if claim.id in set(tables["verdicts"].id)]
    known = {arm.of(page.config.shown) for arm in (MAIN, HMM)}
    assert judged
    assert {arm.of(page.config.shown) for claim in judged for arm in claim.arms} <= known


def test_an_algorithm_is_compared_only_with_what_is_finished(record_of):
    page = record_of(ADAMW, *NOISE[:2])
    table = TABLES["differences"](page)
    assert set(table.algorithm) == {"sgd-noise, s = 0.5"}
    assert TABLES["checkpoints"](page).algorithm.unique().tolist() == ["adamw", *(n.label for n in NOISE[:2])]
    assert TABLES["differences"](record_of(*NOISE[1:])).empty


def test_parts_are_those_of_the_whole_preset_and_runs_those_of_the_finished(record_of):
    page = record_of(OPT)
    settings, store = page.config, page.store
    assert list(page.parts()) == list(WholeStudy("verdicts", settings, store).parts())
    assert set(page.runs()) == set(page.read_by(OPT.of(settings.shown)))
    assert page.seeds == settings.training.seeds
