"""What the numbers of settings may be; the first that is not so ends in one sentence."""

import math
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
    """Refuse numbers with which nothing would be done, or that are none.

    Raises:
        ParameterError: naming the first attribute that is not positive and finite.

    """
    for name in names:
        if not 0 < getattr(settings, name) < math.inf:
            raise ParameterError(f"{name} must be positive and finite; got {getattr(settings, name)}.")


def check_not_negative(settings: Any, *names: str) -> None:
    """Refuse what would turn its meaning round.

    Raises:
        ParameterError: naming the first attribute that is negative or not finite.

    """
    for name in names:
        if not 0 <= getattr(settings, name) < math.inf:
            raise ParameterError(f"{name} must be finite and not negative; got {getattr(settings, name)}.")


def check_shares(settings: Any, *names: str) -> None:
    """Refuse what is no share of a whole.

    Raises:
        ParameterError: naming the first attribute that lies outside [0, 1].

    """
    for name in names:
        if not 0 <= getattr(settings, name) <= 1:
            raise ParameterError(f"{name} must lie in [0, 1]; got {getattr(settings, name)}.")


def check_parts(settings: Any, *names: str) -> None:
    """Refuse what is no part of a whole, or all of it: nothing would be left.

    Raises:
        ParameterError: naming the first attribute that lies outside [0, 1).

    """
    for name in names:
        if not 0 <= getattr(settings, name) < 1:
            raise ParameterError(f"{name} must lie in [0, 1); got {getattr(settings, name)}.")


def check_choice(settings: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Refuse an attribute that is none of what is known.

    Raises:
        ParameterError: with what is.

    """
    if getattr(settings, name) not in choices:
        known = " or ".join(map(str, choices))
        raise ParameterError(f"Unknown {name} {getattr(settings, name)!r}; choose {known}.")
