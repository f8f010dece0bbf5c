"""Pages of a study, and their records."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from sameloss.device import best_device
from sameloss.errors import ParameterError, StoreError
from sameloss.studies import recorded
from sameloss.studies.page import Page, PageSpec, Study
from sameloss.studies.parameters import Config, Parameter, param
from sameloss.studies.recorded import ORIGIN, record_in_words, records, write_record


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

ABOUT = {"days": ["2026-01-01", "2026-01-02"], "seeds": 5, "runs": 7, "core_hours": 1.5}
ABOUT |= {"device": ["cpu"], "torch": ["2"], "revision": ["abc"]}


@pytest.fixture
def results(home):
    return home / "results"


@pytest.mark.parametrize("page", ["", "ii5_growing"])
def test_a_record_belongs_to_a_preset_and_optionally_a_page(results, page):
    table = pd.DataFrame({"seed": [0, 1], "kl": [0.123456789, 2e-9]})
    folder = write_record({"candidates": table}, ABOUT, results / "laptop-long" / page)
    assert records(page) == {"laptop-long": json.loads((folder / ORIGIN).read_text())}
    assert records(page)["laptop-long"].items() >= ABOUT.items()
    assert records("another") == {}
    read = recorded.recorded("candidates", "laptop-long", page)
    assert read.kl.to_list() == pytest.approx(table.kl.to_list(), rel=1e-5)
    assert recorded.recorded("other", "laptop-long", page).empty
    assert "5 seeds, 7 runs, 1.5 core-hours on cpu" in record_in_words("laptop-long", page)


def replaced(before, after):
    return lambda path: path.write_text(path.read_text().replace(before, after))


def in_place(content):
    return lambda path: path.write_bytes(content)


def a_folder(path):
    path.unlink()
    path.mkdir()


BROKEN = {"cut": lambda path: os.truncate(path, path.stat().st_size // 2), "gone": Path.unlink}
BROKEN |= {"empty": in_place(b""), "no text": in_place(b"\xff"), "a folder": a_folder}

DAMAGE = {
    "number": ("twins.csv", replaced("0.25", "0.26")),
    "row": ("twins.csv", replaced("1,0.5\n", "")),
    "column": ("twins.csv", replaced("kl", "loss")),
    "another table": ("pairs.csv", in_place(b"seed\n1\n")),
    "revision": (ORIGIN, replaced("abc", "def")),
    "number of runs": (ORIGIN, replaced('"runs": 7', '"runs": 8')),
    "hash": (ORIGIN, replaced("twins.csv", "pairs.csv")),
    "no seal": (ORIGIN, lambda path: path.write_text(json.dumps(ABOUT, indent=1) + "\n")),
    **{f"{name}, table": ("twins.csv", damage) for name, damage in BROKEN.items()},
    **{f"{name}, origin": (ORIGIN, damage) for name, damage in BROKEN.items() if name != "gone"},
    **{content: (ORIGIN, in_place(content.encode())) for content in ("[]", "5", "null", "{}", '"x"')},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_altered_record_is_refused_in_one_sentence(results, opened, damage):
    """By all that pages read of it: its verdicts' evidence, its tables, and the words on where it is from."""
    page, table = opened("ii3_images"), pd.DataFrame({"seed": [0, 1], "kl": [0.25, 0.5]})
    folder = write_record({"twins": table}, ABOUT, results / "laptop-long" / page.name)
    assert record_in_words("laptop-long", page.name)
    name, alter = DAMAGE[damage]
    alter(folder / name)
    for read in (
        lambda: page.evidence(pd.DataFrame()),
        lambda: page.recorded("laptop-long"),
        lambda: recorded.recorded("twins", "laptop-long", page.name),
        lambda: record_in_words("laptop-long", page.name),
    ):
        with pytest.raises(StoreError, match=rf"^\S*/{name} is not what was recorded; restore .*\.$"):
            read()


def test_a_new_record_replaces_all_tables_of_the_old_one(results):
    for name in ("old", "new"):
        write_record({name: pd.DataFrame({"seed": [0]})}, ABOUT, results / "laptop-long")
    assert [path.name for path in (results / "laptop-long").glob("*.csv")] == ["new.csv"]
    assert list(recorded.recorded_tables("laptop-long", "")) == ["new"]


def test_a_folder_without_an_origin_is_no_record(results):
    (results / "laptop-long").mkdir(parents=True)
    (results / "benchmark.csv").touch()
    assert records() == {}


def test_records_are_the_same_from_every_folder(tmp_path, monkeypatch):
    read = []
    for folder in (Path(__file__).parents[2], tmp_path):
        monkeypatch.chdir(folder)
        read.append((records(), len(recorded.recorded("measurements", "workstation"))))
    assert read[0] == read[1]
    assert "workstation" in read[0][0]
    assert read[0][1] > 1000


def test_without_a_book_there_are_no_records(tmp_path, monkeypatch):
    monkeypatch.setattr("sameloss.store.location.SOURCE", tmp_path / "sameloss")
    monkeypatch.chdir(tmp_path)
    assert records() == {}
    with pytest.raises(ParameterError, match=r"^No book was found from here, so its records cannot be read"):
        recorded.recorded("verdicts", "laptop-long")
