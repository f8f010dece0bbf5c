"""Figures of growing show what they are given, with labels."""

import numpy as np
import pytest

from sameloss.studies import drawing
from sameloss.studies.growing import figures, tables
from sameloss.studies.growing.claims import WAY_NAMES


def test_maps_have_a_row_each_and_new_layers_in_brackets(made_up):
    ax = figures.layer_maps(made_up, drawing.panels(1)[0])
    assert [text.get_text() for text in ax.texts][:4] == ["0", "(0)", "1", "(1)"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["i = 0, b = 1", "i = 0, b = 2"]


def test_every_operator_has_a_line_and_every_way_one_name(made_up):
    ax = figures.after_growing(made_up, drawing.panels(1)[0])
    assert len(ax.lines) == len(made_up.operators) + 1
    names = ax.get_legend_handles_labels()[1]
    assert names == ["duplicate", "random", "silent", "muted", "not grown"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), made_up.kl[:, :, 0].mean(0))


def test_scatters_are_relative_to_each_shallow_model(made_up):
    ax = figures.early_against_final(made_up, 0, "right after growing", drawing.panels(1)[0])
    x, y = (np.concatenate([np.asarray(line.get_data()[at]) for line in ax.lines]) for at in (0, 1))
    assert len(x) == made_up.final.size
    assert x.mean() == pytest.approx(1)
    assert np.corrcoef(x, y)[0, 1] < -0.9
    assert "right after growing" in ax.get_xlabel()


def test_the_four_panels_have_labels_and_their_numbers(made_up):
    one, two, three, four = axes = drawing.panels(4)
    assert figures.how_early(made_up, axes).equals(made_up.correlation_curve())
    for ax in (one, two, three, four):
        assert ax.get_xlabel() == "steps after growing"
        assert ax.get_ylabel()
    assert [line.get_xdata()[0] for line in two.lines[:1]] == [2.5]
    assert len(three.lines) == 3
    assert four.lines[0].get_ydata()[0] == pytest.approx(1)


def test_choices_have_a_row_each(made_up):
    choices = tables.choice_table(made_up)
    ax = figures.final_losses(choices, drawing.panels(1)[0])
    assert [label.get_text() for label in ax.get_yticklabels()] == choices.choice.tolist()
    assert len(ax.containers) == len(choices)


def test_regret_against_cost_has_a_series_for_each_kind(made_up):
    choices = tables.selection_table(made_up)
    ax = figures.regret_by_cost(choices, 0.5, drawing.panels(1)[0])
    names = ax.get_legend_handles_labels()[1]
    assert names == ["by lot", "LAG@k", "halving", "when settled"]
    assert len(ax.containers[0].lines[0].get_xdata()) == choices.choice.str.startswith("LAG").sum()
    assert "cost" in ax.get_xlabel()


def test_ages_are_labelled_with_their_steps(made_up):
    left, right = drawing.panels(2)
    figures.spread_by_age(made_up, left)
    figures.correlation_by_age(made_up, right)
    assert [label.get_text() for label in left.get_xticklabels()] == ["10", "100"]
    assert left.get_legend_handles_labels()[1] == ["spread of operators", "gain of depth"]
    assert right.get_legend_handles_labels()[1] == ["10 steps", "100 steps"]
    np.testing.assert_allclose(right.lines[1].get_ydata(), 1, atol=1e-5)


def test_every_way_to_stack_has_its_line_over_flops(stacked):
    ax = figures.stacks_by_flops(stacked, drawing.panels(1)[0])
    assert ax.get_legend_handles_labels()[1] == list(WAY_NAMES.values())
    last = ax.lines[list(WAY_NAMES).index("last")]
    np.testing.assert_allclose(last.get_xydata(), [[30, 0.528], [60, 0.132]])


def test_differences_at_equal_kl_stand_in_a_row_a_task(stacked):
    ax = figures.at_same_kl(tables.same_kl_table(stacked), drawing.panels(1)[0])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["whole sentence", "first 2 words", "mean"]
    assert len(ax.containers) == 4
