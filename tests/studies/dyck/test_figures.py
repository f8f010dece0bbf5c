"""Figures of the bracket language draw what they are given."""

import numpy as np
import pytest
import torch

from sameloss.studies import drawing
from sameloss.studies.dyck import figures
from sameloss.studies.dyck.search import exact_width
from sameloss.studies.dyck.tables import solutions
from sameloss.studies.dyck.theory import in_words, lower_bound, pretraining_inputs


@pytest.fixture(scope="module")
def models():
    return solutions(6, 2, torch.Generator().manual_seed(0))


INPUTS = pretraining_inputs(6)


def names(ax):
    return ax.get_legend_handles_labels()[1]


def test_an_input_is_drawn_token_by_token(ax):
    figures.encoding(INPUTS, 0, ax)
    np.testing.assert_array_equal(ax.images[0].get_array(), INPUTS.tokens[0])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert "".join(labels) == in_words(INPUTS.tokens[0]).replace("[M]", "mask")
    assert ax.get_title() == f"one input, g* = {int(INPUTS.target[0]):+d}"


def test_neurons_are_marked_with_the_sign_of_their_head(models, ax):
    model = models["solution (1)"]
    figures.values(model, "V", ax)
    signs = ["u > 0" if u > 0 else "u < 0" for u in model.head]
    assert [label.get_text() for label in ax.get_yticklabels()] == signs
    assert np.abs(ax.images[0].get_array()).max() == 1


def test_contributions_walk_to_the_target(models, ax):
    figures.contributions(models, INPUTS, 3, ax)
    walks = {line.get_label(): line.get_ydata() for line in ax.lines}
    for name in models:
        assert walks[name][0] == 0
        assert walks[name][-1] == pytest.approx(float(INPUTS.target[3]), abs=1e-6), name


def test_traces_stand_beside_both_bounds(results, ax):
    figures.traces_by_width(results["DyckMinimisation"], results["DyckFeatures"], 6, ax)
    assert names(ax) == ["4/(m√T)", "printed: √(4/T)", "found by search", "random features"]
    bound = ax.lines[0]
    assert bound.get_ydata()[0] == pytest.approx(lower_bound(6, int(bound.get_xdata()[0])))


def test_failures_stand_beside_the_printed_ones(results, ax):
    figures.failures(results["DyckTransfer"], ax)
    assert names(ax)[0] == "printed: 2⁻ⁿ"
    printed = next(line for line in ax.lines if line.get_label() == "printed: 2⁻ⁿ")
    np.testing.assert_allclose(printed.get_ydata(), 0.5 ** np.asarray(printed.get_xdata()))
    assert len(ax.containers) == 3  # solution (1) at two lengths, and the kinked one


def test_losses_of_random_features_have_a_width_from_which_they_are_none(results, ax):
    figures.random_feature_losses(results["DyckFeatures"], 6, exact_width(INPUTS), ax)
    assert f"zero from m = {exact_width(INPUTS)}" in names(ax)
    best = next(line for line in ax.lines if line.get_label() == "best head")
    assert max(best.get_xdata()) < exact_width(INPUTS)  # zero cannot stand on a logarithmic axis


def test_norms_of_heads(results, ax):
    figures.head_norms(results["DyckFeatures"], 6, ax)
    assert names(ax)[-1] == "T²"
    assert ax.lines[-1].get_ydata()[0] == 36


def test_training_with_noise(results):
    training = results["DyckTraining"]
    along, end = drawing.panels(2)
    figures.along_noisy_training(training, "trace", "trace", along)
    assert names(along) == ["label noise 0", "label noise 0.5", "label noise 1"]
    medians = training[training.noise == 0].groupby("step").trace.median()
    np.testing.assert_allclose(along.lines[0].get_ydata(), medians)
    figures.error_against_trace(training, 16, end)
    assert end.get_xlabel() == "trace / (4/(m√T))"
    assert end.get_ylabel() == "downstream error, head from 16 samples"
