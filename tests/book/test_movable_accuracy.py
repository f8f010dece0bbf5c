"""The figure that a reader moves, operated in a browser: its numbers are the library's."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from browser import dom_after, in_a_browser

from sameloss.book.movable_accuracy import Panel, movable_accuracy
from sameloss.statistics.equal_kl import common_kl, weights_at

KL = {("small", 0): [1.0, 0.1, 0.02], ("small", 1): [0.9, 0.2, 0.25, 0.05], ("large", 0): [0.8, 0.04, 0.01]}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    rows = [
        {"size": size, "seed": seed, "step": 100 * (at + 1), "kl_mean": kl, "trace": 1 / kl}
        for (size, seed), kls in KL.items()
        for at, kl in enumerate(kls)
    ]
    made = pd.DataFrame(rows)
    return made.assign(A=rng.uniform(50, 99, len(made)), B=rng.uniform(50, 99, len(made)))


def carried(shown):
    """Return the numbers that travel in the page."""
    return json.loads(re.findall(r'<script type="application/json">(.*?)</script>', shown.data)[0])


def expected(table, task, kl):
    """Return mean, lowest and highest accuracy by size, of the runs that reach a KL."""
    found = {}
    for (size, _), run in table.groupby(["size", "seed"], sort=False):
        if run.kl_mean.min() <= kl <= run.kl_mean.max():
            weights = weights_at(run.kl_mean.to_numpy(), kl)
            found.setdefault(size, []).append(float(weights @ run[task]))
    return {size: [np.mean(own), min(own), max(own), len(own)] for size, own in found.items()}


def test_runs_travel_whole_and_in_the_order_of_training(table):
    runs = carried(movable_accuracy({"sizes": Panel(table.sample(frac=1, random_state=0), ["A"])}))["sizes"]
    assert {(run["group"], run["seed"]): run["kl"] for run in runs} == KL
    assert all(list(run["accuracy"]) == ["A"] and run["step"] == sorted(run["step"]) for run in runs)


def test_names_cannot_end_the_script(table):
    shown = movable_accuracy({"</script>": Panel(table, ["A"])})
    assert list(carried(shown)) == ["</script>"]
    assert shown.data.count("</script>") == 1


def operated(shown, folder, action=""):
    """Return what the figure's line and its table say after an action."""
    dom = dom_after(shown, "movable_accuracy.js", folder, action)
    kl = float(re.findall(r"<output>([\d.e-]+) nats", dom)[0])
    body = re.findall(r"<tbody>(.*?)</tbody>", dom)[0]
    rows = [re.findall(r"<t[hd]>([^<]*)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", body)]
    told = [row for row in rows if row[1] != "–"]
    return (
        kl,
        {row[0]: [float(row[1]), *map(float, row[2].split(" to ")), int(row[3][0])] for row in told},
        dom,
    )


def agree(found, wanted):
    assert set(found) == set(wanted)
    for size, numbers in wanted.items():
        np.testing.assert_allclose(found[size], numbers, atol=0.006)


@in_a_browser
@pytest.mark.book
def test_it_begins_where_all_runs_are(table, tmp_path):
    kl, found, dom = operated(movable_accuracy({"sizes": Panel(table, ["A", "B"])}), tmp_path)
    assert kl == common_kl([np.array(kls) for kls in KL.values()]) == 0.05
    agree(found, expected(table, "A", 0.05))
    assert dom.count("<polyline") == len(KL)
    assert "small, seed 1, step 200: KL 0.200 nats, trace 5, accuracy" in dom


MOVED = "slider.value = {at}; slider.dispatchEvent(new Event('input'));"


@in_a_browser
@pytest.mark.book
@pytest.mark.parametrize("at", [0, 137, 500, 730, 1000])
def test_the_slider_moves_the_line_and_the_numbers_follow(table, tmp_path, at):
    action = "const slider = root.querySelector('[name=kl]');" + MOVED.format(at=at)
    _, found, _ = operated(movable_accuracy({"sizes": Panel(table, ["A"])}), tmp_path, action)
    agree(found, expected(table, "A", 1.0 * 0.01 ** (at / 1000)))


@in_a_browser
@pytest.mark.book
def test_the_line_is_dragged(table, tmp_path):
    """Half way between the margins of the drawing, which is 640 wide, is half way in log KL."""
    action = (
        "const svg = root.querySelector('svg'); svg.style.width = '640px';"
        "svg.dispatchEvent(new PointerEvent('pointermove', {buttons: 1, clientX: 46 + 290, bubbles: true}));"
    )
    _, found, _ = operated(movable_accuracy({"sizes": Panel(table, ["A"])}), tmp_path, action)
    agree(found, expected(table, "A", 0.1))


CHOSEN = (
    "{{ const choice = root.querySelector('[name={name}]'); choice.value = '{value}';"
    "choice.dispatchEvent(new Event('change')); }}"
)


@in_a_browser
@pytest.mark.book
def test_another_task_and_other_runs_can_be_chosen(table, tmp_path):
    other = table[table["size"] == "small"].assign(algorithm=lambda own: "seed " + own.seed.astype(str))
    shown = movable_accuracy(
        {"sizes": Panel(table, ["A", "B"]), "other": Panel(other, ["A", "B"], by="algorithm")}
    )
    action = CHOSEN.format(name="panel", value="other") + CHOSEN.format(name="task", value="B")
    kl, found, _ = operated(shown, tmp_path, action)
    assert kl == 0.05
    agree(found, expected(other.assign(size=other.algorithm), "B", 0.05))
