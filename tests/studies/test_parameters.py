"""What a page may set: values are checked, and papermill reads their cell back."""

import math

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from papermill.translators import PythonTranslator

from sameloss.errors import ParameterError
from sameloss.studies.parameters import (
    MOST_SEEDS,
    OF_EVERY_PAGE,
    PRESETS,
    Parameter,
    cell,
    checked,
    choose,
    parameters_in,
)

TABLE = {
    "size": Parameter("of what", default="all"),
    "corpus": Parameter("fixed or endless", default="fixed", choices=("fixed", "endless")),
    "labels": Parameter("a or b; None: neither", str | None, choices=("a", "b")),
    "steps": Parameter("of training", int | None),
    "rate": Parameter("of learning", float | None),
    "seeds": Parameter("of pre-training", int | None, most=MOST_SEEDS),
    "strength": Parameter("of an algorithm", float | None, may_be_zero=True),
}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("steps", 0, "steps must be positive; got 0."),
        ("steps", -5, "steps must be positive; got -5."),
        ("steps", "many", "steps must be a whole number; got 'many'."),
        ("steps", 1.5, "steps must be a whole number; got 1.5."),
        ("steps", True, "steps must be a whole number; got True."),
        ("steps", math.nan, "steps must be positive; got nan."),
        ("steps", math.inf, "steps is at most 2,147,483,648; got inf."),
        ("steps", 1e308, "steps is at most 2,147,483,648; got 1e+308."),
        ("rate", math.inf, "rate is at most 2,147,483,648; got inf."),
        ("seeds", 301, "seeds is at most 300; got 301."),
        ("size", "", "size is empty; leave it out, or give a name."),
        ("size", "a\0b", "size holds the character '\\x00'; give a name without."),
        ("size", "a\nb", "size holds the character '\\n'; give a name without."),
        ("size", "a\ud800", "size holds the character '\\ud800'; give a name without."),
        ("size", [10**5000], "size must be a name; got one of type list."),
        ("rate", [1] * 999, f"rate must be a number; got {str([1] * 20)[:-1]}, ...."),
        ("steps", [1], "steps must be a whole number; got [1]."),
        ("rate", "1h", "rate must be a number; got '1h'."),
        ("rate", 0, "rate must be positive; got 0."),
        ("strength", -1, "strength must be positive; got -1."),
        ("size", 235, "size must be a name; got 235."),
        ("size", None, "size must be a name; got None."),
        ("corpus", "huge", "Unknown corpus 'huge'; choose one of fixed, endless."),
        ("labels", "c", "Unknown labels 'c'; choose one of a, b."),
        (
            "szie",
            "10K",
            f"Unknown parameter 'szie'; valid here are {', '.join(TABLE)}.",
        ),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(name, value, sentence):
    with pytest.raises(ParameterError) as refused:
        checked(TABLE, {name: value})
    assert str(refused.value) == sentence


@pytest.mark.parametrize("name", ["steps", "rate"])
@pytest.mark.parametrize(("digits", "sign"), [(400, 1), (5000, -1)])
def test_a_whole_number_beyond_all_floats_is_refused_in_one_sentence(name, digits, sign):
    with pytest.raises(
        ParameterError, match=rf"^{name} (is at most 2,147,483,648; got inf|must be positive)"
    ):
        checked(TABLE, {name: sign * 10**digits})


def test_what_is_not_given_has_its_default():
    defaults = {"size": "all", "corpus": "fixed", "labels": None, "steps": None, "rate": None, "seeds": None}
    assert checked(TABLE, {"strength": 0}) == {**defaults, "strength": 0}


@given(st.integers(1, 10**9))
def test_papermills_numbers_are_whole_where_they_should_be(steps):
    """It reads `1e4` as a float."""
    for value in (steps, float(steps)):
        found = TABLE["steps"].checked("steps", value)
        assert found == steps
        assert type(found) is int
    assert type(TABLE["rate"].checked("rate", steps)) is float


def test_a_home_folder_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checked(TABLE, {"size": "~/mine"})["size"] == str(tmp_path / "mine")
    assert checked(TABLE, {"size": "~nobody-here/mine"})["size"] == "~nobody-here/mine"


def test_a_choice_is_one_of_those_there_are():
    assert choose("preset", "b", "ab") == "b"
    with pytest.raises(ParameterError, match=r"Unknown preset 'c'; choose one of a, b\."):
        choose("preset", "c", "ab")


def test_every_value_of_a_plain_namespace_is_a_parameter():
    namespace = {"size": "10K", "steps": None, "math": math, "begin": checked, "Parameter": Parameter, "_": 1}
    assert parameters_in(namespace) == {"size": "10K", "steps": None}


def test_parameters_of_a_notebook_are_what_its_cells_assigned():
    """And neither papermill's own, nor a start-up file's, nor what is still to come."""
    injected = 'Seeds = 1\nPAPERMILL_INPUT_PATH = "x"\nimport math'
    cells = [
        "",
        "size: str = 'all'\nsteps = 5",
        "this does not run",
        injected,
        "page = begin(globals(), 'x')",
    ]
    found = {"size": "all", "steps": 5, "Seeds": 1}
    namespace = {"In": cells, "Out": {}, "SEED": 7, "PAPERMILL_INPUT_PATH": "x", "math": math, **found}
    assert parameters_in(namespace) == found


def test_papermill_reads_a_cell_back():
    """What `papermill --help-notebook` prints of it: name, type, default and help."""
    read = PythonTranslator.inspect(nbformat.v4.new_code_cell(cell({**TABLE, **OF_EVERY_PAGE})))
    found = {p.name: (p.inferred_type_name, p.default, p.help) for p in read}
    assert found["size"] == ("str", '"all"', "of what")
    assert found["steps"] == ("int", "None", "of training")
    assert found["strength"] == ("float", "None", "of an algorithm")
    assert list(found) == [*TABLE, *OF_EVERY_PAGE]


def test_a_cell_is_python_that_gives_the_defaults():
    namespace = {}
    exec(cell(TABLE), namespace)
    assert checked(TABLE, parameters_in(namespace)) == checked(TABLE, {})


def test_every_page_can_be_asked_for_every_preset():
    assert OF_EVERY_PAGE["preset"].choices == ("auto", *PRESETS)
