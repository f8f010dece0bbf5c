"""Verdicts on claims by intervals, and judgements of statements by checks."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import verdicts
from scipy import stats

from sameloss.statistics.intervals import LEVEL, Interval, seed_interval
from sameloss.studies.parameters import MAX_HOURS
from sameloss.studies.statement import (
    Check,
    Judgement,
    Statement,
    at_most,
    check_table,
    judge_checks,
    none_above,
    statement_table,
)
from sameloss.studies.verdict import (
    COLUMNS,
    SCALES,
    Claim,
    Source,
    Topic,
    Verdict,
    chance_in_words,
    judge,
    side_by_side,
    strongest,
    verdict_table,
)

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
        (9, 10, Verdict.LARGER),
        (0.5, 4, Verdict.SMALLER),
        (0, 4, Verdict.SMALLER),
        (-0.1, 0.1, Verdict.SMALLER),  # a precise null
        (-4, 0, Verdict.SMALLER),
        (-4, -1, Verdict.CONTRADICTED),
        (-4, 9, Verdict.NOT_DECIDED),
        (math.nan, math.nan, Verdict.NOT_TESTABLE),
    ],
)
def test_verdicts_follow_from_interval_and_tolerance(low, high, verdict):
    assert judge(Interval((low + high) / 2, low, high), PUBLISHED) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.5, 2, Verdict.DIRECTION),
        (0, 2, Verdict.NOT_DECIDED),
        (-1, 2, Verdict.NOT_DECIDED),
        (-2, -1, Verdict.CONTRADICTED),
        (math.nan, math.nan, Verdict.NOT_TESTABLE),
    ],
)
def test_a_published_direction_is_confirmed_at_most(low, high, verdict):
    assert judge(Interval((low + high) / 2, low, high), DIRECTION_ONLY) == verdict


@pytest.mark.parametrize(
    ("ends", "narrow", "verdict"),
    [
        ((-0.1, 0.4), (-0.05, 0.29), Verdict.NEGLIGIBLE),
        ((-0.1, 0.4), (-0.05, 0.31), Verdict.NOT_DECIDED),
        ((-0.4, 0.1), (-0.31, 0.05), Verdict.NOT_DECIDED),
        ((0.01, 0.2), (0.02, 0.19), Verdict.DIRECTION),  # the sign comes first
        ((-0.2, -0.01), (-0.19, -0.02), Verdict.CONTRADICTED),
        ((math.nan, math.nan), (math.nan, math.nan), Verdict.NOT_TESTABLE),
    ],
)
def test_an_effect_within_the_margin_is_negligible(ends, narrow, verdict):
    claim = replace(DIRECTION_ONLY, margin=0.3)
    assert judge(Interval(0.1, *ends), claim, Interval(0.1, *narrow)) == verdict
    if verdict is Verdict.NEGLIGIBLE:
        assert judge(Interval(0.1, *ends), DIRECTION_ONLY, Interval(0.1, *narrow)) == Verdict.NOT_DECIDED


def test_the_narrow_interval_is_that_of_two_one_sided_tests():
    """Of 20 seeds around 0.1 the 95 % interval reaches beyond the margin, and the 90 % one does not."""
    seeds = 0.1 + 0.46 * stats.zscore(np.arange(20.0), ddof=1)
    claim = replace(DIRECTION_ONLY, margin=0.3, effect=lambda seeds, level=LEVEL: seed_interval(seeds, level))
    (row,) = verdict_table([Topic("is there?", (claim,))], seeds).itertuples()
    assert row.high > 0.3
    assert row.verdict == "negligible"
    above = [stats.ttest_1samp(side * seeds, -0.3, alternative="greater").pvalue for side in (1, -1)]
    assert max(above) < 0.05


numbers, widths, positive = st.floats(-100, 100), st.floats(0, 100), st.floats(0.01, 100)
with_number = st.builds(
    lambda value, tolerance: replace(PUBLISHED, value=value, tolerance=tolerance),
    positive,
    st.floats(0.01, 2),
)
claims = with_number | st.just(DIRECTION_ONLY)


def around(centre, half):
    return Interval(centre, centre - half, centre + half)


def spanning(low, high):
    return Interval((low + high) / 2, low, high)


def band(claim):
    """The tolerance interval around the published number."""
    slack = claim.tolerance * claim.value
    return claim.value - slack, claim.value + slack


def effects_near(claim):
    """Effects of about the published size, often at the ends of the tolerance."""
    size, edges = (1.0, (0.0,)) if claim.value is None else (claim.value, (0.0, *band(claim)))
    return st.integers(-8, 16).map(lambda quarters: quarters * size / 4) | st.sampled_from(edges)


def with_ends(count):
    """Claims, each with some effects in ascending order."""
    return claims.flatmap(
        lambda claim: st.tuples(
            st.just(claim), st.lists(effects_near(claim), min_size=count, max_size=count).map(sorted)
        )
    )


NO_STRONGER = {word: {word, Verdict.NOT_DECIDED} for word in Verdict}
NO_STRONGER[Verdict.CONTRADICTED].add(Verdict.SMALLER)  # implied by below zero
"""Verdicts of an interval that contains one with the given verdict."""


@settings(max_examples=1000)  # to meet rare verdicts
@given(with_ends(4))
def test_a_wider_interval_has_no_stronger_verdict(drawn):
    claim, (lowest, low, high, highest) = drawn
    assert judge(spanning(lowest, highest), claim) in NO_STRONGER[judge(spanning(low, high), claim)]


TRUE_OF = {
    Verdict.CONTRADICTED: lambda effect, claim: effect < 0,
    Verdict.DIRECTION: lambda effect, claim: claim.value is None and effect > 0,
    Verdict.REPRODUCED: lambda effect, claim: (
        claim.value is not None and effect > 0 and band(claim)[0] <= effect <= band(claim)[1]
    ),
    Verdict.SMALLER: lambda effect, claim: claim.value is not None and effect < band(claim)[0],
    Verdict.LARGER: lambda effect, claim: claim.value is not None and effect > band(claim)[1],
}
"""Effects for which a verdict is true: each set is an interval, so checking both ends is enough."""


@given(with_ends(2))
def test_a_verdict_is_true_of_the_whole_interval(drawn):
    claim, (low, high) = drawn
    words = {word for word, true_of in TRUE_OF.items() if true_of(low, claim) and true_of(high, claim)}
    if Verdict.CONTRADICTED in words:
        words.discard(Verdict.SMALLER)  # implied
    assert words == {judge(spanning(low, high), claim)} - {Verdict.NOT_DECIDED}


@given(with_ends(2))
def test_reproduced_is_near_the_published_number_and_precise(drawn):
    claim, (low, high) = drawn
    if judge(spanning(low, high), claim) == Verdict.REPRODUCED:
        slack = claim.tolerance * claim.value
        rounding = 1e-12 * (claim.value + slack)
        assert low - slack - rounding <= claim.value <= high + slack + rounding
        assert high - low <= 2 * slack + rounding
        assert low > 0


def test_near_and_precise_is_not_enough_for_reproduced():
    """Otherwise the wider of these two intervals would have the stronger verdict."""
    claim = replace(PUBLISHED, value=6.0, tolerance=0.5)  # 3 to 9
    assert judge(spanning(8, 11), claim) == Verdict.NOT_DECIDED
    assert judge(spanning(10, 11), claim) == Verdict.LARGER


@given(claims, numbers, widths)
def test_only_an_interval_below_zero_contradicts(claim, centre, half):
    contradicted = judge(around(centre, half), claim) == Verdict.CONTRADICTED
    assert contradicted == (centre + half < 0)


@given(with_number, st.sampled_from([-1, 1]), positive, positive)
def test_an_interval_across_an_edge_of_the_tolerance_is_not_decided(claim, side, below, above):
    edge = claim.value * (1 + side * claim.tolerance)
    effect = Interval(edge, edge - below, edge + above)
    assert judge(effect, claim) == (Verdict.CONTRADICTED if effect.high < 0 else Verdict.NOT_DECIDED)


@given(with_number, numbers, widths, st.integers(0, 10))
def test_the_tolerance_is_relative(claim, centre, half, power):
    """In other units (by powers of two, which round nothing) the verdict is the same."""
    scale = 2.0**power
    other = replace(claim, value=scale * claim.value)
    assert judge(around(scale * centre, scale * half), other) == judge(around(centre, half), claim)


@given(claims, numbers)
def test_nan_is_not_testable(claim, number):
    for low, high in ((math.nan, math.nan), (math.nan, number), (number, math.nan)):
        assert judge(Interval(number, low, high), claim) == Verdict.NOT_TESTABLE


def test_a_verdict_table_has_one_row_per_claim_in_order():
    other = Claim("fig1", "Fig. 1", "it rises", "a_page", unit="nats")
    table = verdicts([(PUBLISHED, Interval(9.5, 9, 10)), (other, Interval(*3 * [math.nan]))])
    assert tuple(table.columns) == COLUMNS
    assert table.id.tolist() == ["fig2", "fig1"]
    assert table.verdict.tolist() == ["larger than published", "not testable here"]
    np.testing.assert_equal(table[["paper", "ours", "low", "high"]].to_numpy()[0], [6.9, 9.5, 9, 10])
    assert table.paper.isna().tolist() == [False, True]


def test_one_tolerance_may_replace_all():
    judged = [(PUBLISHED, Interval(9.5, 9, 10))]
    assert verdicts(judged, tolerance=0.5).verdict.tolist() == ["reproduced"]
    assert verdicts(judged).verdict.tolist() == ["larger than published"]


def test_a_page_without_claims_has_an_empty_table():
    table = verdicts([])
    assert table.empty
    assert tuple(table.columns) == COLUMNS


def test_intervals_above_zero_are_compared_with_the_number_expected_by_chance():
    """A twentieth of the intervals misses, half of them above; NaN is not counted."""
    effects = [(1, 2), (0, 1), (-1, 1), (-2, -1), *96 * [(-1, 1)], (math.nan, math.nan)]
    table = verdicts((DIRECTION_ONLY, spanning(*ends)) for ends in effects)
    assert chance_in_words(table).startswith(
        "Intervals (95 %) of this page's runs that lie wholly above zero: 1 of 100; at most 2.5 on "
        "average if no effect were positive."
    )


# Evidence from several presets

A, B, C = (Claim(name, "Fig. 1", f"claim {name}", "a_page", unit="points") for name in "abc")
ABOVE, AROUND, UNKNOWN = Interval(2, 1, 3), Interval(0, -1, 1), Interval(*3 * [math.nan])
SHORT, LONG = Source("laptop", 3), Source("laptop-long", 5, recorded=True)


def judged(*effects):
    return verdicts((claim, effect) for claim, effect in zip((A, B, C), effects, strict=False))


def test_every_preset_has_a_scale():
    of_part_one_alone = {"pretrained"}
    assert {name.partition("-")[0] for name in MAX_HOURS} - of_part_one_alone == set(SCALES)


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        (Source("laptop-long", 5, True), Source("gpu", 3, False)),
        (Source("laptop", 3, False), Source("laptop-long", 5, True)),
        (Source("laptop-long", 5, True), Source("laptop", 8, False)),
        (Source("laptop", 5, False), Source("laptop-long", 5, True)),
        (Source("laptop"), Source("laptop", 1)),
    ],
)
def test_sources_are_ordered_by_scale_then_seeds_then_record(weaker, stronger):
    assert stronger.strength > weaker.strength


def test_evidence_is_sorted_by_strength():
    table = side_by_side({SHORT: judged(ABOVE, AROUND), LONG: judged(AROUND)})
    assert table.source.tolist() == [LONG, SHORT, SHORT]
    assert table.id.tolist() == ["a", "a", "b"]
    assert table.verdict.tolist() == ["not decided", "direction confirmed", "not decided"]


def test_the_strongest_evidence_is_testable():
    table = side_by_side({SHORT: judged(ABOVE, ABOVE, UNKNOWN), LONG: judged(UNKNOWN, AROUND, UNKNOWN)})
    best = strongest(table)
    assert best.source.to_dict() == {"a": SHORT, "b": LONG, "c": LONG}
    assert best.verdict.to_dict() == {
        "a": "direction confirmed",
        "b": "not decided",
        "c": "not testable here",
    }
    assert best.low["b"] == -1
    assert math.isnan(best.low["c"])


def test_untestable_claims_have_the_strongest_source():
    """An estimate without an interval is not combined with another source."""
    alone = Interval(2, math.nan, math.nan)
    best = strongest(side_by_side({SHORT: judged(alone), LONG: judged(UNKNOWN)}))
    assert best.source["a"] == LONG
    assert math.isnan(best.ours["a"])


# Statements


def checks(*outcomes: tuple[bool, bool]):
    """Checks of one statement from (printed, passed)."""
    return check_table([Check("x", "", float(not passed), 0.0, 0.5, printed) for printed, passed in outcomes])


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([(True, True)], Judgement.HOLDS),
        ([(True, True), (True, False)], Judgement.FAILS),
        ([(True, False), (False, True)], Judgement.CORRECTED),
        ([(True, False), (False, False)], Judgement.FAILS),
        ([(True, True), (False, False)], Judgement.FAILS),
        ([(False, True)], Judgement.CORRECTED),
    ],
)
def test_a_statement_is_judged_by_all_its_checks(outcomes, expected):
    """One failed printed check refutes what is printed; the corrected form must pass all of its own."""
    assert judge_checks(checks(*outcomes)) is expected


def test_nan_passes_no_check():
    """A diverged computation is no agreement."""
    assert not Check("x", "", float("nan"), 0.0, 1.0).passed


def test_bounds_hold_up_to_rounding():
    passed = [at_most("x", "", value, 2.0).passed for value in (0.0, 2.0, 2.1, -0.1)]
    assert passed == [True, True, False, False]
    assert [at_most("x", "", 1 + 1e-9, rounding=off).passed for off in (0.0, 1e-8)] == [False, True]


def test_no_excess_may_be_positive_or_missing():
    excesses = ([-1.0, 0.0], [-1.0, 1e-9], [-1.0, 1e-7], [-1.0, np.nan])
    passed = [none_above("x", "", np.array(values), 1e-8).passed for values in excesses]
    assert passed == [True, True, False, False]
    assert none_above("x", "", pd.Series([-1.0, np.nan]), 1e-8).passed


def test_every_statement_has_a_check():
    with pytest.raises(KeyError, match="y"):
        statement_table({"x": Statement("", ""), "y": Statement("", "")}, checks((True, True)))


def test_a_missing_value_refutes_nothing():
    unknown = Check("x", "", float("nan"), 0.0, 1.0)
    refuted = Check("x", "", 2.0, 0.0, 1.0)
    assert judge_checks(check_table([unknown, refuted])) is Judgement.UNTESTED
