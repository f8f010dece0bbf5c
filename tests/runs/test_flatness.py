"""Flatness along a pre-training, beside the same estimates made by hand."""

import numpy as np
import pytest

from sameloss.measures.flatness.hessian import dense_hessian
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.enlarge import widen
from sameloss.runs.flatness import (
    MEASURES,
    EnlargementMeasurement,
    FlatnessMeasurement,
    HessianGapMeasurement,
    TraceMeasurement,
    predictions,
)
from sameloss.runs.held_out import held_out_conditionals, held_out_masked
from sameloss.store.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("artifacts"))


def test_parts_of_the_trace_add_up(tiny_run, tiny_language, store):
    found = store.get(TraceMeasurement(tiny_run, 30, 1, "exact", 0))
    sums = found.groupby(["split", "step"])["mean"].sum()
    for step in tiny_run.checkpoints:
        model = store.get(tiny_run).model(step)
        expected = fisher_trace(model, held_out_masked(tiny_language, 30, 0, "trace"), estimator="exact")
        for split in ("total", "kind", "depth"):
            assert sums[split, step] == pytest.approx(expected.total.mean, rel=1e-5)
    depths = found.query("split == 'depth' and step == 20").part
    assert set(depths) == {"embedding", "layer 1", "head"}


def test_the_gap_is_what_the_fisher_trace_lacks(tiny_run, tiny_language, store):
    """All 81 sentences have few enough parameters for the dense Hessian."""
    found = store.get(HessianGapMeasurement(tiny_run, 400, 8, 0))
    assert found.part.tolist() == ["gap", "gap"]
    about = tiny_language, 400, 0, "gap"
    masked, truth = held_out_masked(*about), held_out_conditionals(*about)
    for row in found.itertuples():
        model = store.get(tiny_run).model(row.step).double()
        fisher = fisher_trace(model, masked, estimator="exact").total.mean
        gap = float(dense_hessian(model, masked, truth).trace()) - fisher
        assert row.standard_error < 0.5 * abs(gap) or row.step == 60
        assert abs(row.mean - gap) < 4 * row.standard_error


def test_the_measures_of_the_last_checkpoint(tiny_run, tiny_language, store):
    found = store.get(FlatnessMeasurement(tiny_run, 40, 0))
    assert found.part.tolist() == [name for name in MEASURES if name != "learning_coefficient"]
    assert all(name.isascii() and name.isidentifier() for name in MEASURES)
    value = found.set_index("part")["mean"]
    about = tiny_language, 40, 0, "measures"
    masked, truth = held_out_masked(*about), held_out_conditionals(*about)
    model = store.get(tiny_run).last().double()
    assert value.trace == pytest.approx(fisher_trace(model, masked, estimator="exact").total.mean)
    largest = np.linalg.eigvalsh(dense_hessian(model, masked, truth).numpy())[-1]
    assert value.top_eigenvalue == pytest.approx(largest, rel=2e-3)


def test_enlarged_traces_are_those_of_enlarged_models(tiny_run, store):
    run = EnlargementMeasurement(tiny_run, 30, 0, 1, 16)
    found = store.get(run).set_index(["form", "part"])["mean"]
    model, masked = run.last_model(store), run.masked("enlargement")
    for form in ("paper", "balanced"):
        drawn = run.generator("enlargement labels")
        large = fisher_trace(widen(model, 2, tied=form), masked, generator=drawn).total.mean
        assert found[form, "total"] == pytest.approx(large, rel=1e-4)
    assert found["native", "without embeddings"] < found["native", "total"]
    assert found["relative"].index.tolist() == ["total"]


def test_predictions_are_distributions(tiny_model, tiny_language):
    masked = held_out_masked(tiny_language, 10, 0, "test")
    found = predictions(tiny_model, masked)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
    logits = tiny_model(masked.masked, masked.positions, masked.lengths)
    np.testing.assert_allclose(found, logits.softmax(-1).detach())
