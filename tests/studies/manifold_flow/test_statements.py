"""The statements of Section 3 and what is checked of each."""

import pytest

from sameloss.studies.manifold_flow.statements import STATEMENTS, checks
from sameloss.studies.statement import statement_table


@pytest.fixture(scope="module")
def found(tables):
    return checks(tables)


def test_every_statement_is_judged(found):
    """Those that need no statistics have their verdicts at any size of the runs."""
    verdicts = statement_table(STATEMENTS, found).set_index("id").verdict
    assert list(verdicts.index) == list(STATEMENTS)
    assert verdicts["lem32"] == "holds"
    assert (verdicts[["lem32-covariance", "assumption31"]] == "holds as corrected").all()
    assert found.value.notna().all()


def test_a_statement_without_a_correction_has_no_check_of_one(found):
    """And one with a correction is checked in both forms."""
    forms = found.groupby("of").printed.agg(set)
    for name, statement in STATEMENTS.items():
        assert forms[name] == ({True, False} if statement.correction else {True}), name


def test_a_wrong_coefficient_would_be_seen(tables, found):
    """With half of the theorem's 1/4 in every fit, the check of batch 1 fails."""
    fitted = tables.sgd["coefficients"]
    halved = tables._replace(
        sgd=tables.sgd | {"coefficients": fitted.assign(coefficient=fitted.coefficient / 2)}
    )
    own = checks(halved).query("of == 'thm33'").iloc[0]
    assert found.query("of == 'thm33'").iloc[0].passed
    assert not own.passed
