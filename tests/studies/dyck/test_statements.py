"""The statements of Section 5, judged by checks that a wrong constant would fail."""

import pytest
import torch

from sameloss.studies.dyck.statements import STATEMENTS, all_checks
from sameloss.studies.statement import statement_table


def test_every_statement_gets_the_verdict_that_its_checks_give(results):
    table = statement_table(STATEMENTS, results["DyckChecks"]).set_index("id").verdict
    holds = {name for name, verdict in table.items() if verdict == "holds"}
    assert holds == {"factF2", "lemF5", "lemF7"}
    assert (table[~table.index.isin(holds)] == "holds as corrected").all()


def test_a_statement_without_a_correction_has_no_check_of_one(results):
    forms = results["DyckChecks"].groupby("of").printed.agg(set)
    for name, statement in STATEMENTS.items():
        assert (False in forms[name]) == bool(statement.correction), name


def test_a_wrong_constant_would_be_seen(results):
    """The checks compare numbers, so that 4/(m²√T) or a missing 2 cannot pass for the truth."""
    checks = results["DyckChecks"].set_index("text")
    assert checks.value["dense Hessian's trace over E‖∇f‖²"] == pytest.approx(2)
    printed = checks.loc["trace of a solution of 4 neurons, at least √(4/T)"]
    assert printed.value == pytest.approx(printed.target / 2)


@pytest.mark.parametrize(
    ("table", "column", "factor", "of"),
    [("found", "ratio", 0.5, "lemF1"), ("features", "constructed_norm", 2.0, "thmF6"),
     ("transfer", "exact", 1.5, "thm51")],
)  # fmt: skip
def test_another_number_in_a_table_would_be_seen(results, table, column, factor, of):
    """A trace below the bound, a head of twice the norm, failures half as often again."""
    tables = {
        "found": results["DyckMinimisation"],
        "transfer": results["DyckTransfer"],
        "features": results["DyckFeatures"],
    }
    wrong = tables | {table: tables[table].assign(**{column: factor * tables[table][column]})}

    def corrected(given):
        checks = all_checks(6, 4, *given.values(), torch.Generator().manual_seed(0))
        return checks[(checks.of == of) & ~checks.printed].passed.all()

    assert corrected(tables)
    assert not corrected(wrong)
