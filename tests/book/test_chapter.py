"""What every chapter does: begin, show, end."""

import re
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest
from planted import verdicts

from sameloss.book import chapter
from sameloss.book.chapter import (
    begin,
    beside_the_paper,
    close,
    example_of,
    glue_findings,
    render,
    scientific,
    show_source,
    verdict_sentences,
)
from sameloss.book.pages import all_studies, open_page, study_of
from sameloss.errors import ParameterError
from sameloss.statistics.intervals import UNDEFINED, Interval
from sameloss.store.location import HOME
from sameloss.studies.page import Page
from sameloss.studies.same_loss.pages import STUDY
from sameloss.studies.verdict import Claim, Topic, chance_in_words


@pytest.fixture
def shown(monkeypatch):
    """What a chapter displays, and what it glues, in place of a notebook."""
    found = {"displayed": [], "glued": {}}
    monkeypatch.setattr(chapter, "display", found["displayed"].append)
    monkeypatch.setattr(chapter, "glue", lambda name, value, display: found["glued"].update({name: value}))
    return found


def cells(styled):
    """Return the texts of a table's cells."""
    return re.findall(r"<td[^>]*>([^<]*)</td>", styled.to_html())


@pytest.mark.usefixtures("home")
def test_a_chapter_begins_with_its_parameters_alone(capsys, monkeypatch):
    """What the notebook assigns later is none, though it may begin again."""
    wanted = []
    monkeypatch.setattr(chapter, "compute_all", lambda store, runs, workers: wanted.append((runs, workers)))
    namespace = {"size": "d8", "seeds": 1, "preset": "auto", "workers": 3, "begin": begin, "__name__": "x"}
    page = begin(namespace, STUDY, "04_flatness")
    assert page.replicate.models == ["d8"]
    assert re.match(
        r"preset smoke, grammar: d8: (\d+) of \1 runs to compute, about ", capsys.readouterr().out
    )
    assert wanted == [(page.runs(), 3)]
    namespace |= {"page": page, "table": pd.DataFrame(), "size": "d16"}
    assert begin(namespace, STUDY, "04_flatness").replicate.models == ["d16"]


def test_a_chapter_without_a_book_says_so_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sameloss.store.location.SOURCE", tmp_path / "site-packages" / "sameloss")
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(chapter, "compute_all", lambda *_: None)
    for given, folder in (({}, tmp_path / "artifacts"), ({"artifacts": str(tmp_path / "a")}, tmp_path / "a")):
        begin({"size": "d8", "seeds": 1, **given}, STUDY, "04_flatness")
        first, _ = capsys.readouterr().out.splitlines()
        assert first == (
            f"No book was found from {tmp_path}: results go to {folder}, and records cannot be shown; "
            "set SAMELOSS_HOME to the book's folder."
        )
    (tmp_path / "_config.yml").touch()
    (tmp_path / "chapters").mkdir()
    begin({"size": "d8", "seeds": 1}, STUDY, "04_flatness")
    assert "No book" not in capsys.readouterr().out


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"szie": "10K"}, "Unknown parameter 'szie'; valid here are preset, language, size"),
        ({"vocabulary": 8}, "Unknown parameter 'vocabulary'; valid here are preset, language, size"),
        ({"seeds": 0}, r"seeds must be positive; got 0\."),
    ],
)
def test_bad_parameters_compute_nothing(given, message, monkeypatch):
    monkeypatch.setattr(chapter, "compute_all", lambda *_: pytest.fail("something was computed"))
    with pytest.raises(ParameterError, match=message):
        begin(given, study_of("02_existence"), "02_existence")


def test_a_fault_ends_a_notebook_with_its_sentence_and_no_traceback(tmp_path):
    """In IPython, as a notebook runs it."""
    code = dedent(
        """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell("from sameloss.book.chapter import begin")
        shell.run_cell("from sameloss.studies.same_loss.pages import STUDY")
        shell.run_cell("begin({'size': '9K'}, STUDY, '02_existence')")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "ParameterError: Unknown size '9K'; choose one of all, d8, " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "parameters.py" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "end"),
    [
        ("PAPERMILL_INPUT_PATH = 'x.ipynb'", "this page has no runs of its own; nothing is computed."),
        ("Seeds = 1", "ParameterError: Unknown parameter 'Seeds'; valid here are preset, "),
    ],
)
def test_only_what_the_reader_set_is_a_parameter(given, end, tmp_path):
    """In IPython with a start-up file, as a notebook runs it."""
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "mine.py").write_text("SEED = 7")
    code = dedent(
        f"""
        from IPython.terminal.ipapp import TerminalIPythonApp
        app = TerminalIPythonApp.instance()
        app.initialize(["--ipython-dir={tmp_path}"])
        assert app.shell.user_ns["SEED"] == 7
        cells = (
            "here = !pwd\\nSeeds = 1",
            "preset: str = 'smoke'\\nartifacts: str = None",
            {given!r},
            "from sameloss.book.chapter import begin",
            "from sameloss.studies.same_loss.pages import STUDY",
            "page = begin(globals(), STUDY, 'a2_conditionals')",
        )
        for cell in cells:
            app.shell.run_cell(cell, store_history=True)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert end in done.stdout


def test_a_chapter_ends_with_what_it_took_and_its_data(opened, shown, capsys):
    page = opened("05_dyck")
    (transfer,) = (run for run in page.runs() if run.kind == "DyckTransfer")
    page.runs = lambda: [transfer]
    page.store.get(transfer)
    data = pd.DataFrame({"x": [1, 2]})
    close(page, data)
    assert "Computed: preset smoke, 1 runs on " in capsys.readouterr().out
    costs, link = shown["displayed"]
    assert costs.data.stage.tolist() == ["DyckTransfer"]
    assert 'download="05_dyck.csv"' in link.data


def test_a_chapter_without_runs_ends_without_costs(opened, shown, capsys):
    close(opened("a2_conditionals"))
    said = capsys.readouterr().out.strip()
    assert said == (
        "With a parameter of your own: papermill chapters/a2_conditionals.ipynb out.ipynb -p sentences 5000"
    )
    assert shown["displayed"] == []


BIG = Claim("big", "Fig. 2", "larger is better", "ii_a", value=6.9, unit="accuracy points")
LONE = Claim("lone", "Fig. 9", "not asked", "ii_a", unit="accuracy points")


class Judging(Page):
    """A page that judges two claims."""

    topics = (Topic("Is it so?", (BIG, LONE)),)

    def verdicts(self):
        return verdicts([(BIG, Interval(9, 8.7, 10)), (LONE, UNDEFINED)])


def test_paper_beside_ours_is_shown_and_told_in_the_prose(opened, shown):
    own = opened("05_dyck")
    page = Judging("ii_a", own.config, own.store)
    verdicts = beside_the_paper(page)
    pd.testing.assert_frame_equal(verdicts, page.verdicts())
    table, chance = (part.data for part in shown["displayed"])
    assert chance == chance_in_words(verdicts)
    assert set(re.findall(r'id="claim-([^"]+)"', table)) == set(verdicts.id)
    assert set(re.findall(r'href="([^"#]+)#', table)) == {"verdicts.html"}
    said = "+9.00 (8.70 to 10.00)"
    assert said in table
    sentences = verdict_sentences(page)
    assert list(sentences) == list(verdicts.id)
    assert f"larger than published</span> {said} accuracy points" in sentences["big"]
    assert "not testable here</span>" in sentences["lone"]


def test_what_the_book_found_is_glued_for_the_first_page_and_for_chapters(shown):
    about = {"question": "Are larger models better?", "page": "02_existence", "language": "grammar"}
    answer = about | {"effect": "+3 points", "published": "+4.6", "direction": "supported", "size": "smaller"}
    statements = pd.DataFrame({"verdict": ["holds", "holds as corrected"]})
    glue_findings(pd.DataFrame([answer]), statements)
    glued = shown["glued"]
    assert set(glued) == {"findings-front", "claim-counts", "theory-counts"}
    assert 'href="chapters/02_existence.html"' in glued["findings-front"].data
    assert glued["theory-counts"] == "of 2, 1 hold as printed and 1 only as corrected"
    assert glued["claim-counts"] == "supported 1"


def test_a_page_without_claims_shows_no_verdict(opened, shown, capsys):
    assert beside_the_paper(opened("05_dyck")).empty
    assert "No claim of the paper is about what this page was asked to show." in capsys.readouterr().out
    assert shown == {"displayed": [], "glued": {}}


def test_tables_have_no_index_rounded_numbers_and_dashes_for_gaps():
    table = pd.DataFrame({"name": ["a", "b"], "value": [234.567, np.nan], "count": [1000, 2]})
    assert cells(render(table)) == ["a", "234.57", "1,000", "b", "–", "2"]
    assert cells(render(table, decimals=0))[1] == "235"
    assert "row_heading" not in render(table).to_html()
    assert 'class="dataframe"' in render(table).to_html()  # else every second row is unreadable in the dark


def test_words_of_a_reader_are_no_markup():
    shown = render(pd.DataFrame({"<b>": ["<script>alert(1)</script>"], "b": [1.0]})).to_html()
    assert "&lt;script&gt;" in shown
    assert "&lt;b&gt;" in shown
    assert "<script" not in shown


def test_the_same_table_is_the_same_page():
    """So that executing a notebook again changes nothing in it; two tables of a page have two names."""
    table = pd.DataFrame({"a": [1]})
    assert render(table).to_html() == render(table.copy()).to_html()
    assert render(table).uuid != render(table + 1).uuid


def test_tiny_numbers_are_written_as_powers_of_ten():
    table = pd.DataFrame({"off": [1.2e-9], "kept": [1.2e-9]})
    assert scientific(table, "off").to_numpy().tolist() == [["1e-09", 1.2e-9]]


def test_the_source_of_a_function_stands_beside_its_equation():
    shown = show_source(scientific)
    assert shown.data.startswith("def scientific(")
    assert shown.language == "python"


@pytest.mark.parametrize("name", [name for study in all_studies().values() for name in study.specs])
def test_the_command_at_the_end_of_a_page_is_one_that_it_takes(name, home):
    """The smallest preset has the parameter too, and a value that it may have."""
    if " -p " not in example_of(open_page(name)):
        pytest.skip("a page of what other pages computed")
    parameter, value = example_of(open_page(name)).rpartition(" -p ")[2].split()
    declared = study_of(name).table(name)[parameter]
    changed = open_page(name, preset="smoke", **{parameter: declared.checked(parameter, float(value))})
    plain = open_page(name, preset="smoke")
    assert (changed.config, changed.runs()) != (plain.config, plain.runs())
