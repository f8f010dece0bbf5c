"""Every statement of the proofs has checks; what is about it, broken, makes it fail; the page shows them."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot as plt

from sameloss.errors import ParameterError
from sameloss.store.pool import compute_all
from sameloss.studies.local_signal import proof_figures, proof_tables, tangent_tables
from sameloss.studies.local_signal.pages import STUDY
from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.statements import STATEMENTS, checks
from sameloss.studies.local_signal.tangent_runs import (
    AT_SIGNAL,
    HELD_OUT,
    KINDS,
    TangentRows,
    TangentStarts,
)
from sameloss.studies.statement import Judgement, judge_checks, statement_table

CORRECTED = {"b123", "lemB5", "lemB6", "lemB7", "lemB8", "noise-bound", "lem31", "lemB9", "lem33", "lemB10"}
"""What is refuted as printed, at any preset."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    page = STUDY.open(
        "ii3_proofs", {"preset": "smoke", "artifacts": str(tmp_path_factory.mktemp("local_proofs"))}
    )
    compute_all(page.store, page.runs(), 1)
    return page


@pytest.fixture(scope="module")
def found(page):
    return page.proofs


def test_every_statement_is_judged_and_these_are_corrected(page):
    judged = page.statements()
    assert set(judged.id[judged.verdict == str(Judgement.CORRECTED)]) == CORRECTED
    assert set(judged.id[judged.verdict == str(Judgement.HOLDS)]) == set(STATEMENTS) - CORRECTED
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
        ("tangent", "error", 0.05, "thm32"),
        ("tangent", "error", 0.3, "kernel-linear"),
        ("tangent", "error", 0.3, "kernel-closed"),
    ],
)
def test_a_number_that_is_not_so_fails_its_statement(found, frame, column, value, of):
    broken = replace(found, **{frame: getattr(found, frame).assign(**{column: value})})
    own = checks(broken)
    assert judge_checks(own[own.of == of]) is Judgement.FAILS


def test_held_out_errors_that_are_others_fail(found):
    tangent = found.tangent.copy()
    tangent.loc[tangent.kind == HELD_OUT, "error"] += 0.1
    own = checks(replace(found, tangent=tangent))
    assert judge_checks(own[own.of == "kernel-moments"]) is Judgement.FAILS


def test_a_counter_example_that_is_none_lets_the_printed_form_stand(found):
    examples = found.examples.assign(by_b=0.1)
    judged = statement_table(STATEMENTS, checks(replace(found, examples=examples))).set_index("id").verdict
    assert judged["lem33"] == str(Judgement.HOLDS)


def test_tangent_rows_have_all_kinds_and_the_same_numbers_again(found, page, tmp_path):
    run = page.settings.signal.tangent_rows
    assert set(found.tangent.kind) == set(KINDS)
    assert (found.tangent[found.tangent.kind == HELD_OUT].standard_error > 0).any()
    small = replace(run, tried=TangentStarts((1, 4), 2, 1, 50))
    tables = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        small.compute(tmp_path / name, page.store, lambda share, words: None)
        tables.append(small.load(tmp_path / name))
    assert tables[0].equals(tables[1])
    own = found.tangent[(found.tangent.kind == AT_SIGNAL) & (found.tangent.start < 2)]
    first = tables[0][(tables[0].kind == AT_SIGNAL)]
    assert set(first.error) <= set(own.error)


def test_tables_and_words(found, page):
    judged = proof_tables.judged_table(page.statements(), found)
    assert (judged.verdict[judged["refuted by"] == "a state"] == str(Judgement.CORRECTED)).all()
    assert dict(zip(judged.place, judged["from k"], strict=True))["Lemma 3.3"] == "10^17.5"
    assert "10^70.8" in proof_tables.in_words(found, page.statements())
    for table in (
        proof_tables.turn_table(found),
        proof_tables.invariant_table(found),
        proof_tables.bias_table(found),
    ):
        assert len(table) >= 8
    assert len(proof_tables.example_table(found)) == len(found.examples)
    assert tangent_tables.filters_needed(found.tangent, 0.0) != tangent_tables.filters_needed(
        found.tangent, 0.5
    )
    assert len(tangent_tables.one_filter_table()) == len(tangent_tables.SHARE_ROWS)


def test_figures_show_what_was_found(found):
    figure, axes = plt.subplots(2, 3)
    proof_figures.truncated_means(axes[0, 0])
    proof_figures.noise_parts(found, axes[0, 1])
    proof_figures.thresholds(found, axes[0, 2])
    proof_figures.bias_gradients(found, axes[1, 0])
    tangent_tables.errors_by_filters(found.tangent, found.patches, axes[1, 1])
    tangent_tables.shares_by_rows(axes[1, 2])
    assert list(axes[0, 2].lines[0].get_ydata()) == list(found.rows.alpha)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in axes.flat)
    plt.close(figure)


@pytest.mark.parametrize(
    ("filters", "starts", "held", "images"),
    [((0,), 1, 1, 2), ((1,), 0, 1, 2), ((1,), 1, 0, 2), ((1,), 1, 1, 1)],
)
def test_numbers_of_nothing_are_refused(filters, starts, held, images):
    with pytest.raises(ParameterError, match="must be a whole number"):
        TangentStarts(filters, starts, held, images)


def test_a_run_has_a_cost():
    laptop = TangentRows(Patches(1000), TangentStarts((1, 32), 100, 20, 400), 100)
    assert 5 < laptop.effort < 60
