"""Tables of tangent kernels."""

from sameloss.studies.local_signal.tangent import tables


def test_tables_are_of_what_was_found(proofs):
    assert tables.filters_needed(proofs.tangent, 0.0) != tables.filters_needed(proofs.tangent, 0.5)
    assert len(tables.one_filter_table()) == len(tables.SHARE_ROWS)
    table = tables.tangent_table(proofs.tangent)
    assert (table.low <= table["mean"]).all()
    assert (table["mean"] <= table.high).all()
    held = tables.held_out_table(proofs.tangent)
    assert list(held.filters) == [1, 4, 16]
    assert abs(held.z).max() < 4.5
    assert abs(tables.rows_for_theorem() / 5.2e10 - 1) < 0.01
