"""Figures show what they are given, with labels, and do not change it."""

import itertools

import numpy as np
import pandas as pd
import pytest

from sameloss.studies import drawing
from sameloss.studies.same_loss.effects import Compared
from sameloss.studies.same_loss.figures import models as figures
from sameloss.studies.same_loss.results import WAYS


def values(container):
    """Return the heights of the points of an errorbar."""
    return np.asarray(container.lines[0].get_ydata(), dtype=float)


@pytest.fixture
def checkpoints(results):
    return results.checkpoints


def test_every_axis_says_what_it_shows(checkpoints, results):
    before = checkpoints.copy()
    axes = drawing.panels(4)
    figures.along_training(checkpoints, "kl_mean", "KL (nats)", axes[0], log=True)
    figures.accuracy_against_kl(checkpoints, "root", results.baseline_table("root"), 0.02, axes[1])
    figures.accuracy_against_trace(checkpoints, "root", axes[2])
    figures.accuracy_by_representation(results.accuracy_table("root"), "root", axes[3])
    for ax in axes[:3]:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    assert "nats" in axes[1].get_xlabel()
    assert [t.get_text() for t in axes[3].get_yticklabels()][-2:] == ["lookup table", "one-hot tokens"]
    assert checkpoints.equals(before)
    labels = axes[1].get_legend_handles_labels()[1]
    assert labels == ["1K", "3K", "lookup table", "one-hot tokens"]


def test_untrained_models_are_open_and_every_line_is_named():
    names = itertools.product(("root", "span2"), ("AdamW", "solved"), ("trained", "untrained"), "ab")
    columns = ["task", "protocol", "models", "size", "value", "low", "high"]
    axes = figures.accuracy_by_size(pd.DataFrame([(*row, 50, 45, 60) for row in names], columns=columns))
    assert [ax.get_ylabel() for ax in axes] == ["probe accuracy, task A (%)", "probe accuracy, span 2 (%)"]
    lines, labels = axes[1].get_legend_handles_labels()
    assert labels == ["AdamW, trained", "AdamW, untrained", "solved, trained", "solved, untrained"]
    assert [line.lines[0].get_markerfacecolor() == "white" for line in lines] == [False, True, False, True]
    assert [tick.get_text() for tick in axes[1].get_xticklabels()] == ["a", "b"]
    (bars,) = lines[0].lines[2]
    assert [end[:, 1].tolist() for end in bars.get_segments()] == 2 * [[45, 60]]


def test_accuracy_rises_with_labels_on_a_logarithmic_axis():
    """Trained models are solid with their interval, untrained ones dashed; a size has one colour."""
    lines = [("–", name) for name in ("lookup table", "one-hot tokens")]
    lines += list(itertools.product(("3K", "1K"), ("untrained", "trained")))
    rows = [
        (task, size, models, count, at + count, at + count - 1, at + count + 1)
        for task in ("root", "span2")
        for at, (size, models) in enumerate(lines)
        for count in (8, 16, 32)
    ]
    columns = ["task", "size", "models", "sentences", "value", "low", "high"]
    axes = figures.accuracy_by_labels(pd.DataFrame(rows, columns=columns), range(16, 33))
    assert [ax.get_ylabel() for ax in axes] == ["probe accuracy, task A (%)", "probe accuracy, span 2 (%)"]
    ax = axes[1]
    assert ax.get_xscale() == "log"
    assert ax.get_xticks().tolist() == [8, 16, 32]
    assert ax.get_legend_handles_labels()[1] == ["3K", "1K", "lookup table", "one-hot tokens"]
    drawn, trained, other, *_ = ax.lines
    assert (drawn.get_linestyle(), trained.get_linestyle()) == ("--", "-")
    assert drawn.get_color() == trained.get_color() != other.get_color()
    assert trained.get_xdata().tolist() == [8, 16, 32]
    assert trained.get_ydata().tolist() == [11, 19, 35]
    assert len(ax.collections) == 2


def test_errors_by_the_number_of_labels(ax):
    """A line a task; what is not a number of labels is not drawn."""
    rows = [
        (task, labels, 0.5, 0.4, 0.7) for task in ("root", "span2") for labels in ("8", "16", "16 to 256")
    ]
    table = pd.DataFrame(rows, columns=["task", "labels", "factor", "low", "high"])
    figures.error_by_labels(table, range(16, 257), ax)
    assert ax.get_legend_handles_labels()[1] == ["task A", "span 2"]
    assert [list(container.lines[0].get_xdata()) for container in ax.containers] == [[8, 16]] * 2
    (bars,) = ax.containers[0].lines[2]
    np.testing.assert_allclose(bars.get_segments()[0][:, 1], (0.4, 0.7))
    assert ax.get_xticks().tolist() == [8, 16]


def test_nothing_is_drawn_of_no_errors(ax):
    empty = pd.DataFrame(
        {"task": [], "labels": pd.Series([], dtype=str), "factor": [], "low": [], "high": []}
    )
    figures.error_by_labels(empty, range(16, 257), ax)
    assert not ax.containers


def test_along_training_means_stand_over_steps_with_their_spread(checkpoints, results, ax):
    figures.along_training(checkpoints, "trace", "trace", ax, log=False)
    means = checkpoints[checkpoints["size"] == "1K"].groupby("step").trace.mean()
    assert list(ax.containers[0].lines[0].get_xdata()) == list(results.steps)
    np.testing.assert_allclose(values(ax.containers[0]), means)
    (bars,) = ax.containers[0].lines[2]
    assert np.ptp(bars.get_segments()[0][:, 1]) == pytest.approx(2)  # seeds differ by 0, 1 and 2


def test_better_is_to_the_right(checkpoints, results, ax):
    """Against KL: it falls along a training, and what is saturated is shaded."""
    figures.accuracy_against_kl(checkpoints, "root", results.baseline_table("root"), 0.01, ax)
    left, right = ax.get_xlim()
    assert left > right
    assert right < checkpoints.kl_mean.min()
    assert ax.patches[0].get_x() + ax.patches[0].get_width() == pytest.approx(0.01)
    assert len(ax.lines) == 6 + 6 + 2  # runs, their ends, and two baselines


def test_groups_keep_their_colours_and_markers_apart(checkpoints, ax):
    table = pd.concat([checkpoints.assign(algorithm=name) for name in ("b", "a")])
    figures.accuracy_against_trace(table, "root", ax, by="algorithm")
    handles, labels = ax.get_legend_handles_labels()
    assert labels == ["b", "a"]  # in their order
    lines = [handle.lines[0] for handle in handles]
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 2


EFFECTS = pd.DataFrame(
    {
        "algorithm": ["sam", "soft", "sam", "soft", "sam"],
        "compared": [*4 * [Compared.EQUAL_KL], Compared.ENDS],
        "quantity": ["trace", "trace", "root", "root", "root"],
        "value": [1.0, 2.0, 3.0, np.nan, 9.0],
        "low": [0.5, 1.5, 2.5, np.nan, 8.0],
        "high": [1.5, 2.5, 3.5, np.nan, 10.0],
    }
)


def test_effects_that_could_not_be_computed_say_so():
    trace, root = figures.differences_at_equal_kl(EFFECTS)
    assert trace.get_xlabel() == "trace: relative excess over AdamW"
    assert root.get_xlabel() == "task A: points over AdamW"
    assert [len(ax.containers) for ax in (trace, root)] == [2, 1]
    assert [[text.get_text().strip() for text in ax.texts] for ax in (trace, root)] == [
        [],
        ["not comparable"],
    ]
    assert [label.get_text() for label in trace.get_yticklabels()] == ["SAM", "exact labels"]
    assert root.containers[0].lines[0].get_xdata().tolist() == [3.0]  # the one at equal KL


def test_the_gap_is_a_share_of_the_trace(checkpoints, ax):
    table = checkpoints.assign(gap=checkpoints.trace / 20, gap_se=checkpoints.trace / 100)
    figures.gap_against_kl(table, ax)
    np.testing.assert_allclose(np.concatenate(list(map(values, ax.containers))), 5)
    (bars,) = ax.containers[0].lines[2]
    assert np.ptp(bars.get_segments()[0][:, 1]) == pytest.approx(2 * 1.96)


def test_three_exact_traces(ax):
    table = pd.DataFrame(
        {"kl": [0.1, 0.01], "fisher": [1.0, 2.0], "true_labels": [3.0, 4.0], "hessian": [5.0, 6.0]}
    )
    figures.traces_along_training(table, ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == [[1, 2], [3, 4], [5, 6]]
    assert ax.get_xlim()[0] > ax.get_xlim()[1]


def test_the_best_estimator_is_on_top_with_what_its_budget_buys(ax):
    table = pd.DataFrame(
        {"label": ["good", "bad"], "known": 10.0, "off": [1.0, -2.0], "error_at_budget": [5.0, 20.0]}
    )
    figures.estimators_at_equal_cost(table, 10.0, ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["bad", "good"]
    assert ax.containers[0].lines[0].get_xdata().tolist() == [10 - 2 * 2, 10 + 0.5]
    assert "10 s" in ax.get_xlabel()


def test_ratios_are_written_into_the_map(ax):
    table = pd.DataFrame({"form": ["as trained", "wider"], "trace": [1.0, 4.0], "relative": [1.0, 0.5]})
    figures.ratios(table, ax)
    assert [text.get_text() for text in ax.texts] == ["1.00", "1.00", "4.00", "0.50"]
    assert ax.texts[2].get_color() == "white"  # on a dark field
    np.testing.assert_allclose(ax.images[0].get_array(), [[0, 0], [2, -1]])


def test_sizes_stand_side_by_side_in_every_way_to_compare(checkpoints, ax):
    last = checkpoints[checkpoints.step == 160]
    table = pd.concat([last.assign(way=name) for name in WAYS])
    figures.traces_by_comparison(table, ax)
    assert len(ax.get_xticks()) == len(WAYS)
    assert [len(c.lines[0].get_xdata()) for c in ax.containers] == [18, 18]
    left, right = (c.lines[0].get_xdata() for c in ax.containers)
    assert (left < right).all()


def test_inflation_has_a_line_for_each_kind_over_the_widths(ax):
    ladder = pd.DataFrame(
        {"d_model": [8, 16, 8, 16], "parameters": ["a", "a", "b", "b"], "factor": [2.0, 1.0, 4.0, 1.0]}
    )
    figures.predicted_inflation(ladder, ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == [[2, 1], [4, 1]]
    assert ax.get_xticks().tolist() == [8, 16]


def test_parts_of_a_trace_are_stacked_largest_first(ax):
    rows = [
        {"split": split, "step": step, "size": size, "part": part, "mean": mean}
        for split in ("kind", "depth")
        for step in (1, 2)
        for size in ("3K", "1K")
        for part, mean in {"head": 1.0, "MLP": 3.0}.items()
    ]
    figures.trace_by_group(pd.DataFrame(rows), 2, ax)
    assert ax.get_legend_handles_labels()[1] == ["MLP", "head"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3K", "1K"]  # as they come
    assert [bar.get_height() for bar in ax.patches] == [3, 3, 1, 1]
    assert [bar.get_y() for bar in ax.patches] == [0, 0, 3, 3]
