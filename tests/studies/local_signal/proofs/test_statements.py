"""Every statement of the proofs has checks; what is about it, broken, makes it fail; the page shows them."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.studies.local_signal.proofs.statements import STATEMENTS, checks
from sameloss.studies.local_signal.tangent.runs import (
    HELD_OUT,
)
from sameloss.studies.statement import Judgement, judge_checks, statement_table

CORRECTED = {"b123", "lemB5", "lemB6", "lemB7", "lemB8", "noise-bound", "lem31", "lemB9", "lem33", "lemB10"}
"""What is refuted as printed, at any preset."""


@pytest.fixture
def page(proofs_page):
    return proofs_page


@pytest.fixture
def found(proofs):
    return proofs


def test_every_statement_is_judged_and_these_are_corrected(page):
    judged = page.statements()
    assert set(judged.id[judged.verdict == str(Judgement.CORRECTED)]) == CORRECTED
    assert set(judged.id[judged.verdict == str(Judgement.HOLDS)]) == set(STATEMENTS) - CORRECTED
    assert (judged.correction[judged.id.isin(CORRECTED)] != "").all()


@pytest.mark.parametrize(
    ("frame", "column", "value", "of"),
    [
        ("states", "noise", 1.5, "lem32"),
        ("states", "noise", -0.1, "lem32"),
        ("states", "noise", 0.3, "lem31-sharper"),
        ("states", "noise", 1.5, "noise-bound"),
        ("states", "within_g", 0.7, "lemB8"),
        ("rows", "spread", 0.05, "lemB6"),
        ("rows", "width", 1e-3, "lemB9"),
        ("rows", "width", 1e-3, "lemB9-sharper"),
        ("rows", "error_at_limit", 0.02, "lemB5"),
        ("rows", "by_b_1", -0.1, "lem33"),
        ("rows", "by_c_lowest", 0.1, "lem31"),
        ("turns", "decades", np.inf, "thm31"),
        ("turns", "decades", 200.0, "thmB1"),
        ("turns", "decades", 200.0, "linear"),
        ("several", "heard", 0.01, "lemB12"),
        ("tangent", "error", 0.05, "thm32"),
        ("tangent", "error", 0.3, "kernel-linear"),
        ("tangent", "error", 0.3, "kernel-closed"),
    ],
)
def test_a_number_that_is_not_so_fails_its_statement(found, frame, column, value, of):
    broken = replace(found, **{frame: getattr(found, frame).assign(**{column: value})})
    own = checks(broken)
    assert judge_checks(own[own.of == of]) is Judgement.FAILS


def test_held_out_errors_that_are_others_fail(found):
    tangent = found.tangent.copy()
    tangent.loc[tangent.kind == HELD_OUT, "error"] += 0.1
    own = checks(replace(found, tangent=tangent))
    assert judge_checks(own[own.of == "kernel-moments"]) is Judgement.FAILS


def test_a_counter_example_that_is_none_lets_the_printed_form_stand(found):
    examples = found.examples.assign(by_b=0.1)
    judged = statement_table(STATEMENTS, checks(replace(found, examples=examples))).set_index("id").verdict
    assert judged["lem33"] == str(Judgement.HOLDS)
