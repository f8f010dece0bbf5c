"""The runs that compare ways to measure flatness on one checkpoint."""

from dataclasses import replace

import pytest
import torch

from sameloss.book.studies import open_page
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder
from sameloss.runs.flatness import MEASURES
from sameloss.studies.same_loss.estimators import (
    ESTIMATORS,
    EstimatorComparison,
    ReparametrisationMeasurement,
    _contest,
    _forms,
    _three_traces,
    estimator_comparison,
    estimator_runs,
    everything_masked,
    identity,
    reparametrisation,
)
from sameloss.studies.same_loss.settings import TINY_LANGUAGE, TINY_SHAPE


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    artifacts = str(tmp_path_factory.mktemp("artifacts"))
    return open_page("b1_trace", preset="smoke", steps=20, seeds=1, artifacts=artifacts)


def seeded():
    return torch.Generator().manual_seed(0)


def test_everything_that_can_be_masked():
    language = TINY_LANGUAGE.build()
    masked, truth = everything_masked(language)
    assert len(masked.masked) == 4 * 27
    assert (
        len({(*row, p) for row, p in zip(masked.masked.tolist(), masked.positions.tolist(), strict=True)})
        == 108
    )
    assert (masked.masked.gather(1, masked.positions[:, None]) == 0).all()
    torch.testing.assert_close(truth.sum(1), torch.ones(108, dtype=torch.float64))
    words = torch.arange(1, 4)
    filled = masked.masked[5].repeat(3, 1)
    filled[:, masked.positions[5]] = words
    joint = language.log_prob(type(language.sample(1, torch.Generator()))(filled, torch.full((3,), 4))).exp()
    torch.testing.assert_close(truth[5], joint / joint.sum())


def test_every_estimator_is_measured_against_the_known_trace(page):
    again = EstimatorComparison(page.group.pretraining("3K", 0), 1024, 0)
    assert again.key == estimator_comparison(page.group).key
    table = page.store.get(again)
    assert table.estimator.tolist() == ["known", *ESTIMATORS]
    assert table["mean"].notna().all()
    known, others = table.iloc[0], table.iloc[1:]
    assert known.standard_error == 0
    assert (others.standard_error > 0).all()
    assert ((others["mean"] - known["mean"]).abs() < 5 * others.standard_error).all()


def test_estimators_stand_in_data_under_their_own_names(page):
    """Readers see others; both are the keys and values of one table."""
    run = estimator_comparison(page.group)
    model, population = run.last_model(page.store), run.masked("estimators")
    names = [name for name, *_ in _contest(model, population, torch.ones(1024, 6) / 6, seeded())]
    assert names == list(ESTIMATORS)


def test_the_runs_are_of_the_middle_and_of_the_smallest_size(opened):
    group = opened("b1_trace", preset="laptop").group
    compared, moved = estimator_comparison(group), reparametrisation(group)
    assert compared.pretraining == group.pretraining("40K", 0)
    assert moved.pretraining == group.pretraining("40K", 0)
    assert (compared.sentences, moved.sentences, moved.chain_steps) == (4096, 50, 30)
    assert estimator_runs(group) == [identity(), compared, moved]


def test_reparametrisations_move_the_parameters_and_not_the_function(page):
    run = ReparametrisationMeasurement(page.group.pretraining("1K", 0), 20, 0, 2)
    table = page.store.get(run)
    model = page.store.get(run.pretraining).last().double()
    assert table.form.unique().tolist() == [name for name, _ in _forms(model, seeded())]
    assert table[table.form == "as trained"].measure.tolist() == list(MEASURES)
    assert table.moved.max() < 1e-6
    assert (table.moved[table.form == "as trained"] == 0).all()


def test_three_traces_agree_where_the_model_is_right():
    """With its own predictions for the truth, labels of either are the same, and so is the Hessian."""
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
    brief = replace(identity(), steps=(0, 300))
    table = page.store.get(brief).set_index("step")
    apart = (table.hessian - table.fisher).abs() / table.fisher
    assert table.kl[300] < 0.01 < table.kl[0]
    assert apart[300] < 0.1 < apart[0]
    assert abs(table.true_labels[300] / table.fisher[300] - 1) < abs(
        table.true_labels[0] / table.fisher[0] - 1
    )
