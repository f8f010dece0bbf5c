"""Figures draw what their frames hold; tables and words say it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from sameloss.studies.local_signal import show
from sameloss.studies.local_signal.statements import steps_to
from sameloss.studies.local_signal.tangent import AT_SIGNAL, KINDS

# Training.


def test_an_image_with_its_signal(ax):
    show.one_image(-0.6, ax)
    spikes, _, signal, _ = ax.lines
    assert len(spikes.get_xdata()) == 3 * 1001
    assert abs(signal.get_ydata()[0]) == pytest.approx(1 - 0.6)


def test_thresholds_have_their_best_marked(ax):
    show.thresholds((100, 1000), ax)
    for line, best in zip(ax.lines[::2], ax.lines[1::2], strict=True):
        assert best.get_ydata()[0] == max(line.get_ydata())


def test_flow_and_seeds_are_beside_each_other(found, ax):
    axes = [ax, *(ax.figure.add_subplot() for _ in range(2))]
    show.training(found, axes)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), found.by_seed("c")[100])
    np.testing.assert_allclose(ax.lines[2].get_ydata()[:5], found.flow.c[:5])
    assert ax.get_legend_handles_labels()[1] == ["w along w*", "bias b"]
    assert [len(own.lines) for own in axes] == [6, 3, 3]


def test_how_large_and_how_long(found, ax):
    show.how_large(found, ax)
    assert (ax.lines[0].get_ydata() > ax.lines[1].get_ydata()).all()
    show.how_long(found, ax.figure.add_subplot())
    assert len(ax.figure.axes[1].lines) == len(found.settings.phase) + 2


def test_cells_of_the_phase_diagram(found, ax):
    table = show.reached_at(found.phase, 100.0)
    own = found.phase[(found.phase.noise == 100) & (found.phase.multiplier == 1)][1:]
    assert table.loc[1.0, 100] == pytest.approx(np.interp(np.log(100), np.log(own.step), own.accuracy))
    show.phase(table, "after 100 steps", ax)
    shown = [f"{100 * own:.0f}" for own in table.sort_index(ascending=False).to_numpy().ravel()]
    assert [text.get_text() for text in ax.texts] == shown
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "0.5"]


def test_what_is_never_reached_is_a_gap(found):
    table = show.steps_table(found).set_index("k")
    own = found.phase[(found.phase.noise == 1000) & (found.phase.multiplier == 1)]
    assert table.loc[100, "99%"] == "–"
    assert table.loc[1000, "70%"] == f"{steps_to(own, 0.7):,.0f}"


def test_several_filters_are_no_worse_than_one():
    table = show.feature_table()
    assert (table["one filter"] <= table["a filter each"] + 1e-9).all()


def test_dead_starts_are_counted_in_a_hundred(found):
    table = show.dead_table(found).set_index("c at the start")
    assert table.loc["0.5"].tolist() == [0, 0, 0]
    assert table.loc["-0.5", "3"] == 100


def test_the_page_on_training_says_what_it_found(found):
    kernels = pd.DataFrame({"kind": AT_SIGNAL, "filters": [2, 4, 4], "error": [0.6, 0.1, 0.2]})
    said = show.training_in_words(replace(found, tangent=kernels))
    assert said.startswith("At k = 100 the exact flow is right in ")
    assert "A kernel" not in said  # which is of other patches
    assert "more steps than were followed" in said
    assert "Up to k = 100 no filter reaches 99 %" in said
    asked = replace(found.settings, noise=1000)
    assert "A kernel of 4 filters" in show.training_in_words(
        replace(found, tangent=kernels, settings=asked, flow=found.flow.assign(accuracy=0.8))
    )


# The proofs.


def test_figures_of_the_proofs_show_what_was_found(proofs):
    figure, axes = plt.subplots(2, 3)
    show.truncated_means(axes[0, 0])
    show.noise_parts(proofs, axes[0, 1])
    show.alphas_along(proofs, axes[0, 2])
    show.bias_gradients(proofs, axes[1, 0])
    show.errors_by_filters(proofs.tangent, axes[1, 1])
    show.shares_by_rows(axes[1, 2])
    assert list(axes[0, 2].lines[0].get_ydata()) == list(proofs.rows.alpha)
    assert len(axes[1, 1].containers) == len(KINDS)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in axes.flat)
    plt.close(figure)


def test_tables_and_words_of_the_proofs(proofs, proofs_page):
    turns = show.turn_table(proofs).set_index("what")["from k"]
    assert turns["∇_b > 0 at c = 1/log⁴k"] == "10^17.5"
    assert "10^70.8" in set(turns)
    assert len(show.invariant_table(proofs)) == len(proofs.rows)
    assert show.example_table(proofs).value.notna().all()
    assert (show.small_ball_table()["Erdős, s = 1"] <= show.small_ball_table()["√(2/πn)"]).all()
    assert (show.several_table(proofs)["least P/(q/2)"] >= 1).all()
    assert "Lemma 3.3's conclusion is false" in show.proofs_in_words(proofs, proofs_page.statements())
