"""Tables and figures of the bracket language: by hand, and on the least of runs."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ttest_rel

from sameloss.studies import drawing
from sameloss.studies.dyck import show
from sameloss.studies.dyck.theory import ZERO_LOSS, exact_width, lower_bound, pretraining_inputs

INPUTS = pretraining_inputs(6)


@pytest.fixture(scope="module")
def models():
    return show.solutions(INPUTS, 2, torch.Generator().manual_seed(0))


def test_solutions_by_hand(models):
    table = show.solution_table(models, INPUTS).set_index("solution")
    assert (table.loss < ZERO_LOSS).all()
    assert table["trace / bound"]["solution (1)"] == pytest.approx(1)
    assert table["smoothed / bound"]["kinked, ξ = the first token"] > 1.2
    assert table.m.tolist() == [2, 240, 4, 4]
    assert table["at the kink"]["solution (1)"] == 0


def test_a_search_counts_what_was_found():
    searches = pd.DataFrame(
        {"width": [2, 2, 2, 4], "loss": [0.0, 0.0, 1.0, 0.0], "ratio": [1.0005, 1.5, 0.2, 1.2],
         "off_direction": [0.01, 0.3, 0.9, 0.2]}
    )  # fmt: skip
    table = show.search_table(searches).set_index("m")
    assert table.restarts.tolist() == [3, 1]
    assert table["zero loss"].tolist() == [2, 1]
    assert table["within 0.1 % of the bound"].tolist() == [1, 0]
    assert table["smallest trace / bound"].tolist() == [1.0005, 1.2]
    assert table["largest mean sine to ∓[1; 0]"].tolist() == [0.3, 0.2]


def test_the_smallest_width_that_is_wide_enough():
    features = pd.DataFrame({"width": [8, 8, 16, 16, 32], "loss": [9.0, 1.0, 0.2, 0.4, 0.0]})
    table = show.width_table(features, (6.0, 0.35, 1e-40), 6).set_index("loss")
    assert table["best head (measured)"].tolist() == [8, 16, 32]
    assert table["the proof's head (expected)"][0.35] == pytest.approx(75 / 0.35)
    assert table.printed[6.0] == pytest.approx(64 * 216 / 36)
    none = show.width_table(features.query("width < 32"), (0.1,), 6)
    assert none["best head (measured)"].isna().all()


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


def test_ranks_of_trace_and_error():
    table = show.rank_correlations(LAST).set_index("models")
    assert table["count"].tolist() == [6, 3, 3]
    assert table.ρ.tolist() == pytest.approx([1, 1, 1])


def test_the_finding_on_the_bound_says_what_was_found():
    solved = pd.DataFrame({"ratio": [1.25, 1.5]})
    assert show.bound_finding(solved, solved).startswith("No solution is flatter")
    assert "1.250 times" in show.bound_finding(solved, solved[:0])
    assert show.bound_finding(solved * 0.5, solved).startswith("Some solutions are flatter")
    assert show.bound_finding(solved[:0], solved[:0]).startswith("No search")


def test_restarts_in_words():
    searches = pd.DataFrame(
        {"loss": [0.0, 0.0, 1.0], "ratio": [1.0005, 1.5, 0.2], "off_direction": [0.01, 0.3, 0.9]}
    )
    words = show.restarts_in_words(searches)
    assert words.startswith("1 of 3 restarts")
    assert "at most 0.0100. 1 did not reach zero loss" in words
    assert "sine" not in show.restarts_in_words(searches[1:])


def test_correlations_in_words():
    correlations = pd.DataFrame(
        {
            "models": ["all", "noise 0", "noise 1"],
            "count": [6, 3, 3],
            "ρ": [0.8, 0.1, 0.9],
            "p": [0.01, 0.6, 0.02],
        }
    ).set_index("models")
    assert "and 1 of these 2 differs" in show.correlations_in_words(correlations)
    assert "and none of these 1 differs" in show.correlations_in_words(correlations[:2])


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
    assert "better downstream although their loss is higher" in words
    assert "SGD does not reach the flattest solution" in words
    effects.loc[0, "low"] = 0.9
    assert "although" not in show.conclusion(verdicts, effects, show.trained_table(LAST))


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


def test_contributions_walk_to_the_target(models, ax):
    show.contributions(models, INPUTS, 3, ax)
    walks = {line.get_label(): line.get_ydata() for line in ax.lines}
    for name in models:
        assert walks[name][0] == 0
        assert walks[name][-1] == pytest.approx(float(INPUTS.target[3]), abs=1e-6), name


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


def test_losses_of_random_features_have_a_width_from_which_they_are_none(results, ax):
    show.random_feature_losses(results["DyckFeatures"], INPUTS, ax)
    assert f"zero from m = {exact_width(INPUTS)}" in names(ax)
    best = next(line for line in ax.lines if line.get_label() == "best head")
    assert max(best.get_xdata()) < exact_width(INPUTS)  # zero cannot stand on a logarithmic axis


def test_norms_of_heads(results, ax):
    show.head_norms(results["DyckFeatures"], 6, ax)
    assert names(ax)[-1] == "T²"
    assert ax.lines[-1].get_ydata()[0] == 36


def test_training_with_noise(results):
    training = results["DyckTraining"]
    along, end = drawing.panels(2)
    show.along_noisy_training(training, "trace", "trace", along)
    assert names(along) == ["label noise 0", "label noise 0.5", "label noise 1"]
    medians = training[training.noise == 0].groupby("step").trace.median()
    np.testing.assert_allclose(along.lines[0].get_ydata(), medians)
    show.error_against_trace(training[training.step == 60], 16, end)
    assert end.get_xlabel() == "trace / (4/(m√T))"
    assert end.get_ylabel() == "downstream error, head from 16 samples"
