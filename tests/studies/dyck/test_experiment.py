"""The configuration, the stored runs, the statements judged from them, and the page."""

import pytest
import torch

from sameloss.book.cells import NOWHERE, opened
from sameloss.errors import LanguageError, ParameterError
from sameloss.studies.dyck.experiment import DyckSettings, trained
from sameloss.studies.dyck.statements import STATEMENTS, checks
from sameloss.studies.dyck.theory import (
    downstream_inputs,
    hessian_trace,
    pretraining_inputs,
    transferable_solution,
)
from sameloss.studies.parameters import PRESETS as NAMES

# How long the strings, how wide the models, and what Theorem 5.1 is not about.


def test_what_is_shown_beside_what_was_asked_for():
    assert DyckSettings(width=5).widths == (2, 4, 5)
    assert DyckSettings(width=4).widths == (2, 4)


def test_every_twelfth_of_a_training_is_measured():
    checkpoints = DyckSettings(training_steps=60).checkpoints
    assert checkpoints == tuple(range(0, 61, 5))
    assert len(DyckSettings(training_steps=70).checkpoints) == 13
    assert DyckSettings(training_steps=70).checkpoints[-1] == 70


def test_each_use_has_random_numbers_of_its_own():
    def drawn(use, seed=0):
        return torch.rand(3, generator=DyckSettings(seed=seed).generator(use)).tolist()

    assert drawn("start") == drawn("start")
    assert drawn("start") != drawn("training")
    assert drawn("start") != drawn("start", seed=1)


def settings_of(page):
    return page.runs()[-1].settings


def test_every_preset_is_there_and_the_longer_ones_alike():
    assert list(open_page().presets) == list(NAMES)
    assert {settings_of(open_page(preset=name)) for name in NAMES[2:]} == {DyckSettings()}
    assert settings_of(open_page(preset="laptop")).training_steps < DyckSettings().training_steps


# The runs of the bracket language, at a scale below smoke.


def test_runs_are_tables_of_what_was_asked(results, page):
    settings = settings_of(page)
    training = results["DyckTraining"]
    assert len(training) == 13 * settings.seeds * len(settings.noises)
    first = training[training.step == 0].groupby("seed").trace.nunique()
    assert (first == 1).all()  # all noises start from the same parameters
    transfer = results["DyckTransfer"]
    assert set(transfer.solution) == {"solution (1)", "kinked solution"}
    assert ((transfer.low <= transfer.simulated) & (transfer.simulated <= transfer.high)).all()


def test_every_restart_and_every_draw_has_a_row(results, page):
    searches, features = results["DyckMinimisation"], results["DyckFeatures"]
    assert len(searches) == settings_of(page).restarts
    assert set(searches.width) == {4}
    assert (searches[searches.loss < 1e-9].ratio > 1 - 1e-9).all()
    seeds = features.groupby("width").seed.nunique().to_dict()
    assert seeds == dict.fromkeys(settings_of(page).feature_widths, settings_of(page).feature_seeds)


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
    return opened("05_dyck", {"preset": "smoke", **given}, NOWHERE)


@pytest.mark.parametrize(
    ("given", "fault", "words"),
    [
        ({"sentence_length": 7}, LanguageError, "is even"),
        ({"sentence_length": 4}, ParameterError, "at least 6"),
        ({"sentence_length": 20}, ParameterError, "at most 10"),
        ({"width": 1}, ParameterError, "at least 2"),
        ({"width": 2.5}, ParameterError, "whole number"),
        ({"replicas": 9}, ParameterError, "valid here are preset, sentence_length, width, steps"),
    ],
)
def test_parameters_outside_the_theorem_or_the_page_are_one_sentence(given, fault, words):
    with pytest.raises(fault, match=words) as refused:
        open_page(**given)
    assert "\n" not in str(refused.value)


def test_parameters_reach_the_settings():
    settings = settings_of(open_page(sentence_length=8, width=5, steps=70))
    assert (settings.length, settings.width, settings.training_steps) == (8, 5, 70)


def test_the_runs_are_of_what_was_set():
    page = open_page(width=5)
    assert len({run.settings for run in page.runs()}) == 1
    *searches, transfer, features, training = page.runs()
    assert [run.width for run in searches] == [2, 4, 5]
    assert [run.kind for run in (transfer, features, training)] == [
        "DyckTransfer",
        "DyckFeatures",
        "DyckTraining",
    ]


# The statements of Section 5, judged by checks that a wrong constant would fail.


def test_every_statement_gets_the_verdict_that_its_checks_give(page):
    assert page.verdicts().empty
    verdicts = page.statements().set_index("id").verdict
    assert list(verdicts.index) == list(STATEMENTS)
    holds = {name for name, verdict in verdicts.items() if verdict == "holds"}
    assert holds == {"factF2", "lemF5", "lemF7"}
    assert (verdicts.drop(list(holds)) == "holds as corrected").all()


def test_a_statement_without_a_correction_has_no_check_of_one(page):
    forms = page.checks.groupby("of").printed.agg(set)
    for name, statement in STATEMENTS.items():
        assert (False in forms[name]) == bool(statement.correction), name


def test_a_wrong_constant_would_be_seen(page):
    """The checks compare numbers, so that 4/(m²√T) or a missing 2 cannot pass for the truth."""
    found = page.checks.set_index("text")
    assert found.value["dense Hessian's trace over E‖∇f‖²"] == pytest.approx(2)
    printed = found.loc["trace of a solution of 4 neurons, at least √(4/T)"]
    assert printed.value == pytest.approx(printed.target / 2)


@pytest.mark.parametrize(
    ("table", "column", "factor", "of"),
    [("searches", "ratio", 0.5, "lemF1"), ("features", "constructed_norm", 2.0, "thmF6"),
     ("transfer", "exact", 1.5, "thm51")],
)  # fmt: skip
def test_another_number_in_a_table_would_be_seen(results, table, column, factor, of):
    """A trace below the bound, a head of twice the norm, failures half as often again."""
    tables = {
        "searches": results["DyckMinimisation"],
        "transfer": results["DyckTransfer"],
        "features": results["DyckFeatures"],
    }
    wrong = tables | {table: tables[table].assign(**{column: factor * tables[table][column]})}

    def corrected(given):
        found = checks(DyckSettings(length=6, width=4), *given.values())
        return found[(found.of == of) & ~found.printed].passed.all()

    assert corrected(tables)
    assert not corrected(wrong)
