"""What runs of the record took beside what is estimated of them."""

import pytest
from recorded import prices

from sameloss.store import store
from sameloss.store.store import OTHER

pytestmark = pytest.mark.book

FEW = {"CorpusSampling", "CoolDown", "LanguageMeasurement", "ProofTable"}
"""Kinds with runs of which some take ten times as long as others: endless corpora take no time at all,
cool-downs end when a target is reached, and the others hardly matter."""


SHORT = 0.1
"""Seconds below which a run's time is that of its start."""


def test_prices_are_those_of_the_record():
    """Up to what a few new runs change; `python tests/record.py` writes them anew."""
    found, kept = prices.found(), store.prices()
    assert found.keys() == kept.keys()
    for kind, (seconds, unit) in found.items():
        if max(seconds, kept[kind][0]) > SHORT:
            assert kept[kind] == [pytest.approx(seconds, rel=0.5), pytest.approx(unit, rel=0.5)], kind


LONG = {kind for kind, (seconds, _) in store.prices().items() if seconds > SHORT}


@pytest.mark.parametrize("kind", sorted(LONG - FEW - {OTHER}))
def test_recorded_runs_took_about_what_is_estimated(kind):
    """Hardly one took less than a third, and many at most three times as long: a busy machine only adds."""
    table = prices.recorded()
    ratio = table[(table.kind == kind) & (table.seconds > SHORT)].pipe(
        lambda own: own.seconds / own.estimated
    )
    assert (ratio < 1 / 3).mean() <= 0.1
    assert (ratio < 3).mean() >= 0.4
