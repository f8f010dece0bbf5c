"""Validation of numeric settings: the first invalid one raises a `ParameterError` of one sentence."""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

from sameloss.errors import ParameterError


def check_counts(settings: Any, *names: str, least: int = 1) -> None:
    """Require attributes to be whole numbers of at least `least`."""
    for name in names:
        check_count(name, getattr(settings, name), least)


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Require a whole number of at least `least`; booleans are not numbers.

    >>> check_count("layers", 2)
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(f"{name} must be a whole number, at least {least}; got {value}.")


def check_positive(settings: Any, *names: str) -> None:
    """Require finite values above zero."""
    _check(settings, names, lambda value: 0 < value < math.inf, "be positive and finite")


def check_not_negative(settings: Any, *names: str) -> None:
    """Require finite values of at least zero."""
    _check(settings, names, lambda value: 0 <= value < math.inf, "be finite and not negative")


def check_unit_interval(settings: Any, *names: str) -> None:
    """Require values in [0, 1]."""
    _check(settings, names, lambda value: 0 <= value <= 1, "lie in [0, 1]")


def check_half_open(settings: Any, *names: str) -> None:
    """Require values in [0, 1)."""
    _check(settings, names, lambda value: 0 <= value < 1, "lie in [0, 1)")


def _check(settings: Any, names: tuple[str, ...], valid: Callable[[Any], bool], rule: str) -> None:
    for name in names:
        if not valid(value := getattr(settings, name)):
            raise ParameterError(f"{name} must {rule}; got {value}.")


def check_choice(settings: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Require an attribute to be one of the choices."""
    if getattr(settings, name) not in choices:
        known = " or ".join(map(str, choices))
        raise ParameterError(f"Unknown {name} {getattr(settings, name)!r}; choose {known}.")
