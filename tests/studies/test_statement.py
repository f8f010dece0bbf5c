"""Verdicts on lemmas and theorems."""

import pytest

from sameloss.studies.statement import Check, Judgement, Statement, check_table, judge_checks, statement_table


def checks(*outcomes: tuple[bool, bool]):
    """Return checks of one statement from (printed, passed)."""
    return check_table([Check("x", "", float(not passed), 0.0, 0.5, printed) for printed, passed in outcomes])


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([(True, True)], Judgement.HOLDS),
        ([(True, True), (True, False)], Judgement.FAILS),
        ([(True, False), (False, True)], Judgement.CORRECTED),
        ([(True, False), (False, False)], Judgement.FAILS),
        ([(True, True), (False, False)], Judgement.FAILS),
        ([(False, True)], Judgement.CORRECTED),
    ],
)
def test_a_statement_is_judged_by_all_its_checks(outcomes, expected):
    """One failed printed check refutes what is printed; the corrected form must pass all of its own."""
    assert judge_checks(checks(*outcomes)) is expected


def test_a_number_that_is_not_one_passes_nothing():
    """A diverged computation must not count as agreement."""
    assert not Check("x", "", float("nan"), 0.0, 1.0).passed


def test_statements_and_checks_go_together():
    """A statement nobody checked is a fault of the book, and is named."""
    with pytest.raises(KeyError, match="y"):
        statement_table({"x": Statement("", ""), "y": Statement("", "")}, checks((True, True)))


def test_what_was_not_reached_refutes_nothing():
    unknown = Check("x", "", float("nan"), 0.0, 1.0)
    refuted = Check("x", "", 2.0, 0.0, 1.0)
    assert judge_checks(check_table([unknown, refuted])) is Judgement.UNTESTED
