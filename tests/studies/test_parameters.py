"""Parameters of pages: types, choices, bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sameloss.errors import ParameterError
from sameloss.studies.parameters import MOST_SEEDS, Parameter, assigned, checked, choose

TABLE = {
    "size": Parameter("of what", default="all"),
    "corpus": Parameter("fixed or endless", default="fixed", choices=("fixed", "endless")),
    "labels": Parameter("a or b; None: neither", str | None, choices=("a", "b")),
    "steps": Parameter("of training", int | None),
    "rate": Parameter("of learning", float | None),
    "seeds": Parameter("of pre-training", int | None, most=MOST_SEEDS),
    "strength": Parameter("of an algorithm", float | None, may_be_zero=True),
}


UNUSABLE = "size must be a name of printable characters, at most 255 bytes between slashes and 3,000 in all"


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
        *(("size", name, f"{UNUSABLE}; got {name!r}.") for name in ("", "a\0b", "a\nb", "a\ud800")),
        ("size", 30 * "long/" + 256 * "x", f"{UNUSABLE}; got '{(30 * 'long/')[:59]} ...."),
        ("rate", [1] * 999, f"rate must be a number; got {str([1] * 20)[:-1]}, ...."),
        ("steps", [1], "steps must be a whole number; got [1]."),
        ("rate", "1h", "rate must be a number; got '1h'."),
        ("rate", "1e400", "rate is at most 2,147,483,648; got inf."),
        ("rate", "100", "rate must be a number; got '100'."),
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
def test_a_bad_value_is_an_error_with_one_sentence(name, value, sentence):
    with pytest.raises(ParameterError) as refused:
        checked(TABLE, {name: value})
    assert str(refused.value) == sentence


@pytest.mark.parametrize("name", ["steps", "rate"])
@pytest.mark.parametrize(("sign", "rule"), [(1, "is at most 2,147,483,648"), (-1, "must be positive")])
def test_an_integer_beyond_all_floats_is_an_error(name, sign, rule):
    with pytest.raises(ParameterError, match=f"^{name} {rule}; got "):
        checked(TABLE, {name: sign * 10**400})


def test_missing_parameters_have_their_defaults():
    defaults = {"size": "all", "corpus": "fixed", "labels": None, "steps": None, "rate": None, "seeds": None}
    assert checked(TABLE, {"strength": 0}) == {**defaults, "strength": 0}


@given(st.integers(1, 10**9))
def test_integral_floats_become_integers(steps):
    """Papermill reads `1e4` as a float."""
    for value in (steps, float(steps)):
        number = TABLE["steps"].checked("steps", value)
        assert number == steps
        assert type(number) is int
    assert type(TABLE["rate"].checked("rate", steps)) is float


@pytest.mark.parametrize("text", ["1e2", "1E+2", "1.e2", "1000e-1"])
def test_numbers_are_those_of_yaml_files_too(text):
    """PyYAML reads an exponent without a dot or a sign as text."""
    for name in ("steps", "rate"):
        assert TABLE[name].checked(name, text) == 100


def test_home_folders_are_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checked(TABLE, {"size": "~/mine"})["size"] == str(tmp_path / "mine")
    assert checked(TABLE, {"size": "~nobody-here/mine"})["size"] == "~nobody-here/mine"


def test_choose_returns_one_of_the_choices():
    assert choose("preset", "b", "ab") == "b"
    with pytest.raises(ParameterError, match=r"Unknown preset 'c'; choose one of a, b\."):
        choose("preset", "c", "ab")
    with pytest.raises(ParameterError, match="choose one of a small one, tested; b"):
        choose("model", "c", ("a small one, tested", "b"))


def test_names_that_a_cell_assigns():
    assert assigned("REPO = 'x'\nsize: str = 'a'\nfor i in (1, 2): pass") == {"REPO", "size", "i"}
    assert assigned("not Python") == set()
