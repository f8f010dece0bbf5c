"""What runs of the record took beside what is estimated of them."""

import pytest
from recorded import prices

from sameloss.store import store
from sameloss.store.store import OTHER

pytestmark = pytest.mark.book

FEW = {"CorpusSampling", "CoolDown", "LanguageMeasurement", "ProofTable"}
"""Kinds with runs of which some take ten times as long as others: endless corpora take no time at all,
cool-downs end when a target is reached, and the others hardly matter."""


def test_prices_are_those_of_the_record():
    """Up to what a few new runs change; `python tests/record.py` writes them anew."""
    found, kept = prices.found(), store.prices()
    assert found.keys() == kept.keys()
    for kind, (seconds, unit) in found.items():
        assert kept[kind] == [pytest.approx(seconds, rel=0.5), pytest.approx(unit, rel=0.5)], kind


@pytest.mark.parametrize("kind", sorted(store.prices().keys() - FEW - {OTHER}))
def test_recorded_runs_took_about_what_is_estimated(kind):
    """Nine of ten within a factor of three: now and then a machine was busy or asleep."""
    table = prices.recorded()
    own = table[table.kind == kind]
    assert own.seconds.div(own.estimated).between(1 / 3, 3).mean() >= 0.9
