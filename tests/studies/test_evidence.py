"""Evidence of several presets: the strongest first."""

import math

import pytest

from sameloss.statistics.bootstrap import Interval
from sameloss.studies.evidence import SCALES, Source, side_by_side, strongest
from sameloss.studies.parameters import MAX_HOURS
from sameloss.studies.verdict import Claim, Judged, verdict_table

A, B, C = (Claim(name, "Fig. 1", f"claim {name}", "a_page", unit="points") for name in "abc")
ABOVE, AROUND, UNKNOWN = Interval(2, 1, 3), Interval(0, -1, 1), Interval(*3 * [math.nan])
SHORT, LONG = Source("laptop", 3), Source("laptop-long", 5, recorded=True)


def judged(*effects):
    return verdict_table(Judged(claim, effect) for claim, effect in zip((A, B, C), effects, strict=False))


def test_every_preset_has_a_scale():
    assert {name.partition("-")[0] for name in MAX_HOURS} == set(SCALES)


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
def test_the_larger_scale_counts_first_then_seeds_then_the_record(weaker, stronger):
    assert stronger.strength > weaker.strength


def test_sources_stand_side_by_side_the_strongest_first():
    table = side_by_side({SHORT: judged(ABOVE, AROUND), LONG: judged(AROUND)})
    assert table.source.tolist() == [LONG, SHORT, SHORT]
    assert table.id.tolist() == ["a", "a", "b"]
    assert table.verdict.tolist() == ["not decided", "direction confirmed", "not decided"]


def test_the_strongest_is_the_one_that_could_test():
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


def test_what_no_source_could_test_is_whole_of_the_strongest():
    """An estimate without an interval is not put beside another source's name."""
    alone = Interval(2, math.nan, math.nan)
    best = strongest(side_by_side({SHORT: judged(alone), LONG: judged(UNKNOWN)}))
    assert best.source["a"] == LONG
    assert math.isnan(best.ours["a"])
