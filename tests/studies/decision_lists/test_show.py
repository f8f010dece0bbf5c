"""Tables and figures of decision lists hold what the runs found."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sameloss.seeds import generator_for
from sameloss.studies.decision_lists import show
from sameloss.studies.decision_lists.theory import draw_sequences


@pytest.fixture
def axes():
    """Return the panels of the figure that has just been drawn."""
    yield lambda: [ax for ax in plt.gcf().axes if ax.get_label() != "<colorbar>"]
    plt.close("all")


def names(ax):
    return ax.get_legend_handles_labels()[1]


def test_one_row_a_read_out_with_its_orders(tables):
    table = show.event_table(tables)
    assert table["read-out"].iloc[0] == "c → ∞"
    assert len(table) == 2 + len(tables.settings.readouts)
    assert "123o" in table.columns[-2]


def test_a_row_of_every_task(tables):
    table = show.descent_table(tables)
    assert table.L.tolist() == tables.everywhere.words.tolist()
    assert table["1/n"].tolist() == pytest.approx((1 / tables.everywhere.length).tolist())


def test_a_sequence_with_what_decides(page, axes):
    show.one_sequence(page.config)
    (ax,), task = axes(), page.config.task.build()
    sequence = draw_sequences(12, 3, 1, generator_for("lists shown", 0))
    said = [text.get_text() for text in ax.texts]
    assert [text for text in said if text.startswith("label")] == [
        f"label {label}" for label in task.labels(sequence)[0].tolist()
    ]
    blue = [text.get_text() for text in ax.texts if text.get_bbox_patch() and _is_blue(text)]
    assert blue == [str(token) for token in task.determining(sequence)[0].tolist()]


def _is_blue(text):
    red, _, blue, opacity = text.get_bbox_patch().get_facecolor()
    return opacity > 0 and blue > red + 0.2


def test_scores_and_their_changes(tables, axes):
    show.scores_along(tables)
    ax = axes()[1]
    assert names(ax) == ["1st of the list", "2.", "the token itself", "all others"]
    curve = tables.curves[tables.curves["name"] == "30"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), curve.w1)
    assert len(ax.lines) == 4 + len(tables.events(30.0)) - 1


def test_attention_and_accuracy_have_a_line_a_read_out(tables, axes):
    show.attention_along(tables)
    left, right = axes()
    assert names(left) == names(right) == ["Theorem 4.3's c", "c = 30", "c = 10"]


def test_the_exact_steps_end_at_one_hundred_where_the_flow_does(tables, axes):
    show.along_sgd(tables)
    steps = axes()[0].lines[0].get_ydata()
    assert steps[-1] == pytest.approx(100)
    assert steps[0] == pytest.approx(100 * tables.settings.task.column(1.0).plateau)
    (rate,) = tables.alone.rate.unique()
    assert names(axes()[0]) == ["exact flow", f"SGD, η = {rate:g}"]
    show.along_sgd(replace(tables, flows=tables.flows[tables.flows.accuracy < 1]))
    assert axes()[0].lines[0].get_ydata()[-1] < 100
    assert axes()[0].get_xlim()[1] > (tables.alone.rate * tables.alone.step).max()


def test_an_image_has_one_scale_for_both_signs(page, axes):
    show.one_step(page.config)
    low, high = axes()[0].images[0].get_clim()
    assert low == -high


@pytest.mark.parametrize("draw", [show.critical, show.scaling, show.samples, show.departures])
def test_all_other_panels_draw(tables, axes, draw):
    draw(tables)
    for ax in axes():
        assert ax.lines
        assert ax.get_xlabel()
        assert ax.get_ylabel()
