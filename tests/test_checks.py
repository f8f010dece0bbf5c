"""Numbers that settings may have, and the sentence for one that they may not."""

from types import SimpleNamespace

import numpy as np
import pytest

from sameloss.checks import (
    check_choice,
    check_counts,
    check_half_open,
    check_not_negative,
    check_positive,
    check_unit_interval,
)
from sameloss.errors import ParameterError

NAN, INF = float("nan"), float("inf")

COUNT = "a whole number, at least 1"


@pytest.mark.parametrize(
    ("check", "good", "bad", "sentence"),
    [
        (
            check_counts,
            (1, 2**40, np.int64(3)),
            (0, -1, 1.5, 2.0, "3", NAN, None, True),
            "a whole number, at least 1",
        ),
        (check_positive, (1e-300, 2), (0, -1.0, NAN, INF), "positive and finite"),
        (check_not_negative, (0, 1e-300, 2), (-1e-300, NAN, INF), "finite and not negative"),
        (check_unit_interval, (0, 0.5, 1), (-0.1, 1.1, NAN), r"lie in \[0, 1\]"),
        (check_half_open, (0, 0.5), (-0.1, 1, NAN), r"lie in \[0, 1\)"),
    ],
)
def test_the_first_that_is_not_so_is_named(check, good, bad, sentence):
    for value in good:
        check(SimpleNamespace(lr=value, batch=value), "lr", "batch")
    for value in bad:
        with pytest.raises(ParameterError, match=rf"^batch must (be )?{sentence}; got {value}\.$"):
            check(SimpleNamespace(lr=good[0], batch=value, epochs=bad[0]), "lr", "batch", "epochs")


def test_a_count_may_begin_elsewhere():
    check_counts(SimpleNamespace(draws=2, steps=0), "draws", "steps", least=0)
    with pytest.raises(ParameterError, match="draws must be a whole number, at least 2; got 1"):
        check_counts(SimpleNamespace(draws=1), "draws", least=2)


def test_a_choice_is_one_of_those_known():
    check_choice(SimpleNamespace(kind="a"), "kind", ("a", "b"))
    with pytest.raises(ParameterError, match=r"^Unknown kind 'c'; choose a or b\.$"):
        check_choice(SimpleNamespace(kind="c"), "kind", ("a", "b"))
