"""What a page costs: told before, refused above the limit, and counted afterwards."""

import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from cells import definitions

from sameloss.book import costs as costs
from sameloss.book.cells import twins
from sameloss.book.costs import ON_A_GPU, h200_seconds, measured, reference_seconds
from sameloss.book.pages import open_page
from sameloss.errors import ParameterError, StoreError
from sameloss.languages.pretrained import HubTeacherSpec
from sameloss.store.provenance import seal, sealed
from sameloss.store.store import with_ancestors
from sameloss.studies.parameters import MAX_HOURS
from sameloss.studies.same_loss.parameters import chosen


def test_the_paper_on_this_machine_is_refused_in_one_sentence(opened, monkeypatch):
    given = {"preset": "auto", "size": "235M"}
    with pytest.raises(ParameterError) as caught:
        opened("02_existence", **given).announce()
    message = str(caught.value)
    limit = f"max_hours = {MAX_HOURS['paper']:g}; raise max_hours"
    for part in ("preset paper, grammar: 235M", "FLOPs", "hours of one core", "GB", limit):
        assert part in message
    assert "\n" not in message
    monkeypatch.setattr("sameloss.book.costs.device_bytes", lambda: 80e9)
    assert "runs to compute, about" in opened("02_existence", **given, max_hours=1e9).announce()


def test_what_does_not_fit_is_refused_before_the_training_with_the_parameter_that_helps(opened, monkeypatch):
    monkeypatch.setattr("sameloss.book.costs.device_bytes", lambda: 80e9)
    page = opened("02_existence", preset="auto", size="235M", max_hours=1e9, micro_batch=4096)
    with pytest.raises(ParameterError, match=r"Pretraining takes about \d+ GB .* than 4096\.$"):
        page.announce()
    monkeypatch.setattr("sameloss.book.costs.device_bytes", lambda: 24e9)
    page = opened("02_existence", preset="auto", size="235M", max_hours=1e9)
    with pytest.raises(ParameterError, match=r"ModelMeasurement takes .* has 24; .* fewer probe_seeds\.$"):
        page.announce()


@pytest.fixture
def priced(monkeypatch):
    """Return how to give every run so many seconds of a core."""

    def price(seconds):
        monkeypatch.setattr("sameloss.book.costs.reference_seconds", lambda run: seconds)

    return price


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 second"), (30, "30 seconds"), (90, "1.5 minutes"), (5400, "1.5 hours")]
)
def test_an_estimate_is_said_in_a_readers_units(seconds, words, opened, priced):
    page = opened("02_existence", size="d8", seeds=1, workers=1, max_hours=9)
    runs = len(with_ancestors(page.runs()))
    priced(seconds / runs)
    sentence = page.announce()
    assert sentence.startswith(
        f"preset smoke, grammar: d8: {runs} of {runs} runs to compute, about {words} of one core"
    )
    assert re.search(r" core \(.*; pre-trainings: \d+, ", sentence)
    assert re.search(rf"here, 1 at once \(cpu .*\): {words}\.$", sentence)


def test_what_this_machine_takes_is_told_for_its_cores(opened, priced, monkeypatch):
    """Workers that share a core do not make it faster."""
    monkeypatch.setattr("sameloss.book.costs.usable_workers", lambda: 2)
    given = {"size": "d8", "seeds": 1}
    runs = len(with_ancestors(opened("02_existence", **given).runs()))
    priced(7200 / runs)
    told = {1: "2.0 hours", 2: "1.0 hours", 16: "1.0 hours"}
    for workers, time in told.items():
        assert opened("02_existence", **given, workers=workers, max_hours=9).announce().endswith(f"{time}.")


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_workers_do_not_move_the_limit(opened, priced, workers):
    page = partial(opened, "02_existence", size="d8", workers=workers)
    priced(7200 / len(with_ancestors(page().runs())))
    page(max_hours=2.1).announce()
    with pytest.raises(ParameterError, match=r"2\.0 hours of one core .* = 1\.9; raise max_hours"):
        page(max_hours=1.9).announce()


@pytest.mark.parametrize("preset", MAX_HOURS)
def test_the_whole_book_is_never_refused_at_its_presets(preset, tmp_path, monkeypatch):
    """By far: what is meant is no mistake. Those for a GPU are priced as where there is one."""
    on_gpu = preset in ON_A_GPU
    book = open_page("costs", preset=preset, artifacts=str(tmp_path))
    if on_gpu:
        monkeypatch.setattr("sameloss.book.costs.accelerated", lambda: True)
    if preset == "pretrained":  # known from the model's folder, which is not here
        monkeypatch.setattr(HubTeacherSpec, "token_flops", 2.1e8)
    hours = sum(map(reference_seconds, with_ancestors(book.runs()))) / 3600
    assert hours < MAX_HOURS[preset] / (1 if preset == "paper" else 5)
    assert hours > MAX_HOURS[preset] / 20


def test_measurements_count_by_their_effort(opened):
    page = opened("05_dyck", workers=1)
    effort = sum(run.effort for run in page.runs())
    sentence = page.announce()
    assert sentence.startswith(f"preset smoke: 5 of 5 runs to compute, about {effort:.0f} second")
    assert "pre-trainings" not in sentence
    page.store.get(page.runs()[-1])
    assert "4 of 5 runs to compute" in page.announce()


@pytest.mark.parametrize("name", sorted(twins()))
def test_a_refusal_names_parameters_that_its_page_has(name, opened, priced):
    page = opened(name)
    if not page.runs():
        pytest.skip("a page that computes nothing")
    priced(3600.0)
    with pytest.raises(ParameterError) as caught:
        page.announce()
    valid, named = set(page.parameters), set(re.findall(r"\b[a-z]+_[a-z_]+\b", str(caught.value)))
    assert "max_hours" in named
    assert named <= valid


def test_what_is_announced_may_be_another_list_of_runs(opened):
    page = opened("02_existence", seeds=1)
    one = next(chosen(page.values).replicates()).longest_descent("d8")
    assert "pre-trainings: 1, " in page.announce([one])
    assert ": 1 of 1 runs to compute" in page.announce([one.corpus])


def test_the_main_figures_of_the_gpu_preset_take_an_hour(opened):
    replicate = next(chosen(opened("02_existence", preset="gpu").values).replicates())
    assert replicate.models == ["5M", "13M", "41M"]
    assert sum(h200_seconds(replicate.longest_descent(size)) for size in replicate.models) < 3600


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """A page of one small pre-training, and all that it compares, computed."""
    given = {"preset": "smoke", "size": "d8", "steps": 20, "seeds": 1}
    page = open_page("02_existence", **given, artifacts=str(tmp_path_factory.mktemp("artifacts")))
    for run in page.runs()[:3]:
        page.store.get(run)
    return page


def test_costs_are_recorded(computed):
    table = measured(computed.store, computed.runs())
    assert set(table.stage) >= {"Pretraining", "ModelMeasurement", "LanguageBaselines"}
    assert (table.core_s >= 0).all()
    assert (table.peak_gb > 0.01).all()
    assert "runs to compute" in computed.announce()  # the others


def test_a_cost_counts_each_finished_run_once_with_what_it_read(computed):
    """However many of the runs asked for read it; what is not there costs nothing."""
    runs = [run for run in with_ancestors(computed.runs()) if computed.store.has(run)]
    table = measured(computed.store, [*computed.runs(), *computed.runs()]).set_index("stage")
    assert table.runs.sum() == len(runs)
    assert table.runs["Pretraining"] >= 1
    assert table.core_s.sum() == pytest.approx(sum(computed.store.manifest(run)["wall_s"] for run in runs))
    assert "CoolDown" not in table.index


def test_a_recorded_benchmark_is_read_with_its_origin(home):
    (home / "results").mkdir()
    rows = "claim,ours_value,peer_value,ratio,goal,met\nfast,1234.5,0.123456,10000,2,True\nfair,5,,,1,False\n"
    (home / "results" / "benchmark_speed.csv").write_text(rows)
    origin = {"created": "2026-01-02T03:04", "device": "cpu x", "threads": 1, "revision": "abc"}
    versions = {"torch": "2.0", "absent": None}
    about = {**origin, "versions": versions}
    seal(home / "results" / "benchmark_speed.json", about, "benchmark_speed.csv")
    table, line = definitions("costs").recorded_benchmark("speed")
    assert table.to_numpy().tolist() == [
        ["fast", "1,234", "0.123", "10,000", "2", "yes"],
        ["fair", "5", "–", "–", "1", "no"],
    ]
    assert line == "Recorded on 2026-01-02, cpu x, 1 thread, torch 2.0, source revision abc."


KEPT = Path(__file__).parents[2] / "results"

RECORDS = [
    "benchmark_languages", "benchmark_pretrain", "benchmark_trace", "gpu/sizes", "gpu/pieces", "campaign",
]  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@pytest.mark.parametrize("name", RECORDS)
def test_what_was_measured_is_refused_once_it_is_altered(tmp_path, name, suffix):
    shutil.copytree(KEPT, tmp_path / "results", ignore=shutil.ignore_patterns("runs"))
    record = tmp_path / "results" / name
    sealed(record.with_suffix(".json"), f"{record.name}.csv")
    path = record.with_suffix(suffix)
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(StoreError, match=rf"/{name}{suffix} is not what was recorded; restore .*\.$"):
        sealed(record.with_suffix(".json"), f"{record.name}.csv")
