"""What stacking found, on tables that were made up."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.growing.claims import FROM_NOTHING, STACKING_TOPICS, judged
from sameloss.studies.growing.operators import NOT_GROWN
from sameloss.studies.growing.settings import PRESETS
from sameloss.studies.growing.stacks import PAID, Stacks
from sameloss.studies.growing.ways import WAYS
from sameloss.studies.verdict import Verdict, judge

ENDS = {"adaptive": 0.1, PAID: 0.11, "last": 0.12, "middle": 0.13, "random": 0.14}
ENDS |= {NOT_GROWN: 0.3, FROM_NOTHING: 0.15}


@pytest.fixture
def made_up():
    """Ways end in their order; at equal KL the last one reads 2 points more, at a third of the trace."""
    stages, known = [], []
    for seed in range(3):
        for way, end in ENDS.items():
            for step, factor in ((30, 4.0), (60, 1.0)):
                kl = factor * end * (1 + seed / 10)
                stages.append({"seed": seed, "way": way, "step": step, "kl": kl, "flops": 1.0 * step})
                better, flatter = (2.0, 3.0) if way == "last" else (0.0, 1.0)
                known.append(
                    {
                        "seed": seed,
                        "way": way,
                        "step": step,
                        "kl": kl,
                        "trace": kl / flatter,
                        "root": 90 - 10 * np.log(kl) + better,
                        "span2": 80 - 10 * np.log(kl) + better,
                    }
                )
    settings = replace(PRESETS["smoke"].stacking, seeds=3)
    return Stacks(settings, pd.DataFrame(stages), pd.DataFrame(known))


def test_ways_are_compared_by_their_ends(made_up):
    assert made_up.final("last") == pytest.approx([0.12, 0.132, 0.144])
    assert made_up.below("adaptive", "last").value == pytest.approx(0.022)
    assert made_up.headroom().value == pytest.approx(np.log(0.3 / 0.12))


def test_at_equal_kl_what_a_smaller_loss_explains_is_gone(made_up):
    assert made_up.tasks == ["root", "span2"]
    assert made_up.at_equal_kl("last", FROM_NOTHING, "root").value == pytest.approx(2)
    assert made_up.at_equal_kl("last", FROM_NOTHING, "accuracy").value == pytest.approx(2)
    assert made_up.at_equal_kl("middle", FROM_NOTHING, "accuracy").value == pytest.approx(0, abs=1e-9)
    assert made_up.at_equal_kl(FROM_NOTHING, "last", "trace").value == pytest.approx(np.log(3))


def test_where_loss_ranges_do_not_meet_nothing_is_compared(made_up):
    far = made_up.known.assign(kl=made_up.known.kl.where(made_up.known.way != "last", 9 * made_up.known.kl))
    assert np.isnan(replace(made_up, known=far).at_equal_kl("last", FROM_NOTHING, "root").value)


def test_claims_are_judged_as_they_are_oriented(made_up):
    found = judged(STACKING_TOPICS, made_up)
    assert {judge(one.effect, one.claim) for one in found} == {Verdict.DIRECTION}
    flat = replace(made_up, stages=made_up.stages.assign(kl=1.0))
    gated = {one.claim.id for one in judged(STACKING_TOPICS, flat) if np.isnan(one.effect.value)}
    assert gated == {claim.id for topic in STACKING_TOPICS for claim in topic.claims if claim.gated}


def test_every_way_is_compared(made_up):
    assert set(ENDS) >= set(WAYS)
