"""The configuration, the stored runs, and the page."""

from dataclasses import replace

import pytest
import torch

from sameloss.errors import LanguageError, ModelError, ParameterError
from sameloss.studies.dyck.experiment import PRESETS, DyckConfig, trained
from sameloss.studies.dyck.pages import STUDY
from sameloss.studies.dyck.statements import STATEMENTS
from sameloss.studies.dyck.theory import (
    downstream_inputs,
    hessian_trace,
    pretraining_inputs,
    transferable_solution,
)
from sameloss.studies.parameters import PRESETS as NAMES

# How long the strings, how wide the models, and what Theorem 5.1 is not about.


def test_what_is_shown_beside_what_was_asked_for():
    assert DyckConfig(width=5).widths == (2, 4, 5)
    assert DyckConfig(width=4).widths == (2, 4)
    assert DyckConfig(length=10).lengths == (6, 8, 10)
    assert DyckConfig(length=8).lengths == (6, 8)


def test_every_twelfth_of_a_training_is_measured():
    checkpoints = DyckConfig(training_steps=60).checkpoints
    assert checkpoints == tuple(range(0, 61, 5))
    assert len(DyckConfig(training_steps=70).checkpoints) == 13
    assert DyckConfig(training_steps=70).checkpoints[-1] == 70


def test_each_use_has_random_numbers_of_its_own():
    def drawn(use, seed=0):
        return torch.rand(3, generator=DyckConfig(seed=seed).generator(use)).tolist()

    assert drawn("start") == drawn("start")
    assert drawn("start") != drawn("training")
    assert drawn("start") != drawn("start", seed=1)


@pytest.mark.parametrize(
    ("given", "fault", "words"),
    [
        ({"length": 7}, LanguageError, "must be even"),
        ({"length": 4}, LanguageError, "at least 6"),
        ({"length": 20}, LanguageError, "at most 10"),
        ({"width": 1}, ModelError, "at least 2"),
    ],
)
def test_what_the_theorem_is_not_about_is_refused(given, fault, words):
    with pytest.raises(fault, match=words):
        replace(PRESETS["smoke"], **given)


def test_every_preset_is_there_and_the_longer_ones_alike():
    assert list(PRESETS) == list(NAMES)
    assert {PRESETS[name] for name in NAMES[2:]} == {DyckConfig()}
    assert PRESETS["laptop"].training_steps < DyckConfig().training_steps


# The runs of the bracket language, at a scale below smoke.


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


# The page of Section 5: what may be set, what it reads, and what it judges.

pytestmark = pytest.mark.usefixtures("home")


def open_page(**given):
    return STUDY.open("05_dyck", {"preset": "smoke", **given})


@pytest.mark.parametrize(
    ("given", "fault", "words"),
    [
        ({"sentence_length": 7}, LanguageError, "must be even"),
        ({"sentence_length": 4}, LanguageError, "at least 6"),
        ({"sentence_length": 20}, LanguageError, "at most 10"),
        ({"width": 1}, ModelError, "at least 2"),
        ({"width": 2.5}, ParameterError, "whole number"),
        (
            {"size": "40K"},
            ParameterError,
            "Unknown parameter 'size'; valid here are preset, sentence_length, ",
        ),
        ({"replicas": 9}, ParameterError, f"valid here are {', '.join(STUDY.table('05_dyck'))}"),
    ],
)
def test_parameters_outside_the_theorem_or_the_page_are_one_sentence(given, fault, words):
    with pytest.raises(fault, match=words) as refused:
        open_page(**given)
    assert "\n" not in str(refused.value)


def test_parameters_reach_the_settings():
    settings = open_page(sentence_length=8, width=5, steps=70).config
    assert (settings.length, settings.width, settings.training_steps) == (8, 5, 70)
    assert settings.widths == (2, 4, 5)
    assert STUDY.open("05_dyck", {}).config == PRESETS["laptop"]


def test_the_runs_are_of_what_was_set():
    page = open_page(width=5)
    assert {run.settings for run in page.runs()} == {page.config}
    assert [run.width for run in page.minimisations] == [2, 4, 5]
    assert page.checks.parents() == [*page.minimisations, page.transfer, page.features]
    assert page.runs()[-2:] == [page.training, page.checks]


def test_the_statements_are_judged_from_the_checks(page):
    table = page.statements()
    assert table.id.tolist() == list(STATEMENTS)
    assert page.verdicts().empty
