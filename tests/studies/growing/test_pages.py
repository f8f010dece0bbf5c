"""The page reads its runs, and judges its claims."""

import pytest

from sameloss.studies.growing.claims import CLAIMS
from sameloss.studies.growing.runs import Candidates


def test_everything_is_computed_beforehand_and_found(page):
    for run in page.runs():
        page.store.get(run)
    grown = page.grown
    seeds, looks, operators = grown.kl.shape
    assert (seeds, looks, operators) == (2, len(page.growing.look_steps), len(page.growing.operators))
    table = page.store.get(page.candidates(1))
    name = grown.operators[2].name
    own = table[table.operator == name]
    assert grown.kl[1, :, 2] == pytest.approx(own.kl.to_numpy())
    assert grown.chosen_by[1, :, 2] == pytest.approx(own.chosen_by.to_numpy())
    verdicts = page.verdicts()
    assert verdicts.id.tolist() == [claim.id for claim in CLAIMS]
    evidence = page.evidence(verdicts)
    assert [str(source) for source in evidence.source.unique()] == ["smoke, this page, 2 seeds"]


def test_every_seed_has_its_own_runs(page):
    runs = page.runs()
    assert len({run.key for run in runs}) == len(runs) == 1 + 4 * 2
    assert sum(isinstance(run, Candidates) for run in runs) == 6
