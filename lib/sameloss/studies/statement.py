"""The paper's lemmas and theorems, each judged by checks of its printed and of its corrected form."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd


class Judgement(StrEnum):
    """What the checks say of a statement."""

    HOLDS = "holds"
    CORRECTED = "holds as corrected"
    FAILS = "fails: counter-example"
    UNTESTED = "not testable here"


@dataclass(frozen=True)
class Statement:
    """One statement of Sections 3 and 5 or Appendices C and F."""

    place: str
    text: str
    correction: str = ""  # what its corrected form says, where the printed one fails


@dataclass(frozen=True)
class Check:
    """One number computed for a statement.

    `of` is the key of the statement. A check of the `printed` form that does not pass refutes what is
    printed; the statement then holds as corrected where all checks of the corrected form pass.
    """

    of: str
    text: str
    value: float
    target: float
    tolerance: float  # absolute; of an estimate its interval's half width
    printed: bool = True

    @property
    def passed(self) -> bool:
        """Return whether value and target agree; a number that is not one agrees with nothing."""
        return bool(abs(self.value - self.target) <= self.tolerance)


CHECK_COLUMNS = ["of", "text", "value", "target", "tolerance", "printed", "passed"]


def check_table(checks: list[Check]) -> pd.DataFrame:
    """Return one row a check, in the order given."""
    rows = [{name: getattr(check, name) for name in CHECK_COLUMNS} for check in checks]
    return pd.DataFrame(rows, columns=CHECK_COLUMNS)


def judge_checks(checks: pd.DataFrame) -> Judgement:
    """Judge one statement by its checks.

    >>> checks = [Check("x", "", 1.0, 2.0, 0.1), Check("x", "", 1.0, 1.0, 0.1, printed=False)]
    >>> str(judge_checks(check_table(checks)))
    'holds as corrected'
    """
    printed, corrected = checks[checks.printed], checks[~checks.printed]
    if checks.value.isna().any():  # what was not reached refutes nothing
        return Judgement.UNTESTED
    if len(printed) and printed.passed.all() and corrected.passed.all():
        return Judgement.HOLDS
    return Judgement.CORRECTED if len(corrected) and corrected.passed.all() else Judgement.FAILS


def statement_table(statements: Mapping[str, Statement], checks: pd.DataFrame) -> pd.DataFrame:
    """Return one row a statement with its verdict.

    Raises:
        KeyError: where a statement has no check, or a check no statement.

    """
    if missing := set(statements) ^ set(checks.of):
        raise KeyError(f"Statements and checks must go together; only one of the two has {sorted(missing)}.")
    rows = []
    for name, statement in statements.items():
        own = checks[checks.of == name]
        verdict = judge_checks(own)
        correction = statement.correction if verdict is not Judgement.HOLDS else ""
        rows.append((name, statement.place, statement.text, len(own), str(verdict), correction))
    return pd.DataFrame(rows, columns=["id", "place", "statement", "checks", "verdict", "correction"])
