"""The figure of decision lists that a reader moves, operated in a browser: its numbers are the library's."""

import json
import re
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from browser import dom_after, in_a_browser

from sameloss.book.movable_lists import movable_lists
from sameloss.studies.decision_lists.experiment import PRESETS
from sameloss.studies.decision_lists.tables import Tables
from sameloss.studies.decision_lists.theory import order_of

LISTS = PRESETS["smoke"]


@pytest.fixture(scope="module")
def tables():
    """Curves of scores that mean nothing, at two read-outs."""
    rng, column = np.random.default_rng(0), LISTS.task.column(1.0)
    rows = []
    for name, size in (("theorem", 1e-6), ("30", 2.0)):
        for time in (1.0, 10.0, 100.0):
            scores = size * rng.normal(size=4)
            told = {"accuracy": column.accuracy(scores), "attention": column.weight_on_determining(scores)}
            rows.append(
                {
                    "name": name,
                    "natural": time,
                    **told,
                    **dict(zip(("w1", "w2", "w3", "wo"), scores, strict=True)),
                }
            )
    nothing = {field.name: pd.DataFrame() for field in fields(Tables)}
    return Tables(**{**nothing, "settings": LISTS, "curves": pd.DataFrame(rows), "larger": {}})


def carried(shown):
    return json.loads(re.findall(r'<script type="application/json">(.*?)</script>', shown.data)[0])


def test_scores_patterns_and_orders_travel(tables):
    given, column = carried(movable_lists(tables)), LISTS.task.column(1.0)
    assert given["counts"] == column.counts.tolist()
    assert sum(given["masses"]) == pytest.approx(1, abs=1e-4)
    own = tables.curves[tables.curves["name"] == "theorem"]
    scores = own[["w1", "w2", "w3", "wo"]].to_numpy()
    np.testing.assert_allclose(given["flows"]["theorem"]["scores"], scores, rtol=1e-5)
    assert given["flows"]["theorem"]["orders"] == [order_of(row) for row in scores]


MOVED = (
    "{{ const {name} = root.querySelector('[name={name}]'); {name}.value = '{value}';"
    "{name}.dispatchEvent(new Event('{event}')); }}"
)


@in_a_browser
@pytest.mark.book
@pytest.mark.parametrize(("readout", "at"), [("theorem", 0), ("30", 0), ("30", 2)])
def test_numbers_follow_the_read_out_and_the_time(tables, tmp_path, readout, at):
    action = MOVED.format(name="readout", value=readout, event="change")
    action += MOVED.format(name="time", value=at, event="input")
    dom = dom_after(movable_lists(tables), "movable_lists.js", tmp_path, action)
    body = re.findall(r"<tbody>(.*?)</tbody>", dom)[0]
    told = dict(re.findall(r"<tr><th>([^<]*)</th><td>([^<]*)</td></tr>", body))
    row = tables.curves[tables.curves["name"] == readout].iloc[at]
    scores = row[["w1", "w2", "w3", "wo"]].to_numpy(float)
    assert told["order of scores (o: all others)"] == order_of(scores)
    assert told["accuracy"] == f"{100 * row.accuracy:.1f} %"
    assert float(told["mean attention on the deciding token"]) == pytest.approx(row.attention, abs=6e-5)
    assert told["uniform attention would pay"] == "0.3333"
    patterns = len(LISTS.task.column(1.0).counts)
    heights = [
        float(height)
        for height in re.findall(r'<rect x="[^"]*" y="[^"]*" width="[^"]*" height="([^"]*)"', dom)
    ]
    bars = np.array(heights[3:]).reshape(patterns, 3)  # the first three are the legend's
    np.testing.assert_allclose(bars.sum(1), bars[0].sum(), rtol=1e-4)
    attention = LISTS.task.column(1.0).attention(scores)
    decides = np.take_along_axis(attention, LISTS.task.column(1.0).deciding[:, None], 1)[:, 0]
    np.testing.assert_allclose(bars[:, 0] / bars.sum(1), decides, rtol=1e-4)
