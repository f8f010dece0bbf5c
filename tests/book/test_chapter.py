"""What every chapter does: begin, show, end."""

import re
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest
from made_up import fill

from sameloss.book import chapter
from sameloss.book.chapter import (
    begin,
    beside_the_paper,
    close,
    render,
    render_verdicts,
    scientific,
    show_source,
)
from sameloss.errors import ParameterError
from sameloss.studies.verdict import chance_in_words


@pytest.fixture
def shown(monkeypatch):
    """What a chapter displays, and what it glues, in place of a notebook."""
    found = {"displayed": [], "glued": {}}
    monkeypatch.setattr(chapter, "display", found["displayed"].append)
    monkeypatch.setattr(chapter, "glue", lambda name, value, display: found["glued"].update({name: value}))
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cells(styled):
    """Return the texts of a table's cells."""
    return re.findall(r"<td[^>]*>([^<]*)</td>", styled.to_html())


@pytest.mark.usefixtures("folder")
def test_a_chapter_begins_with_its_parameters_alone(capsys, monkeypatch):
    """What the notebook assigns later is none, though it may begin again."""
    wanted = []
    monkeypatch.setattr(chapter, "compute_all", lambda store, runs, workers: wanted.append((runs, workers)))
    namespace = {"size": "1K", "seeds": 1, "preset": "auto", "workers": 3, "begin": begin, "__name__": "x"}
    page = begin(namespace, "04_flatness")
    assert page.group.sizes == ("1K",)
    assert "preset smoke, size 1K: 1 pre-training(s) will take" in capsys.readouterr().out
    assert wanted == [(page.runs(), 3)]
    namespace |= {"page": page, "table": pd.DataFrame(), "size": "3K"}
    assert begin(namespace, "04_flatness").group.sizes == ("3K",)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"szie": "10K"}, "Unknown parameter 'szie'; valid here are preset, learning_rate, replicas"),
        ({"size": "40K"}, "Unknown parameter 'size'; valid here are preset, learning_rate, replicas"),
        ({"replicas": 0}, r"replicas must be positive; got 0\."),
    ],
)
def test_bad_parameters_compute_nothing(given, message, monkeypatch):
    monkeypatch.setattr(chapter, "compute_all", lambda *_: pytest.fail("something was computed"))
    with pytest.raises(ParameterError, match=message):
        begin(given, "03_implicit_bias")


def test_a_fault_ends_a_notebook_with_its_sentence_and_no_traceback(tmp_path):
    """In IPython, as a notebook runs it."""
    code = dedent(
        """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell("from sameloss.book.chapter import begin; begin({'size': '9K'}, '02_existence')")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "ParameterError: Unknown size '9K'; choose one of all, 1K, " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "parameters.py" not in done.stdout + done.stderr


def test_a_chapter_ends_with_what_it_took_and_its_data(opened, shown, capsys):
    page = opened("05_dyck")
    page.runs = lambda: [page.transfer]
    page.store.get(page.transfer)
    data = pd.DataFrame({"x": [1, 2]})
    close(page, data)
    assert "Computed: preset smoke, 1 runs on " in capsys.readouterr().out
    costs, link = shown["displayed"]
    assert costs.data.stage.tolist() == ["DyckTransfer"]
    assert 'download="05_dyck.csv"' in link.data


def test_a_chapter_without_runs_ends_without_costs(opened, shown, capsys):
    close(opened("a2_conditionals"))
    assert capsys.readouterr().out == ""
    assert shown["displayed"] == []


def test_paper_beside_ours_is_shown_and_glued_for_the_prose(opened, shown):
    page = fill(opened("02_existence"))
    verdicts = beside_the_paper(page)
    pd.testing.assert_frame_equal(verdicts, page.verdicts())
    table, chance = (part.data for part in shown["displayed"][:2])
    assert chance == chance_in_words(verdicts)
    assert table.id.tolist() == verdicts.id.tolist()
    assert set(shown["glued"]) == {f"verdict-{name}" for name in verdicts.id}
    recorded = shown["displayed"][-1].data
    assert "smoke (this page)" in recorded
    row = verdicts.set_index("id").loc["fig2"]
    interval = f"{row.low:.2f} to {row.high:.2f}"
    assert shown["glued"]["verdict-fig2"] == (
        f"larger than published ({row.ours:+.2f} accuracy points, 95 % interval {interval})"
    )
    assert shown["glued"]["verdict-fig9-opt"] == "not testable here"
    assert table.set_index("id")["95 % interval"]["fig2"] == interval
    assert table.set_index("id")["95 % interval"]["fig9-opt"] == "–"


def test_a_page_about_something_else_shows_no_verdict(opened, shown, capsys):
    page = fill(opened("02_existence", algorithm="adversarial"))
    assert beside_the_paper(page).empty
    assert "No claim of the paper is about what this page was asked to show." in capsys.readouterr().out
    assert shown == {"displayed": [], "glued": {}}


def test_tables_have_no_index_rounded_numbers_and_dashes_for_gaps():
    table = pd.DataFrame({"name": ["a", "b"], "value": [234.567, np.nan], "count": [1000, 2]})
    assert cells(render(table)) == ["a", "234.57", "1,000", "b", "–", "2"]
    assert cells(render(table, decimals=0))[1] == "235"
    assert "row_heading" not in render(table).to_html()
    assert 'class="dataframe"' in render(table).to_html()  # else every second row is unreadable in the dark


def test_the_same_table_is_the_same_page():
    """So that executing a notebook again changes nothing in it; two tables of a page have two names."""
    table = pd.DataFrame({"a": [1]})
    assert render(table).to_html() == render(table.copy()).to_html()
    assert render(table).uuid != render(table + 1).uuid


def test_tiny_numbers_are_written_as_powers_of_ten():
    table = pd.DataFrame({"off": [1.2e-9], "kept": [1.2e-9]})
    assert scientific(table, "off").to_numpy().tolist() == [["1e-09", 1.2e-9]]


def test_claims_without_a_task_have_a_dash(filled_verdicts):
    rows = np.array(cells(render_verdicts(filled_verdicts))).reshape(len(filled_verdicts), -1)
    tasks = dict(zip(rows[:, -1], rows[:, -3], strict=True))
    assert (tasks["entropy"], tasks["fig2"]) == ("–", "span2")


@pytest.fixture
def filled_verdicts(opened, shown):
    return fill(opened("02_existence")).verdicts()


def test_the_source_of_a_function_stands_beside_its_equation():
    shown = show_source(scientific)
    assert shown.data.startswith("def scientific(")
    assert shown.language == "python"


def test_a_page_of_another_name_is_refused():
    with pytest.raises(ParameterError, match="No study has a page '02_nothing'"):
        begin({}, "02_nothing")
