"""The phase diagram that a reader moves, operated in a browser: its numbers are the library's."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from browser import dom_after, in_a_browser

from sameloss.book.movable_phase import movable_phase

STEPS = [0.0, 1.0, 10.0, 100.0]


@pytest.fixture(scope="module")
def found():
    """Four settings, whose accuracies mean nothing."""
    rng = np.random.default_rng(0)
    rows = [
        {"noise": k, "multiplier": m, "step": step, "accuracy": rng.uniform(0.5, 1)}
        for k in (1000, 100)
        for m in (1.0, 0.5)
        for step in STEPS
    ]
    return SimpleNamespace(phase=pd.DataFrame(rows))


def carried(shown):
    """Return the numbers that travel in the page."""
    return json.loads(re.findall(r'<script type="application/json">(.*?)</script>', shown.data)[0])


def test_all_flows_travel_in_order(found):
    data = carried(movable_phase(found))
    assert (data["rows"], data["multipliers"], data["steps"]) == ([100, 1000], [0.5, 1.0], STEPS[1:])
    table = found.phase.set_index(["multiplier", "noise", "step"]).accuracy
    assert data["accuracy"][1][0][2] == pytest.approx(table[1.0, 100, 100.0], abs=1e-4)


@in_a_browser
@pytest.mark.book
@pytest.mark.parametrize("look", [0, 2])
def test_numbers_follow_the_step(found, tmp_path, look):
    shown = movable_phase(found)
    action = (
        f"const look = root.querySelector('[name=look]'); look.value = '{look}';"
        "look.dispatchEvent(new Event('input'));"
    )
    dom = dom_after(shown, "movable_phase.js", tmp_path, action)
    now = np.array(carried(shown)["accuracy"])[:, :, look]
    told = [float(number) for number in re.findall(r">(\d+\.\d)</text></g>", dom)]
    np.testing.assert_allclose(told, 100 * now.ravel(), atol=0.0501)
    assert f"after {STEPS[1 + look]:.0f} steps" in dom
    assert f"<td>{(now >= 0.9).sum()} of 4</td>" in dom
