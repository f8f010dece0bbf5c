"""Parameters: the types, choices and bounds that `-p` is held to, and their lines in the parameters cell.

And the configuration of a study: a frozen dataclass whose fields say what a reader can set of it.
"""

import ast
import math
import os
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from os.path import expanduser
from typing import Any, TypeVar, get_args
from unicodedata import category

from sameloss.device import DEVICES
from sameloss.errors import ParameterError

MOST = 2**31
"""No number of anything here, and no strength, is larger."""

MOST_SEEDS = 300
"""Of anything that is repeated, so that what is asked for can be counted before it is computed."""

MOST_WORKERS = 8 * (os.cpu_count() or 1)
"""More processes would wait for each other, and fill the memory: each takes some 0.4 GB."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a page."""

    text: str  # what it is, with its unit or its choices: the comment in the parameters cell
    kind: Any = str  # str, int or float, or one of them `| None`
    default: Any = None
    choices: tuple[str, ...] = ()
    may_be_zero: bool = False  # a zero switches something off; other numbers are numbers of something
    most: float = MOST  # larger numbers mean nothing here
    least: float = 0.0  # nor do smaller ones
    example: str = ""  # a value worth trying, for the command at the end of a page

    def checked(self, name: str, value: Any) -> Any:
        """Return a value in the parameter's type: papermill reads `1e4` as a float.

        Args:
            name: the parameter's name, for the message.
            value: as a notebook has it.

        Raises:
            ParameterError: in one sentence, with what is valid.

        >>> Parameter("steps", int | None).checked("steps", 1e4)
        10000

        """
        wanted, *optional = get_args(self.kind) or (self.kind,)
        if value is None and optional:
            return value
        if wanted is str and isinstance(value, str):
            path = _path(name, value)
            return choose(name, path, self.choices) if self.choices else path
        if wanted is not str and isinstance(value, int | float) and not isinstance(value, bool):
            number = self._bounded(name, value)
            if wanted is float or number.is_integer():
                return wanted(number)
        kinds = {str: "a name", int: "a whole number", float: "a number"}
        raise ParameterError(f"{name} must be {kinds[wanted]}; got {shown(value)}.")

    def _bounded(self, name: str, value: float) -> float:
        try:
            number = float(value)
        except OverflowError:  # Python's whole numbers go beyond
            number = math.inf if value > 0 else -math.inf
        if not (number > 0 or (number == 0 and self.may_be_zero)):
            raise ParameterError(f"{name} must be positive; got {number:g}.")
        if number > self.most:
            raise ParameterError(f"{name} is at most {self.most:,}; got {number:g}.")
        if number < self.least:
            raise ParameterError(f"{name} is at least {self.least:,}; got {number:g}.")
        return number

    def line(self, name: str) -> str:
        """Return the parameter's line in a parameters cell, in the form that papermill's help reads."""
        wanted, *_ = get_args(self.kind) or (self.kind,)
        default = f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)
        return f"{name}: {wanted.__name__} = {default}  # {self.text}"


NOT_IN_NAMES = ("Cc", "Cs", "Zl", "Zp")
"""Kinds of characters that would break a line or cannot be written: control, surrogates, separators."""

LONGEST_NAME = 255
"""Bytes of the name of a file, at most."""

LONGEST_PATH = 3000
"""Bytes of a path, so that names of results fit behind it."""


def _path(name: str, value: str) -> str:
    if not value.strip():
        raise ParameterError(f"{name} is empty; leave it out, or give a name.")
    if odd := [character for character in value if category(character) in NOT_IN_NAMES]:
        raise ParameterError(f"{name} holds the character {odd[0]!a}; give a name without.")
    size, largest = (max(len(part.encode()) for part in parts) for parts in ([value], value.split("/")))
    if largest > LONGEST_NAME or size > LONGEST_PATH:
        raise ParameterError(
            f"{name} is at most {LONGEST_NAME} bytes between slashes, {LONGEST_PATH:,} in all; got {size:,}."
        )
    return expanduser(value)  # noqa: PTH111 - which leaves what no user has as it is, where Path raises


def shown(value: Any) -> str:
    """Return a value as Python writes it, on one line and cut short.

    >>> shown("all")
    "'all'"
    """
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no number of more than 4,300 digits
        return f"one of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]} ..."


PRESETS = ("smoke", "laptop", "laptop-long", "gpu", "paper")
"""The presets of the book, from a test to the paper's protocol; each study says what they are to it."""

MAX_HOURS = {
    "smoke": 1.0,
    "laptop": 5.0,
    "laptop-long": 60.0,
    "workstation": 200.0,
    "gpu": 100.0,
    "paper": 5000.0,
}
"""Hours of a reference core, or where there is a GPU of an H200, above which a page refuses to begin.

Five to ten times what the whole book takes at the preset, and for `paper` about as much: a limit is there to
stop what would take thousands of hours by mistake, and nothing that was meant."""

OF_EVERY_PAGE = {
    "preset": Parameter(f"auto, {', '.join(PRESETS)}", default="auto", choices=("auto", *PRESETS)),
    "device": Parameter("cpu or cuda; auto takes the best there is", default="auto", choices=DEVICES),
    "artifacts": Parameter("folder of the run store; None: artifacts/ beside _config.yml", str | None),
}
"""Parameters that are no part of a configuration; its own are between them."""


def checked(table: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all parameters of a page, checked; what is not given has its default.

    Args:
        table: the page's parameters.
        given: values by name.

    Raises:
        ParameterError: in one sentence, with what is valid.

    """
    for name in given:
        if name not in table:
            raise ParameterError(f"Unknown parameter {name!r}; valid here are {', '.join(table)}.")
    defaults = {name: parameter.default for name, parameter in table.items()}
    return {name: table[name].checked(name, value) for name, value in {**defaults, **given}.items()}


def choose(what: str, value: str, choices: Iterable[str]) -> str:
    """Return a value if it is one of the choices.

    Raises:
        ParameterError: in one sentence, with what is valid.

    """
    choices = tuple(choices)
    if value not in choices:
        raise ParameterError(f"Unknown {what} {shown(value)}; choose one of {', '.join(choices)}.")
    return value


def parameters_in(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the parameters from a notebook's namespace: what its cells assigned before anything else.

    Papermill may assign its own paths among them, and IPython's start-up files run in no cell. Where there
    are no cells, as in a plain script, every value counts.
    """
    cells = [source for source in namespace.get("In", ()) if source.strip()]
    names = _assigned(cells) if cells else (n for n, value in namespace.items() if _is_value(n, value))
    return {n: namespace[n] for n in names if n in namespace and not n.startswith(("_", "PAPERMILL_"))}


def _is_value(name: str, value: Any) -> bool:
    others = callable(value) or isinstance(value, types.ModuleType) or is_dataclass(value)  # such as a study
    return name not in ("In", "Out") and not others


def _assigned(cells: Iterable[str]) -> Iterator[str]:
    """Yield the names that assignments at the top level of some cells assign, in order."""
    for source in cells:
        with suppress(SyntaxError):  # of a cell that did not run
            for statement in ast.parse(source).body:
                if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
                    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
                    yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


def cell(table: Mapping[str, Parameter]) -> str:
    """Return the source of the parameters cell of a page."""
    return "\n".join(parameter.line(name) for name, parameter in table.items())


# The configuration of a study

C = TypeVar("C")


def param(
    text: str,
    default: Any = None,
    kind: type = int,
    name: str | None = None,
    *,
    compare: bool = True,
    **bounds: Any,
) -> Any:
    """Declare a field of a configuration that a notebook can set.

    Args:
        text: what it is, for the comment in the parameters cell.
        default: of the field.
        kind: int, float or str.
        name: in notebooks; the field's where None.
        compare: whether it is part of equality, and of the keys of runs that have the configuration.
        bounds: see `Parameter`.

    """
    parameter = Parameter(text, kind | None, **bounds)
    return field(default=default, metadata={"parameter": parameter, "name": name}, compare=compare)


@dataclass(frozen=True)
class Config:
    """Base of all studies' configurations. Runs may have one: of these three fields no result depends."""

    name: str = field(default="", compare=False)  # of the preset
    max_hours: float | None = param(
        "refuse what takes one core, or GPU, longer than this; None: the preset's limit",
        kind=float,
        compare=False,
    )
    workers: int | None = param("runs at once; None: one a core", compare=False, most=MOST_WORKERS)

    def __post_init__(self) -> None:
        """Hold every field to its bounds, wherever its value comes from."""
        for name, (own, parameter) in self._settable().items():
            if isinstance(value := getattr(self, own), int | float):
                parameter.checked(name, value)

    @classmethod
    def _settable(cls) -> dict[str, tuple[str, Parameter]]:
        """Return each field that a reader can set, and its parameter, by the name in notebooks."""
        declared = {f.name: f.metadata for f in fields(cls) if "parameter" in f.metadata}
        return {m["name"] or own: (own, m["parameter"]) for own, m in declared.items()}

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Return what a reader can set, by name, the study's own first."""
        found = {name: parameter for name, (_, parameter) in cls._settable().items()}
        return {n: found.pop(n) for n in list(found) if n not in ("max_hours", "workers")} | found

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Return the configuration with every value that a reader gave in its field.

        Raises:
            ParameterError: in one sentence, with what is valid.

        """
        given = {own: values.get(name) for name, (own, _) in self._settable().items()}
        return replace(self, **{own: value for own, value in given.items() if value is not None})


def placed(config: C, paths: Mapping[str, tuple[str, ...]], values: Mapping[str, Any]) -> C:
    """Return a configuration with each value at its paths, such as `training.optimisation.steps`."""
    for name, own in paths.items():
        for path in own if values.get(name) is not None else ():
            config = replaced(config, path, values[name])
    return config


def replaced(config: C, path: str, value: Any) -> C:
    """Return a dataclass with one field replaced, however deep it lies."""
    name, _, rest = path.partition(".")
    return replace(config, **{name: replaced(getattr(config, name), rest, value) if rest else value})  # type: ignore[type-var]
