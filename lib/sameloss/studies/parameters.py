"""Parameters of pages: types, choices, bounds."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os.path import expanduser
from symtable import symtable
from typing import Any, get_args, get_origin

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
    "smoke": 0.5,
    "laptop": 5.0,
    "laptop-long": 60.0,
    "workstation": 240.0,
    "pretrained": 80.0,
    "gpu-hour": 20.0,
    "gpu": 100.0,
    "paper": 5000.0,
}
"""Hours of a core, or with a GPU of an H200, above which a page refuses to start.

Five to ten times the cost of the whole book at the preset: the limit stops mistakes, nothing intended."""

OF_EVERY_PAGE = {
    "preset": Parameter(f"auto, {', '.join(PRESETS)}", default="auto", choices=("auto", *PRESETS)),
    "device": Parameter(
        f"cpu or {ACCELERATOR}; auto takes the best there is", default="auto", choices=DEVICES
    ),
    "artifacts": Parameter("folder of the run store; None: artifacts/ beside _config.yml", str | None),
}
"""What is known of parameters besides their line in a page's parameters cell."""

LIMITS = {"seeds": (1, MOST_SEEDS), "workers": (1, MOST_WORKERS)}
"""Least and largest values of numbers on every page."""


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
        listed = (", " if all("," not in choice for choice in choices) else "; ").join(choices)
        raise ParameterError(f"Unknown {what} {abbreviated(value)}; choose one of {listed}.")
    return value


def assigned(source: str) -> set[str]:
    """Names that a cell assigns."""
    try:
        symbols = symtable(source, "<cell>", "exec").get_symbols()
    except SyntaxError:
        return set()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned()}
