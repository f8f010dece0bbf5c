"""Measurements and probings of the smallest pre-training."""

import numpy as np
import pytest

from sameloss.book import cost_tables, costs
from sameloss.errors import ParameterError
from sameloss.measures.downstream.probe import ProbeSettings
from sameloss.runs.probing import BaselineProbing
from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.same_loss.results import collect, collect_probes


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("artifacts"))
    return collect(resolve({"preset": "smoke", "artifacts": folder}))


def test_one_row_a_checkpoint(results):
    table = results.checkpoints
    assert len(table) == 2 * 3 * 6
    assert table.notna().all().all()
    assert (table.kl_mean > 0).all()
    np.testing.assert_allclose(table.loss_mean, table.entropy_mean + table.kl_mean)
    ends = table.groupby(["size", "seed"]).kl_mean.agg(["first", "last"])
    assert (ends["last"] < ends["first"]).all()


def test_parts_of_the_trace_add_up(results):
    sums = results.traces.groupby(["split", "size", "seed", "step"])["mean"].sum()
    assert set(sums.index.levels[0]) == {"total", "kind", "depth"}
    for split in ("kind", "depth"):
        np.testing.assert_allclose(sums[split], sums["total"], rtol=1e-5)


def test_probes_learn_something_and_do_not_see_the_test_sentences(results):
    training, test = results.setting.store.get(results.setting.labelled)
    probe = results.probes["3K", 0]
    assert probe.shape == (6, 3, 400, 2)
    assert probe[-1, ..., 0].mean() > results.majority["root"] + 0.1
    assert training.labels.shape == (1200, 2)
    assert not np.array_equal(training.sentences.tokens[:400], test.sentences.tokens)


def test_columns_belong_to_their_run(results):
    row = results.checkpoints.query("size == '3K' and seed == 1 and step == 80").iloc[0]
    at = results.steps.index(80)
    assert row.root == pytest.approx(100 * results.probes["3K", 1][at, :, :, 0].mean())
    expected = np.stack([results.probes["3K", seed][at, :, :, 0] for seed in range(3)])
    assert np.array_equal(results.correct("3K", "root", 80), expected)
    assert len({part.tobytes() for part in expected}) == 3
    assert results.correct("lookup table", "root").shape == (1, 3, 400)


def test_another_probe_is_another_run(results):
    setting = results.setting.with_probe(ProbeSettings(epochs=1, batch=64))
    assert setting.labelled.key == results.setting.labelled.key
    other = collect_probes(setting, setting.steps[-1:])
    assert other.probes["1K", 0].shape[0] == 1
    assert not np.array_equal(other.correct("1K", "root"), results.correct("1K", "root"))


def test_costs_are_recorded(results):
    table = costs.measured(results.setting)
    assert set(table.stage) >= {"Pretraining", "TraceMeasurement", "Probing"}
    assert (table.core_s > 0).all()
    assert "nothing is trained" in costs.announce(results.setting)
    assert {"02_existence", "04_flatness"} <= set(costs.by_chapter(results.setting).chapter)
    table = cost_tables.estimated_and_measured(results.setting)
    assert (table[["estimated_s", "measured_s", "tokens_per_s"]] > 0).all(axis=None)
    assert table.utilisation.between(0, 100, inclusive="neither").all()


def test_an_unknown_representation_is_refused(results):
    run = BaselineProbing("nonsense", results.setting.labelled, ProbeSettings())
    with pytest.raises(ParameterError, match="choose lookup table, one-hot tokens"):
        results.setting.store.get(run)
