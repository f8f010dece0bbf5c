"""The studies of the book are found in their folders: a new one needs no line elsewhere in the library."""

import math
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from sameloss import studies
from sameloss.book.cells import Chapter
from sameloss.book.chapter import begin
from sameloss.book.costs import announce
from sameloss.book.pages import all_statements, all_studies, open_page, study_of
from sameloss.book.twins import stale_cells, with_parameters
from sameloss.device import device_name
from sameloss.errors import BookError, ParameterError
from sameloss.store.store import Store
from sameloss.studies.parameters import cell

ROOT = Path(__file__).parents[2]


NAMES = ("same_loss",)


IN_CELLS = (
    "02_confirmation",
    "03_implicit_bias",
    "05_dyck",
    "ii2_stability",
    "ii3_images",
    "ii3_local_signal",
    "ii3_proofs",
    "ii4_decision_lists",
    "ii5_growing",
    "ii5_stacking",
)
"""Chapters whose experiment stands in their cells."""


def test_every_folder_with_pages_is_a_study():
    assert set(all_studies()) == {
        *(f"sameloss.studies.{name}.pages" for name in NAMES),
        "sameloss.book.pages",
        *IN_CELLS,
    }


EVERY_PAGE = [(study, name) for study in all_studies().values() for name in study.specs]
BY_NAME = [pytest.param(*pair, id=pair[1]) for pair in EVERY_PAGE]


def test_a_page_belongs_to_one_study():
    names = [name for _, name in EVERY_PAGE]
    assert len(set(names)) == len(names)
    for study, name in EVERY_PAGE:
        assert study_of(name) is study


@pytest.mark.parametrize(("study", "name"), BY_NAME)
def test_every_page_is_a_chapter_and_its_defaults_are_of_its_parameters(study, name):
    assert (ROOT / "chapters" / f"{name}.py").exists()
    assert set(study.specs[name].defaults) <= set(study.table(name))


@pytest.mark.parametrize(("study", "name"), BY_NAME)
def test_every_number_a_reader_sets_changes_the_configuration_of_some_preset(study, name, tmp_path):
    """A field that is renamed would otherwise be found by the reader who sets it."""
    for parameter, about in study.table(name).items():
        if about.kind in (int | None, float | None) and parameter != "length_limit":  # of a grammar alone
            value = about.checked(parameter, min(max(8, about.least), about.most))
            opened = partial(study.open, name, store=Store(tmp_path))
            changed = [_changed(opened, preset, {parameter: value}) for preset in study.presets]
            assert any(changed), parameter


def _changed(opened, preset, given):
    """Tell whether a preset with a value is another, or the value is refused."""
    plain = _identity(opened({"preset": preset}))
    with suppress(BookError):
        return _identity(opened({"preset": preset, **given})) != plain
    return True


def _identity(page):
    runs = [run.key for run in page.runs()] if isinstance(page, Chapter) else []
    return page.config, page.config.max_hours, page.config.workers, page.tolerance, runs


def test_an_unknown_page_is_refused_with_those_there_are():
    with pytest.raises(ParameterError) as refused:
        open_page("02_existance")
    sentence = str(refused.value)
    assert sentence.startswith(
        "No study has a page '02_existance'; pages are 01_introduction, 02_confirmation, 02_existence, "
    )
    assert sentence.endswith(
        "e_mask_rate, ii2_stability, ii3_images, ii3_local_signal, ii3_proofs, "
        "ii4_decision_lists, ii5_growing, ii5_stacking, verdicts."
    )


# A study of its own, in a folder that the library does not know

SQUARES = {
    "__init__.py": "",
    "experiment.py": '''
        """How many numbers are squared, the stored squares, and what is claimed of them."""

        from dataclasses import dataclass

        import pandas as pd

        from sameloss.runs.stage import stage
        from sameloss.statistics.intervals import Interval
        from sameloss.studies.parameters import Config, param
        from sameloss.studies.parameters import PRESETS as NAMES
        from sameloss.studies.statement import Check, Statement, check_table
        from sameloss.studies.verdict import Claim, Topic


        @dataclass(frozen=True)
        class Squaring(Config):
            """What a reader can set."""

            numbers: int = param("how many are squared; None: 3", 3)


        PRESETS = {name: Squaring(name) for name in NAMES}


        @stage("Squares")
        def squares(numbers: int) -> pd.DataFrame:
            """One row a number."""
            x = pd.Series(range(1, numbers + 1))
            return pd.DataFrame({"x": x, "square": x**2})


        def mean_step(table: pd.DataFrame) -> Interval:
            """Return by how much longer each step is than the one before."""
            longer = table.square.diff().diff().dropna()
            return Interval(longer.mean(), longer.min(), longer.max())


        TOPICS = (
            Topic(
                "Do squares grow?",
                (
                    Claim("squares", "Eq. 1", "each step is 2 longer", "ii_squares", mean_step, value=2.0),
                    Claim("cubes", "Eq. 2", "so is each of cubes", "ii_squares"),
                ),
            ),
        )

        STATEMENTS = {"sum": Statement("Lemma 1", "Steps add up to the square.")}


        def checks(table: pd.DataFrame) -> pd.DataFrame:
            """Return the one check."""
            total = float(1 + table.square.diff().sum())
            return check_table([Check("sum", "sum of steps", total, float(table.square.iloc[-1]), 0.0)])
    ''',
    "pages.py": '''
        """The page on squares."""

        from dataclasses import dataclass

        import pandas as pd

        from sameloss.store.store import Run
        from sameloss.studies.page import Page, PageSpec, Study
        from sameloss.studies.squares.experiment import PRESETS, STATEMENTS, TOPICS, Squaring, checks, squares


        @dataclass
        class SquaresPage(Page[Squaring]):
            """The page on squares."""

            topics, exact = TOPICS, STATEMENTS

            def runs(self) -> list[Run]:
                """Return the one run."""
                return [squares(self.config.numbers)]

            @property
            def results(self) -> pd.DataFrame:
                """Return the squares."""
                return self.store.get(squares(self.config.numbers))

            @property
            def checks(self) -> pd.DataFrame:
                """Return the check of the lemma."""
                return checks(self.results)


        STUDY = Study(PRESETS, {"ii_squares": PageSpec(SquaresPage)})
    ''',
}


@pytest.fixture
def squares(home, monkeypatch):
    """Put a study into a folder of its own, and take it away again."""
    folder = home / "elsewhere" / "squares"
    folder.mkdir(parents=True)
    for name, source in SQUARES.items():
        (folder / name).write_text(dedent(source))
    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(folder.parent)])
    yield
    for name in [name for name in sys.modules if name.startswith("sameloss.studies.squares")]:
        del sys.modules[name]
    del studies.squares


@pytest.mark.usefixtures("squares")
class TestAStudyOfItsOwn:
    def test_its_page_opens_and_its_parameters_are_checked(self):
        page = open_page("ii_squares", numbers=4.0)
        assert (page.name, page.config.name, page.config.numbers) == ("ii_squares", "laptop", 4)
        with pytest.raises(ParameterError, match=r"numbers must be a whole number; got 'few'\."):
            open_page("ii_squares", numbers="few")
        with pytest.raises(ParameterError) as refused:
            open_page("ii_squares", size="40K")
        valid = "preset, numbers, max_hours, workers, device, artifacts"
        assert str(refused.value) == f"Unknown parameter 'size'; valid here are {valid}."
        with pytest.raises(ParameterError, match=r"pages are 01_introduction, .* ii_squares, verdicts\."):
            open_page("ii_cubes")

    def test_its_cell_is_written(self, home):
        chapters = home / "chapters"
        empty = '# %% tags=["parameters"]\nx = 1\n\n# %%\nbegin()\n'
        tables = {name: study.table(name) for study in all_studies().values() for name in study.specs}
        for name, table in tables.items():
            source = empty if name == "ii_squares" else with_parameters(empty, cell(table))
            (chapters / f"{name}.py").write_text(source)
        ((path, source),) = stale_cells(chapters).items()
        assert path.stem == "ii_squares"
        assert "\nnumbers: int = None  # how many are squared; None: 3\n" in source
        assert source.endswith("\n\n# %%\nbegin()\n")

    def test_its_runs_are_computed_once_and_its_verdicts_come_out(self, capsys):
        page = open_page("ii_squares", numbers=4)
        told = announce(page)
        assert told.startswith("preset laptop: 1 of 1 runs to compute, about ")
        assert f" at once ({device_name()}): " in told
        table = page.verdicts()
        assert page.store.has(*page.runs())
        assert table.verdict.tolist() == ["reproduced", "not testable here"]
        assert table.ours[0] == 2
        again = begin({"numbers": 4}, study_of("ii_squares"), "ii_squares")
        assert "all 1 runs are in the store" in capsys.readouterr().out
        assert again.results.square.tolist() == [1, 4, 9, 16]

    def test_the_pages_about_all_studies_read_it_too(self):
        page = open_page("verdicts", preset="smoke")
        (own,) = (other for other in page.pages if other.name == "ii_squares")
        assert own.config.name == "smoke"
        assert own.store is page.store
        assert own.runs()[0].key in {run.key for run in page.runs()}
        table = all_statements([own])
        assert table[["id", "verdict", "page"]].to_numpy().tolist() == [["sum", "holds", "ii_squares"]]


def test_and_is_gone_without_a_trace():
    assert "sameloss.studies.squares.pages" not in all_studies()
    with pytest.raises(ParameterError, match="No study has a page 'ii_squares'"):
        open_page("ii_squares")


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


@pytest.mark.parametrize("name", sorted(n for study in all_studies().values() for n in study.specs))
def test_any_value_of_any_parameter_is_accepted_or_refused_in_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sameloss.hub._answers", lambda: False)
    (tmp_path / "mine.txt").write_text(GRAMMAR)
    said = []
    for parameter in study_of(name).table(name):
        for value in HOSTILE:
            given = {"artifacts": str(tmp_path), **COMPANIONS.get(parameter, {}), parameter: value}
            try:
                open_page(name, **given)
            except BookError as fault:
                said.append(str(fault))
    assert said
    assert not [sentence for sentence in said if len(sentence.splitlines()) > 1 or sentence[-1] != "."]
    assert "\n".join(said).encode()
