"""Faults: one base for all, and the built-in kinds that callers know."""

import inspect

from sameloss import errors


def test_every_fault_is_a_fault_of_the_book_and_of_a_known_kind():
    faults = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert len(faults) > 5
    for kind in faults:
        assert issubclass(kind, errors.BookError)
        assert kind is errors.BookError or issubclass(kind, (ValueError, OSError, ArithmeticError))
