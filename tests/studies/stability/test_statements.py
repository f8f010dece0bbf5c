"""Exact statements: each is refuted by numbers that refute it."""

import pandas as pd
import pytest

from sameloss.studies.stability.claims import STATEMENTS, checks
from sameloss.studies.stability.tables import gap_bounds
from sameloss.studies.statement import statement_table


@pytest.fixture
def given(page):
    return {"swaps": page.swaps, "ridge": page.ridge, "bounds": gap_bounds(page.found)}


def verdicts(given):
    return statement_table(STATEMENTS, checks(**given)).set_index("id").verdict


def test_all_hold(given):
    assert set(verdicts(given)) == {"holds"}


@pytest.mark.parametrize(
    ("of", "table", "column", "factor"),
    [
        ("swaps", "swaps", "median", 0.3),
        ("hrs", "swaps", "bound", 0.01),
        ("be", "ridge", "bound", 1e-4),
        ("bound", "bounds", "bound", 1e-3),
    ],
)
def test_what_refutes_a_statement_is_seen(given, of, table, column, factor):
    changed = given[table].assign(**{column: given[table][column] * factor})
    found = verdicts(given | {table: changed})
    assert found[of] == "fails: counter-example"
    assert set(found.drop(of)) == {"holds"}


def test_the_unbounded_loss_is_not_held_against_the_bound(given):
    extra = pd.DataFrame([{"loss": "cross-entropy", "gap": 100.0, "bound": 1.0}])
    assert set(verdicts(given | {"bounds": pd.concat([given["bounds"], extra])})) == {"holds"}
