"""Configuration, stored runs and checks of both pages, at the smoke preset."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from cells import definitions
from quick_workers import quick_workers

from sameloss.book import cells
from sameloss.book.cells import NOWHERE
from sameloss.errors import ParameterError
from sameloss.store.pool import compute_all
from sameloss.store.store import Store
from sameloss.studies.local_signal.experiment import (
    FilterDescent,
    TangentStarts,
    eval_steps,
    log_steps,
    signal_flows,
    signal_sgd,
    tangent_rows,
)
from sameloss.studies.local_signal.proofs import least_rows
from sameloss.studies.local_signal.statements import (
    PROOFS,
    TRAINING,
    accuracy_after,
    curve,
    steps_to,
)
from sameloss.studies.local_signal.tangent import AT_SIGNAL, HELD_OUT, KINDS, PATCHES
from sameloss.studies.local_signal.theory import Filter, Patches, best_threshold, flow
from sameloss.studies.statement import Judgement, judge_checks, statement_table


@pytest.fixture(scope="module")
def opened(shared):
    """Open a page and compute its runs; both pages read the same tangent kernels."""

    def open_computed(name):
        page = cells.opened(name, {"preset": "smoke"}, Store(shared / "local_signal"))
        with quick_workers():
            compute_all(page.store, page.runs(), 1)
        return page

    return open_computed


@pytest.fixture(scope="module")
def page(opened):
    return opened("ii3_local_signal")


@pytest.fixture(scope="module")
def found(page):
    return page.results


@pytest.fixture(scope="module")
def proofs_page(opened):
    return opened("ii3_proofs")


@pytest.fixture(scope="module")
def proofs(proofs_page):
    return proofs_page.results


def open_page(**given):
    return cells.opened("ii3_local_signal", {"preset": "smoke"} | given, NOWHERE)


def runs(**given):
    """The runs of the page on training: two flows, tangent kernels, and stochastic descents."""
    return open_page(**given).runs()


# Presets and parameters


def test_the_default_is_the_figure_but_for_its_steps():
    *_, descent = runs(preset="laptop")
    assert (descent.patches, descent.d, descent.batch, descent.descent.lr) == (Patches(1000), 10, 500, 0.1)
    assert runs(preset="paper")[-1].steps == 10_000
    for preset in open_page().presets:
        assert all(run.seed >= 100 for run in runs(preset=preset)[3:])  # seeds that no pilot had


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"noise": 1}, "noise is at least 2; got 1"),
        ({"multiplier": 0}, "multiplier must be positive; got 0"),
        ({"lr": -0.1}, "lr must be positive; got -0.1"),
        ({"batch": 1.5}, "batch must be a whole number; got 1.5"),
        ({"seeds": 1}, "seeds is at least 2; got 1"),
        ({"preset": "huge"}, "Unknown preset 'huge'"),
    ],
)
def test_invalid_parameters_are_one_sentence(given, sentence):
    with pytest.raises(ParameterError, match=sentence):
        open_page(**given)


def test_a_parameter_changes_the_keys_of_its_runs_only():
    first, other = runs(), runs(batch=7)
    assert first[3].key != other[3].key
    assert first[0].key == other[0].key
    assert runs(noise=300)[0].key != first[0].key
    assert runs(multiplier=2)[3].patches.sigma == 2 * first[3].patches.sigma
    assert len(runs(seeds=4)[3:]) == open_page(seeds=4).seeds == 4


# Stored runs

DESCENT = FilterDescent(0.2, 1e-3)


@pytest.fixture
def computed(tmp_path):
    return Store(tmp_path).get


def test_flows_are_evaluated_on_a_logarithmic_scale():
    steps = log_steps(1e4)
    assert (steps[0], steps[1], steps[-1]) == (0, 1, 1e4)
    np.testing.assert_allclose(np.diff(np.log(steps[1:])), np.log(1e4) / 48)


def test_every_early_step_is_evaluated():
    assert eval_steps(400)[:49].tolist() == list(range(1, 50))
    assert eval_steps(400)[-1] == 400
    assert eval_steps(7).tolist() == list(range(1, 8))


def test_seeds_differ_and_repeat(computed):
    one, again, other = (computed(signal_sgd(Patches(8), DESCENT, 3, 4, 20, seed)) for seed in (0, 0, 1))
    assert one.equals(again)
    assert not one.equals(other)
    longer = computed(signal_sgd(Patches(8), DESCENT, 3, 4, 30, 0))
    assert longer[:20].equals(one)
    early = computed(signal_sgd(Patches(8), replace(DESCENT, lr=1e-12), 3, 4, 1, 0)).iloc[0]
    assert np.hypot(early.c, early.v) == pytest.approx(DESCENT.length)


def test_each_flow_has_its_own_patches(computed):
    flows = computed(signal_flows((4, 8), (0.5, 1.0), DESCENT, 10.0))
    by_setting = dict(list(flows.groupby(["noise", "multiplier"]).c))
    assert [*by_setting] == [(4, 0.5), (4, 1.0), (8, 0.5), (8, 1.0)]
    assert not np.allclose(by_setting[4, 0.5], by_setting[4, 1.0])


def test_tangent_rows_have_all_kinds_and_the_same_numbers_again(proofs, computed):
    assert set(proofs.tangent.kind) == set(KINDS)
    assert (proofs.tangent[proofs.tangent.kind == HELD_OUT].standard_error > 0).any()
    small = computed(tangent_rows(PATCHES, TangentStarts((1, 4), 2, 1, 50), 100))
    both = small[small.kind == AT_SIGNAL].merge(proofs.tangent, on=["filters", "start", "kind"])
    assert len(both) == 4
    assert (both.error_x == both.error_y).all()


def test_a_run_has_a_cost():
    assert 5 < tangent_rows(PATCHES, TangentStarts((1, 32), 100, 20, 400), 100).effort < 60


def test_the_page_computes_all_that_it_reads(page, found):
    assert not found.flow.empty
    assert all(page.store.has(run) for run in page.runs())
    assert len({run.key for run in page.runs()}) == len(page.runs())


# Interpolation of flows

STEP = np.append(0, np.geomspace(1, 1000, 37))
FLOW = pd.DataFrame({"step": STEP, "accuracy": 1 - 0.5 * (1 + STEP) ** -0.1})


@pytest.mark.parametrize("steps", [1.0, 6.3, 200.0, 1000.0])
def test_steps_to_an_accuracy_and_accuracy_after_steps_are_interpolated(steps):
    accuracy = 1 - 0.5 * (1 + steps) ** -0.1
    assert steps_to(FLOW, accuracy) == pytest.approx(steps, rel=3e-6)
    assert accuracy_after(FLOW, steps) == pytest.approx(accuracy, rel=1e-6)
    assert np.isnan(steps_to(FLOW, 0.8))


def test_the_interpolated_flow_is_that_of_other_evaluations(found):
    steps, s = np.array([5.0, 500.0, 2000.0, 5000.0]), found.descent
    exact = flow(found.patches, Filter(s.length, s.length, 0.0), s.lr, np.append(0, steps))
    for column in ("c", "b", "accuracy"):
        np.testing.assert_allclose(curve(found.flow, column)(np.log(steps)), exact[column][1:], rtol=1e-5)


def test_no_flow_finds_a_filter_better_than_the_best(found):
    for (k, multiplier), accuracies in found.phase.groupby(["noise", "multiplier"]).accuracy:
        assert accuracies.max() <= best_threshold(Patches(k, multiplier))[1] + 1e-9


# Statements on training

PHASE = definitions("ii3_local_signal").FIGURE["phase"]


LEAST_ROWS = "sameloss.studies.local_signal.proofs.least_rows"
ONCE = {"least_rows": cache(least_rows), "dead_share": cache(definitions("ii3_local_signal").dead_share)}
"""Half of the seconds of all checks, and the same whatever was found."""


@pytest.fixture
def ideal(page, found, monkeypatch):
    """Results at the settings of Figure 3.3 as the statements predict them."""
    monkeypatch.setattr(LEAST_ROWS, ONCE["least_rows"])
    monkeypatch.setitem(page.check.__globals__, "dead_share", ONCE["dead_share"])
    step = np.append(0, np.geomspace(1, 1e7, 200))
    size = np.maximum(step, 1)
    accuracy = np.interp(np.log(size), np.log([1, 1e4, 2.5e6, 1e7]), [0.55, 0.7825, 0.99, 0.995])
    flow = pd.DataFrame({"step": step, "c": 0.1 * size**0.3, "v": 0.0, "b": -0.01 * size**0.45})
    flow["accuracy"] = accuracy
    sampled = flow[flow.step.between(1, 3000)]
    sgd = pd.concat([sampled.assign(seed=seed, v=0.01) for seed in (100, 101)], ignore_index=True)
    return replace(found, patches=Patches(1000), numbers=PHASE, flow=flow, sgd=sgd)


def verdicts(page, found):
    return statement_table(TRAINING, page.check(found)).set_index("id").verdict


def test_all_statements_hold_for_ideal_results(page, ideal):
    verdict = verdicts(page, ideal)
    assert verdict.pop("first-b") == verdict.pop("features") == "holds as corrected"
    assert set(verdict) == {"holds"}, verdict[verdict != "holds"]


@pytest.mark.parametrize(
    ("statement", "part", "column", "change"),
    [
        ("grows", "flow", "b", lambda b: -b),
        ("grows", "sgd", "accuracy", lambda a: 1 - a),
        ("sampled", "sgd", "c", lambda c: 1.2 * c),
        ("sampled", "sgd", "accuracy", lambda a: a + 0.03),
        ("across", "sgd", "v", lambda v: v + 1),
        ("reached", "flow", "accuracy", lambda a: a + 0.02),
    ],
)
def test_each_statement_can_be_refuted(page, ideal, statement, part, column, change):
    table = getattr(ideal, part)
    wrong = replace(ideal, **{part: table.assign(**{column: change(table[column])})})
    assert verdicts(page, wrong)[statement] == "fails: counter-example"


@pytest.mark.parametrize(("statement", "name"), [("features", "filter_each"), ("dead", "dead_share")])
def test_statements_on_features_and_starts_can_be_refuted(page, ideal, monkeypatch, statement, name):
    monkeypatch.setitem(page.check.__globals__, name, lambda *given: 0.9)
    assert verdicts(page, ideal)[statement] == "fails: counter-example"


def test_the_statement_on_best_filters_can_be_refuted(page, ideal, monkeypatch):
    monkeypatch.setattr(LEAST_ROWS, lambda: 0.9)
    assert verdicts(page, ideal)["smallest"] == "fails: counter-example"


def test_other_settings_say_nothing_of_the_figure(page):
    judged = page.statements().set_index("id").verdict
    assert judged.index.tolist() == list(TRAINING)
    assert judged["reached"] == judged["sampled"] == "not testable"


# Statements of the proofs

CORRECTED = {"b123", "lemB5", "lemB6", "lemB7", "lemB8", "noise-bound", "lem31", "lemB9", "lem33", "lemB10"}
"""Refuted as printed, at any preset."""


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
        ("states", "noise", 1.5, "noise-bound"),
        ("states", "within_g", 0.7, "lemB8"),
        ("rows", "spread", 0.05, "lemB6"),
        ("rows", "width", 1e-3, "lemB9"),
        ("rows", "error_at_limit", 0.02, "lemB5"),
        ("rows", "by_b_1", -0.1, "lem33"),
        ("rows", "by_c_lowest", 0.1, "lem31"),
        ("turns", "decades", np.inf, "thm31"),
        ("turns", "decades", 200.0, "thmB1"),
        ("turns", "decades", 200.0, "linear"),
        ("tangent", "error", 0.05, "thm32"),
        ("tangent", "error", 0.3, "kernel-linear"),
    ],
)
def test_a_wrong_number_fails_its_statement(proofs_page, proofs, frame, column, value, of):
    broken = replace(proofs, **{frame: getattr(proofs, frame).assign(**{column: value})})
    checks = proofs_page.check(broken)
    assert judge_checks(checks[checks.of == of]) is Judgement.FAILS


def test_wrong_held_out_errors_fail(proofs_page, proofs):
    tangent = proofs.tangent.copy()
    tangent.loc[tangent.kind == HELD_OUT, "error"] += 0.1
    checks = proofs_page.check(replace(proofs, tangent=tangent))
    assert judge_checks(checks[checks.of == "kernel-moments"]) is Judgement.FAILS


def test_without_a_counter_example_the_printed_form_holds(proofs_page, proofs):
    checks = proofs_page.check(replace(proofs, examples=proofs.examples.assign(by_b=0.1)))
    assert judge_checks(checks[checks.of == "lem33"]) is Judgement.HOLDS


def test_a_missing_number_leaves_its_lemma_open(proofs_page, proofs):
    checks = proofs_page.check(replace(proofs, examples=proofs.examples.assign(by_b=np.nan)))
    assert judge_checks(checks[checks.of == "lem33"]) is Judgement.UNTESTED
