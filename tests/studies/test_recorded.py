"""Tables that were written are read again, with where they come from."""

import json
from pathlib import Path

import pandas as pd
import pytest

from sameloss.errors import ParameterError
from sameloss.studies import recorded
from sameloss.studies.recorded import ORIGIN, record_in_words, records, write_record

ABOUT = {"days": ["2026-01-01", "2026-01-02"], "seeds": 5, "runs": 7, "core_hours": 1.5}
ABOUT |= {"device": ["cpu"], "torch": ["2"], "revision": ["abc"]}


@pytest.fixture
def results(home):
    return home / "results"


@pytest.mark.parametrize("page", ["", "ii5_growing"])
def test_a_record_is_of_a_preset_and_perhaps_of_a_page(results, page):
    table = pd.DataFrame({"seed": [0, 1], "kl": [0.123456789, 2e-9]})
    folder = write_record({"candidates": table}, ABOUT, results / "laptop-long" / page)
    assert json.loads((folder / ORIGIN).read_text()) == ABOUT
    assert records(page) == {"laptop-long": ABOUT}
    assert records("another") == {}
    read = recorded.recorded("candidates", "laptop-long", page)
    assert read.kl.to_list() == pytest.approx(table.kl.to_list(), rel=1e-5)
    assert recorded.recorded("other", "laptop-long", page).empty
    assert "5 pre-training seeds, 7 runs, 1.5 core-hours on cpu" in record_in_words("laptop-long", page)


def test_a_folder_without_its_origin_is_no_record(results):
    (results / "laptop-long").mkdir(parents=True)
    (results / "benchmark.csv").touch()
    assert records() == {}


def test_records_are_the_same_from_every_folder(tmp_path, monkeypatch):
    found = []
    for folder in (Path(__file__).parents[2], tmp_path):
        monkeypatch.chdir(folder)
        found.append((records(), len(recorded.recorded("measurements", "workstation"))))
    assert found[0] == found[1]
    assert "workstation" in found[0][0]
    assert found[0][1] > 1000


def test_without_a_book_there_are_no_records_and_a_table_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("sameloss.store.location.SOURCE", tmp_path / "sameloss")
    monkeypatch.chdir(tmp_path)
    assert records() == {}
    with pytest.raises(ParameterError, match=r"^No book was found from here, so its records cannot be read"):
        recorded.recorded("verdicts", "laptop-long")
