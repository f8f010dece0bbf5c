"""What a page may set: values are checked, and papermill reads their cell back."""

import math
from dataclasses import dataclass, field

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from papermill.translators import PythonTranslator

from sameloss.errors import ParameterError
from sameloss.store.store import Run
from sameloss.studies.parameters import (
    MOST_SEEDS,
    OF_EVERY_PAGE,
    PRESETS,
    Config,
    Parameter,
    cell,
    checked,
    choose,
    param,
    parameters_in,
    placed,
    replaced,
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


# A configuration: what a reader sets is in its field, bounds hold everywhere, no key depends on limits.


@dataclass(frozen=True)
class Inner:
    steps: int = 1
    others: int = 1
    kept: int = 7


@dataclass(frozen=True)
class Toy(Config):
    rate: float = param("of learning", 0.5, kind=float, most=2)
    training_steps: int = param("of SGD", 10, name="steps")
    model: str | None = param("of all", kind=str)
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Reading(Run):
    config: Toy


def test_parameters_are_the_fields_that_say_so_the_studys_own_first():
    assert list(Toy.parameters()) == ["rate", "steps", "model", "max_hours", "workers"]
    assert Toy.parameters()["steps"].line("steps") == "steps: int = None  # of SGD"


def test_what_a_reader_gave_is_in_its_field_and_the_rest_as_it_was():
    found = Toy("laptop").resolve({"steps": 3, "rate": None, "workers": 2, "elsewhere": 1})
    assert found == Toy("laptop", training_steps=3, workers=2)
    assert (found.name, found.workers, found.rate) == ("laptop", 2, 0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": 3.0}, "rate is at most 2; got 3"),
        ({"training_steps": 0}, "steps must be positive; got 0"),
        ({"training_steps": 1.5}, "steps must be a whole number; got 1.5"),
        ({"workers": 0}, "workers must be positive"),
    ],
)
def test_bounds_hold_wherever_a_value_comes_from(given, message):
    with pytest.raises(ParameterError, match=message):
        Toy(**given)


def test_no_key_depends_on_a_presets_name_or_on_limits():
    plain = Reading(Toy())
    assert Reading(Toy("paper", max_hours=3.0, workers=2)).key == plain.key
    assert Reading(Toy(rate=1.0)).key != plain.key
    assert "workers" not in str(plain.parameters())


def test_values_stand_at_their_paths_and_nowhere_else():
    paths = {"steps": ("inner.steps", "inner.others"), "rate": ("rate",)}
    assert placed(Toy(), paths, {"steps": 3, "rate": None}) == Toy(inner=Inner(3, 3))
    assert placed(Toy(), paths, {}) == Toy()
    assert replaced(Toy(), "inner", Inner(2)) == Toy(inner=Inner(2))
    for path in ("outer.steps", "inner.depth"):
        with pytest.raises((AttributeError, TypeError)):
            replaced(Toy(), path, 1)
