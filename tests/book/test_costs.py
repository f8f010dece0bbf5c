"""What a page costs: told before, refused above the limit, and counted afterwards."""

from dataclasses import replace

import pytest
from toy_pages import squares
from toy_runs import Squaring

from sameloss.book.costs import announce, by_page, by_part, measured, parts_in_words, totals
from sameloss.book.studies import open_page
from sameloss.errors import ParameterError
from sameloss.runs.cost import H200, Speed
from sameloss.store.store import Store, with_ancestors
from sameloss.studies.same_loss.arms import HMM, MAIN


def test_the_paper_on_this_machine_is_refused_in_one_sentence(opened, monkeypatch):
    monkeypatch.setattr("sameloss.runs.cost.flops_per_second", lambda *_: 1e11)
    given = {"preset": "auto", "size": "235M"}
    with pytest.raises(ParameterError) as caught:
        announce(opened("02_existence", **given))
    message = str(caught.value)
    for part in ("preset paper, size 235M", "FLOPs", "hours", "GB", "max_hours = 24", "parameter max_hours"):
        assert part in message
    assert "\n" not in message
    assert "runs to compute, which takes about" in announce(opened("02_existence", **given, max_hours=1e9))


def no_measurement(step_s):
    """Return a device on which trainings take so long a step of one block, and measurements no time."""
    return Speed(lambda width, dtype: float("inf"), step_s / 3, 0.0)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 second"), (30, "30 seconds"), (90, "1.5 minutes"), (5400, "1.5 hours")]
)
def test_an_estimate_is_said_in_a_readers_units(seconds, words, opened, monkeypatch):
    """Of three pre-trainings of 160 steps, one after the other."""
    monkeypatch.setattr("sameloss.book.costs.this_device", lambda: no_measurement(seconds / 3 / 160))
    page = opened("02_existence", size="1K", workers=1, max_hours=9)
    assert page.group.pretraining("1K", 0).shape.layers == 1
    runs = len(with_ancestors(page.runs()))
    sentence = announce(page)
    assert sentence.startswith(
        f"preset smoke, size 1K: {runs} of {runs} runs to compute, which takes about {words} on"
    )
    assert "; pre-trainings: 3, " in sentence


def test_workers_share_the_runs_of_a_page(opened, monkeypatch):
    """An hour for each of three; no run takes less than it takes alone."""
    monkeypatch.setattr("sameloss.book.costs.this_device", lambda: no_measurement(3600 / 160))
    for workers, hours in {1: "3.0 hours", 2: "1.5 hours", 8: "1.0 hours"}.items():
        assert hours in announce(opened("02_existence", size="1K", workers=workers, max_hours=9))
    with pytest.raises(ParameterError, match=r"1\.5 hours .*above max_hours = 1\.4; lift the limit"):
        announce(opened("02_existence", size="1K", workers=2, max_hours=1.4))


def test_measurements_count_by_their_effort(opened, monkeypatch):
    page = opened("05_dyck", workers=1)
    effort = sum(run.effort for run in page.runs())
    monkeypatch.setattr("sameloss.book.costs.this_device", lambda: H200._replace(effort_s=3600 / effort))
    sentence = announce(page)
    assert sentence.startswith("preset smoke: 6 of 6 runs to compute, which takes about 1.0 hours on this")
    assert "pre-trainings" not in sentence
    page.store.get(page.transfer)
    assert "5 of 6 runs to compute" in announce(page)


def test_what_is_announced_may_be_another_list_of_runs(opened):
    page = opened("02_existence", seeds=1)
    one = page.group.pretraining("1K", 0)
    assert "pre-trainings: 1, " in announce(page, [page.group.measured("trace")["1K", 0]])
    assert ": 1 of 1 runs to compute" in announce(page, [one.corpus])


def test_the_main_figures_of_the_gpu_preset_take_an_hour(opened):
    settings = opened("02_existence", preset="gpu").settings
    groups = [arm.group(settings) for arm in (MAIN, HMM)]
    for group in groups:
        assert group.sizes == ("2M", "5M", "9M", "13M", "41M")
    both = [run for group in groups for run in group.pretrainings().values()]
    assert sum(map(H200.seconds, both)) < 3600


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """A page of one small pre-training, and all that it compares, computed."""
    given = {"preset": "smoke", "size": "1K", "steps": 20, "seeds": 1}
    page = open_page("02_existence", **given, artifacts=str(tmp_path_factory.mktemp("artifacts")))
    for run in page.group.runs():
        page.store.get(run)
    return page


def test_costs_are_recorded(computed):
    table = measured(computed.store, computed.runs())
    assert set(table.stage) >= {"Pretraining", "TraceMeasurement", "Probing"}
    assert (table.core_s > 0).all()
    assert (table.peak_gb > 0.01).all()
    assert "runs to compute" in announce(computed)  # the other seeds and pages


def test_a_cost_counts_each_finished_run_once_with_what_it_read(computed):
    """However many of the runs asked for read it; what is not there costs nothing."""
    runs = [run for run in with_ancestors(computed.runs()) if computed.store.has(run)]
    table = measured(computed.store, [*computed.runs(), *computed.runs()]).set_index("stage")
    assert table.runs.sum() == len(runs)
    assert table.runs["Pretraining"] == 1
    assert table.core_s.sum() == pytest.approx(sum(computed.store.manifest(run)["wall_s"] for run in runs))
    assert "Finetuning" not in table.index


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """A record of two parts that share a run, on a device where each run takes half an hour."""
    monkeypatch.setattr("sameloss.book.costs.this_device", lambda: H200._replace(effort_s=1800))
    shared = Squaring(1)
    runs = {"first": [Squaring(2, shared)], "second": [Squaring(3, shared), shared], "third": [shared]}
    return squares(Store(tmp_path / "artifacts"), runs)


def test_a_record_tells_what_is_left_of_each_part_once(parts):
    """What an earlier part has is not counted again, and a part that has nothing else is left out."""
    table = by_part(parts)
    assert table.part.tolist() == ["first", "second"]
    assert table.runs.tolist() == [2, 1]
    assert table.left.tolist() == [1.0, 0.5]
    assert table[["finished", "told", "took"]].to_numpy().sum() == 0
    parts.store.compute(Squaring(2, Squaring(1)))
    table = by_part(parts).set_index("part")
    assert table.finished.tolist() == [2, 0]
    assert table.told.tolist() == [1.0, 0.0]
    assert table.left.tolist() == [0.0, 0.5]
    seconds = [parts.store.manifest(run)["wall_s"] for run in (Squaring(1), Squaring(2, Squaring(1)))]
    assert table.took["first"] == pytest.approx(sum(seconds) / 3600)


def test_what_is_left_is_said_in_order(parts):
    """In all by the clock, part by part for one core."""
    parts.store.compute(Squaring(2, Squaring(1)))
    assert parts_in_words(parts).splitlines() == [
        "Record of squares, preset toy: about 15.0 minutes left.",
        "  first: 2 of 2 runs",
        "  second: 0 of 1 runs, 30.0 minutes of one core left",
    ]
    parts.store.compute(Squaring(3, Squaring(1)))
    assert parts_in_words(parts).startswith("Record of squares, preset toy: complete.\n")


def test_pages_that_computed_nothing_are_left_out(computed):
    """The others have a row a stage, and one of all."""
    other = replace(computed, name="04_flatness")
    elsewhere = replace(computed, settings=replace(computed.settings, domains={}), name="a2_conditionals")
    stages = by_page([computed, elsewhere, other])
    assert list(stages.chapter.unique()) == ["02_existence", "04_flatness"]
    for row in totals(stages).itertuples():
        own = stages[stages.chapter == row.chapter]
        assert row.runs == own.runs.sum()
        assert row.core_s == pytest.approx(own.core_s.sum())
        assert row.peak_gb == own.peak_gb.max()
