"""Statements on the printed tables, and on tables with a misprint."""

from sameloss.studies.local_signal_images import claims as statements
from sameloss.studies.local_signal_images import published
from sameloss.studies.local_signal_images.claims import STATEMENTS, checks
from sameloss.studies.statement import statement_table


def verdicts():
    return statement_table(STATEMENTS, checks()).set_index("id").verdict


def test_what_the_tables_say():
    assert verdicts().to_dict() == {
        "img-ratios": "holds",
        "img-larger": "holds",
        "img-order": "holds as corrected",
        "img-loss": "holds as corrected",
    }


def test_a_misprint_would_be_seen(monkeypatch):
    table = published.TABLE_B_1[("16-on-32", "NTK")] | {"random place": (91.9, 87.3, 83.7, 76.9)}
    monkeypatch.setitem(published.TABLE_B_1, ("16-on-32", "NTK"), table)
    assert verdicts()["img-ratios"] == "fails: counter-example"
    assert verdicts()["img-larger"] == "fails: counter-example"


def test_every_statement_has_its_place():
    assert {own.place for own in statements.STATEMENTS.values()} == {"Table 3.1", "Appendix B.4"}
