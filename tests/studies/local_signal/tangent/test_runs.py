"""Tangent kernels over starts: all kinds, the same numbers again, what is refused, what it costs."""

from dataclasses import replace

import pytest

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.tangent.runs import AT_SIGNAL, HELD_OUT, KINDS, TangentRows, TangentStarts
from sameloss.studies.local_signal.theory import Patches


def test_tangent_rows_have_all_kinds_and_the_same_numbers_again(proofs, proofs_page, tmp_path):
    run = proofs_page.config.tangent_rows
    assert set(proofs.tangent.kind) == set(KINDS)
    assert (proofs.tangent[proofs.tangent.kind == HELD_OUT].standard_error > 0).any()
    small = replace(run, tried=TangentStarts((1, 4), 2, 1, 50))
    tables = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        small.compute(tmp_path / name, proofs_page.store, lambda share, words: None)
        tables.append(small.load(tmp_path / name))
    assert tables[0].equals(tables[1])
    own = proofs.tangent[(proofs.tangent.kind == AT_SIGNAL) & (proofs.tangent.start < 2)]
    first = tables[0][(tables[0].kind == AT_SIGNAL)]
    assert set(first.error) <= set(own.error)


@pytest.mark.parametrize(
    ("filters", "starts", "held", "images"),
    [((0,), 1, 1, 2), ((1,), 0, 1, 2), ((1,), 1, 0, 2), ((1,), 1, 1, 1)],
)
def test_numbers_of_nothing_are_refused(filters, starts, held, images):
    with pytest.raises(ParameterError, match="must be a whole number"):
        TangentStarts(filters, starts, held, images)


def test_a_run_has_a_cost():
    laptop = TangentRows(Patches(1000), TangentStarts((1, 32), 100, 20, 400), 100)
    assert 5 < laptop.effort < 60
