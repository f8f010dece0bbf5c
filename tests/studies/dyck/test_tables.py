"""Tables of the bracket language: by hand, and on the least of runs."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ttest_rel

from sameloss.studies.dyck import tables
from sameloss.studies.dyck.theory import ZERO_LOSS, pretraining_inputs


def test_solutions_by_hand():
    models = tables.solutions(6, 2, torch.Generator().manual_seed(0))
    table = tables.solution_table(models, pretraining_inputs(6)).set_index("solution")
    assert (table.loss < ZERO_LOSS).all()
    assert table["trace / bound"]["solution (1)"] == pytest.approx(1)
    assert table["smoothed / bound"]["kinked, ξ = the first token"] > 1.2
    assert table.m.tolist() == [2, 240, 4, 4]
    assert table["at the kink"]["solution (1)"] == 0


def test_a_search_counts_what_was_found():
    found = pd.DataFrame(
        {"width": [2, 2, 2, 4], "loss": [0.0, 0.0, 1.0, 0.0], "ratio": [1.0005, 1.5, 0.2, 1.2],
         "off_direction": [0.01, 0.3, 0.9, 0.2]}
    )  # fmt: skip
    table = tables.search_table(found).set_index("m")
    assert table.restarts.tolist() == [3, 1]
    assert table["zero loss"].tolist() == [2, 1]
    assert table["within 0.1 % of the bound"].tolist() == [1, 0]
    assert table["smallest trace / bound"].tolist() == [1.0005, 1.2]
    assert table["largest mean sine to ∓[1; 0]"].tolist() == [0.3, 0.2]


def test_the_smallest_width_that_is_wide_enough():
    features = pd.DataFrame({"width": [8, 8, 16, 16, 32], "loss": [9.0, 1.0, 0.2, 0.4, 0.0]})
    table = tables.width_table(features, (6.0, 0.35, 1e-40), 6).set_index("loss")
    assert table["best head (measured)"].tolist() == [8, 16, 32]
    assert table["the proof's head (expected)"][0.35] == pytest.approx(75 / 0.35)
    assert table.printed[6.0] == pytest.approx(64 * 216 / 36)
    none = tables.width_table(features.query("width < 32"), (0.1,), 6)
    assert none["best head (measured)"].isna().all()


TRAINING = pd.DataFrame(
    {
        "noise": np.repeat([0.0, 1.0], 6),
        "seed": np.tile(np.repeat([0, 1, 2], 2), 2),
        "step": np.tile([0, 9], 6),
        "trace": [8, 4, 8, 6, 8, 5, 8, 2, 8, 2, 8, 2.0],
        "ratio": [8, 4, 8, 6, 8, 5, 8, 2, 8, 2.5, 8, 3.0],
        "attention": 1.0,
        "loss": 0.5,
        "off_direction": 0.1,
        "error_few": [9, 4, 9, 6, 9, 5, 9, 1, 9, 2, 9, 3.0],
        "error_all": 1.0,
        "error_own": 2.0,
    }
)


def test_medians_at_the_end_of_training():
    table = tables.trained_table(TRAINING).set_index("noise")
    assert table.error_few.tolist() == [5, 2]
    assert table.attention.tolist() == [1 / 5, 1 / 2]  # as a share of the trace


def test_effects_of_noise_are_of_pairs_of_seeds():
    (row,) = tables.noise_effects(TRAINING, ("trace",)).itertuples()
    pairs = np.log([2 / 4, 2 / 6, 2 / 5])
    assert row.factor == pytest.approx(np.exp(pairs.mean()))
    known = ttest_rel(np.log([2, 2, 2]), np.log([4, 6, 5])).confidence_interval(0.95)
    assert (row.low, row.high) == pytest.approx((np.exp(known.low), np.exp(known.high)))
    assert (row.noise, row.seeds) == (1.0, 3)


def test_ranks_of_trace_and_error():
    table = tables.rank_correlations(TRAINING).set_index("models")
    assert table["count"].tolist() == [6, 3, 3]
    assert table.ρ.tolist() == pytest.approx([1, 1, 1])


def test_tables_of_the_runs(results):
    widest = results["DyckMinimisation"]
    assert tables.search_table(widest).restarts.tolist() == [len(widest)]
    widths = tables.width_table(results["DyckFeatures"], (0.1, 1e-40), 6)
    assert widths["best head (measured)"].isna().tolist() == [False, True]
    effects = tables.noise_effects(results["DyckTraining"], ("trace",))
    assert (effects.low < effects.factor).all()
    assert len(tables.rank_correlations(results["DyckTraining"])) == 1 + 3
