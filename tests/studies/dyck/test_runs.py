"""The runs, checks, tables and figures of the bracket language, at a scale below smoke."""

from dataclasses import replace

import pytest

from sameloss.errors import LanguageError, ModelError, ParameterError
from sameloss.store.store import Store
from sameloss.studies import drawing
from sameloss.studies.dyck import figures as dyck_figures
from sameloss.studies.dyck import tables as dyck_tables
from sameloss.studies.dyck.language import pretraining_inputs
from sameloss.studies.dyck.random_features import exact_width
from sameloss.studies.dyck.runs import DyckStudy
from sameloss.studies.dyck.settings import SMOKE_DYCK
from sameloss.studies.dyck.statements import STATEMENTS
from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.statement import statement_table

SETTINGS = replace(SMOKE_DYCK, minimisation_steps=250, restarts=2, training_steps=60, repetitions=300)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    store, study = Store(tmp_path_factory.mktemp("artifacts")), DyckStudy(SETTINGS)
    assert "6 runs to make" in study.announce(store)
    tables = {run.kind: store.get(run) for run in study.runs()}
    assert "are in the store" in study.announce(store)
    return tables


def test_every_statement_gets_the_verdict_that_its_checks_give(results):
    table = statement_table(STATEMENTS, results["DyckChecks"]).set_index("id").verdict
    holds = {name for name, verdict in table.items() if verdict == "holds"}
    assert holds == {"factF2", "lemF5", "lemF7"}
    assert (table[~table.index.isin(holds)] == "holds as corrected").all()


def test_a_wrong_constant_would_be_seen(results):
    """The checks compare numbers, so that 4/(m²√T) or a missing 2 cannot pass for the truth."""
    checks = results["DyckChecks"].set_index("text")
    assert checks.value["dense Hessian's trace over E‖∇f‖²"] == pytest.approx(2)
    printed = checks.loc["trace of a solution of 4 neurons, at least √(4/T)"]
    assert printed.value == pytest.approx(printed.target / 2)


def test_runs_are_tables_of_what_was_asked(results):
    training = results["DyckTraining"]
    assert len(training) == 13 * SETTINGS.seeds * len(SETTINGS.noises)
    first = training[training.step == 0].groupby("seed").trace.nunique()
    assert (first == 1).all()  # all noises start from the same parameters
    transfer = results["DyckTransfer"]
    assert set(transfer.solution) == {"solution (1)", "kinked solution"}
    assert ((transfer.low <= transfer.simulated) & (transfer.simulated <= transfer.high)).all()


def test_tables_and_figures(results):
    found = results["DyckMinimisation"]
    assert dyck_tables.search_table(found).restarts.tolist() == [SETTINGS.restarts]
    features, training, inputs = results["DyckFeatures"], results["DyckTraining"], pretraining_inputs(6)
    widths = dyck_tables.width_table(features, (0.1, 1e-40), 6)
    assert widths["best head (measured)"].isna().tolist() == [False, True]
    effects = dyck_tables.noise_effects(training, ("trace",))
    assert (effects.low < effects.factor).all()
    assert len(dyck_tables.rank_correlations(training)) == 1 + len(SETTINGS.noises)
    models = dyck_tables.solutions(6, 2, SETTINGS.generator("test"))
    table = dyck_tables.solution_table(models, inputs).set_index("solution")
    assert table.loc["solution (1)", "trace / bound"] == pytest.approx(1)
    assert table.loc["kinked, ξ = the first token", "smoothed / bound"] > 1.2
    one, two, three, four = drawing.panels(4)
    dyck_figures.encoding(inputs, 0, one)
    dyck_figures.values(models["solution (1)"], "V", two)
    dyck_figures.contributions(models, inputs, 0, three)
    dyck_figures.traces_by_width(found, features, 6, four)
    one, two, three, four = drawing.panels(4)
    dyck_figures.failures(results["DyckTransfer"], one)
    dyck_figures.random_feature_losses(features, 6, exact_width(inputs), two)
    dyck_figures.head_norms(features, 6, three)
    dyck_figures.error_against_trace(training, 16, four)
    assert four.get_xlabel() == "trace / (4/(m√T))"


@pytest.mark.parametrize(
    ("given", "fault", "words"),
    [
        ({"sentence_length": 7}, LanguageError, "must be even"),
        ({"sentence_length": 4}, LanguageError, "at least 6"),
        ({"sentence_length": 20}, LanguageError, "at most 10"),
        ({"width": 1}, ModelError, "at least 2"),
        ({"width": 2.5}, ParameterError, "whole number"),
    ],
)
def test_parameters_outside_the_theorem_are_one_sentence(tmp_path, given, fault, words):
    with pytest.raises(fault, match=words):
        resolve({"preset": "smoke", "artifacts": str(tmp_path), **given})


def test_parameters_reach_the_settings(tmp_path):
    given = {"preset": "smoke", "artifacts": str(tmp_path), "sentence_length": 8, "width": 5, "steps": 70}
    settings = resolve(given).dyck().settings
    assert (settings.length, settings.width, settings.training_steps) == (8, 5, 70)
    assert settings.widths == (2, 4, 5)
