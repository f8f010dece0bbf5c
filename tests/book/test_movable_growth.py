"""The figure of growing that a reader moves, operated in a browser: its numbers are the library's."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from browser import dom_after, in_a_browser
from small_growth import SMALL

from sameloss.book.movable_growth import movable_growth
from sameloss.statistics.prediction import (
    mean_correlation,
    random_regret,
    rank_correlation,
    relative_regret,
)
from sameloss.studies.growing.claims import Grown


@pytest.fixture(scope="module")
def grown():
    """Losses that mean nothing, some of them equal."""
    rng = np.random.default_rng(0)
    shape = (SMALL.seeds, len(SMALL.look_steps), len(SMALL.operators))
    seen = rng.uniform(0.1, 0.2, shape).round(2)
    nothing = np.zeros(shape[:2])
    return Grown(SMALL, seen, rng.uniform(0.1, 0.2, shape), nothing, nothing, {}, seen[:, 0])


def carried(shown):
    """Return the numbers that travel in the page."""
    return json.loads(re.findall(r'<script type="application/json">(.*?)</script>', shown.data)[0])


def test_all_candidates_travel(grown):
    panel = carried(movable_growth({"laptop": grown}))["laptop"]
    assert np.array(panel["seen"]).shape == grown.kl.shape
    np.testing.assert_allclose(panel["final"], grown.final, rtol=1e-3)
    assert panel["steps"] == grown.steps
    assert [name for name, _ in panel["operators"]] == [operator.name for operator in grown.operators]


def test_names_cannot_end_the_script(grown):
    shown = movable_growth({"</script>": grown})
    assert list(carried(shown)) == ["</script>"]
    assert shown.data.count("</script>") == 1


def operated(shown, folder, action=""):
    """Return the figure's table after an action, and its DOM."""
    dom = dom_after(shown, "movable_growth.js", folder, action)
    body = re.findall(r"<tbody>(.*?)</tbody>", dom)[0]
    rows = [re.findall(r"<t[hd]>([^<]*)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", body)]
    return {name: told for name, *told in rows}, dom


MOVED = (
    "{{ const {name} = root.querySelector('[name={name}]'); {name}.value = '{value}';"
    "{name}.dispatchEvent(new Event('{event}')); }}"
)


@in_a_browser
@pytest.mark.book
@pytest.mark.parametrize(("look", "seed"), [(0, 0), (3, 1), (9, 0)])
def test_numbers_follow_the_step_and_the_shallow_model(grown, tmp_path, look, seed):
    action = MOVED.format(name="seed", value=seed, event="change")
    action += MOVED.format(name="look", value=look, event="input")
    told, dom = operated(movable_growth({"laptop": grown}), tmp_path, action)
    travelled = carried(movable_growth({"laptop": grown}))["laptop"]
    seen, final = np.array(travelled["seen"])[:, look], np.array(travelled["final"])
    for name, found, middle in (
        ("Spearman with the end", rank_correlation, lambda all_: mean_correlation(all_).value),
        ("relative regret of choosing now", relative_regret, np.mean),
        ("the same by lot", lambda early, own: random_regret(own), np.mean),
    ):
        expected = np.array([found(*pair) for pair in zip(seen, final, strict=True)])
        np.testing.assert_allclose(
            [float(number) for number in told[name]], [expected[seed], middle(expected)], atol=0.0051
        )
    chosen = grown.operators[int(seen[seed].argmin())].name
    assert told["best so far (ringed)"][0] == chosen
    step, last = grown.steps[look], grown.steps[-1]
    share = 100 * (len(grown.operators) - 1) * step / last
    assert told["trying the others, over one grown model"][0] == f"{share:.0f} %"
    assert f"step {step} of {last}" in dom
    assert dom.count("<title>") == len(grown.operators)


@in_a_browser
@pytest.mark.book
def test_other_runs_can_be_chosen(grown, tmp_path):
    other = replace(grown, kl=grown.kl[::-1], chosen_by=grown.chosen_by[::-1])
    action = MOVED.format(name="panel", value="recorded", event="change")
    told, _ = operated(movable_growth({"laptop": grown, "recorded": other}), tmp_path, action)
    own, _ = operated(movable_growth({"recorded": other}), tmp_path)
    assert told == own
