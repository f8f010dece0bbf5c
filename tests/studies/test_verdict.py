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

from sameloss.statistics.intervals import LEVEL, UNDEFINED, Interval, seed_interval
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
    Direction,
    Size,
    Source,
    Topic,
    chance_in_words,
    judge,
    side_by_side,
    strongest,
    verdict_table,
)

PUBLISHED = Claim("fig2", "Fig. 2", "it helps", "a_page", value=6.9, unit="points", tolerance=0.25)
DIRECTION_ONLY = replace(PUBLISHED, value=None)

SUPPORTED, AGAINST, OPEN, _, NOT_TESTABLE = Direction


def of(claim, effect, narrow=UNDEFINED):
    """The direction and the size of the verdict on a claim."""
    return judge(effect, claim.value, tolerance=claim.tolerance, narrow=narrow, margin=claim.margin)[:2]


@pytest.mark.parametrize(
    ("low", "high", "direction", "size"),
    [
        (6, 8, SUPPORTED, Size.AS_PUBLISHED),
        (5.18, 8.62, SUPPORTED, Size.AS_PUBLISHED),  # 6.9 less and plus a quarter of itself: 5.175 and 8.625
        (8, 9, SUPPORTED, Size.IMPRECISE),
        (5, 6, SUPPORTED, Size.IMPRECISE),
        (4, 10, SUPPORTED, Size.IMPRECISE),
        (-1, 6, OPEN, Size.IMPRECISE),
        (9, 10, SUPPORTED, Size.LARGER),
        (0.5, 4, SUPPORTED, Size.SMALLER),
        (0, 4, OPEN, Size.SMALLER),
        (-0.1, 0.1, OPEN, Size.SMALLER),  # a precise null
        (-4, 0, OPEN, Size.SMALLER),
        (-4, -1, AGAINST, Size.SMALLER),
        (-4, 9, OPEN, Size.IMPRECISE),
        (math.nan, math.nan, NOT_TESTABLE, None),
    ],
)
def test_verdicts_follow_from_interval_and_tolerance(low, high, direction, size):
    assert of(PUBLISHED, Interval((low + high) / 2, low, high)) == (direction, size)


@pytest.mark.parametrize(
    ("low", "high", "direction"),
    [
        (0.5, 2, SUPPORTED),
        (0, 2, OPEN),
        (-1, 2, OPEN),
        (-2, -1, AGAINST),
        (math.nan, math.nan, NOT_TESTABLE),
    ],
)
def test_where_a_direction_is_published_no_size_is_judged(low, high, direction):
    assert of(DIRECTION_ONLY, Interval((low + high) / 2, low, high)) == (direction, None)


@pytest.mark.parametrize(
    ("ends", "narrow", "direction", "size"),
    [
        ((-0.1, 0.4), (-0.05, 0.29), OPEN, Size.NEGLIGIBLE),
        ((-0.1, 0.4), (-0.05, 0.31), OPEN, None),
        ((-0.4, 0.1), (-0.31, 0.05), OPEN, None),
        ((0.01, 0.2), (0.02, 0.19), SUPPORTED, None),  # the sign comes first
        ((-0.2, -0.01), (-0.19, -0.02), AGAINST, None),
        ((math.nan, math.nan), (math.nan, math.nan), NOT_TESTABLE, None),
    ],
)
def test_an_effect_within_the_margin_is_negligible(ends, narrow, direction, size):
    claim = replace(DIRECTION_ONLY, margin=0.3)
    assert of(claim, Interval(0.1, *ends), Interval(0.1, *narrow)) == (direction, size)
    assert of(DIRECTION_ONLY, Interval(0.1, *ends), Interval(0.1, *narrow)) == (direction, None)


def test_beside_a_published_effect_a_negligible_one_may_have_a_sign():
    """The first size that holds; the narrow interval and the one that is sized need not decide the sign."""
    sized, narrow = Interval(0.2, -0.1, 0.5), Interval(0.2, 0.0, 0.4)
    verdict = judge(Interval(0.2, 0.1, 0.3), 6.9, sized=sized, narrow=narrow, margin=0.6)
    assert verdict[:2] == (SUPPORTED, Size.NEGLIGIBLE)
    assert judge(Interval(0.2, 0.1, 0.3), 0.2, sized=Interval(0.2, 0.16, 0.24)).size == Size.AS_PUBLISHED


def test_a_reason_forbids_a_verdict():
    verdict = judge(Interval(7, 6, 8), 6.9, reason="no room")
    assert verdict == (NOT_TESTABLE, None, "no room")


def test_the_narrow_interval_is_that_of_two_one_sided_tests():
    """Of 20 seeds around 0.1 the 95 % interval reaches beyond the margin, and the 90 % one does not."""
    seeds = 0.1 + 0.46 * stats.zscore(np.arange(20.0), ddof=1)
    claim = replace(DIRECTION_ONLY, margin=0.3, effect=lambda seeds, level=LEVEL: seed_interval(seeds, level))
    (row,) = verdict_table([Topic("is there?", (claim,))], seeds).itertuples()
    assert row.high > 0.3
    assert (row.direction, row.size) == ("open", "negligible")
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


@settings(max_examples=1000)  # to meet rare verdicts
@given(with_ends(4))
def test_a_wider_interval_has_no_stronger_verdict(drawn):
    claim, (lowest, low, high, highest) = drawn
    wide, inner = of(claim, spanning(lowest, highest)), of(claim, spanning(low, high))
    assert wide[0] in {inner[0], OPEN}
    assert wide[1] in {inner[1], Size.IMPRECISE}


DIRECTION_OF = {SUPPORTED: lambda effect: effect > 0, AGAINST: lambda effect: effect < 0}
SIZE_OF = {
    Size.AS_PUBLISHED: lambda effect, claim: band(claim)[0] <= effect <= band(claim)[1],
    Size.SMALLER: lambda effect, claim: effect < band(claim)[0],
    Size.LARGER: lambda effect, claim: effect > band(claim)[1],
}
"""Effects of which a word is true: each set is an interval, so checking both ends is enough."""


@given(with_ends(2))
def test_each_word_is_true_of_the_whole_interval(drawn):
    claim, (low, high) = drawn
    direction, size = of(claim, spanning(low, high))
    words = {word for word, true_of in DIRECTION_OF.items() if true_of(low) and true_of(high)}
    assert words == {direction} - {OPEN}
    if claim.value is None:
        assert size is None
    else:
        words = {word for word, true_of in SIZE_OF.items() if true_of(low, claim) and true_of(high, claim)}
        assert words == {size} - {Size.IMPRECISE}


@given(with_ends(2))
def test_as_published_is_near_the_published_number_and_precise(drawn):
    claim, (low, high) = drawn
    if of(claim, spanning(low, high))[1] == Size.AS_PUBLISHED:
        slack = claim.tolerance * claim.value
        rounding = 1e-12 * (claim.value + slack)
        assert low - slack - rounding <= claim.value <= high + slack + rounding
        assert high - low <= 2 * slack + rounding


def test_near_and_precise_is_not_enough_for_as_published():
    """Otherwise the wider of these two intervals would have the stronger verdict."""
    claim = replace(PUBLISHED, value=6.0, tolerance=0.5)  # 3 to 9
    assert of(claim, spanning(8, 11)) == (SUPPORTED, Size.IMPRECISE)
    assert of(claim, spanning(10, 11)) == (SUPPORTED, Size.LARGER)


@given(with_number, st.sampled_from([-1, 1]), positive, positive)
def test_an_interval_across_an_edge_of_the_tolerance_is_imprecise(claim, side, below, above):
    edge = claim.value * (1 + side * claim.tolerance)
    assert of(claim, Interval(edge, edge - below, edge + above))[1] == Size.IMPRECISE


@given(with_number, numbers, widths, st.integers(0, 10))
def test_the_tolerance_is_relative(claim, centre, half, power):
    """In other units (by powers of two, which round nothing) the verdict is the same."""
    scale = 2.0**power
    other = replace(claim, value=scale * claim.value)
    assert of(other, around(scale * centre, scale * half)) == of(claim, around(centre, half))


@given(claims, numbers)
def test_nan_is_not_testable(claim, number):
    for low, high in ((math.nan, math.nan), (math.nan, number), (number, math.nan)):
        assert of(claim, Interval(number, low, high)) == (NOT_TESTABLE, None)


def test_a_verdict_table_has_one_row_per_claim_in_order():
    other = Claim("fig1", "Fig. 1", "it rises", "a_page", unit="nats")
    table = verdicts([(PUBLISHED, Interval(9.5, 9, 10)), (other, Interval(*3 * [math.nan]))])
    assert tuple(table.columns) == COLUMNS
    assert table.id.tolist() == ["fig2", "fig1"]
    assert table.direction.tolist() == ["supported", "not testable"]
    assert table["size"].tolist() == ["larger than published", ""]
    np.testing.assert_equal(table[["paper", "ours", "low", "high"]].to_numpy()[0], [6.9, 9.5, 9, 10])
    assert table.paper.isna().tolist() == [False, True]


def test_one_tolerance_may_replace_all():
    judged = [(PUBLISHED, Interval(9.5, 9, 10))]
    assert verdicts(judged, tolerance=0.5)["size"].tolist() == ["as published"]
    assert verdicts(judged)["size"].tolist() == ["larger than published"]


def test_a_page_without_claims_has_an_empty_table():
    table = verdicts([])
    assert table.empty
    assert tuple(table.columns) == COLUMNS


def test_decided_intervals_are_compared_with_the_number_expected_by_chance():
    """A twentieth of the intervals misses, half of them on each side; NaN is not counted."""
    effects = [(1, 2), (0, 1), (-1, 1), (-2, -1), *96 * [(-1, 1)], (math.nan, math.nan)]
    table = verdicts((DIRECTION_ONLY, spanning(*ends)) for ends in effects)
    assert chance_in_words(table).startswith(
        "Of 100 intervals (95 %) 1 lie wholly on the claim's side and 1 on the other; by chance "
        "about 2.5 would lie on each."
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
    assert table.direction.tolist() == ["open", "supported", "open"]


def test_the_strongest_evidence_is_testable():
    table = side_by_side({SHORT: judged(ABOVE, ABOVE, UNKNOWN), LONG: judged(UNKNOWN, AROUND, UNKNOWN)})
    best = strongest(table)
    assert best.source.to_dict() == {"a": SHORT, "b": LONG, "c": LONG}
    assert best.direction.to_dict() == {"a": "supported", "b": "open", "c": "not testable"}
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
