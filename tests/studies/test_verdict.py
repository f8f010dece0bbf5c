"""Verdicts follow from interval, number and tolerance, and being uncertain makes none easier to reach."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sameloss.statistics.bootstrap import Interval
from sameloss.studies.verdict import COLUMNS, Claim, Judged, Verdict, judge, verdict_table

PUBLISHED = Claim("fig2", "Fig. 2", "it helps", "a_page", value=6.9, unit="points", tolerance=0.25)
DIRECTION_ONLY = replace(PUBLISHED, value=None)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (6, 8, Verdict.REPRODUCED),
        (5.18, 8.62, Verdict.REPRODUCED),  # 6.9 less and plus a quarter of itself: 5.175 and 8.625
        (8, 9, Verdict.NOT_DECIDED),
        (5, 6, Verdict.NOT_DECIDED),
        (4, 10, Verdict.NOT_DECIDED),
        (-1, 6, Verdict.NOT_DECIDED),
        (9, 10, Verdict.DIRECTION),
        (0.5, 4, Verdict.DIRECTION),
        (0, 4, Verdict.NOT_SEEN),
        (-4, 4, Verdict.NOT_SEEN),
        (-4, -1, Verdict.CONTRADICTED),
        (math.nan, math.nan, Verdict.NOT_TESTABLE),
    ],
)
def test_verdicts_follow_from_interval_and_tolerance(low, high, verdict):
    assert judge(Interval((low + high) / 2, low, high), PUBLISHED) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.5, 2, Verdict.REPRODUCED),
        (0, 2, Verdict.NOT_SEEN),
        (-1, 2, Verdict.NOT_SEEN),
        (-2, -1, Verdict.CONTRADICTED),
        (math.nan, math.nan, Verdict.NOT_TESTABLE),
    ],
)
def test_a_published_direction_is_reproduced_by_its_direction(low, high, verdict):
    assert judge(Interval((low + high) / 2, low, high), DIRECTION_ONLY) == verdict


numbers, widths, positive = st.floats(-100, 100), st.floats(0, 100), st.floats(0.01, 100)
with_number = st.builds(
    lambda value, tolerance: replace(PUBLISHED, value=value, tolerance=tolerance),
    positive,
    st.floats(0.01, 2),
)
claims = with_number | st.just(DIRECTION_ONLY)


def around(centre, half):
    return Interval(centre, centre - half, centre + half)


STRENGTH = {
    Verdict.REPRODUCED: 2,
    Verdict.DIRECTION: 1,
    Verdict.CONTRADICTED: 1,
    Verdict.NOT_DECIDED: 0,
    Verdict.NOT_SEEN: 0,
}
"""How much is said; nothing is said of what is not testable."""


@given(claims, numbers, widths, widths)
def test_being_less_certain_never_says_more(claim, centre, half, more):
    narrow, wide = judge(around(centre, half), claim), judge(around(centre, half + more), claim)
    assert STRENGTH[wide] <= STRENGTH[narrow]
    assert wide == narrow or STRENGTH[wide] == 0


@given(claims, numbers, widths)
def test_only_what_lies_below_zero_as_a_whole_contradicts(claim, centre, half):
    contradicted = judge(around(centre, half), claim) == Verdict.CONTRADICTED
    assert contradicted == (centre + half < 0)


@given(with_number, st.sampled_from([-1, 1]), positive, positive)
def test_an_interval_across_an_edge_of_the_tolerance_is_not_decided(claim, side, below, above):
    edge = claim.value * (1 + side * claim.tolerance)
    effect = Interval(edge, edge - below, edge + above)
    assert judge(effect, claim) == (Verdict.CONTRADICTED if effect.high < 0 else Verdict.NOT_DECIDED)


@given(claims, numbers, widths)
def test_reproduced_is_near_the_number_and_above_zero(claim, centre, half):
    effect = around(centre, half)
    if judge(effect, claim) in (Verdict.REPRODUCED, Verdict.DIRECTION):
        assert effect.low > 0
    if judge(effect, claim) == Verdict.REPRODUCED and claim.value is not None:
        assert max(abs(end - claim.value) for end in effect) <= claim.tolerance * claim.value * (1 + 1e-9)


@given(with_number, numbers, widths, st.integers(0, 10))
def test_the_tolerance_is_a_share_of_the_number(claim, centre, half, power):
    """In other units (by powers of two, which round nothing) the verdict is the same."""
    scale = 2.0**power
    other = replace(claim, value=scale * claim.value)
    assert judge(around(scale * centre, scale * half), other) == judge(around(centre, half), claim)


@given(claims, numbers)
def test_what_is_not_a_number_is_not_testable(claim, number):
    for low, high in ((math.nan, math.nan), (math.nan, number), (number, math.nan)):
        assert judge(Interval(number, low, high), claim) == Verdict.NOT_TESTABLE


def test_a_table_has_one_row_a_claim_in_the_order_given():
    other = Claim("fig1", "Fig. 1", "it rises", "a_page", unit="nats")
    table = verdict_table(
        [Judged(PUBLISHED, Interval(9.5, 9, 10), "root"), Judged(other, Interval(*3 * [math.nan]))]
    )
    assert tuple(table.columns) == COLUMNS
    assert table.id.tolist() == ["fig2", "fig1"]
    assert table.verdict.tolist() == ["direction only", "not testable here"]
    np.testing.assert_equal(table[["paper", "ours", "low", "high"]].to_numpy()[0], [6.9, 9.5, 9, 10])
    assert table.paper.isna().tolist() == [False, True]
    assert table.task.iloc[0] == "root"
    assert pd.isna(table.task.iloc[1])


def test_one_tolerance_may_stand_for_all():
    judged = [Judged(PUBLISHED, Interval(9.5, 9, 10))]
    assert verdict_table(judged, tolerance=0.5).verdict.tolist() == ["reproduced"]
    assert verdict_table(judged).verdict.tolist() == ["direction only"]


def test_a_page_without_claims_has_an_empty_table():
    table = verdict_table([])
    assert table.empty
    assert tuple(table.columns) == COLUMNS
