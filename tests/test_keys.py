"""Keys: what is in them, what stays out of them, and those of the book."""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from library import run_classes
from recorded import defaults, keys
from recorded.files import RECORD, read

from sameloss.store.store import Run, Store, with_ancestors


def toy(*fields, name="Toy", bases=(Run,)):
    """Make a run's class of that name: of two, one is the other with a field more."""
    return make_dataclass(name, fields, bases=bases, frozen=True)


def settings(*fields):
    return toy(*fields, name="Settings", bases=())


def test_a_new_field_at_its_default_renames_no_run():
    old, new = toy(("steps", int)), toy(("steps", int), ("rate", float, 0.5))
    assert new(3).key == new(3, rate=0.5).key == old(3).key
    assert len({old(3).key, old(4).key, new(4, rate=0.25).key, new(3, rate=0.25).key}) == 4


def test_nor_does_one_of_the_settings_inside_a_run():
    old, new = settings(("width", int)), settings(("width", int), ("depth", int, 2))
    holder = toy(("one", object), ("more", tuple))
    assert holder(new(8), (new(9),)).key == holder(old(8), (old(9),)).key
    assert holder(new(8, 3), (new(9),)).key != holder(old(8), (old(9),)).key
    assert holder(new(8), (new(9, 3),)).key != holder(old(8), (old(9),)).key


def test_settings_that_are_themselves_a_default_stay_out():
    kind = settings(("width", int, 8), ("depth", int, 2))
    old, new = toy(("steps", int)), toy(("steps", int), ("shape", kind, kind(depth=3)))
    assert new(1, kind(8, 3)).key == new(1).key == old(1).key
    assert len({old(1).key, new(1, kind()).key, new(1, kind(depth=4)).key}) == 3


def test_a_default_that_is_made_stays_out_and_so_does_a_run():
    parent = toy(("steps", int), name="Parent")
    old = toy(("steps", int))
    new = toy(("steps", int), ("names", list, field(default_factory=list)), ("origin", Run, parent(1)))
    assert new(1).key == new(1, [], parent(1)).key == old(1).key
    assert len({old(1).key, new(1, ["a"]).key, new(1, [], parent(2)).key}) == 3


def test_settings_of_another_class_are_another_run():
    """Even where all of both stands at its default."""
    holder = toy(("shape", object, settings()()))
    assert holder(settings()()).key == holder().key
    assert holder(toy(name="Other", bases=())()).key != holder().key


@pytest.mark.parametrize("default", [1, 1.0, True])
def test_one_is_three_values(default):
    """Whole, fraction and truth: equal in Python, but each may mean something else to a run."""
    kind = toy(("value", object, default), ("pair", tuple, (default,)))
    assert len({kind(value).key for value in (1, 1.0, True)}) == 3
    assert len({kind(pair=(value,)).key for value in (1, 1.0, True)}) == 3
    assert kind(default, (default,)).key == kind().key


plain = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([-0.0, 0.0, 1.0]) | st.text("ab")
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=4)


@given(defaults=st.tuples(values, values), one=st.tuples(values, values), other=st.tuples(values, values))
def test_different_runs_have_different_keys(defaults, one, other):
    """Whatever the defaults are: leaving them out confuses nothing."""
    kind = toy(*((name, object, default) for name, default in zip("ab", defaults, strict=True)))
    assert (kind(*one).key == kind(*other).key) == (repr(one) == repr(other))
    assert (kind(*one).key == kind().key) == (repr(one) == repr(defaults))


@dataclass(frozen=True)
class Noted(Run):
    """A run with a field that nobody sets."""

    steps: int
    rate: float = 0.5

    def compute(self, folder, store, report):
        (folder / "done").touch()

    def load(self, folder):
        return None


def test_the_manifest_keeps_what_the_key_leaves_out(tmp_path):
    """A reader of a result does not know the defaults of the code that made it."""
    store, run = Store(tmp_path), Noted(3)
    store.get(run)
    assert store.manifest(run)["parameters"] == {"run": "Noted", "schema": 1, "steps": 3, "rate": 0.5}
    assert "rate" not in run.canonical()
    assert replace(run, rate=0.25).canonical()["rate"] == 0.25


# Those of the library


def test_classes_of_runs_have_names_of_their_own():
    """A key and a folder know a class by its name alone; so do the settings in a key."""
    runs = run_classes()
    for kinds in (runs, {part for run in runs for part in defaults.in_keys(run)}):
        assert [name for name, count in Counter(map(defaults.name_in_keys, kinds)).items() if count > 1] == []


def test_no_field_has_the_name_of_what_a_key_adds():
    kinds = {part for run in run_classes() for part in defaults.in_keys(run)}
    assert not {field.name for kind in kinds for field in fields(kind)} & {"run", "schema", "type", "key"}


def test_defaults_are_those_recorded():
    recorded, found = read(defaults.FILE), defaults.found()
    changed = defaults.changed(recorded, found)
    assert not changed, "\n".join(changed)
    assert found == recorded, f"Fields with a default came or went, or a schema was raised; {RECORD}."


def test_a_changed_default_asks_for_the_schemas_of_the_runs_that_have_it():
    recorded = read(defaults.FILE)
    found = deepcopy(recorded)
    found["defaults"]["Optimisation"]["warmup"] = 0.5
    (sentence,) = defaults.changed(recorded, found)
    assert sentence.startswith(
        "Optimisation.warmup = 0.06 became 0.5, and a default that is part of keys changed"
    )
    assert sentence.endswith("or raise the schema of CoolDown, GrowthBase, Pretraining.")
    found["schemas"]["Pretraining"] += 1
    (sentence,) = defaults.changed(recorded, found)
    assert sentence.endswith("or raise the schema of CoolDown, GrowthBase.")
    found["schemas"]["CoolDown"] += 1
    found["schemas"]["GrowthBase"] += 1
    assert defaults.changed(recorded, found) == []


def test_a_new_default_is_recorded_and_raises_no_schema():
    recorded = read(defaults.FILE)
    found = deepcopy(recorded)
    found["defaults"]["Optimisation"]["momentum"] = 0.0
    assert defaults.changed(recorded, found) == []
    found["defaults"]["Optimisation"]["sam_radius"] = 0
    assert len(defaults.changed(recorded, found)) == 1


def parts(value):
    """Yield the dataclasses in a value, inside tuples too, down to other runs."""
    if isinstance(value, tuple | list):
        yield from (part for item in value for part in parts(item))
    elif is_dataclass(value) and not isinstance(value, Run):
        yield from (
            defaults.name_in_keys(type(value)),
            *parts([getattr(value, f.name) for f in fields(value)]),
        )


def test_no_dataclass_in_a_key_is_overlooked():
    """What the types of fields allow is what the runs of the book hold, and more.

    A stage in a chapter's cell has no default to hold: its source is part of the key.
    """
    pages = (run for runs in keys.page_runs().values() for run in runs)
    runs = [run for run in with_ancestors(pages) if not run.cell_source]
    held = {name for run in runs for f in fields(run) for name in parts(getattr(run, f.name))}
    assert held >= {"PCFGSpec", "HMMSpec", "TeacherSpec", "Objective", "DyckSettings"}
    assert {run.kind for run in runs} | held <= read(defaults.FILE)["defaults"].keys()


def test_keys_of_the_smoke_preset_are_those_recorded():
    recorded, found = set(read(keys.FILE)), set(keys.found())
    lost, new = (
        dict(Counter(key.split("/")[0] for key in part)) for part in (recorded - found, found - recorded)
    )
    assert not lost | new, (
        f"Keys changed: results of {lost} are lost, {new} are to be computed. Where a preset or a schema "
        f"changed on purpose, {RECORD}."
    )
