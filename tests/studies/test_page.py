"""Pages of a study, and their records."""

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pandas as pd
import pytest
from toy_runs import Squaring

from sameloss.device import best_device
from sameloss.errors import ParameterError, StoreError
from sameloss.store.pool import compute_all
from sameloss.store.provenance import seal
from sameloss.store.record import kept_runs
from sameloss.store.store import Store
from sameloss.studies.page import Page, PageSpec, Study
from sameloss.studies.parameters import Config, Parameter, param


@dataclass(frozen=True)
class Toy(Config):
    """A configuration with one number."""

    number: int = param("to square", 2)


PRESETS = {"laptop": Toy("laptop"), "paper": Toy("paper", number=3)}


def apply(config, values):
    if config.number == 13:
        raise ParameterError("number must not be 13; choose another.")
    return config


STUDY = Study(
    PRESETS,
    {
        "plain": PageSpec(Page, "preset number max_hours device artifacts"),
        "bare": PageSpec(Page, "number size", {"number": 5}),
        "whole": PageSpec(Page),
    },
    lambda values: "laptop" if values.get("size", "all") == "all" else "paper",
    {"size": Parameter("of all", default="all")},
    apply,
)


def test_a_page_has_the_given_settings(home):
    page = STUDY.open("plain", {"number": 7.0, "max_hours": 3, "artifacts": str(home / "elsewhere")})
    assert (page.name, page.config) == ("plain", Toy("laptop", 3.0, number=7))
    assert (page.config.name, page.config.max_hours) == ("laptop", 3.0)
    assert page.store.root == home / "elsewhere"
    assert page.about == "preset laptop"


def test_a_plain_page_has_no_runs_claims_or_statements(home):
    page = STUDY.open("plain", {})
    assert page.runs() == []
    assert page.verdicts().empty
    assert page.topics == ()
    assert page.statements().empty


def test_undeclared_parameters_are_an_error(home):
    with pytest.raises(ParameterError) as refused:
        STUDY.open("plain", {"size": "all"})
    sentence = "Unknown parameter 'size'; valid here are preset, number, max_hours, device, artifacts."
    assert str(refused.value) == sentence


def test_a_page_may_override_defaults(home):
    assert STUDY.table("plain")["number"].default is None
    assert STUDY.table("bare")["number"].default == 5
    assert list(STUDY.table("bare")) == ["number", "size"]
    assert list(STUDY.table("whole"))[:4] == ["preset", "number", "max_hours", "workers"]
    assert STUDY.open("bare", {}).config.number == 5
    assert STUDY.open("bare", {"number": 6}).config.number == 6


def test_the_preset_is_given_or_follows_from_other_parameters(home):
    assert STUDY.open("plain", {"preset": "paper"}).config == PRESETS["paper"]
    assert STUDY.open("bare", {"size": "7B"}).config.name == "paper"
    assert STUDY.open("plain", {}).config == PRESETS["laptop"]
    with pytest.raises(ParameterError, match="Unknown preset 'desktop'; choose one of auto, smoke, laptop, "):
        STUDY.open("plain", {"preset": "desktop"})
    with pytest.raises(ParameterError, match=r"Unknown preset 'smoke'; choose one of laptop, paper\."):
        STUDY.open("plain", {"preset": "smoke"})  # known to the book, not to this study


def test_a_study_may_refuse_combinations(home):
    with pytest.raises(ParameterError, match="number must not be 13"):
        STUDY.open("plain", {"number": 13})


def test_artifacts_are_beside_the_config(home, monkeypatch):
    monkeypatch.chdir(home / "chapters")
    assert STUDY.open("plain", {}).store.root == home / "artifacts"


def test_an_unwritable_artifacts_folder_is_an_error(home):
    (home / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        STUDY.open("plain", {"artifacts": str(home / "file")})


def test_an_unknown_device_is_an_error(home):
    with pytest.raises(ParameterError, match="Unknown device 'gpu'; choose one of auto, cpu, cuda"):
        STUDY.open("plain", {"device": "gpu"})


def test_missing_cuda_is_an_error(home, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(
        ParameterError, match="device = cuda was asked for, but PyTorch finds no CUDA device here"
    ):
        STUDY.open("plain", {"device": "cuda"})


def test_workers_inherit_the_device(home, monkeypatch):
    monkeypatch.setenv("SAMELOSS_DEVICE", "")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    for name, device in {"auto": "cuda", "cpu": "cpu", "cuda": "cuda"}.items():
        STUDY.open("plain", {"device": name})
        assert best_device() == device
        assert os.environ["SAMELOSS_DEVICE"] == ("" if name == "auto" else name)  # which workers inherit


# Records


@dataclass
class Squares(Page):
    """A page whose runs are squares."""

    def runs(self):
        return [Squaring(number) for number in range(self.config.number)]

    @property
    def seeds(self):
        return self.config.number

    @cached_property
    def results(self):
        return [self.store.get(run) for run in self.runs()]


@pytest.fixture
def page(home):
    """A page with two runs, and three that are recorded at a longer preset."""
    study = Study(PRESETS, {"squares": PageSpec(Squares, record="paper")})
    return study.open("squares", {})


@pytest.fixture
def recorded(page, home):
    """The page with its record, written by another store."""
    other = Store(home / "other")
    long = page.of_record("paper")
    compute_all(other, long.runs(), workers=1)
    assert kept_runs().add(other, long.runs()) == 3
    return page


def test_a_record_is_the_same_page_on_recorded_runs(recorded):
    assert recorded.recorded("paper") == [0, 1, 4]
    assert recorded.records()["paper"]["runs"] == 3
    assert re.match("Recorded: preset paper, 3 seeds, 3 runs, ", recorded.record_in_words("paper"))
    assert recorded.results == [0, 1]  # of the same lines
    assert not recorded.store.root.exists()


def test_what_this_machine_computed_is_no_record(page):
    page.store.compute(Squaring(2))
    assert page.records() == {}
    with pytest.raises(StoreError, match="is not in"):
        page.recorded("paper")


def test_a_record_that_lacks_a_run_is_none(recorded):
    (kept_runs().root / "Squaring" / f"{Squaring(2).key[0]}.jsonl").unlink()
    assert recorded.records() == {}
    with pytest.raises(StoreError, match="is not in"):
        recorded.recorded("paper")


def test_an_altered_record_is_refused_by_all_that_reads_it(recorded):
    path = kept_runs().root / "Squaring" / f"{Squaring(2).key[0]}.jsonl"
    path.write_text(path.read_text().replace('"result.txt":"4"', '"result.txt":"5"'))
    for read in (
        recorded.records,
        partial(recorded.recorded, "paper"),
        partial(recorded.evidence, pd.DataFrame()),
    ):
        with pytest.raises(StoreError, match=rf"^{path} is not what was recorded: line 1 is altered; "):
            read()


@pytest.fixture
def tables(home):
    """The sealed tables of a page whose runs are not recorded."""
    folder = home / "results" / "laptop-long" / "ii5_stacking"
    folder.mkdir(parents=True)
    (folder / "stages.csv").write_text("seed,kl\n0,0.25\n1,0.5\n")
    seal(folder / "record.json", ABOUT)
    return folder


ABOUT = {"days": ["2026-01-01", "2026-01-02"], "seeds": 5, "runs": 7, "core_hours": 1.5}
ABOUT |= {"device": ["cpu"], "torch": ["2"], "revision": ["abc"]}


def test_a_page_may_have_tables_as_its_record(tables, opened):
    page = opened("ii5_stacking")
    assert page.recorded("laptop-long").stages.kl.tolist() == [0.25, 0.5]
    assert "5 seeds, 7 runs, 1.5 core-hours on cpu" in page.record_in_words("laptop-long")
    assert list(page.records()) == ["laptop-long"]
    (tables / "record.json").unlink()
    assert page.records() == {}


def replaced(before, after):
    return lambda path: path.write_text(path.read_text().replace(before, after))


def in_place(content):
    return lambda path: path.write_bytes(content)


def a_folder(path):
    path.unlink()
    path.mkdir()


BROKEN = {"cut": lambda path: os.truncate(path, path.stat().st_size // 2), "gone": Path.unlink}
BROKEN |= {"empty": in_place(b""), "no text": in_place(b"\xff"), "a folder": a_folder}

ORIGIN, TABLE = "record.json", "stages.csv"
DAMAGE = {
    "number": (TABLE, replaced("0.25", "0.26")),
    "row": (TABLE, replaced("1,0.5\n", "")),
    "column": (TABLE, replaced("kl", "loss")),
    "another table": ("pairs.csv", in_place(b"seed\n1\n")),
    "revision": (ORIGIN, replaced("abc", "def")),
    "number of runs": (ORIGIN, replaced('"runs": 7', '"runs": 8')),
    "hash": (ORIGIN, replaced("stages.csv", "pairs.csv")),
    "no seal": (ORIGIN, lambda path: path.write_text(json.dumps(ABOUT, indent=1) + "\n")),
    **{f"{name}, table": (TABLE, damage) for name, damage in BROKEN.items()},
    **{f"{name}, origin": (ORIGIN, damage) for name, damage in BROKEN.items() if name != "gone"},
    **{content: (ORIGIN, in_place(content.encode())) for content in ("[]", "5", "null", "{}", '"x"')},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_altered_tables_are_refused_in_one_sentence(tables, opened, damage):
    page = opened("ii5_stacking")
    name, alter = DAMAGE[damage]
    alter(tables / name)
    for read in (page.records, lambda: page.recorded("laptop-long")):
        with pytest.raises(StoreError, match=rf"^\S*/{name} is not what was recorded; restore .*\.$"):
            read()


def test_records_are_the_same_from_every_folder(tmp_path, monkeypatch):
    for folder in (Path(__file__).parents[2], tmp_path):
        monkeypatch.chdir(folder)
        assert len(list(kept_runs().root.glob("Pretraining/*"))) == 16


def test_without_a_book_there_are_no_records(tmp_path, monkeypatch):
    monkeypatch.setattr("sameloss.store.location.SOURCE", tmp_path / "sameloss")
    monkeypatch.chdir(tmp_path)
    page = STUDY.open("plain", {})
    assert page.records() == {}
    assert not page.store.has(Squaring(2))
