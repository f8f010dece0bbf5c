"""What stacking found, on tables that were made up."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.studies.growing.claims import FROM_NOTHING, STACKING_TOPICS, judged
from sameloss.studies.verdict import Verdict, judge


def test_ways_are_compared_by_their_ends(stacked):
    assert stacked.final("last") == pytest.approx([0.12, 0.132, 0.144])
    assert stacked.below("adaptive", "last").value == pytest.approx(0.022)
    assert stacked.headroom().value == pytest.approx(np.log(0.3 / 0.12))


def test_at_equal_kl_what_a_smaller_loss_explains_is_gone(stacked):
    assert stacked.tasks == ["root", "span2"]
    assert stacked.at_equal_kl("last", FROM_NOTHING, "root").value == pytest.approx(2)
    assert stacked.at_equal_kl("last", FROM_NOTHING, "accuracy").value == pytest.approx(2)
    assert stacked.at_equal_kl("middle", FROM_NOTHING, "accuracy").value == pytest.approx(0, abs=1e-9)
    assert stacked.at_equal_kl(FROM_NOTHING, "last", "trace").value == pytest.approx(np.log(3))


def test_where_loss_ranges_do_not_meet_nothing_is_compared(stacked):
    far = stacked.known.assign(kl=stacked.known.kl.where(stacked.known.way != "last", 9 * stacked.known.kl))
    assert np.isnan(replace(stacked, known=far).at_equal_kl("last", FROM_NOTHING, "root").value)


def test_claims_are_judged_as_they_are_oriented(stacked):
    found = judged(STACKING_TOPICS, stacked)
    assert {judge(one.effect, one.claim) for one in found} == {Verdict.DIRECTION}
    flat = replace(stacked, stages=stacked.stages.assign(kl=1.0))
    gated = {one.claim.id for one in judged(STACKING_TOPICS, flat) if np.isnan(one.effect.value)}
    assert gated == {claim.id for topic in STACKING_TOPICS for claim in topic.claims if claim.gated}
