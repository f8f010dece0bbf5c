"""What a page costs: told before, refused above the limit, and counted afterwards."""

from dataclasses import replace

import pandas as pd
import pytest

from sameloss.book.costs import announce, by_page, measured
from sameloss.book.studies import open_page
from sameloss.errors import ParameterError
from sameloss.runs.cost import H200, Speed
from sameloss.store.store import with_ancestors
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
    assert "will take" in announce(opened("02_existence", **given, max_hours=1e9))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 seconds"), (30, "30 seconds"), (90, "1.5 minutes"), (5400, "1.5 hours")]
)
def test_an_estimate_is_said_in_a_readers_units(seconds, words, opened, monkeypatch):
    """Of three pre-trainings, one after the other."""
    speed = Speed(lambda width, dtype: float("inf"), 0.0)
    monkeypatch.setattr("sameloss.book.costs.this_device", lambda: speed)
    page = opened("02_existence", size="1K", workers=1, max_hours=9)
    blocks = page.group.pretraining("1K", 0).shape.layers + 2
    slow = speed._replace(block_s=seconds / 3 / 160 / blocks)
    monkeypatch.setattr("sameloss.book.costs.this_device", lambda: slow)
    sentence = announce(page)
    assert sentence.startswith("preset smoke, size 1K: 3 pre-training(s) will take about ")
    assert f" FLOPs, {words} and " in sentence


def test_workers_share_the_pre_trainings_of_a_page(opened, monkeypatch):
    speed = Speed(lambda width, dtype: float("inf"), 3600 / 160 / 3)  # an hour for each
    monkeypatch.setattr("sameloss.book.costs.this_device", lambda: speed)
    for workers, hours in {1: "3.0 hours", 2: "1.5 hours", 8: "1.0 hours"}.items():
        assert hours in announce(opened("02_existence", size="1K", workers=workers, max_hours=9))
    with pytest.raises(ParameterError, match=r"1\.5 hours .*above max_hours = 1\.4; lift the limit"):
        announce(opened("02_existence", size="1K", workers=2, max_hours=1.4))


def test_a_page_that_trains_no_language_model_says_so(opened):
    page = opened("05_dyck")
    assert announce(page) == "preset smoke: 6 runs, 6 of them to be made; none trains a language model."
    page.store.get(page.transfer)
    assert "6 runs, 5 of them to be made" in announce(page)
    assert "none trains a language model" in announce(opened("a1_datasets"))


def test_what_is_announced_may_be_another_list_of_runs(opened):
    page = opened("02_existence", seeds=1)
    one = page.group.pretraining("1K", 0)
    assert ": 1 pre-training(s) will take" in announce(page, [page.group.measured("trace")["1K", 0]])
    assert ": 1 runs, 1 of them to be made" in announce(page, [one.corpus])


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
    assert "nothing is trained" in announce(computed)


def test_a_cost_counts_each_finished_run_once_with_what_it_read(computed):
    """However many of the runs asked for read it; what is not there costs nothing."""
    runs = [run for run in with_ancestors(computed.runs()) if computed.store.has(run)]
    table = measured(computed.store, [*computed.runs(), *computed.runs()]).set_index("stage")
    assert table.runs.sum() == len(runs)
    assert table.runs["Pretraining"] == 1
    assert table.core_s.sum() == pytest.approx(sum(computed.store.manifest(run)["wall_s"] for run in runs))
    assert "Finetuning" not in table.index


def test_pages_that_computed_nothing_are_left_out(computed):
    """The others have a row a stage, and their total."""
    other = replace(computed, name="04_flatness")
    elsewhere = replace(computed, settings=replace(computed.settings, domains={}), name="a2_conditionals")
    table = by_page([computed, elsewhere, other])
    assert set(table.chapter) == {"02_existence", "04_flatness"}
    for _, part in table.groupby("chapter"):
        stages, total = part[part.stage != "all"], part[part.stage == "all"]
        assert total.runs.item() == stages.runs.sum()
        assert total.core_s.item() == pytest.approx(stages.core_s.sum())
        assert total.peak_gb.item() == stages.peak_gb.max()
    assert set(table.preset) == {"smoke"}
    pd.testing.assert_index_equal(table.columns[:4], pd.Index(["chapter", "preset", "device", "stage"]))
