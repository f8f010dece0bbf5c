"""Recorded runs are read, judged like a page's own, and say where they come from."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from sameloss.errors import ParameterError
from sameloss.runs.pretraining import Pretraining
from sameloss.studies import recorded as kept
from sameloss.studies.evidence import Source
from sameloss.studies.same_loss import recorded
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.same_loss.settings import PRESETS
from sameloss.studies.verdict import Judged, verdict_table

BY_ID = {claim.id: claim for claim in CLAIMS}


@pytest.fixture
def a_record(home):
    """A folder with one record of two claims."""
    folder = home / "results" / "laptop-long"
    folder.mkdir(parents=True)
    rows = {
        "id": ["fig2", "fig1"],
        "claim": [BY_ID["fig2"].text, BY_ID["fig1"].text],
        "task": ["span4", "root"],
        "ours": [7.0, 2.0],
        "low": [6.5, float("nan")],
        "high": [7.5, float("nan")],
    }
    # As it was judged when it was recorded.
    pd.DataFrame(rows | {"verdict": ["not seen", "not seen"]}).to_csv(folder / "verdicts.csv")
    origin = {"days": ["2026-01-01", "2026-01-02"], "seeds": 5, "runs": 7, "core_hours": 1.5}
    origin |= {"device": ["cpu"], "torch": ["2"], "revision": ["abc"]}
    (folder / kept.ORIGIN).write_text(json.dumps(origin))


def page_of(*names):
    """Return the verdicts of a page on which all effects are 0 ± 1."""
    return verdict_table(Judged(BY_ID[name], recorded.Interval(0.0, -1.0, 1.0)) for name in names)


def of_the_record(verdicts):
    """Return what the record says of a page's claims, by id."""
    evidence = recorded.evidence_on(verdicts, PRESETS["laptop"])
    return evidence[[source.recorded for source in evidence.source]].set_index("id")


def test_records_stand_beside_a_page_claim_by_claim(a_record):
    """Claims follow the page, whatever the record's order; what the record lacks is left out."""
    evidence = recorded.evidence_on(page_of("fig1", "fig2", "fig9"), PRESETS["laptop"])
    own, theirs = Source("laptop", 3), Source("laptop-long", 5, recorded=True)
    assert list(zip(evidence.source, evidence.id, evidence.verdict, strict=True)) == [
        (theirs, "fig1", "not testable here"),
        (theirs, "fig2", "reproduced"),
        (own, "fig1", "not decided"),
        (own, "fig2", "smaller than published"),
        (own, "fig9", "not decided"),
    ]
    assert evidence.loc[1, ["ours", "low", "high"]].tolist() == [7.0, 6.5, 7.5]


def test_a_record_speaks_for_a_claim_only_in_the_same_words(a_record):
    """What had this name when it was recorded may have been another claim."""
    page = page_of("fig1", "fig2")
    reworded = page.assign(claim=page.claim.where(page.id != "fig2", "something else"))
    assert of_the_record(reworded).index.tolist() == ["fig1"]


def test_a_record_keeps_numbers_and_is_judged_as_a_page_is(a_record):
    """A verdict written down under another rule would not be comparable."""
    found = kept.recorded("verdicts", "laptop-long").set_index("id")
    assert found.verdict["fig2"] == "not seen"
    assert of_the_record(page_of("fig2")).verdict["fig2"] == "reproduced"


def test_and_under_the_readers_tolerance(a_record):
    strict = replace(PRESETS["laptop"], evaluation=replace(PRESETS["laptop"].evaluation, tolerance=0.01))
    evidence = recorded.evidence_on(page_of("fig2"), strict)
    assert evidence.verdict[0] == "not decided"


def test_a_record_says_where_it_comes_from(a_record):
    """Preset, seeds, device, days and revision are in its line."""
    said = kept.record_in_words("laptop-long")
    for word in ("preset laptop-long", "5 pre-training seeds", "cpu", "2026-01-01 to 2026-01-02", "abc"):
        assert word in said


def test_a_record_says_whether_the_code_has_changed_since(a_record, tmp_path):
    path = tmp_path / "results" / "laptop-long" / kept.ORIGIN
    origin = json.loads(path.read_text())
    for schemas, words in (
        ({"Pretraining": Pretraining.schema}, "Nothing of it is computed otherwise since."),
        ({"Pretraining": Pretraining.schema + 1, "Old": 1}, "Computed otherwise since: Pretraining, Old."),
    ):
        path.write_text(json.dumps(origin | {"schemas": schemas}))
        assert kept.record_in_words("laptop-long").endswith(words)


def test_rows_are_chosen_by_what_they_say(a_record, tmp_path):
    """Of the strongest record that has them; columns of other languages are left out."""
    folders = {name: tmp_path / "results" / name for name in ("laptop-long", "workstation")}
    tables = {
        "laptop-long": {"language": ["PCFG", "HMM"], "root": [1.0, None], "state": [None, 2.0]},
        "workstation": {"language": ["HMM"], "state": [3.0]},
    }
    for name, table in tables.items():
        kept.write_record({"found": pd.DataFrame(table)}, {"seeds": 5}, folders[name])
    assert recorded.strongest_record("found") == "workstation"
    assert recorded.strongest_record("found", language="PCFG") == "laptop-long"
    found = recorded.rows("laptop-long", "found", language="HMM")
    assert found.to_dict("list") == {"language": ["HMM"], "state": [2.0]}
    assert recorded.rows("workstation", "found", size="1K").empty
    assert recorded.rows("workstation", "other").empty
    with pytest.raises(ParameterError, match=r"^No record has language OPT in its table found; "):
        recorded.strongest_record("found", language="OPT")


def test_a_folder_is_a_record_once_it_has_its_origin(a_record, tmp_path):
    (tmp_path / "results" / "unfinished").mkdir()
    assert list(kept.records()) == ["laptop-long"]


def test_a_table_that_a_record_is_too_old_for_is_empty(a_record):
    assert kept.recorded("doses", "laptop-long").empty
    assert len(kept.recorded("verdicts", "laptop-long")) == 2


def test_where_no_book_is_found_that_is_said_and_not_to_make_a_record(tmp_path, monkeypatch):
    monkeypatch.setattr("sameloss.store.location.SOURCE", tmp_path / "sameloss")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=r"^No book was found from here, so its records cannot be read"):
        recorded.strongest_record("verdicts")


def test_the_committed_record_answers_every_claim():
    """Each claim has a row, and so has each of the tables a chapter shows."""
    assert {claim.id for claim in CLAIMS} <= set(kept.recorded("verdicts", "laptop-long").id)
    differences = kept.recorded("differences", "laptop-long")
    assert {"algorithm", "compared", "quantity", "low", "high"} <= set(differences)
    assert kept.records()["laptop-long"]["seeds"] >= 3
