"""Tables of the page on costs."""

import json

import pandas as pd
import pytest

from sameloss.book import cost_tables
from sameloss.book.cost_tables import (
    estimated_and_measured,
    mean_length,
    preset_costs,
    recorded_benchmark,
    recorded_campaign,
    size_table,
)
from sameloss.book.studies import open_page
from sameloss.runs.cost import Speed, training_flops
from sameloss.store.store import Store
from sameloss.studies.recorded import records
from sameloss.studies.same_loss.experiment import PRESETS


def test_every_preset_says_what_was_estimated_and_what_was_measured(tmp_path):
    table = preset_costs(Store(tmp_path)).set_index("preset")
    assert list(table.index) == list(PRESETS)
    assert (table[["FLOPs", "GB", "estimated_h"]].astype(float) > 0).all(axis=None)
    assert table["for"].eq("H200").tolist() == [False, False, False, True, True]
    assert set(table.measured_h.dropna().index) <= set(records())
    assert table.on["smoke"] == "–"


def test_sizes_are_the_papers_with_true_counts():
    table = size_table().set_index("size")
    assert 195e6 < table.parameters["235M"] < 205e6
    families = [preset.setups[0].models for preset in PRESETS.values()]
    assert list(table.index) == list(dict.fromkeys(size for sizes in families for size in sizes))
    assert table.preset["5M"] == "gpu"  # the first that has it
    assert table.d_model["235M"] == 1024


def test_a_record_that_is_not_complete_is_no_measurement_of_its_preset(tmp_path, monkeypatch):
    left = pd.DataFrame({"part": ["a"], "left": [1.0]})
    monkeypatch.setattr(cost_tables, "recorded", lambda name, preset: left)
    assert preset_costs(Store(tmp_path)).measured_h.isna().all()


def test_what_a_record_took_stands_beside_what_was_told(monkeypatch):
    """Of parts that are finished alone; a record that has no such table is left out."""
    parts = {"part": ["a", "b", "c"], "runs": [2, 3, 4], "finished": [2, 3, 1]}
    hours = {"told": [1.0, 2.0, 9.0], "took": [1.5, 3.0, 1.0], "left": [0.0, 0.0, 1.0]}
    tables = {"old": pd.DataFrame(), "new": pd.DataFrame(parts | hours)}
    monkeypatch.setattr(cost_tables, "records", lambda: tables)
    monkeypatch.setattr(cost_tables, "recorded", lambda name, preset: tables[preset])
    found = cost_tables.recorded_parts()
    assert found.preset.tolist() == ["new"] * 3
    assert found.columns[0] == "preset"
    said = cost_tables.told_in_words(found)
    assert said == "new: 4.5 core-hours for the 2 finished parts, 1.50 times what was told."


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """Two small pre-trainings of either size."""
    given = {"preset": "smoke", "steps": 20, "seeds": 2}
    page = open_page("02_existence", **given, artifacts=str(tmp_path_factory.mktemp("artifacts")))
    for replicate in page.config.replicates():
        for size in replicate.models:
            page.store.get(replicate.main(size))
    return page


def test_estimates_stand_beside_what_it_took(computed):
    table = estimated_and_measured(computed.store, computed.config)
    assert table["size"].tolist() == ["d8", "d16"]
    assert (table[["estimated_s", "measured_s", "tokens_per_s"]] > 0).all(axis=None)
    assert table.utilisation.between(0, 100, inclusive="neither").all()


def test_speeds_by_hand(computed, monkeypatch):
    """Sentences a second times their tokens; of a device whose products are as fast as the training was."""
    runs = [replicate.main("d8") for replicate in computed.config.replicates()]
    seconds = sum(computed.store.manifest(run)["wall_s"] for run in runs) / 2
    length = mean_length(runs[0], computed.store)
    monkeypatch.setattr(
        cost_tables, "flops_per_second", lambda *_: training_flops(runs[0], length) / seconds * 4
    )
    monkeypatch.setattr(cost_tables, "CORE", Speed(lambda *_: 1e9, 0.0))
    row = estimated_and_measured(computed.store, computed.config).iloc[0]
    assert row.measured_s == pytest.approx(seconds)
    assert row.tokens_per_s == round(20 * 64 * length / seconds)
    assert row.utilisation == pytest.approx(25)
    assert row.estimated_s == pytest.approx(training_flops(runs[0]) / 1e9)


def test_on_another_device_no_speed_of_this_one_is_compared(computed, monkeypatch):
    monkeypatch.setattr(cost_tables, "device_name", lambda: "another")
    assert estimated_and_measured(computed.store, computed.config).utilisation.isna().all()


def test_sentences_have_the_length_that_is_trained_on(computed):
    assert 2 < mean_length(computed.replicate.main("d8"), computed.store) < 4  # some sentences end early


def test_a_recorded_benchmark_is_read_with_its_origin(home):
    (home / "results").mkdir()
    rows = "claim,ours_value,peer_value,ratio,goal,met\nfast,1234.5,0.123456,10000,2,True\nfair,5,,,1,False\n"
    (home / "results" / "benchmark_speed.csv").write_text(rows)
    origin = {"created": "2026-01-02T03:04", "device": "cpu x", "threads": 1, "revision": "abc"}
    versions = {"torch": "2.0", "absent": None}
    (home / "results" / "benchmark_speed.json").write_text(json.dumps({**origin, "versions": versions}))
    table, line = recorded_benchmark("speed")
    assert table.to_numpy().tolist() == [
        ["fast", "1,234", "0.123", "10,000", "2", "yes"],
        ["fair", "5", "–", "–", "1", "no"],
    ]
    assert line == "Recorded on 2026-01-02, cpu x, 1 thread, torch 2.0, source revision abc."


@pytest.mark.parametrize(
    ("found", "said"),
    [("", "nothing was lost, and nothing was wrong in silence"), ("two lost", "two lost")],
)
def test_a_recorded_campaign_says_what_it_found(home, found, said):
    (home / "results").mkdir()
    (home / "results" / "campaign.csv").write_text(
        "what,trials,kills,faults,seconds,found,created,device,revision\n"
        "training,60,25,0,17,,2026-01-02,cpu x,abc\n"
        f"a full disk,2000,0,1,25,{found},2026-01-02,cpu x,def\n"
    )
    table, line = recorded_campaign()
    assert table.what.tolist() == ["training", "a full disk"]
    assert line == (
        "Recorded on 2026-01-02, cpu x, source revision abc, def: 2,060 trials, 25 kills and "
        f"interruptions; {said}."
    )
