"""Statements and their checks, which fail on planted faults; the numbers behind them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.decision_lists import statements
from sameloss.studies.decision_lists.statements import STATEMENTS
from sameloss.studies.statement import Judgement, judge_checks, statement_table

CORRECTED = {"sketch", "thm43-rate", "lists"}
"""Statements that are refuted as printed, at any preset."""


def judged(table):
    return statement_table(STATEMENTS, table).set_index("id").verdict


def test_every_statement_is_judged_and_these_are_corrected(page):
    verdicts = judged(page.checks)
    assert set(verdicts.index[verdicts == str(Judgement.CORRECTED)]) == CORRECTED
    for name in ("thm43", "thm44", "lem41", "asm43", "asm44", "thm43-proof", "thm44-proof", "figure"):
        assert verdicts[name] == str(Judgement.HOLDS)


@pytest.mark.parametrize(
    ("frame", "column", "value", "of"),
    [
        ("proofs", "on_failing", 1e-3, "thm43-proof"),
        ("proofs", "elsewhere", 1e-3, "thm44-proof"),
        ("proofs", "identity", 1e-3, "label-gradient"),
        ("proofs", "gradient", 1e-3, "gradients"),
        ("proofs", "weight", 0.1, "thm44-proof"),
        ("proofs", "light", 1e-3, "thm43-proof"),
        ("proofs", "of_triples", 0.5, "asm43"),
        ("proofs", "of_sets", 0.5, "asm44"),
        ("proofs", "curvature", 1.5, "thm43-rate"),
        ("descents", "steps", 1e20, "thm43"),
        ("descents", "least_slope", 0.5, "thm43-proof"),
        ("descents", "attention", 0.9, "uniform"),
        ("proofs", "read_out_slope", 1.5, "lem41"),
        ("both", "accuracy", 0.9, "convergence"),
    ],
)
def test_a_wrong_number_fails_its_statement(page, tables, frame, column, value, of):
    broken = replace(tables, **{frame: getattr(tables, frame).assign(**{column: value})})
    table = page.check(broken)
    assert judge_checks(table[table.of == of]) is Judgement.FAILS


def test_a_level_that_was_not_reached_refutes_nothing(page, tables):
    nothing = tables.alone.assign(ordered=0.0)
    verdicts = judged(page.check(replace(tables, alone=nothing)))
    assert verdicts["sgd"] == str(Judgement.UNTESTED)


# The numbers behind them: times to perfection and interpolated times.


def test_perfection_is_the_first_event_that_is_right(tables):
    events = tables.events(30.0)
    row = tables.perfect.query("family == 'readout' and readout == 30")
    assert row.time.item() == events[events.accuracy == 1].time.min()
    flows = tables.flows[tables.flows.accuracy < 1]
    never = replace(tables, flows=flows).perfect  # a flow that is not perfect in time stays in the table
    assert len(never) == len(tables.perfect)
    assert never.time.isna().all()


def test_a_level_is_reached_between_two_points():
    x, y = pd.Series([0, 20, 40]), pd.Series([0.0, 0.25, 0.75])
    assert statements.crossing(x, y, 0.5) == 30
    assert statements.crossing(x, y, 0.75) == 40
    assert statements.crossing(x, y, 0.0) == 0
    assert np.isnan(statements.crossing(x, y, 0.8))
