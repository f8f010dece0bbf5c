"""Parameters of pages (types, choices, bounds, parameters cell), and `Config`, the base of configurations."""

import os
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from os.path import expanduser
from symtable import symtable
from typing import Any, TypeVar, get_args, get_origin

from sameloss.device import ACCELERATOR, DEVICES
from sameloss.errors import ParameterError

MOST = 2**31
"""Largest value of any number."""

MOST_SEEDS = 300
"""Largest number of repetitions, so that runs can be listed before they are computed."""

MOST_WORKERS = 8 * (os.cpu_count() or 1)
"""Largest number of worker processes: each takes some 0.4 GB."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a page."""

    text: str  # comment in the parameters cell, with unit or choices
    kind: Any = str  # str, int or float, or one of them `| None`
    default: Any = None
    choices: tuple[str, ...] = ()
    may_be_zero: bool = False
    most: float = MOST
    least: float = 0.0
    example: str = ""  # for the command at the end of a page

    def checked(self, name: str, value: Any) -> Any:
        """Validate a value and convert it: papermill reads `1e4` as a float, and in a YAML file as text.

        Args:
            name: of the parameter, for the message.
            value: from a notebook.

        Raises:
            ParameterError: in one sentence, with what is valid.

        >>> Parameter("steps", int | None).checked("steps", 1e4)
        10000

        """
        wanted, *optional = get_args(self.kind) or (self.kind,)
        if value is None and optional:
            return value
        if get_origin(wanted) is list:
            one = replace(self, kind=get_args(wanted)[0])
            return tuple(one.checked(name, item) for item in _items(value))
        if wanted is str and isinstance(value, str):
            return choose(name, value, self.choices) if self.choices else _path(name, value)
        if wanted is not str and re.fullmatch(r"[-+]?\d+\.?\d*[eE][-+]?\d+", str(value)):
            value = float(value)
        if wanted is not str and isinstance(value, int | float) and not isinstance(value, bool):
            self._check_bounds(name, value)
            if wanted is float or value == int(value):
                return wanted(value)
        kinds = {str: "a name", int: "a whole number", float: "a number"}
        raise ParameterError(f"{name} must be {kinds[wanted]}; got {abbreviated(value)}.")

    def _check_bounds(self, name: str, value: float) -> None:
        if not (value > 0 or (value == 0 and self.may_be_zero)):
            rule = "must be positive"
        elif value > self.most:
            rule = f"is at most {self.most:,}"
        elif value < self.least:
            rule = f"is at least {self.least:,}"
        else:
            return
        raise ParameterError(f"{name} {rule}; got {abbreviated(value)}.")

    def line(self, name: str) -> str:
        """The parameter's line in a parameters cell, in the form that papermill's help expects."""
        wanted, *_ = get_args(self.kind) or (self.kind,)
        kind = str(wanted) if get_origin(wanted) else wanted.__name__
        default = f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)
        return f"{name}: {kind} = {default}  # {self.text}"


def _items(value: Any) -> list[Any]:
    """Elements of a list, or of a text such as `80, 160`, in which papermill passes one."""
    if isinstance(value, str):
        texts = [item.strip() for item in value.strip("[]()").split(",")]
        return [float(text) if re.fullmatch(r"[-+]?[\d.]+", text) else text for text in texts]
    return list(value) if isinstance(value, list | tuple) and value else [value]


LONGEST_NAME, LONGEST_PATH = 255, 3000
"""Longest file name, and longest path that leaves room for the names of results, in bytes."""


def _path(name: str, value: str) -> str:
    usable = value.strip() and value.isprintable() and len(value.encode()) <= LONGEST_PATH
    if not usable or max(len(part.encode()) for part in value.split("/")) > LONGEST_NAME:
        raise ParameterError(
            f"{name} must be a name of printable characters, at most {LONGEST_NAME} bytes between slashes "
            f"and {LONGEST_PATH:,} in all; got {abbreviated(value)}."
        )
    return expanduser(value)  # noqa: PTH111 - Path raises for unknown users


def abbreviated(value: Any) -> str:
    """`repr` of a value, on one line and truncated.

    >>> abbreviated("all")
    "'all'"
    """
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an int of more than 4,300 digits
        return f"one of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]} ..."


PRESETS = ("smoke", "laptop", "laptop-long", "gpu", "paper")
"""Presets of the book, from a test to the paper's protocol; each study defines its own."""

MAX_HOURS = {
    "smoke": 1.0,
    "laptop": 5.0,
    "laptop-long": 60.0,
    "workstation": 200.0,
    "pretrained": 80.0,
    "gpu-hour": 20.0,
    "gpu": 100.0,
    "paper": 5000.0,
}
"""Hours of a reference core, or with a GPU of an H200, above which a page refuses to start.

Five to ten times the cost of the whole book at the preset: the limit stops mistakes, nothing intended."""

OF_EVERY_PAGE = {
    "preset": Parameter(f"auto, {', '.join(PRESETS)}", default="auto", choices=("auto", *PRESETS)),
    "device": Parameter(
        f"cpu or {ACCELERATOR}; auto takes the best there is", default="auto", choices=DEVICES
    ),
    "artifacts": Parameter("folder of the run store; None: artifacts/ beside _config.yml", str | None),
}
"""Parameters of every page outside its configuration."""


def checked(table: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the parameters of a page and fill in defaults.

    Args:
        table: the page's parameters.
        given: values by name.

    Raises:
        ParameterError: in one sentence, with what is valid.

    """
    for name in given:
        if name not in table:
            raise ParameterError(f"Unknown parameter {abbreviated(name)}; valid here are {', '.join(table)}.")
    defaults = {name: parameter.default for name, parameter in table.items()}
    return {name: table[name].checked(name, value) for name, value in {**defaults, **given}.items()}


def choose(what: str, value: str, choices: Iterable[str]) -> str:
    """Require a value to be one of the choices.

    Raises:
        ParameterError: in one sentence, with what is valid.

    """
    choices = tuple(choices)
    if value not in choices:
        raise ParameterError(f"Unknown {what} {abbreviated(value)}; choose one of {', '.join(choices)}.")
    return value


def parameters_in(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in the namespace of a notebook whose cells from the parameters cell on assign nothing else.

    Args:
        namespace: of the notebook; what is imported there (functions, modules, a study) is no parameter.
        hidden: what IPython and its start-up files put there.

    """
    cells = [assigned(source) for source in hidden.get("In", ())]
    first = next((i for i, names in enumerate(cells) if "preset" in names), 0)  # the parameters cell
    above = set().union(*cells[:first]).difference(*cells[first:])
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith(("_", "PAPERMILL_"))
        and name not in above
        and hidden.get(name, hidden) is not value
        and not (callable(value) or isinstance(value, types.ModuleType) or is_dataclass(value))
    }


def assigned(source: str) -> set[str]:
    """Names that a cell assigns."""
    try:
        symbols = symtable(source, "<cell>", "exec").get_symbols()
    except SyntaxError:
        return set()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned()}


def cell(table: Mapping[str, Parameter]) -> str:
    """Source of the parameters cell of a page."""
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
    """Declare a configuration field that a notebook can set.

    Args:
        text: comment in the parameters cell.
        default: of the field.
        kind: int, float or str.
        name: in notebooks; None: the field's.
        compare: whether it enters equality, and so the keys of runs with this configuration.
        bounds: see `Parameter`.

    """
    parameter = Parameter(text, kind | None, **bounds)
    return field(default=default, metadata={"parameter": parameter, "name": name}, compare=compare)


@dataclass(frozen=True)
class Config:
    """Base class of all configurations; no result depends on these three fields."""

    name: str = field(default="", compare=False)  # of the preset
    max_hours: float | None = param(
        "refuse what takes one core, or GPU, longer than this; None: the preset's limit",
        kind=float,
        compare=False,
    )
    workers: int | None = param("runs at once; None: one per core", compare=False, most=MOST_WORKERS)

    def __post_init__(self) -> None:
        """Check the bounds of every field, in presets too."""
        for name, (attribute, parameter) in self._settable().items():
            if isinstance(value := getattr(self, attribute), int | float):
                parameter.checked(name, value)

    @classmethod
    def _settable(cls) -> dict[str, tuple[str, Parameter]]:
        """Field name and parameter of each settable field, by its name in notebooks."""
        declared = {f.name: f.metadata for f in fields(cls) if "parameter" in f.metadata}
        return {m["name"] or attribute: (attribute, m["parameter"]) for attribute, m in declared.items()}

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Settable parameters by name, `max_hours` and `workers` last."""
        settable = {name: parameter for name, (_, parameter) in cls._settable().items()}
        last = {name: settable.pop(name) for name in ("max_hours", "workers")}
        return settable | last

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Apply the values that are not None.

        Raises:
            ParameterError: in one sentence, with what is valid.

        """
        updates = {attribute: values.get(name) for name, (attribute, _) in self._settable().items()}
        return replace(self, **{name: value for name, value in updates.items() if value is not None})
