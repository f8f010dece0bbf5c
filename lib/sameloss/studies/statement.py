"""Lemmas and theorems, judged by numerical checks of their printed and corrected forms."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from tomllib import loads
from typing import SupportsFloat

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike


class Judgement(StrEnum):
    """Judgement of a statement by its checks."""

    HOLDS = "holds"
    CORRECTED = "holds as corrected"
    FAILS = "fails: counter-example"
    UNTESTED = "not testable"


@dataclass(frozen=True)
class Statement:
    """A published lemma, theorem or remark."""

    place: str
    text: str
    correction: str = ""  # the corrected form, where the printed one fails


TEXTS = Path(__file__).with_name("statements.toml")


def statements_of(page: str) -> dict[str, Statement]:
    """The statements that a page judges, by name, from `TEXTS`."""
    return {name: Statement(**about) for name, about in loads(TEXTS.read_text("utf-8"))[page].items()}


@dataclass(frozen=True)
class Check:
    """A number computed for the statement `of`.

    A failed check refutes the form that it is of, the printed or the corrected one.
    """

    of: str
    text: str
    value: float
    target: float
    tolerance: float  # absolute; for an estimate, half the width of its interval
    printed: bool = True

    @property
    def passed(self) -> bool:
        """Whether value and target agree; NaN agrees with nothing."""
        return bool(abs(self.value - self.target) <= self.tolerance)


def at_most(
    of: str, text: str, value: SupportsFloat, bound: float = 1.0, printed: bool = True, rounding: float = 0.0
) -> Check:
    """Check 0 ≤ value ≤ bound, up to an absolute error of `rounding`."""
    return Check(of, text, float(value), bound / 2, bound / 2 + rounding, printed)


def none_above(of: str, text: str, excesses: ArrayLike, rounding: float, printed: bool = True) -> Check:
    """Check that no excess over a bound is positive, up to `rounding`.

    NaN in an array is not testable; in a Series it marks a row without such a case and is left out.
    """
    return Check(of, text, float(np.maximum(0.0, np.max(excesses))), 0.0, rounding, printed)


CHECK_COLUMNS = ["of", "text", "value", "target", "tolerance", "printed", "passed"]


def check_table(checks: list[Check]) -> pd.DataFrame:
    """One row per check, with its fields and whether it passed."""
    rows = [asdict(check) | {"passed": check.passed} for check in checks]
    return pd.DataFrame(rows, columns=CHECK_COLUMNS)


def judge_checks(checks: pd.DataFrame) -> Judgement:
    """Judge one statement by its checks.

    >>> checks = [Check("x", "", 1.0, 2.0, 0.1), Check("x", "", 1.0, 1.0, 0.1, printed=False)]
    >>> str(judge_checks(check_table(checks)))
    'holds as corrected'
    """
    printed, corrected = checks[checks.printed], checks[~checks.printed]
    if checks.value.isna().any():  # a number that was not computed refutes nothing
        return Judgement.UNTESTED
    if len(printed) and printed.passed.all() and corrected.passed.all():
        return Judgement.HOLDS
    return Judgement.CORRECTED if len(corrected) and corrected.passed.all() else Judgement.FAILS


def statement_table(statements: Mapping[str, Statement], checks: pd.DataFrame) -> pd.DataFrame:
    """One row per statement, with its verdict.

    Raises:
        KeyError: for a statement without checks, or checks without a statement.

    """
    if missing := set(statements) ^ set(checks.of):
        raise KeyError(f"Statements and checks must go together; only one of the two has {sorted(missing)}.")
    rows = []
    for name, statement in statements.items():
        checks_of_it = checks[checks.of == name]
        verdict = judge_checks(checks_of_it)
        correction = statement.correction if verdict is not Judgement.HOLDS else ""
        rows.append((name, statement.place, statement.text, len(checks_of_it), str(verdict), correction))
    return pd.DataFrame(rows, columns=["id", "place", "statement", "checks", "verdict", "correction"])
