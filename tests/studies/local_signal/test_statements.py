"""Every statement has checks; it holds where all is right, and what is about it, broken, makes it fail."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.local_signal import statements
from sameloss.studies.local_signal.experiment import PRESETS
from sameloss.studies.local_signal.statements import PROOFS, TRAINING, proof_checks, steps_to, training_checks
from sameloss.studies.local_signal.tangent import HELD_OUT
from sameloss.studies.local_signal.theory import Filter, flow
from sameloss.studies.statement import Judgement, judge_checks, statement_table

# What is read off flows and descents.

STEP = np.append(0, np.geomspace(1, 1000, 37))
FLOW = pd.DataFrame({"step": STEP, "accuracy": 1 - 0.5 * (1 + STEP) ** -0.1})


@pytest.mark.parametrize("steps", [1.0, 6.3, 200.0, 1000.0])
def test_steps_to_an_accuracy_are_found_between_looks(steps):
    assert steps_to(FLOW, 1 - 0.5 * (1 + steps) ** -0.1) == pytest.approx(steps, rel=3e-6)
    assert np.isnan(steps_to(FLOW, 0.8))


def test_between_its_looks_the_flow_is_what_it_would_be_if_asked_there(found):
    steps, s = np.array([5.0, 500.0, 2000.0, 5000.0]), found.settings
    asked = flow(s.patches, Filter(s.length, s.length, 0.0), s.lr, np.append(0, steps))
    for column in ("c", "b", "accuracy"):
        np.testing.assert_allclose(found.flow_at(steps, column), asked[column][1:], rtol=1e-5)


def test_seeds_are_columns(found):
    assert found.by_seed("c").columns.tolist() == [100, 101]
    assert found.by_seed("accuracy").index[-1] == found.settings.steps


# Training.


@pytest.fixture
def ideal(found):
    """Everything as it should be, at the settings of Figure 3.3: all grows, as slowly as there."""
    step = np.append(0, np.geomspace(1, 1e7, 200))
    size = np.maximum(step, 1)
    accuracy = np.interp(np.log(size), np.log([1, 1e4, 2.5e6, 1e7]), [0.55, 0.7825, 0.99, 0.995])
    flow = pd.DataFrame({"step": step, "c": 0.1 * size**0.3, "v": 0.0, "b": -0.01 * size**0.45})
    flow["accuracy"] = accuracy
    looks = flow[flow.step.between(1, 3000)]
    sgd = pd.concat([looks.assign(seed=seed, v=0.01) for seed in (100, 101)], ignore_index=True)
    ends = [(-0.5, 2.0, True), (-0.5, 5.0, True), (-0.5, 9.0, False), (0.5, 2.0, False)]
    dead = pd.DataFrame(ends, columns=["start", "multiple", "dead"])
    return replace(found, settings=PRESETS["laptop"], flow=flow, sgd=sgd, dead=dead)


def verdicts(found):
    return statement_table(TRAINING, training_checks(found)).set_index("id").verdict


def test_all_holds_where_all_is_as_it_should_be(ideal):
    own = verdicts(ideal)
    assert own.pop("first-b") == own.pop("features") == "holds as corrected"
    assert set(own) == {"holds"}, own[own != "holds"]


@pytest.mark.parametrize(
    ("statement", "part", "column", "change"),
    [
        ("grows", "flow", "b", lambda b: -b),
        ("grows", "sgd", "accuracy", lambda a: 1 - a),
        ("sampled", "sgd", "c", lambda c: 1.2 * c),
        ("sampled", "sgd", "accuracy", lambda a: a + 0.03),
        ("across", "sgd", "v", lambda v: v + 1),
        ("reached", "flow", "accuracy", lambda a: a + 0.02),
        ("above-linear", "best", "network", lambda own: own - 0.5),
        ("dead", "dead", "dead", lambda dead: ~dead),
        ("alive", "dead", "dead", lambda dead: dead | True),
    ],
)
def test_each_can_be_refuted(ideal, statement, part, column, change):
    table = getattr(ideal, part)
    wrong = replace(ideal, **{part: table.assign(**{column: change(table[column])})})
    assert verdicts(wrong)[statement] == "fails: counter-example"


def test_the_correction_for_several_features_can_be_refuted(ideal, monkeypatch):
    monkeypatch.setattr(statements.theory, "filter_each", lambda patches, features: 0.9)
    assert verdicts(ideal)["features"] == "fails: counter-example"


def test_other_settings_say_nothing_of_the_figure(page, found):
    judged = page.statements().set_index("id").verdict
    assert judged.index.tolist() == list(TRAINING)
    assert judged["reached"] == judged["sampled"] == "not testable here"


# The proofs.

CORRECTED = {"b123", "lemB5", "lemB6", "lemB7", "lemB8", "noise-bound", "lem31", "lemB9", "lem33", "lemB10"}
"""What is refuted as printed, at any preset."""


def test_every_statement_is_judged_and_these_are_corrected(proofs_page):
    judged = proofs_page.statements()
    assert set(judged.id[judged.verdict == str(Judgement.CORRECTED)]) == CORRECTED
    assert set(judged.id[judged.verdict == str(Judgement.HOLDS)]) == set(PROOFS) - CORRECTED
    assert (judged.correction[judged.id.isin(CORRECTED)] != "").all()


@pytest.mark.parametrize(
    ("frame", "column", "value", "of"),
    [
        ("states", "noise", 1.5, "lem32"),
        ("states", "noise", -0.1, "lem32"),
        ("states", "noise", 0.3, "lem31-sharper"),
        ("states", "noise", 1.5, "noise-bound"),
        ("states", "within_g", 0.7, "lemB8"),
        ("rows", "spread", 0.05, "lemB6"),
        ("rows", "width", 1e-3, "lemB9"),
        ("rows", "width", 1e-3, "lemB9-sharper"),
        ("rows", "error_at_limit", 0.02, "lemB5"),
        ("rows", "by_b_1", -0.1, "lem33"),
        ("rows", "by_c_lowest", 0.1, "lem31"),
        ("turns", "decades", np.inf, "thm31"),
        ("turns", "decades", 200.0, "thmB1"),
        ("turns", "decades", 200.0, "linear"),
        ("several", "heard", 0.01, "lemB12"),
        ("tangent", "error", 0.05, "thm32"),
        ("tangent", "error", 0.3, "kernel-linear"),
        ("tangent", "error", 0.3, "kernel-closed"),
    ],
)
def test_a_number_that_is_not_so_fails_its_statement(proofs, frame, column, value, of):
    broken = replace(proofs, **{frame: getattr(proofs, frame).assign(**{column: value})})
    own = proof_checks(broken)
    assert judge_checks(own[own.of == of]) is Judgement.FAILS


def test_held_out_errors_that_are_others_fail(proofs):
    tangent = proofs.tangent.copy()
    tangent.loc[tangent.kind == HELD_OUT, "error"] += 0.1
    own = proof_checks(replace(proofs, tangent=tangent))
    assert judge_checks(own[own.of == "kernel-moments"]) is Judgement.FAILS


def test_a_counter_example_that_is_none_lets_the_printed_form_stand(proofs):
    own = proof_checks(replace(proofs, examples=proofs.examples.assign(by_b=0.1)))
    assert judge_checks(own[own.of == "lem33"]) is Judgement.HOLDS
