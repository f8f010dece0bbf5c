"""Flatness along a pre-training, beside the same estimates made by hand."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from sameloss.measures.flatness.hessian import dense_hessian
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.runs.measurements import MEASURES, TraceMeasurement, flatness_measures, predictions
from sameloss.runs.sampling import held_out_conditionals, held_out_masked
from sameloss.seeds import generator_for
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


def test_the_measures_of_the_last_checkpoint(tiny_run, tiny_language, store):
    about = tiny_language, 40, 0, "measures"
    masked, truth = held_out_masked(*about), held_out_conditionals(*about)
    model = store.get(tiny_run).last().double()
    found = dict(flatness_measures(model, masked, truth, partial(generator_for, "measures", 0)))
    assert list(found) == [name for name in MEASURES if name != "learning_coefficient"]
    value = pd.Series({name: estimate.mean for name, estimate in found.items()})
    assert value.trace == pytest.approx(fisher_trace(model, masked, estimator="exact").total.mean)
    largest = np.linalg.eigvalsh(dense_hessian(model, masked, truth).numpy())[-1]
    assert value.top_eigenvalue == pytest.approx(largest, rel=2e-3)


def test_predictions_are_distributions(tiny_model, tiny_language):
    masked = held_out_masked(tiny_language, 10, 0, "test")
    found = predictions(tiny_model, masked)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
    logits = tiny_model(masked.masked, masked.positions, masked.lengths)
    np.testing.assert_allclose(found, logits.softmax(-1).detach())
