"""Tables that were written are read again, with where they come from."""

import json

import pandas as pd
import pytest

from sameloss.studies import recorded
from sameloss.studies.recorded import ORIGIN, record_in_words, records, write_record

ABOUT = {"days": ["2026-01-01", "2026-01-02"], "seeds": 5, "runs": 7, "core_hours": 1.5}
ABOUT |= {"device": ["cpu"], "torch": ["2"], "revision": ["abc"]}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "book_root", lambda: tmp_path)
    return tmp_path / "results"


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
