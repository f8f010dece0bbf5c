"""Comparisons of ways to measure flatness on one checkpoint."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from cells import definitions
from quick_workers import quick_workers

from sameloss.book.pages import open_page
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder
from sameloss.runs.measurements import MEASURES
from sameloss.store.pool import compute_all
from sameloss.studies.same_loss.estimators import (
    ESTIMATORS,
    TINY_LANGUAGE,
    TINY_SHAPE,
    _forms,
    _three_traces,
    estimator_measurement,
    everything_masked,
    reparametrisation_measurement,
)
from sameloss.studies.same_loss.parameters import chosen


@pytest.fixture(scope="module")
def page(shared):
    artifacts = str(shared / "same_loss")
    page = open_page("b1_trace", preset="smoke", steps=20, artifacts=artifacts)
    with quick_workers():
        compute_all(page.store, [*page.runs()[1:], brief(page), on_few(page)], 1)
    return page


def replicate_of(page):
    return next(chosen(page.values).replicates())


def brief(page):
    identity, *_ = page.runs()
    return replace(identity, steps=(0, 300))


def on_few(page):
    return reparametrisation_measurement(replicate_of(page).longest_descent("d8"), 20, 0, 2)


def test_everything_that_can_be_masked():
    language = TINY_LANGUAGE.build()
    masked, truth = everything_masked(language)
    rows = torch.cat([masked.masked, masked.positions[:, None]], 1)
    assert len(rows) == len(rows.unique(dim=0)) == 4 * 27
    assert (masked.masked.gather(1, masked.positions[:, None]) == 0).all()
    torch.testing.assert_close(truth.sum(1), torch.ones(108, dtype=torch.float64))
    words = torch.arange(1, 4)
    filled = masked.masked[5].repeat(3, 1)
    filled[:, masked.positions[5]] = words
    joint = language.log_prob(type(language.sample(1, torch.Generator()))(filled, torch.full((3,), 4))).exp()
    torch.testing.assert_close(truth[5], joint / joint.sum())


def test_every_estimator_is_measured_against_the_known_trace(page):
    _, run, _ = page.runs()
    assert run == estimator_measurement(replicate_of(page).longest_descent("d16"), 1024, 0)
    table = page.store.get(run)
    assert table.estimator.tolist() == ["known", *ESTIMATORS]
    assert table["mean"].notna().all()
    known, others = table.iloc[0], table.iloc[1:]
    assert known.standard_error == 0
    assert (others.standard_error > 0).all()
    assert ((others["mean"] - known["mean"]).abs() < 5 * others.standard_error).all()


def test_the_runs_are_of_the_middle_and_of_the_smallest_size(opened):
    page = opened("b1_trace", preset="laptop")
    identity, compared, moved = page.runs()
    assert (identity.language, identity.shape) == (TINY_LANGUAGE, TINY_SHAPE)
    assert compared.pretraining == replicate_of(page).longest_descent("d96")
    assert moved.pretraining == replicate_of(page).longest_descent("d24")
    assert (compared.sentences, moved.sentences, moved.chain_steps) == (4096, 50, 30)


def test_reparametrisations_move_the_parameters_and_not_the_function(page):
    run = on_few(page)
    table = page.store.get(run)
    model = page.store.get(run.pretraining).last().double()
    forms = _forms(model, torch.Generator().manual_seed(0))
    assert table.form.unique().tolist() == [name for name, _ in forms]
    assert table[table.form == "as trained"].measure.tolist() == list(MEASURES)
    assert table.moved.max() < 1e-6
    assert (table.moved[table.form == "as trained"] == 0).all()


def test_three_traces_agree_where_the_model_is_right():
    """If its own predictions are the truth, both kinds of labels are the same, and so is the Hessian."""
    model = Encoder(TINY_SHAPE, 3, 4, seed=0).double()
    masked, _ = everything_masked(TINY_LANGUAGE.build())
    with torch.no_grad():
        predicted = model(masked.masked, masked.positions).softmax(-1)
    traces = _three_traces(model, masked, predicted)
    assert traces["kl"] == pytest.approx(0, abs=1e-12)
    assert traces["true_labels"] == pytest.approx(traces["fisher"])
    assert traces["hessian"] == pytest.approx(traces["fisher"])
    assert traces["fisher"] == pytest.approx(fisher_trace(model, masked, estimator="exact").total.mean)


def test_three_traces_come_together_as_a_tiny_model_saturates(page):
    """Lemma 3.2 along a training: all exact, so nothing but the KL keeps them apart."""
    table = page.store.get(brief(page)).set_index("step")
    hessian, true_labels = ((table[name] / table.fisher - 1).abs() for name in ("hessian", "true_labels"))
    assert table.kl[300] < 0.01 < table.kl[0]
    assert hessian[300] < 0.1 < hessian[0]
    assert true_labels[300] < true_labels[0]


def test_reparametrisations_change_some_measures(page):
    table = page.store.get(page.runs()[2])
    values = table.pivot(index="form", columns="measure", values="mean")
    ratios = values / values.loc["as trained"]
    assert set(ratios) == set(MEASURES)
    permuted = ratios.loc["neurons permuted", ["trace", "top_eigenvalue", "relative_trace"]]
    np.testing.assert_allclose(permuted, 1, rtol=1e-2)
    assert ratios.trace["width × 2, as the paper"] > 1.05
    assert ratios.relative_trace["width × 2, as the paper"] == pytest.approx(1, rel=1e-4)


# The error of sampled labels


def test_more_labels_leave_the_variance_between_sentences(page):
    table = page.store.get(page.runs()[1])
    errors = table.set_index("estimator").standard_error
    assert errors["sampled-1"] < errors["minibatch-64"]
    known = table["mean"].iloc[0]
    measured = table.assign(known=known, seconds=table.forward + table.backward)
    parts = definitions("b1_trace").label_error(measured)
    assert min(parts.between, parts.within, parts.backward) > 0


def test_best_number_of_labels_by_hand():
    """Variances 0.01 between and 0.03 within; a sentence costs 1 ms forward and 1 ms a label."""
    table = pd.DataFrame(
        {
            "estimator": ["exact", "sampled-1", "sampled-50"],
            "standard_error": [0.01, 0.02, 0.01],
            "count": 100,
            "seconds": [1.0, 0.2, 5.1],
            "known": 1.0,
        }
    )
    parts = definitions("b1_trace").label_error(table)
    np.testing.assert_allclose(parts, [0.01, 0.03, 1e-3, 1e-3])
    assert parts.best() == pytest.approx(3**0.5)
    assert parts.cost(3**0.5) == pytest.approx((0.01 + 0.03 / 3**0.5) * (1 + 3**0.5) * 1e-3)
    assert parts.cost(50) == pytest.approx((0.01 + 0.03 / 50) * 0.051)
    assert parts.cost(1) == pytest.approx(0.04 * 0.002)
    assert parts.squared(50) == pytest.approx(0.01 + 0.03 / 50)
