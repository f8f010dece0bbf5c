"""The defaults of every dataclass that can be part of a key.

Fields at their defaults are left out of keys, so a changed default would give old results a new meaning.
"""

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from library import classes, run_classes

from sameloss.store.store import Run

FILE = "defaults.json"


@cache
def in_keys(kind: type[Run]) -> set[type]:
    """Return the dataclasses whose fields are part of the keys of a class of runs, including itself.

    Its parent runs are left out: they enter its key by their own keys.
    """
    kinds, pending = set(), [kind]
    while pending:
        kinds.add(kind := pending.pop())
        hints = get_type_hints(kind)
        parts = {part for field in fields(kind) for part in _dataclasses(hints[field.name])}
        pending += {part for part in parts if not issubclass(part, Run)} - kinds
    return kinds


def _dataclasses(hint: Any) -> Iterator[type]:
    """Yield the dataclasses that a type hint allows, with subclasses and implementations of protocols."""
    if is_dataclass(hint):
        yield from _kinds_of(hint)
    elif getattr(hint, "_is_protocol", False):
        yield from _following(hint)
    elif isinstance(hint, type):  # a base class
        yield from _kinds_of(hint)[1:]
    for argument in get_args(hint):
        yield from _dataclasses(argument)


@cache
def _kinds_of(base: type) -> list[type]:
    return [base, *(kind for kind in classes() if is_dataclass(kind) and issubclass(kind, base))]


@cache
def _following(protocol: type) -> list[type]:
    members = {name for name in vars(protocol) if not name.startswith("_")}
    return [kind for kind in classes() if is_dataclass(kind) and members <= _attributes(kind)]


def _attributes(kind: type) -> set[str]:
    return {*dir(kind), *(field.name for field in fields(kind))}


def name_in_keys(kind: type) -> str:
    """Name of a dataclass in keys."""
    return getattr(kind, "key_name", kind.__name__)


def found() -> dict[str, Any]:
    """The schemas of all runs, and the defaults of all dataclasses in their keys."""
    runs = run_classes()
    kinds = sorted({part for run in runs for part in in_keys(run)}, key=name_in_keys)
    return {
        "schemas": {run.__name__: run.schema for run in runs},
        "defaults": {name_in_keys(kind): _defaults(kind) for kind in kinds},
    }


@dataclass(frozen=True)
class Default(Run):
    """A run whose key holds one value."""

    value: Any


def _defaults(kind: type) -> dict[str, Any]:
    """The defaults as in keys, without their own fields at defaults."""
    return {
        f.name: Default(_default(f)).canonical()["value"]
        for f in fields(kind)
        if f.compare and _default(f) is not MISSING
    }


def _default(field: Field) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def changed(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name the defaults that changed although runs with them in their keys kept their schemas."""
    sentences = []
    for kind, field, before, now in _other_values(recorded.get("defaults", {}), found["defaults"]):
        runs = [name for name in _holding(kind) if recorded["schemas"].get(name) == found["schemas"][name]]
        if runs:
            sentences.append(
                f"{kind}.{field} = {before!r} became {now!r}, and a default that is part of keys changed: "
                f"give the new value explicitly where it is meant, or raise the schema of {', '.join(runs)}."
            )
    return sentences


def _other_values(recorded: dict[str, Any], found: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield dataclass, field, old and new value of the defaults that differ, but not of removed fields."""
    for kind in recorded.keys() & found.keys():
        for field in recorded[kind].keys() & found[kind].keys():
            if repr(recorded[kind][field]) != repr(found[kind][field]):  # 1, 1.0 and True are three values
                yield kind, field, recorded[kind][field], found[kind][field]


def _holding(name: str) -> list[str]:
    """Names of the runs whose keys a dataclass can be part of."""
    return [run.__name__ for run in run_classes() if name in {name_in_keys(kind) for kind in in_keys(run)}]
