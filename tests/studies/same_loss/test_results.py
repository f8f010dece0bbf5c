"""The measurements and probings of the smallest setting, gathered in tables."""

import numpy as np
import pytest

from sameloss.book import cost_tables, costs
from sameloss.measures.downstream.probe import ProbeSettings
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
