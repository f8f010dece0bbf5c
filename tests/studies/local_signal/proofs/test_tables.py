"""Tables of the proofs, and the words about them."""

from sameloss.studies.local_signal.proofs import tables
from sameloss.studies.statement import Judgement


def test_tables_and_words(proofs, proofs_page):
    judged = tables.judged_table(proofs_page.statements(), proofs)
    assert (judged.verdict[judged["refuted by"] == "a state"] == str(Judgement.CORRECTED)).all()
    assert dict(zip(judged.place, judged["from k"], strict=True))["Lemma 3.3"] == "10^17.5"
    assert "10^70.8" in tables.in_words(proofs, proofs_page.statements())
    for table in (tables.turn_table(proofs), tables.invariant_table(proofs), tables.bias_table(proofs)):
        assert len(table) >= 8
    assert len(tables.example_table(proofs)) == len(proofs.examples)
    assert len(tables.moment_table()) == 5
    assert (tables.small_ball_table()["Erdős, s = 1"] <= tables.small_ball_table()["√(2/πn)"]).all()
