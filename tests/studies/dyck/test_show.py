"""Tables and figures of the bracket language: by hand, and on the least of runs."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ttest_rel

from sameloss.studies import drawing
from sameloss.studies.dyck import show
from sameloss.studies.dyck.theory import ZERO_LOSS, lower_bound, pretraining_inputs

INPUTS = pretraining_inputs(6)


@pytest.fixture(scope="module")
def models():
    return show.solutions(INPUTS, 2, torch.Generator().manual_seed(0))


def test_solutions_by_hand(models):
    table = show.solution_table(models, INPUTS).set_index("solution")
    assert (table.loss < ZERO_LOSS).all()
    assert table["trace / bound"]["solution (1)"] == pytest.approx(1)
    assert table.m.tolist() == [2, 240, 4]
    assert table["at the kink"]["kinked solution"] == 0.5
    assert table["at the kink"]["solution (1)"] == 0


LAST = pd.DataFrame(
    {
        "noise": np.repeat([0.0, 1.0], 3),
        "seed": [0, 1, 2, 0, 1, 2],
        "trace": [4, 6, 5, 2, 2, 2.0],
        "ratio": [4, 6, 5, 2, 2.5, 3.0],
        "attention": 1.0,
        "loss": 0.5,
        "off_direction": 0.1,
        "error_few": [4, 6, 5, 1, 2, 3.0],
        "error_all": 1.0,
        "error_own": 2.0,
    }
)


def test_medians_at_the_end_of_training():
    table = show.trained_table(LAST).set_index("noise")
    assert table.error_few.tolist() == [5, 2]
    assert table.attention.tolist() == [1 / 5, 1 / 2]  # as a share of the trace


def test_effects_of_noise_are_of_pairs_of_seeds():
    (row,) = show.noise_effects(LAST, ("trace",)).itertuples()
    pairs = np.log([2 / 4, 2 / 6, 2 / 5])
    assert row.factor == pytest.approx(np.exp(pairs.mean()))
    known = ttest_rel(np.log([2, 2, 2]), np.log([4, 6, 5])).confidence_interval(0.95)
    assert (row.low, row.high) == pytest.approx((np.exp(known.low), np.exp(known.high)))
    assert (row.noise, row.seeds) == (1.0, 3)


def test_the_conclusion_follows_the_numbers():
    verdicts = pd.DataFrame({"verdict": ["holds", "holds as corrected", "holds"]})
    effects = pd.DataFrame(
        {
            "noise": 1.0,
            "quantity": ["loss", "trace", "error_few"],
            "factor": [2.0, 0.1, 0.2],
            "low": [1.5, 0.05, 0.1],
            "high": [3.0, 0.2, 0.5],
            "seeds": 3,
        }
    )
    words = show.conclusion(verdicts, effects, show.trained_table(LAST))
    assert "Of the 3 statements judged below, 2 hold as printed and\n1 only as corrected" in words
    assert "0.2 (95 % interval 0.1 to 0.5)" in words
    assert "trace of 2.5 times the bound" in words


def names(ax):
    return ax.get_legend_handles_labels()[1]


def test_an_input_is_drawn_token_by_token(ax):
    show.encoding(INPUTS, 0, ax)
    np.testing.assert_array_equal(ax.images[0].get_array(), INPUTS.tokens[0])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["mask", *"⟩⟩⟨⟨⟨"]
    assert ax.get_title() == f"one input, g* = {int(INPUTS.target[0]):+d}"


def test_neurons_are_marked_with_the_sign_of_their_head(models, ax):
    model = models["solution (1)"]
    show.values(model, "V", ax)
    signs = ["u > 0" if u > 0 else "u < 0" for u in model.head]
    assert [label.get_text() for label in ax.get_yticklabels()] == signs
    assert np.abs(ax.images[0].get_array()).max() == 1


def test_traces_stand_beside_both_bounds(results, ax):
    show.traces_by_width(results["DyckMinimisation"], results["DyckFeatures"], 6, ax)
    assert names(ax) == ["4/(m√T)", "printed: √(4/T)", "found by search", "random features"]
    bound = ax.lines[0]
    assert bound.get_ydata()[0] == pytest.approx(lower_bound(6, int(bound.get_xdata()[0])))


def test_failures_stand_beside_the_printed_ones(results, ax):
    show.failures(results["DyckTransfer"], ax)
    assert names(ax)[0] == "printed: 2⁻ⁿ"
    printed = next(line for line in ax.lines if line.get_label() == "printed: 2⁻ⁿ")
    np.testing.assert_allclose(printed.get_ydata(), 0.5 ** np.asarray(printed.get_xdata()))
    assert len(ax.containers) == 3  # solution (1) at two lengths, and the kinked one


def test_training_with_noise(results):
    training = results["DyckTraining"]
    (along,) = drawing.panels(1)
    show.along_noisy_training(training, "trace", "trace", along)
    assert names(along) == ["label noise 0", "label noise 0.5", "label noise 1"]
    medians = training[training.noise == 0].groupby("step").trace.median()
    np.testing.assert_allclose(along.lines[0].get_ydata(), medians)
