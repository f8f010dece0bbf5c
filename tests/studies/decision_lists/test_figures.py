"""Figures of decision lists draw what their frames hold."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.studies import drawing
from sameloss.studies.decision_lists import figures
from sameloss.studies.decision_lists.theory import exact_step, uniform_sets


def names(ax):
    return ax.get_legend_handles_labels()[1]


def test_a_sequence_with_what_decides(task, ax):
    sequence = uniform_sets(8, 4).sequences[5]
    figures.one_sequence(task, sequence, ax)
    said = [text.get_text() for text in ax.texts]
    labels = task.labels(sequence[None])[0].tolist()
    assert [text for text in said if text.startswith("label")] == [f"label {label}" for label in labels]
    blue = [text.get_text() for text in ax.texts if text.get_bbox_patch() and _is_blue(text)]
    assert blue == [str(token) for token in task.determining(sequence[None])[0].tolist()]


def _is_blue(text):
    red, _, blue, opacity = text.get_bbox_patch().get_facecolor()
    return opacity > 0 and blue > red + 0.2


def test_scores_and_their_changes(tables, ax):
    figures.scores_along(tables, "30", ax)
    assert names(ax) == ["1st of the list", "2.", "the token itself", "all others"]
    own = tables.curves[tables.curves["name"] == "30"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), own.w1)
    changes = tables.flows[(tables.flows.family == "readout") & (tables.flows.readout == 30)]
    assert len(ax.lines) == 4 + len(changes) - 1


def test_attention_and_accuracy_have_a_line_a_read_out(tables):
    left, right = drawing.panels(2)
    figures.attention_along(tables, left)
    figures.accuracy_along(tables, right)
    assert names(left) == names(right) == ["Theorem 4.3's c", "c = 30", "c = 10"]


def test_the_exact_steps_end_at_one_hundred(tables, ax):
    figures.sgd_beside_flow(tables, ax)
    steps = ax.lines[0].get_ydata()
    assert steps[-1] == pytest.approx(100)
    assert steps[0] == pytest.approx(100 * tables.settings.task.column(1.0).plateau)
    (rate,) = tables.alone.rate.unique()
    assert names(ax) == ["exact flow", f"SGD, η = {rate:g}"]


def test_a_flow_that_is_not_perfect_is_drawn_as_it_is(tables, ax):
    flows = tables.flows[tables.flows.accuracy < 1]
    figures.sgd_beside_flow(replace(tables, flows=flows), ax)
    assert ax.lines[0].get_ydata()[-1] < 100
    assert ax.get_xlim()[1] > (tables.alone.rate * tables.alone.step).max()


def test_an_image_has_one_scale_for_both_signs(task, ax):
    figures.one_step_map(exact_step(task, 4, 64.0), "exactly", ax)
    low, high = ax.images[0].get_clim()
    assert low == -high


def test_all_other_panels_draw(tables):
    drawn = (
        figures.escape_times,
        figures.critical_readouts,
        figures.scaling,
        figures.by_rules,
        figures.by_rarity,
        figures.both_along,
        figures.readout_along,
        figures.sample_errors,
        figures.samples_needed,
    )
    for draw in drawn:
        (ax,) = drawing.panels(1)
        draw(tables, ax)
        assert ax.lines
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    axes = drawing.panels(4)
    figures.departures(tables, axes)
    assert [ax.get_title() for ax in axes] == [
        "4.1: no token twice",
        "W₀ = 0",
        "V near cP",
        "4.3: no set too rare",
    ]
