"""The figure that a reader moves, operated in a browser: its numbers are the library's."""

import json
import re
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
import torch
from browser import dom_after, in_a_browser
from small_growth import SMALL

from sameloss.book.movable import movable_accuracy, movable_growth, movable_landscape, movable_lists
from sameloss.statistics.prediction import mean_correlation, rank_correlation
from sameloss.studies.decision_lists.experiment import TaskShape
from sameloss.studies.decision_lists.statements import Tables
from sameloss.studies.decision_lists.theory import order_of
from sameloss.studies.growing.claims import Grown
from sameloss.studies.manifold_flow.experiment import Landscape
from sameloss.studies.manifold_flow.theory import (
    SGD,
    PowerSum,
    exact_labels,
    onto_manifold,
    replicate,
    sampled_labels,
)
from sameloss.studies.same_loss.saturated import Arm, values_at


def carried(shown):
    """Return the numbers that travel in the page."""
    return json.loads(re.findall(r'<script type="application/json">(.*?)</script>', shown.data)[0])


def cells_of(dom):
    """Return the texts of the rows of a figure's table."""
    body = re.findall(r"<tbody>(.*?)</tbody>", dom)[0]
    return [re.findall(r"<t[hd]>([^<]*)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", body)]


def moved(name, value, event="input"):
    """Return the action that sets a control."""
    control = f"const {name} = root.querySelector('[name={name}]'); {name}.value = '{value}';"
    return f"{{ {control} {name}.dispatchEvent(new Event('{event}')); }}"


def operated(test):
    """Mark a test that needs a browser."""
    return pytest.mark.book(in_a_browser(test))


KL = {("d24", 1): [40.0, 8.0, 2.0], ("d24", 2): [30.0, 5.0, 6.0, 4.0]}
KL |= {("d96", 1): [20.0, 2.5, 1.0], ("d96", 2): [25.0, 3.0, 1.5]}
SIZES = {"d = 24": Arm("d24"), "d = 96": Arm("d96")}
READINGS = {"own": "own features", "tuned": "fine-tuned"}


@pytest.fixture
def cells():
    """Two draws, of which one has no small model below 4 %, and a longer training of larger KL."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "replicate": draw,
            "stage": "descent",
            "model": model,
            "lr": 0.005,
            "steps": 100 * (at + 1),
            "kl": kl,
        }
        for (model, draw), kls in KL.items()
        for at, kl in enumerate(kls)
    ]
    index = ["replicate", "stage", "model", "lr", "steps"]
    made = pd.DataFrame(rows, columns=[*index, "kl"]).set_index(index)
    return made.assign(**{of: rng.uniform(50, 99, len(made)) for of in READINGS.values()})


def expected(cells, reading, kl):
    """Return what the table should say of the draws in which both sizes reach a KL."""
    values = [values_at(cells, arm, READINGS[reading], kl) for arm in SIZES.values()]
    small, large = (own.loc[values[0].index.intersection(values[1].index)] for own in values)
    rows = {**dict(zip(SIZES, (small, large), strict=True)), "lead in each draw": large - small}
    return {name: [own.mean(), own.min(), own.max()] for name, own in rows.items() if len(own)}, len(small)


def shown_of(cells):
    return movable_accuracy(cells, SIZES, READINGS)


def test_trainings_travel_from_the_largest_kl_to_the_smallest(cells):
    runs = {(run["size"], run["draw"]): run for run in carried(shown_of(cells))}
    assert runs["d = 96", 1]["kl"] == KL["d96", 1]
    assert runs["d = 24", 2]["kl"] == pytest.approx([30.0, 30**0.5, 4.0], rel=1e-5)
    assert runs["d = 24", 2]["steps"] == [100, 250, 400]
    assert all(list(run["accuracy"]) == list(READINGS) for run in runs.values())


def test_names_cannot_end_the_script(cells):
    shown = movable_accuracy(cells, {"</script>": Arm("d24")}, READINGS)
    assert {run["size"] for run in carried(shown)} == {"</script>"}
    assert shown.data.count("</script>") == 1


def acted(shown, folder, action=""):
    """Return what the figure says of the line, and its table, after an action."""
    dom = dom_after(shown, "movable_accuracy.js", folder, action)
    told = [row for row in cells_of(dom) if row[1] != "–"]
    number = lambda text: float(text.replace("−", "-"))  # noqa: E731
    numbers = {name: [number(mean), *map(number, ends.split(" to "))] for name, mean, ends in told}
    return re.findall(r"<output>([^<]*)", dom)[0], numbers, dom


def agree(found, wanted):
    assert set(found) == set(wanted)
    for name, numbers in wanted.items():
        np.testing.assert_allclose(found[name], numbers, atol=0.006)


@operated
def test_it_begins_at_three_percent_with_the_draws_that_have_both_sizes_there(cells, tmp_path):
    """The second draw's large model is there, its small one is not: neither counts."""
    said, found, dom = acted(shown_of(cells), tmp_path)
    wanted, draws = expected(cells, "own", 3.0)
    assert draws == 1
    agree(found, wanted)
    lead = wanted["lead in each draw"][0]
    verb = "trails" if lead < 0 else "leads"
    assert said == f"d = 96 {verb} by {abs(lead):.1f} points at 3.0 % (1 of 2 draws)"
    assert dom.count("<polyline") == len(KL)
    assert "d = 24, draw 1, 200 steps: KL 8.0 %, accuracy" in dom


@operated
@pytest.mark.parametrize("at", [0, 20, 45, 60, 100])
def test_the_slider_moves_the_line_and_the_numbers_follow(cells, tmp_path, at):
    _, found, _ = acted(shown_of(cells), tmp_path, moved("kl", at))
    wanted, _ = expected(cells, "own", 40.0 * (1 / 40) ** (at / 100))
    agree(found, wanted)


@operated
def test_the_line_is_dragged(cells, tmp_path):
    """Half way between the margins of the drawing, which is 640 wide, is half way in log KL."""
    action = (
        "const svg = root.querySelector('svg'); svg.style.width = '640px';"
        "svg.dispatchEvent(new PointerEvent('pointermove', {buttons: 1, clientX: 46 + 290, bubbles: true}));"
    )
    _, found, _ = acted(shown_of(cells), tmp_path, action)
    agree(found, expected(cells, "own", 40**0.5)[0])


@operated
def test_another_reading_can_be_chosen(cells, tmp_path):
    _, found, _ = acted(shown_of(cells), tmp_path, moved("reading", "tuned", "change"))
    agree(found, expected(cells, "tuned", 3.0)[0])


# The figure of growing that a reader moves, operated in a browser: its numbers are the library's.


@pytest.fixture(scope="module")
def grown():
    """Losses that mean nothing, some of them equal."""
    rng = np.random.default_rng(0)
    shape = (len(SMALL.seeds), len(SMALL.looks), len(SMALL.operators))
    seen = rng.uniform(0.1, 0.2, shape).round(2)
    nothing = np.zeros(shape[:2])
    return Grown(SMALL, seen, rng.uniform(0.1, 0.2, shape), nothing, nothing)


def test_all_candidates_travel(grown):
    panel = carried(movable_growth({"laptop": grown}))["laptop"]
    assert np.array(panel["seen"]).shape == grown.kl.shape
    np.testing.assert_allclose(panel["final"], grown.final, rtol=1e-3)
    assert panel["steps"] == grown.steps
    assert [name for name, _ in panel["operators"]] == [operator.name for operator in grown.operators]


@operated
@pytest.mark.parametrize(("look", "seed"), [(0, 0), (3, 1), (9, 0)])
def test_numbers_follow_the_step_and_the_shallow_model(grown, tmp_path, look, seed):
    action = moved("seed", seed, "change")
    action += moved("look", look)
    dom = dom_after(movable_growth({"laptop": grown}), "movable_growth.js", tmp_path, action)
    told = {name: numbers for name, *numbers in cells_of(dom)}
    travelled = carried(movable_growth({"laptop": grown}))["laptop"]
    seen, final = np.array(travelled["seen"])[:, look], np.array(travelled["final"])
    for name, found, middle in (
        ("Spearman with the end", rank_correlation, lambda all_: mean_correlation(all_).value),
        (
            "relative regret of choosing now",
            lambda early, own: (own[early.argmin()] - own.min()) / np.ptp(own),
            np.mean,
        ),
        ("the same at random", lambda early, own: (own.mean() - own.min()) / np.ptp(own), np.mean),
    ):
        expected = np.array([found(*pair) for pair in zip(seen, final, strict=True)])
        np.testing.assert_allclose(
            [float(number) for number in told[name]], [expected[seed], middle(expected)], atol=0.0051
        )
    chosen = grown.operators[int(seen[seed].argmin())].name
    assert told["best so far (ringed)"][0] == chosen
    step, last = grown.steps[look], grown.steps[-1]
    share = 100 * (len(grown.operators) - 1) * step / last
    assert told["cost of the trials (one training: 100 %)"][0] == f"{share:.0f} %"
    assert f"step {step} of {last}" in dom
    assert dom.count("<title>") == len(grown.operators)


@operated
def test_other_runs_can_be_chosen(grown, tmp_path):
    other = replace(grown, kl=grown.kl[::-1], chosen_by=grown.chosen_by[::-1])
    action = moved("panel", "recorded", "change")
    shown = movable_growth({"laptop": grown, "recorded": other})
    told = cells_of(dom_after(shown, "movable_growth.js", tmp_path, action))
    own = dom_after(movable_growth({"recorded": other}), "movable_growth.js", tmp_path)
    assert told == cells_of(own)


# SGD in a reader's browser: the library's, step by step without noise and in distribution with it.


RUN = Landscape(0.7, ((0.45, 1.35), (1.4, 0.0)), ("large", "small"), 0.04, 4, 2000, 0)
START = torch.tensor(RUN.starts[:1], dtype=torch.float64)
SET = (
    "{{ const control = root.querySelector('[name={name}]'); {change};"
    "control.dispatchEvent(new Event('input')); }}"
)


def setting(**changes):
    """Return what sets controls: `name="value = 1"`."""
    return "".join(SET.format(name=name, change=f"control.{change}") for name, change in changes.items())


def told(folder, action=""):
    """Return rate, end, trace there and least trace as the figure tells them."""
    dom = dom_after(movable_landscape(RUN), "movable_landscape.js", folder, action)
    said = re.findall(r"<output>([^<]*)</output>", dom)[0]
    found = re.findall(r"rate ([\d.]+),.*θ = \(([\d.-]+), ([\d.-]+)\).*minimum: ([\d.]+);.* ([\d.]+)$", said)
    rate, a, b, trace, least = map(float, found[0])
    return rate, (a, b), trace, least


def ends(labels, rate):
    """Return where the library's replicas end."""
    return replicate(RUN.population(), START, SGD(rate), labels, [0, RUN.steps])[-1]


@operated
@pytest.mark.parametrize("log_rate", [-1.4, -2.0])
def test_without_noise_each_step_is_the_librarys(tmp_path, log_rate):
    _, end, trace, _ = told(tmp_path, setting(noise="checked = false", rate=f"value = {log_rate}"))
    wanted = ends(exact_labels(RUN.population(), 1), 10**log_rate)[0]
    assert end == pytest.approx(wanted.tolist(), abs=6e-4)
    assert trace == pytest.approx(float(PowerSum().trace(wanted, RUN.probability)), abs=6e-4)


@operated
@pytest.mark.parametrize("batch", [1, 16])
def test_with_noise_it_ends_where_the_librarys_replicas_do(tmp_path, batch):
    rate, _, trace, _ = told(tmp_path, setting(batch=f"value = {batch}"))
    assert rate == 0.04
    labels = sampled_labels(RUN.population(), batch, 200, torch.Generator().manual_seed(0))
    found = PowerSum().trace(onto_manifold(RUN.population(), ends(labels, 10**-1.4)), RUN.probability)
    low, high = found.quantile(torch.tensor([0.001, 0.999], dtype=found.dtype)).tolist()
    assert low <= trace <= high


@operated
def test_other_draws_end_elsewhere_and_the_least_trace_is_that_of_the_manifold(tmp_path):
    _, first, _, least = told(tmp_path)
    _, second, _, _ = told(tmp_path, "root.querySelector('[name=again]').click();")
    assert first != second
    flat = (torch.tensor(7 / 3).log() / 2) ** (1 / 3)  # both parameters alike
    assert least == pytest.approx(float(PowerSum().trace(flat.expand(2), 0.7)), abs=1e-3)


@operated
def test_a_path_that_plays_ends_where_it_was(tmp_path):
    """Six seconds later by the clock that a frame is told."""
    action = (
        "let frames = []; window.requestAnimationFrame = (next) => frames.push(next);"
        "root.querySelector('[name=play]').click();"
    )
    half = action + "frames.pop()(performance.now() + 3000);"
    whole = half + "frames.pop()(performance.now() + 7000); if (frames.length) throw new Error('it goes on');"
    dom = dom_after(movable_landscape(RUN), "movable_landscape.js", tmp_path, half)
    steps = int(re.findall(r"<output>learning rate [\d.]+, (\d+) steps", dom)[0])
    assert steps == pytest.approx(RUN.steps / 2, rel=0.1)
    assert told(tmp_path, whole) == told(tmp_path)


@operated
def test_a_rate_that_is_too_large_is_named(tmp_path):
    run = Landscape(0.7, ((30.0, 30.0),), ("large",), 0.04, 4, 100, 0)
    action = setting(rate="value = -0.5", noise="checked = false")
    dom = dom_after(movable_landscape(run), "movable_landscape.js", tmp_path, action)
    assert re.search(r"<output>diverged after \d+ steps: the learning rate is too large", dom)


# The figure of decision lists that a reader moves, operated in a browser: its numbers are the library's.


LISTS = TaskShape(12, 3, 3)


@pytest.fixture(scope="module")
def tables():
    """Curves of scores that mean nothing, at two read-outs."""
    rng, column = np.random.default_rng(0), LISTS.column(1.0)
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
    return Tables(**{**nothing, "task": LISTS, "small": LISTS, "readout": 30.0, "curves": pd.DataFrame(rows)})


def test_scores_patterns_and_orders_travel(tables):
    given, column = carried(movable_lists(tables)), LISTS.column(1.0)
    assert given["counts"] == column.counts.tolist()
    assert sum(given["masses"]) == pytest.approx(1, abs=1e-4)
    own = tables.curves[tables.curves["name"] == "theorem"]
    scores = own[["w1", "w2", "w3", "wo"]].to_numpy()
    np.testing.assert_allclose(given["flows"]["theorem"]["scores"], scores, rtol=1e-5)
    assert given["flows"]["theorem"]["orders"] == [order_of(row) for row in scores]


@operated
@pytest.mark.parametrize(("readout", "at"), [("theorem", 0), ("30", 0), ("30", 2)])
def test_numbers_follow_the_read_out_and_the_time(tables, tmp_path, readout, at):
    action = moved("readout", readout, "change")
    action += moved("time", at)
    dom = dom_after(movable_lists(tables), "movable_lists.js", tmp_path, action)
    body = re.findall(r"<tbody>(.*?)</tbody>", dom)[0]
    told = dict(re.findall(r"<tr><th>([^<]*)</th><td>([^<]*)</td></tr>", body))
    row = tables.curves[tables.curves["name"] == readout].iloc[at]
    scores = row[["w1", "w2", "w3", "wo"]].to_numpy(float)
    assert told["order of scores (o: all others)"] == order_of(scores)
    assert told["accuracy"] == f"{100 * row.accuracy:.1f} %"
    assert float(told["mean attention on the deciding token"]) == pytest.approx(row.attention, abs=6e-5)
    assert told["uniform attention would pay"] == "0.3333"
    patterns = len(LISTS.column(1.0).counts)
    heights = [
        float(height)
        for height in re.findall(r'<rect x="[^"]*" y="[^"]*" width="[^"]*" height="([^"]*)"', dom)
    ]
    bars = np.array(heights[3:]).reshape(patterns, 3)  # the first three are the legend's
    np.testing.assert_allclose(bars.sum(1), bars[0].sum(), rtol=1e-4)
    attention = LISTS.column(1.0).attention(scores)
    decides = np.take_along_axis(attention, LISTS.column(1.0).deciding[:, None], 1)[:, 0]
    np.testing.assert_allclose(bars[:, 0] / bars.sum(1), decides, rtol=1e-4)


@operated
def test_lists_open_where_attention_has_begun_to_move(tables, tmp_path):
    """At the first time by which half of the change has happened, of the read-out that shows most."""
    curves = tables.curves.copy()
    curves.loc[curves["name"] == "30", ["w1", "w2", "w3", "wo"]] = [[0.0] * 4, [1.0, 0, 0, 0], [9.0, 0, 0, 0]]
    dom = dom_after(movable_lists(replace(tables, curves=curves)), "movable_lists.js", tmp_path)
    assert "<output>time 100" in dom
    assert 'aria-valuetext="time 100"' in dom
