"""Tables of the proofs, and the words about them."""

from sameloss.studies.local_signal.proofs import tables as proof_tables
from sameloss.studies.statement import Judgement


def test_tables_and_words(proofs, proofs_page):
    judged = proof_tables.judged_table(proofs_page.statements(), proofs)
    assert (judged.verdict[judged["refuted by"] == "a state"] == str(Judgement.CORRECTED)).all()
    assert dict(zip(judged.place, judged["from k"], strict=True))["Lemma 3.3"] == "10^17.5"
    assert "10^70.8" in proof_tables.in_words(proofs, proofs_page.statements())
    for table in (
        proof_tables.turn_table(proofs),
        proof_tables.invariant_table(proofs),
        proof_tables.bias_table(proofs),
    ):
        assert len(table) >= 8
    assert len(proof_tables.example_table(proofs)) == len(proofs.examples)
        proofs.tangent, 0.5
    )
