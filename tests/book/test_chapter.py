"""What every chapter does: begin, show, end."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest
from planted import verdicts
from toy_runs import Squaring

from sameloss.book import chapter
from sameloss.book import page as page_module
from sameloss.book.cells import declared, twins
from sameloss.book.chapter import (
    beside_the_paper,
    close,
    example_of,
    render,
    scientific,
    show_source,
)
from sameloss.book.page import Chapter
from sameloss.book.pages import open_page
from sameloss.errors import ParameterError
from sameloss.statistics.intervals import UNDEFINED, Interval
from sameloss.store.location import HOME
from sameloss.store.store import Store
from sameloss.studies.verdict import Claim, Topic, chance_in_words

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shown(monkeypatch):
    """What a chapter displays, in place of a notebook."""
    found = {"displayed": []}
    monkeypatch.setattr(chapter, "display", found["displayed"].append)
    return found


def cells(styled):
    """Return the texts of a table's cells."""
    return re.findall(r"<td[^>]*>([^<]*)</td>", styled.to_html())


BEGIN = """
from sameloss.book.cells import begin

PRESETS = {"smoke": {"number": 3}, "laptop": {"number": 5}}
page = begin(globals(), "squares", PRESETS)
"""

TWIN = f"""# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop
number: int = None  # of squares
max_hours: float = None  # limit; None: the preset's
workers: int = None  # runs at once
device: str = "auto"  # cpu or cuda
artifacts: str = None  # folder of the run store

# %% tags=["experiment"]{BEGIN}"""


@pytest.fixture
def squares(home):
    """Begin a chapter of a book of its own in a namespace."""
    (home / "chapters" / "squares.py").write_text(TWIN)

    def begun(namespace):
        exec(BEGIN, namespace)
        return namespace["page"]

    return begun


def test_a_chapter_begins_with_its_parameters_alone(squares, capsys, monkeypatch):
    """What the notebook assigns later is none, though it may begin again."""
    wanted = []
    monkeypatch.setattr(
        page_module, "compute_all", lambda store, runs, workers: wanted.append((runs, workers))
    )
    namespace = {"number": 7, "preset": "auto", "workers": 3, "__name__": "x"}
    page = squares(namespace)
    assert (page.number, page.preset, page.own) == (7, "laptop", {"number": 7})
    monkeypatch.setattr(Store, "get", lambda store, run: None)
    page.compute(*map(Squaring, range(page.number)))
    assert re.match(r"preset laptop: (7) of \1 runs to compute, about ", capsys.readouterr().out)
    assert wanted == [(page.runs(), 3)]
    namespace |= {"table": pd.DataFrame(), "number": 8}
    assert squares(namespace).number == 8
    assert squares(namespace).runs() == []


def test_a_chapter_without_a_book_says_so_first(squares, tmp_path_factory, capsys, monkeypatch):
    page = {"In": ["", TWIN.partition("\n\n")[0]]}
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setattr("sameloss.store.location.SOURCE", elsewhere / "site-packages" / "sameloss")
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.chdir(elsewhere)
    for given, folder in (
        ({}, elsewhere / "artifacts"),
        ({"artifacts": str(elsewhere / "a")}, elsewhere / "a"),
    ):
        squares({**page, **given})
        (first,) = capsys.readouterr().out.splitlines()
        assert first == (
            f"No book was found from {elsewhere}: results go to {folder}, and records cannot be shown; "
            "set SAMELOSS_HOME to the book's folder."
        )
    (elsewhere / "_config.yml").touch()
    (elsewhere / "chapters").mkdir()
    squares(dict(page))
    assert "No book" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"szie": "10K", "_parameters": ("szie",)},
            "Unknown parameter 'szie'; valid here are preset, number",
        ),
        ({"number": 0}, r"number must be positive; got 0\."),
        ({"preset": "desktop"}, r"Unknown preset 'desktop'; choose one of auto, smoke, laptop\."),
    ],
)
def test_bad_parameters_are_refused(given, message, squares):
    with pytest.raises(ParameterError, match=message):
        squares(given)


def in_ipython(folder, notebooks):
    """What IPython prints of each notebook, whose cells it executes in their order after a start-up file.

    Each has a process of its own; the library is imported once for all of them.
    """
    startup = folder / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "mine.py").write_text("SEED = 7")
    code = dedent(
        f"""
        import os, sys
        import sameloss.book.cells
        from IPython.terminal.ipapp import TerminalIPythonApp
        for cells in {notebooks!r}:
            if os.fork():
                assert os.wait()[1] == 0
                print("{END}", flush=True)
                continue
            app = TerminalIPythonApp.instance()
            app.initialize(["--ipython-dir={folder}"])
            assert app.shell.user_ns["SEED"] == 7
            for cell in cells:
                app.shell.run_cell(cell, store_history=True)
            sys.stdout.flush()
            os._exit(0)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.split(f"{END}\n")[:-1]


END = "---- end of the notebook"

PARAMETERS = (
    "preset: str = 'smoke'  # auto, smoke\nsize: str = None  # all\nmax_hours: float = None  # limit\n"
)
PARAMETERS += "workers: int = None  # at once\ndevice: str = 'auto'  # cpu\nartifacts: str = None  # folder"
OWN = (
    "from sameloss.book.cells import begin\npage = begin(globals(), 'mine', {'smoke': {}})\nprint(page.size)"
)


GIVEN = {
    "PAPERMILL_INPUT_PATH = 'x.ipynb'": "None",
    "# Parameters\nsize = 'd8'": "d8",
    "# Parameters\nSeeds = 1": "ParameterError: Unknown parameter 'Seeds'; valid here are preset, size,",
    "# Parameters\nsize = 9": "ParameterError: size must be a name; got 9.",
}


def test_only_what_the_reader_set_is_a_parameter_whatever_names_a_reader_has(tmp_path):
    """In the last notebook a chapter is run twice, and another one after it."""
    names = ("a2_conditionals", "a2_conditionals", "01_introduction")
    runs = [f"%run -i {_head(tmp_path, name)}" for name in names]
    notebooks = [("here = !pwd\nSeeds = 1", PARAMETERS, given, OWN) for given in GIVEN]
    notebooks.append(("x = 3", *(f"{run}\nprint(page.name, x)" for run in runs)))
    *printed, last = in_ipython(tmp_path, notebooks)
    for found, end in zip(printed, GIVEN.values(), strict=True):
        assert found.splitlines()[-1].startswith(end)
        assert "parameters.py" not in found
    assert [line for line in last.splitlines() if line.endswith(" 3")] == [f"{name} 3" for name in names]


def _head(folder, name):
    """The twin of a chapter up to where it begins."""
    source = (ROOT / "chapters" / f"{name}.py").read_text()
    end = source.index("page = begin(")
    path = folder / f"{name}.py"
    path.write_text(source[: source.index("\n", end)])
    return path


def test_a_chapter_ends_with_what_it_took_and_its_data(opened, shown, capsys):
    page = opened("05_dyck")
    page.own = {"seeds": 2, "widths": (4, 8)}
    (transfer,) = (run for run in page.runs() if run.kind == "DyckTransfer")
    page.listed = [transfer]
    page.store.get(transfer)
    data = pd.DataFrame({"x": [1, 2]})
    close(page, data)
    assert "Computed: preset smoke -p seeds 2 -p widths 4,8, 1 runs on " in capsys.readouterr().out
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


class Judging(Chapter):
    """A page that judges two claims."""

    def verdicts(self):
        return verdicts([(BIG, Interval(9, 8.7, 10)), (LONE, UNDEFINED)])


def test_paper_beside_ours_is_shown(opened, shown):
    page = Judging("ii_a", {"preset": "smoke"}, opened("05_dyck").store)
    page.claims = (Topic("Is it so?", (BIG, LONE)),)
    verdicts = beside_the_paper(page)
    pd.testing.assert_frame_equal(verdicts, page.verdicts())
    table, chance = (part.data for part in shown["displayed"])
    assert chance == chance_in_words(verdicts)
    assert set(re.findall(r'id="claim-([^"]+)"', table)) == set(verdicts.id)
    assert set(re.findall(r'href="([^"#]+)#', table)) == {"verdicts.html"}
    said = "+9.00 (8.70 to 10.00)"
    assert said in table


def test_a_page_without_claims_shows_no_verdict(opened, shown, capsys):
    assert beside_the_paper(opened("05_dyck")).empty
    assert "No claim of the paper is about what this page was asked to show." in capsys.readouterr().out
    assert shown == {"displayed": []}


def test_tables_have_no_index_rounded_numbers_and_dashes_for_gaps():
    table = pd.DataFrame({"name": ["a", "b"], "value": [234.567, np.nan], "count": [1000, 2]})
    assert cells(render(table)) == ["a", "234.57", "1,000", "b", "–", "2"]
    assert cells(render(table, decimals=0))[1] == "235"
    assert cells(render(pd.DataFrame({"a": [-0.5, -0.001], "b": "-2 to 3"}))) == [
        "−0.50",
        "−2 to 3",
        "0.00",
        "−2 to 3",
    ]
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


@pytest.mark.parametrize("name", sorted(twins()))
def test_the_command_at_the_end_of_a_page_is_one_that_it_takes(name, home):
    """The smallest preset has the parameter too, and a value that it may have."""
    if " -p " not in example_of(open_page(name)):
        pytest.skip("a page of what other pages computed")
    parameter, value = example_of(open_page(name)).rpartition(" -p ")[2].split()
    known = declared(name).parameters[parameter]
    value = known.checked(parameter, float(value))
    changed, plain = open_page(name, preset="smoke", **{parameter: value}), open_page(name, preset="smoke")
    assert changed.values[parameter] == value != plain.values[parameter]
    if name != "a2_conditionals":  # which stores nothing
        assert changed.runs() != plain.runs()
