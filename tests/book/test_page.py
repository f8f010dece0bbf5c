"""Chapters, and their records."""

import os
import re
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from toy_runs import Squaring

from sameloss.book.pages import open_page
from sameloss.device import best_device
from sameloss.errors import ParameterError, StoreError
from sameloss.store.pool import compute_all
from sameloss.store.record import kept_runs
from sameloss.store.store import Store

TWIN = """# %% tags=["parameters"]
preset: str = "auto"  # auto, laptop, paper
number: int = None  # of squares
size: str = "all"  # of all
step: float = 0.5  # from one to the next
max_hours: float = None  # limit; None: the preset's
workers: int = None  # runs at once
processes: int = None  # that share a run
device: str = "auto"  # cpu or cuda
artifacts: str = None  # folder of the run store

# %% tags=["experiment"]
from toy_runs import Squaring

from sameloss.book.cells import begin

PRESETS = {"laptop": {"number": 2}, "paper": {"number": 3}}


def preset_of(values):
    return "laptop" if values["size"] == "all" else "paper"


page = begin(globals(), "squares", PRESETS, {"number": (1, 50)}, auto=preset_of, record="paper")
page.values["seeds"] = page.number
found = page.compute(*map(Squaring, range(page.number)))

# %% tags=["comparison"]
page.results = found

# %%
raise AssertionError("only cells with a tag are executed for other pages")
"""


@pytest.fixture
def squares(home):
    """Open a chapter that squares numbers, in a book of its own."""
    (home / "chapters" / "squares.py").write_text(TWIN)
    return partial(open_page, "squares")


def test_a_page_has_the_given_settings(squares, home):
    page = squares(number=7.0, max_hours=3, artifacts=str(home / "elsewhere"))
    assert (page.name, page.preset, page.number, page.max_hours) == ("squares", "laptop", 7, 3.0)
    assert page.store.root == home / "elsewhere"
    assert page.about == "preset laptop"
    assert page.runs() == list(map(Squaring, range(7)))
    assert page.results == [0, 1, 4, 9, 16, 25, 36]


def test_a_plain_page_has_no_claims_or_statements(squares):
    page = squares()
    assert page.verdicts().empty
    assert page.topics == []
    assert page.statements().empty
    with pytest.raises(AttributeError, match="squares has no parameter 'steps'"):
        page.steps  # noqa: B018


def test_undeclared_parameters_and_values_out_of_bounds_are_an_error(squares):
    with pytest.raises(ParameterError) as refused:
        squares(steps=3)
    valid = "preset, number, size, step, max_hours, workers, processes, device, artifacts"
    assert str(refused.value) == f"Unknown parameter 'steps'; valid here are {valid}."
    for given, sentence in (
        ({"number": 51}, "number is at most 50; got 51."),
        ({"workers": 10**9}, "workers is at most "),
    ):
        with pytest.raises(ParameterError, match=f"^{sentence}"):
            squares(**given)


def test_a_parameters_cell_has_the_defaults(squares):
    page = squares()
    assert (page.step, page.size) == (0.5, "all")
    assert list(page.parameters)[:3] == ["preset", "number", "size"]
    assert page.given.keys() == page.parameters.keys()
    assert squares(step=0.25).step == 0.25


def test_the_preset_is_given_or_follows_from_other_parameters(squares):
    assert squares(preset="paper").number == 3
    assert squares(size="7B").preset == "paper"
    assert squares(size="7B", number=1).number == 1
    assert squares().preset == "laptop"
    with pytest.raises(ParameterError, match=r"Unknown preset 'smoke'; choose one of auto, laptop, paper\."):
        squares(preset="smoke")  # known to the book, not to this chapter


def test_processes_share_the_cores(squares, monkeypatch):
    monkeypatch.setattr("sameloss.book.cells.usable_workers", lambda: 8)
    found = [
        squares(processes=n, workers=w).workers for n, w in ((3, None), (16, None), (3, 5), (None, None))
    ]
    assert found == [2, 1, 5, None]


def test_artifacts_are_beside_the_config(squares, home, monkeypatch):
    monkeypatch.chdir(home / "chapters")
    assert squares().store.root == home / "artifacts"


def test_an_unwritable_artifacts_folder_is_an_error(squares, home):
    (home / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"):
        squares(artifacts=str(home / "file"))


def test_an_unknown_device_is_an_error(squares):
    with pytest.raises(ParameterError, match="Unknown device 'gpu'; choose one of auto, cpu, cuda"):
        squares(device="gpu")


def test_missing_cuda_is_an_error(squares, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(
        ParameterError, match="device = cuda was asked for, but PyTorch finds no CUDA device here"
    ):
        squares(device="cuda")


def test_workers_inherit_the_device(squares, monkeypatch):
    monkeypatch.setenv("SAMELOSS_DEVICE", "")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    for name, device in {"auto": "cuda", "cpu": "cpu", "cuda": "cuda"}.items():
        squares(device=name)
        assert best_device() == device
        assert os.environ["SAMELOSS_DEVICE"] == ("" if name == "auto" else name)  # which workers inherit


# Records


@pytest.fixture
def page(squares):
    """A page with two runs, and three that are recorded at a longer preset."""
    return squares()


@pytest.fixture
def recorded(page, home):
    """The page with its record, written by another store."""
    other = Store(home / "other")
    long = page.of_record("paper")
    compute_all(other, long.runs())
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


def test_records_are_the_same_from_every_folder(tmp_path, monkeypatch):
    for folder in (Path(__file__).parents[2], tmp_path):
        monkeypatch.chdir(folder)
        assert len(list(kept_runs().root.glob("Pretraining/*"))) == 16


def test_without_a_book_there_are_no_records(squares, home, monkeypatch, tmp_path_factory):
    page = squares()
    monkeypatch.setattr("sameloss.store.location.SOURCE", home / "sameloss")
    monkeypatch.setenv("SAMELOSS_HOME", "")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert not kept_runs().has(Squaring(2))
    assert not page.store.has(Squaring(2))
