"""What the numbers of settings may be; the first that is not so is a `ParameterError` of one sentence."""

import math
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

from sameloss.errors import ParameterError


def check_counts(settings: Any, *names: str, least: int = 1) -> None:
    """Refuse what is no number of anything, such as 1.5 layers, or batches without examples.

    Raises:
        ParameterError: naming the first attribute that is not whole and at least `least`.

    """
    for name in names:
        check_count(name, getattr(settings, name), least)


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse one number of that name, as `check_counts` does.

    >>> check_count("layers", 2)
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(f"{name} must be a whole number, at least {least}; got {value}.")


def check_positive(settings: Any, *names: str) -> None:
    """Refuse numbers with which nothing would be done, or that are none."""
    _check(settings, names, lambda value: 0 < value < math.inf, "be positive and finite")


def check_not_negative(settings: Any, *names: str) -> None:
    """Refuse what would turn its meaning round."""
    _check(settings, names, lambda value: 0 <= value < math.inf, "be finite and not negative")


def check_shares(settings: Any, *names: str) -> None:
    """Refuse what is no share of a whole."""
    _check(settings, names, lambda value: 0 <= value <= 1, "lie in [0, 1]")


def check_parts(settings: Any, *names: str) -> None:
    """Refuse what is no part of a whole, or all of it: nothing would be left."""
    _check(settings, names, lambda value: 0 <= value < 1, "lie in [0, 1)")


def _check(settings: Any, names: Iterable[str], fine: Callable[[Any], bool], rule: str) -> None:
    for name in names:
        if not fine(value := getattr(settings, name)):
            raise ParameterError(f"{name} must {rule}; got {value}.")


def check_choice(settings: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Refuse an attribute that is none of what is known."""
    if getattr(settings, name) not in choices:
        known = " or ".join(map(str, choices))
        raise ParameterError(f"Unknown {name} {getattr(settings, name)!r}; choose {known}.")
