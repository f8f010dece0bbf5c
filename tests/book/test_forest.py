"""Intervals drawn in the rows of a table."""

import math
import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from sameloss.book.forest import LINE, MARGIN, WIDTH, Scale, axis, intervals
from sameloss.studies.evidence import Source

OWN, RECORDED = Source("laptop", 3), Source("laptop-long", 5, recorded=True)


def rows(*found):
    return pd.DataFrame(found, columns=["source", "ours", "low", "high"])


def parts(drawing, name):
    """Return the attributes of the parts of a drawing; it must be well formed."""
    return [part.attrib for part in ET.fromstring(drawing).iter() if part.tag == name]


def test_numbers_are_drawn_in_proportion_between_the_margins():
    scale = Scale(-1.0, 3.0)
    assert [scale(n) for n in (-1, 1, 3)] == [MARGIN, WIDTH / 2, WIDTH - MARGIN]


def test_zero_is_on_every_scale():
    assert Scale.of([2.0, 5.0]) == Scale(0.0, 5.0)
    assert Scale.of([-2.0, math.nan]) == Scale(-2.0, 0.0)
    assert Scale.of([]) == Scale(0.0, 1.0)


@pytest.mark.parametrize("ends", [(0, 0.013), (-1, 1), (-7.5, 26)])
def test_an_axis_has_a_few_round_numbers_where_they_belong(ends):
    scale = Scale(*ends)
    told = [
        (float(x), float(number)) for x, number in re.findall(r'x="([\d.]+)" y="10">([^<]+)<', axis(scale))
    ]
    assert 2 <= len(told) <= 6
    assert all(x == scale(number) for x, number in told)


def test_each_source_has_its_interval_and_the_paper_a_tick():
    scale = Scale(-4.0, 8.0)
    drawing = intervals(scale, rows((RECORDED, 2, 1, 3), (OWN, 1, -2, 4)), 6.9, 'recorded "2"')
    first, second = parts(drawing, "circle")
    assert (float(first["cx"]), float(second["cx"])) == (scale(2), scale(1))
    assert float(second["cy"]) - float(first["cy"]) == LINE
    drawn = [(line.get("class"), float(line["x1"]), float(line["x2"])) for line in parts(drawing, "line")]
    assert drawn == [
        ("zero", scale(0), scale(0)),
        ("paper", scale(6.9), scale(6.9)),
        (None, scale(1), scale(3)),
        (None, scale(-2), scale(4)),
    ]
    assert [group["class"] for group in parts(drawing, "g")] == ["recorded", "own"]
    assert parts(drawing, "svg")[0]["aria-label"] == 'recorded "2"'


def test_what_has_no_interval_is_not_drawn():
    drawing = intervals(Scale(0, 1), rows((OWN, *3 * [math.nan])), math.nan, "nothing")
    assert parts(drawing, "circle") == []
    assert [line.get("class") for line in parts(drawing, "line")] == ["zero"]
