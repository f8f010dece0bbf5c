"""Every chapter: its parameters reach its runs, and a new one needs no line elsewhere."""

import math
from contextlib import suppress
from functools import cache, partial

import numpy as np
import pytest
from quick_workers import quick_workers

from sameloss.book.cells import declared, twins
from sameloss.book.pages import all_statements, open_page, pages_at
from sameloss.book.run import run
from sameloss.device import device_name
from sameloss.errors import BookError, ParameterError
from sameloss.store.pool import compute_all
from sameloss.store.store import Store

NAMES = sorted(twins())

SMALLEST = {"length_limit": "grammar"}
"""Numbers that go with something else only."""


@pytest.mark.parametrize("name", NAMES)
def test_every_number_a_reader_sets_changes_the_chapter_at_some_preset(name, tmp_path):
    """One that no cell reads would otherwise be found by the reader who sets it."""
    page, opened = declared(name), partial(open_page, name, artifacts=str(tmp_path))
    plain = cache(lambda preset: _identity(opened(preset=preset)))
    for parameter, about in page.parameters.items():
        if about.kind in (int | None, float | None) and parameter not in SMALLEST:
            value = about.checked(parameter, min(max(8, about.least), about.most))
            changed = partial(opened, **{parameter: value})
            assert any(_differs(plain(preset), changed, preset) for preset in page.presets), parameter


def _differs(plain, changed, preset):
    """Tell whether a preset with a value is another, or the value is refused."""
    with suppress(BookError):
        return _identity(changed(preset=preset)) != plain
    return True


def _identity(page):
    read = {
        name: page.values[name]
        for name in ("max_hours", "workers", "sentences", "tolerance")
        if name in page.values
    }
    return read, [run.key for run in page.runs()]


# A chapter of its own, in a book that the library does not know

SQUARES = """# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop
numbers: int = None  # how many are squared; None: 3
max_hours: float = None  # refuse what takes longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% tags=["experiment"]
import pandas as pd

from sameloss.book.cells import begin
from sameloss.runs.stage import stage
from sameloss.statistics.intervals import Interval
from sameloss.studies.statement import Check, Statement, check_table
from sameloss.studies.verdict import Claim, Topic


@stage("Squares")
def squares(numbers: int) -> pd.DataFrame:
    x = pd.Series(range(1, numbers + 1))
    return pd.DataFrame({"x": x, "square": x**2})


def mean_step(table):
    longer = table.square.diff().diff().dropna()
    return Interval(longer.mean(), longer.min(), longer.max())


def check(table):
    total = float(1 + table.square.diff().sum())
    return check_table([Check("sum", "sum of steps", total, float(table.square.iloc[-1]), 0.0)])


CLAIMS = (
    Claim("squares", "Eq. 1", "each step is 2 longer", "ii_squares", mean_step, value=2.0),
    Claim("cubes", "Eq. 2", "so is each of cubes", "ii_squares"),
)
page = begin(
    globals(), "ii_squares", {"smoke": {"numbers": 3}, "laptop": {"numbers": 3}}, check=check,
    topics=(Topic("Do squares grow?", CLAIMS),), exact={"sum": Statement("Lemma 1", "Steps add up.")},
)
(table,) = page.compute(squares(page.numbers))

# %% tags=["comparison"]
page.results = table

# %%
print(f"the last square is {table.square.iloc[-1]}")
"""


@pytest.fixture
def squares(home):
    (home / "chapters" / "ii_squares.py").write_text(SQUARES)
    return partial(open_page, "ii_squares")


class TestAChapterOfItsOwn:
    def test_it_opens_and_its_parameters_are_checked(self, squares):
        page = squares(numbers=4.0)
        assert (page.name, page.preset, page.numbers) == ("ii_squares", "laptop", 4)
        with pytest.raises(ParameterError, match=r"numbers must be a whole number; got 'few'\."):
            squares(numbers="few")
        with pytest.raises(ParameterError) as refused:
            squares(size="40K")
        valid = "preset, numbers, max_hours, workers, device, artifacts"
        assert str(refused.value) == f"Unknown parameter 'size'; valid here are {valid}."
        with pytest.raises(ParameterError, match=r"Unknown page 'ii_cubes'; choose one of ii_squares\."):
            open_page("ii_cubes")

    def test_its_runs_are_computed_once_and_its_verdicts_come_out(self, squares, home, capsys):
        page = squares(numbers=4)
        told = page.announce()
        assert told.startswith("preset laptop: 1 of 1 runs to compute, about ")
        assert f" at once ({device_name()}): " in told
        table = page.verdicts()
        assert page.store.has(*page.runs())
        assert table.direction.tolist() == ["supported", "not testable"]
        assert table["size"].tolist() == ["as published", ""]
        assert table.ours[0] == 2
        run(home / "chapters" / "ii_squares.py", {"numbers": 4})
        assert capsys.readouterr().out == (
            "preset laptop: all 1 runs are in the store; nothing is computed.\nthe last square is 16\n"
        )

    def test_what_is_edited_in_a_cell_is_computed_anew(self, squares, home):
        """Also what the run calls or reads in the notebook; comments of other cells change nothing."""
        twin, key = home / "chapters" / "ii_squares.py", squares().runs()[0].key
        helper = "R = 1\n\n\ndef scaled(columns):\n    return pd.DataFrame(columns) * R\n\n\n@stage"
        called = SQUARES.replace("    return pd.DataFrame(", "    return scaled(").replace(
            "@stage", helper, 1
        )
        keys = [key]
        for text in (called, called.replace("R = 1", "R = 2"), called.replace("columns) *", "columns) /")):
            twin.write_text(text)
            keys.append(squares().runs()[0].key)
        twin.write_text(SQUARES.replace("x**2", "x**2 + 0"))
        keys.append(squares().runs()[0].key)
        assert len(set(keys)) == len(keys) == 5
        twin.write_text(SQUARES.replace("mean_step", "mean_of_steps"))
        assert squares().runs()[0].key == key

    def test_its_runs_are_computed_in_other_processes(self, squares, home, tmp_path):
        page = squares(numbers=3, workers=2, artifacts=str(tmp_path / "workers"))
        (run,) = page.runs()
        with quick_workers():
            compute_all(page.store, [run, type(run)(5)], workers=2)
        assert page.store.get(type(run)(5)).square.iloc[-1] == 25
        assert page.store.manifest(run)["parameters"]["source"] == run.cell_source

    def test_pages_about_all_chapters_read_it_too(self, squares, home):
        (own,) = pages_at("smoke", Store(home / "artifacts"))
        assert (own.name, own.preset) == ("ii_squares", "smoke")
        table = all_statements([own])
        assert table[["id", "verdict", "page"]].to_numpy().tolist() == [["sum", "holds", "ii_squares"]]


GRAMMAR = "S A A 1\nA x 0.5\nA y 0.5"

HOSTILE = (
    *(0, -1, 1, 1.5, 5e-324, 1e300, 10**400, math.inf, math.nan, -0.0, 2**63, True),
    *(
        "",
        " ",
        "a\0",
        "a\nb",
        "a\u2028b",
        "a\ud800",
        "x" * 256,
        "x/" * 3000,
        "é" * 200,
        "~",
        "~nobody",
        "None",
    ),
    *("/proc/x", "/proc/kmsg", "/dev/null/x", "/dev/zero", "/etc/passwd", "{x}", "-1", "https://x/y", "'"),
    *(None, [1], {}, b"x", 1j, np.eye(9)),
)

COMPANIONS = {
    "length_limit": {"grammar": "mine.txt"},
    "opt_corpus": {"opt": "facebook/opt-125m"},
    "glue": {"opt": "facebook/opt-125m"},
}


OF_ALL = {"preset", "max_hours", "workers", "device", "artifacts"}
"""Parameters that every page hands to the same code: one page is enough."""

OWN = {name: declared(name).parameters.keys() - (OF_ALL if name != "05_dyck" else set()) for name in NAMES}


@pytest.mark.parametrize("name", [name for name in NAMES if OWN[name]])
def test_any_value_of_any_parameter_is_accepted_or_refused_in_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sameloss.hub._answers", lambda: False)
    (tmp_path / "mine.txt").write_text(GRAMMAR)
    said = []
    for parameter in OWN[name]:
        for value in HOSTILE:
            given = {"preset": "smoke", "artifacts": str(tmp_path), **COMPANIONS.get(parameter, {})}
            try:
                open_page(name, **given | {parameter: value})
            except BookError as fault:
                said.append(str(fault))
    assert said
    assert not [sentence for sentence in said if len(sentence.splitlines()) > 1 or sentence[-1] != "."]
    assert "\n".join(said).encode()
