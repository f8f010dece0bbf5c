"""A configuration: what a reader sets is in its field, bounds hold everywhere, no key depends on limits."""

from dataclasses import dataclass, field

import pytest

from sameloss.errors import ParameterError
from sameloss.store.store import Run
from sameloss.studies.config import Config, param, placed, replaced


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
