"""Verdicts as readers meet them."""

import math
import re
import xml.etree.ElementTree as ET

import pandas as pd
import planted
import pytest

from sameloss.book.verdict_table import (
    LINE,
    LOOKS,
    MARGIN,
    WIDTH,
    Scale,
    axis,
    badge,
    counted,
    findings,
    intervals,
    table,
)
from sameloss.statistics.intervals import Interval
from sameloss.studies.statement import Judgement
from sameloss.studies.verdict import Claim, Direction, Source, Topic, side_by_side

BIG = Claim("big", "Fig. 2", "larger <is> better", "02_a", value=6.9, unit="accuracy points")
NATS = Claim("nats", "§2", "it saturates", "04_b", unit="nats")
LONE = Claim("lone", "Fig. 9", "not asked", "02_a", unit="accuracy points")
TOPICS = (Topic("Does it saturate?", (NATS,)), Topic("Is larger better?", (BIG,)))
OWN, RECORDED = Source("laptop", 3), Source("laptop-long", 5, recorded=True)
UNKNOWN = Interval(*3 * [math.nan])


@pytest.fixture
def verdicts():
    judged = [(BIG, Interval(1, -2, 9)), (NATS, Interval(0.0052, 0.0051, 0.0053))]
    return planted.verdicts([*judged, (LONE, UNKNOWN)])


@pytest.fixture
def evidence(verdicts):
    recorded = planted.verdicts([(BIG, Interval(0.5, -1, 2))])
    return side_by_side({OWN: verdicts, RECORDED: recorded})


def rows_of(html):
    return re.findall(r"<tr.*?</tr>", html)


def words(html):
    return " ".join(re.sub(r"<svg.*?</svg>|<[^>]*>", " ", html).split())


def test_every_verdict_has_a_colour_an_icon_and_its_word():
    assert set(LOOKS) == {*Direction, *Judgement}
    for verdict in LOOKS:
        assert words(badge(str(verdict))).endswith(f" {verdict}")


def test_claims_stand_under_their_questions_with_a_column_a_source(verdicts, evidence):
    head, *rows = rows_of(table(verdicts, evidence, TOPICS, home=True))
    assert words(head) == "claim effect paper laptop-long, recorded, 5 seeds laptop, this page, 3 seeds"
    assert [words(row) for row in rows] == [
        "Does it saturate?",
        "nats",
        "it saturates §2 – – ✓ supported +0.0052 (0.0051 to 0.0053)",
        "Is larger better?",
        "accuracy points",
        "larger &lt;is&gt; better Fig. 2 6.90 ? open : smaller than published +0.50 (-1.00 to 2.00) "
        "? open : imprecise +1.00 (-2.00 to 9.00)",
    ]


@pytest.mark.parametrize(("home", "there"), [(True, "02_a.html"), (False, "verdicts.html")])
def test_a_claim_is_an_anchor_and_leads_to_itself_on_the_other_page(verdicts, evidence, home, there):
    html = table(verdicts, evidence, TOPICS, home)
    assert '<tr id="claim-big">' in html
    assert f'<a href="{there}#claim-big">' in html


def test_a_reader_who_does_not_see_the_drawing_is_told_its_numbers(verdicts, evidence):
    told = re.findall(r'aria-label="([^"]*)"', table(verdicts, evidence, TOPICS, home=True))
    assert told[1] == (
        "laptop-long, recorded, 5 seeds +0.50 (-1.00 to 2.00); "
        "laptop, this page, 3 seeds +1.00 (-2.00 to 9.00); paper 6.90"
    )


def test_answers_lead_to_their_chapters():
    about = {"question": "Is larger <is> better?", "page": "02_a", "language": "grammar"}
    open_ = {"effect": "0.5", "published": "–", "direction": "not testable", "size": "no room"}
    rows = [
        about | {"effect": "+3.0 points", "published": "+4.6", "direction": "supported", "size": "smaller"},
        about | {"language": "<hmm>"} | open_,
        about | {"question": "Are longer ones?", "language": "<hmm>"} | open_,
    ]
    html = findings(pd.DataFrame(rows))
    assert [words(row) for row in rows_of(html)] == [
        "question grammar &lt;hmm&gt;",
        "Is larger &lt;is&gt; better? ✓ supported : smaller +3.0 points; the paper: +4.6 "
        "– not testable : no room 0.5",
        "Are longer ones? not run – not testable : no room 0.5",
    ]
    assert 'href="02_a.html"' in html


def test_verdicts_are_counted_in_the_order_of_the_words():
    assert counted(pd.Series(["open", "supported"])) == "supported 1, open 1"


# Intervals drawn in the rows of a table.


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
