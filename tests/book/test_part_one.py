"""The record of Part I: whole or refused, and what figures show beside it."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from sameloss.book import part_one
from sameloss.book.cells import opened
from sameloss.book.pages import open_page
from sameloss.book.part_one import CHAPTERS, recorded_answers, recorded_measurements, shown
from sameloss.errors import ParameterError, StoreError
from sameloss.store.location import HOME
from sameloss.store.record import NotRecorded, kept_runs
from sameloss.studies.same_loss.claims import Comparison
from sameloss.studies.same_loss.tables import PAGE_OF, PAGES

ROOT = Path(__file__).parents[2]


def test_it_has_every_question_on_every_language():
    assert set(recorded_answers().question) == set(PAGE_OF)
    assert list(recorded_measurements().language.unique()) == ["grammar", "hmm", "pretrained"]


def test_it_has_every_number_of_its_chapters_once():
    table = recorded_measurements()
    assert not table.duplicated().any()
    own = [opened(name, {"preset": "workstation"}, kept_runs()).results.table for name in CHAPTERS]
    synthetic = table[table.language != "pretrained"]
    first, second = (set(part.fillna(0).itertuples(index=False)) for part in (synthetic, pd.concat(own)))
    assert first == second
    assert len(synthetic) < sum(map(len, own))  # which share trainings


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book with a copy of what Part I reads of the record."""
    (tmp_path / "chapters").mkdir()
    (tmp_path / "_config.yml").touch()
    monkeypatch.setenv(HOME, str(tmp_path))
    for kind in ("ModelMeasurement", "LanguageBaselines", "FlatnessMeasures"):
        shutil.copytree(ROOT / "results" / "runs" / kind, kept_runs().root / kind)
    return tmp_path


def a_line():
    """File of the line of a recorded measurement, and its key."""
    run = opened("04_flatness", {"preset": "pretrained"}, kept_runs()).runs()[7]
    return kept_runs().root / run.kind / f"{run.key[0]}.jsonl", run.key


def test_what_a_record_lacks_is_one_sentence_with_the_command(book):
    assert set(part_one._records.__wrapped__(kept_runs().root)) == set(part_one.PRIMARY)
    path, key = a_line()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if key not in line[:100]))
    with pytest.raises(
        NotRecorded, match=f"PRESET=pretrained PAGE=04_flatness.* ModelMeasurement/{key} is not"
    ):
        part_one._records.__wrapped__(kept_runs().root)


def test_an_altered_line_is_refused(book):
    path, _ = a_line()
    path.write_text(path.read_text().replace("0.5", "0.6", 1))
    with pytest.raises(StoreError, match="is not what was recorded"):
        part_one._records.__wrapped__(kept_runs().root)


def test_figures_show_the_record_unless_a_reader_changes_the_runs(home, monkeypatch):
    """Or unless it lacks the main row of a question: a slope between sizes needs no treatment."""
    recorded = pd.DataFrame({"question": [*PAGES["04_flatness"], "flatness as a cause"], "row": "main"})
    recorded.loc[recorded.question == "flatness as a cause", "row"] = "between sizes"
    monkeypatch.setattr(part_one, "recorded_answers", lambda: recorded)
    monkeypatch.setattr(part_one, "recorded_measurements", lambda: recorded.assign(value=1.0))
    found = shown(open_page("04_flatness", workers=1, max_hours=30.0))
    assert found.answers is recorded
    assert "of recorded runs." in found.source
    own = Comparison(pd.DataFrame(columns=part_one.COLUMNS), PAGES["04_flatness"])
    changes = ({"preset": "smoke"}, {"size": "d24"}, {"seeds": 3}, {"language": "hmm"}, {"lr": 0.01})
    for name, given in (*(("04_flatness", given) for given in changes), ("a4_algorithms", {})):
        page = open_page(name, **given)
        page.results = own
        found = shown(page)
        assert found.measured is own.table
        assert page.about in found.source
        assert page.about in found.provenance


def test_without_a_book_there_is_no_record(tmp_path, monkeypatch):
    monkeypatch.setattr("sameloss.store.location.SOURCE", tmp_path / "site-packages" / "sameloss")
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.chdir(tmp_path)
    assert recorded_measurements().empty
    assert recorded_answers().empty
    with pytest.raises(ParameterError, match=r"^No book was found, whose 04_flatness this reads; set "):
        open_page("04_flatness")


def test_a_book_without_records_shows_the_pages_own_runs(home):
    assert recorded_answers().empty
    page = open_page("04_flatness")
    page.results = Comparison(pd.DataFrame(columns=part_one.COLUMNS), PAGES["04_flatness"])
    assert shown(page).measured is page.results.table
