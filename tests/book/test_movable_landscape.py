"""SGD in a reader's browser: the library's, step by step without noise and in distribution with it."""

import re

import pytest
import torch
from browser import dom_after, in_a_browser

from sameloss.book.movable_landscape import movable_landscape
from sameloss.studies.manifold_flow.experiment import Landscape
from sameloss.studies.manifold_flow.theory import (
    SGD,
    PowerSum,
    exact_labels,
    onto_manifold,
    replicate,
    sampled_labels,
)

pytestmark = [pytest.mark.book, in_a_browser]

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
    found = re.findall(r"rate ([\d.]+),.*θ = \(([\d.-]+), ([\d.-]+)\).*trace is ([\d.]+),.* ([\d.]+)$", said)
    rate, a, b, trace, least = map(float, found[0])
    return rate, (a, b), trace, least


def ends(labels, rate):
    """Return where the library's replicas end."""
    return replicate(RUN.population(), START, SGD(rate), labels, [0, RUN.steps]).theta[-1]


@pytest.mark.parametrize("log_rate", [-1.4, -2.0])
def test_without_noise_each_step_is_the_librarys(tmp_path, log_rate):
    _, end, trace, _ = told(tmp_path, setting(noise="checked = false", rate=f"value = {log_rate}"))
    wanted = ends(exact_labels(RUN.population(), 1), 10**log_rate)[0]
    assert end == pytest.approx(wanted.tolist(), abs=6e-4)
    assert trace == pytest.approx(float(PowerSum().trace(wanted, RUN.probability)), abs=6e-4)


@pytest.mark.parametrize("batch", [1, 16])
def test_with_noise_it_ends_where_the_librarys_replicas_do(tmp_path, batch):
    rate, _, trace, _ = told(tmp_path, setting(batch=f"value = {batch}"))
    assert rate == 0.04
    labels = sampled_labels(RUN.population(), batch, 200, torch.Generator().manual_seed(0))
    found = PowerSum().trace(onto_manifold(RUN.population(), ends(labels, 10**-1.4)), RUN.probability)
    low, high = found.quantile(torch.tensor([0.001, 0.999], dtype=found.dtype)).tolist()
    assert low <= trace <= high


def test_other_draws_end_elsewhere_and_the_least_trace_is_that_of_the_manifold(tmp_path):
    _, first, _, least = told(tmp_path)
    _, second, _, _ = told(tmp_path, "root.querySelector('button').click();")
    assert first != second
    flat = (torch.tensor(7 / 3).log() / 2) ** (1 / 3)  # both parameters alike
    assert least == pytest.approx(float(PowerSum().trace(flat.expand(2), 0.7)), abs=1e-3)


def test_a_rate_that_is_too_large_is_named(tmp_path):
    run = Landscape(0.7, ((30.0, 30.0),), ("large",), 0.04, 4, 100, 0)
    action = setting(rate="value = -0.5", noise="checked = false")
    dom = dom_after(movable_landscape(run), "movable_landscape.js", tmp_path, action)
    assert re.search(r"<output>diverged after \d+ steps: the rate is too large", dom)
