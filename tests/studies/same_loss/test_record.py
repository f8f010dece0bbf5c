"""Recorded runs: what is written can be read, and says where it comes from."""

import json

import pandas as pd
import pytest

from sameloss.studies.same_loss import record as recorded
from sameloss.studies.same_loss.claims import CLAIMS


@pytest.fixture
def a_record(tmp_path, monkeypatch):
    """A folder with one record of two claims."""
    folder = tmp_path / "results" / "long"
    folder.mkdir(parents=True)
    rows = {
        "id": ["fig2", "fig1"],
        "ours": [1.0, 2.0],
        "low": [0.5, float("nan")],
        "high": [1.5, float("nan")],
    }
    pd.DataFrame(rows | {"verdict": ["reproduced", "not testable here"]}).to_csv(folder / "verdicts.csv")
    origin = {"days": ["2026-01-01", "2026-01-02"], "seeds": 5, "runs": 7, "core_hours": 1.5}
    origin |= {"device": ["cpu"], "torch": ["2"], "revision": ["abc"]}
    (folder / recorded.ORIGIN).write_text(json.dumps(origin))
    monkeypatch.setattr(recorded, "book_root", lambda: tmp_path)


def test_records_stand_beside_a_page_claim_by_claim(a_record):
    """Rows follow the page, whatever the record's order; what the record lacks is a gap."""
    page = pd.DataFrame({"id": ["fig1", "fig2"], "claim": "c", "ours": 0.0, "low": -1.0, "high": 1.0})
    table = recorded.across_presets(page.assign(verdict="not seen"), "laptop")
    assert table["laptop (this page)"].tolist() == 2 * ["not seen: +0.00 (-1.00, 1.00)"]
    assert table["long (recorded)"].tolist() == ["not testable here", "reproduced: +1.00 (0.50, 1.50)"]


def test_a_record_says_where_it_comes_from(a_record):
    """Preset, seeds, device, days and revision are in its line."""
    said = recorded.said("long")
    for word in ("preset long", "5 pre-training seeds", "cpu", "2026-01-01 to 2026-01-02", "abc"):
        assert word in said


def test_the_committed_record_answers_every_claim():
    """Each claim has a row, and so has each of the tables a chapter shows."""
    assert set(CLAIMS) <= set(recorded.recorded("verdicts").id)
    assert {"algorithm", "compared", "quantity", "low", "high"} <= set(recorded.recorded("differences"))
    assert recorded.records()["laptop-long"]["seeds"] >= 3
