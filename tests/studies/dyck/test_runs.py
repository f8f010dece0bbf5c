"""The runs of the bracket language, at a scale below smoke."""

import torch

from sameloss.studies.dyck.experiment import trained
from sameloss.studies.dyck.theory import (
    downstream_inputs,
    hessian_trace,
    pretraining_inputs,
    transferable_solution,
)


def test_runs_are_tables_of_what_was_asked(results, page):
    settings = page.config
    training = results["DyckTraining"]
    assert len(training) == 13 * settings.seeds * len(settings.noises)
    first = training[training.step == 0].groupby("seed").trace.nunique()
    assert (first == 1).all()  # all noises start from the same parameters
    transfer = results["DyckTransfer"]
    assert set(transfer.solution) == {"solution (1)", "kinked solution"}
    assert ((transfer.low <= transfer.simulated) & (transfer.simulated <= transfer.high)).all()


def test_every_restart_is_measured(results, page):
    found = results["DyckMinimisation"]
    assert len(found) == page.config.restarts
    assert set(found.width) == {4}
    solved = found[found.loss < 1e-9]
    assert (solved.ratio > 1 - 1e-9).all()


def test_random_features_have_a_row_a_width_and_seed(results, page):
    features = results["DyckFeatures"]
    settings = page.config
    assert features.groupby("width").seed.nunique().to_dict() == dict.fromkeys(
        settings.feature_widths, settings.feature_seeds
    )


def test_what_is_measured_of_a_trained_model():
    """Of solution (1): on the bound, all its trace in V and u, and right downstream."""
    model, inputs = transferable_solution(6, 4), pretraining_inputs(6)
    row = trained(model, inputs, downstream_inputs(6), 30, torch.Generator().manual_seed(0))
    assert row["trace"] == float(hessian_trace(model, inputs))
    assert abs(row["ratio"] - 1) < 1e-9
    assert row["attention"] < 1e-20
    assert max(row[name] for name in ("loss", "error_all", "error_few", "error_own")) < 1e-20
