"""Figures of training draw what their frames hold."""

import numpy as np
import pytest

from sameloss.studies.local_signal import figures, tables


def test_an_image_with_its_signal(ax):
    figures.one_image(figures.WITH, ax)
    assert len(ax.lines[0].get_ydata()) == 3 * (figures.SHOWN + 1)
    answer = ax.lines[2].get_ydata()[0]
    assert abs(answer) == pytest.approx(1 + figures.WITH)


def test_thresholds_have_their_best_marked(ax):
    figures.thresholds((100, 1000), ax)
    for line, best in zip(ax.lines[::2], ax.lines[1::2], strict=True):
        assert best.get_ydata()[0] == max(line.get_ydata())


def test_flow_and_seeds_are_beside_each_other(found, ax):
    figures.parameters(found, ax)
    seeds, flow = ax.lines[:2], ax.lines[2]
    np.testing.assert_allclose(seeds[0].get_ydata(), found.by_seed("c")[100])
    np.testing.assert_allclose(flow.get_ydata()[:5], found.flow.c[:5])
    assert ax.get_legend_handles_labels()[1] == ["w along w*", "bias b"]


@pytest.mark.parametrize("draw", [figures.ratio, figures.training_accuracy])
def test_ratios_and_accuracies_are_drawn_alike(found, ax, draw):
    draw(found, ax)
    assert len(ax.lines) == 1 + found.settings.seeds


def test_how_large_and_how_long(found, ax):
    figures.how_large(found, ax)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), tables.best_table(found)["one filter"])
    figures.how_long(found, ax.figure.add_subplot())
    assert len(ax.figure.axes[1].lines) == len(found.settings.phase) + 2


def test_cells_of_the_phase_diagram(found, ax):
    figures.phase_at(found, 1e4, ax)
    table = tables.reached_at(found.phase, 1e4).sort_index(ascending=False)
    assert [text.get_text() for text in ax.texts] == [f"{100 * own:.0f}" for own in table.to_numpy().ravel()]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "0.5"]


def test_the_best_has_a_diagram_of_its_own(found, ax):
    figures.best_phase(found, "linear", ax)
    assert ax.get_title() == "linear model"
    assert max(int(text.get_text()) for text in ax.texts) < 70
