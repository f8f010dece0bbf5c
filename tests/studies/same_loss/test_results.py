"""The measurements and probings of small models, gathered in tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up import changed

from sameloss.book.studies import open_page
from sameloss.errors import UnreachableKL
from sameloss.languages.entropy import context_information
from sameloss.statistics.bootstrap import Estimate
from sameloss.studies.same_loss import results as module
from sameloss.studies.same_loss.groups import protocols
from sameloss.studies.same_loss.results import (
    by_protocol,
    collect,
    collect_probes,
    final,
    finetuned,
    fisher_and_hessian,
    saturated,
    shared_kl,
    wide,
    with_hessian,
)


@pytest.fixture(scope="module")
def found(brief):
    """What two seeds of two sizes gave after a brief training; enough for some, if little is asked."""
    page = open_page("02_existence", preset="smoke", saturated_share=1.25, **brief)
    return collect(page.store, page.group)


def test_one_row_a_checkpoint(found):
    table = found.checkpoints
    assert len(table) == 2 * 2 * 6
    assert table.notna().all().all()
    assert (table.kl_mean > 0).all()
    np.testing.assert_allclose(table.loss_mean, table.entropy_mean + table.kl_mean)
    ends = table.groupby(["size", "seed"]).kl_mean.agg(["first", "last"])
    assert (ends["last"] < ends["first"]).all()
    context = masked_context(found)
    assert (table.context_mean == context).all()
    np.testing.assert_allclose(table.kl_share, table.kl_mean / context)
    share = found.group.settings.evaluation.saturated_share
    assert (table.saturated == (table.kl_mean <= share * context)).all()
    assert 0 < table.saturated.sum() < len(table)
    assert 0 < table.saturated.sum() < len(table)
    assert found.saturated_kl == pytest.approx(share * context)
    assert set(zip(table["size"], table.parameters, strict=True)) == {("1K", 814), ("3K", 2774)}


def test_every_protocol_reads_the_last_models_and_the_groups_own_has_them(found, monkeypatch):
    seen = []

    def collect_probes(store, group, steps):
        seen.append(steps)
        return replace(found, group=group)

    monkeypatch.setattr(module, "collect_probes", collect_probes)
    every = by_protocol(found)
    assert {name: own.group for name, own in every.items()} == protocols(found.group)
    assert seen == 5 * [(40,)]
    assert by_protocol(found, ["solved"])["solved"] is found


def masked_context(found):
    """Return what the context tells, in nats, on the sentences that KLs are of."""
    (held_out,) = {run.held_out for run in found.group.measured("saturation").values()}
    return context_information(held_out.language.build(), *found.store.get(held_out)).mean


def test_columns_belong_to_their_run(found):
    row = found.checkpoints.query("size == '3K' and seed == 1 and step == 20").iloc[0]
    at = found.steps.index(20)
    assert row.root == pytest.approx(100 * found.probes["3K", 1][at, :, :, 0].mean())
    expected = np.stack([found.probes["3K", seed][at, :, :, 0] for seed in range(2)])
    assert np.array_equal(found.correct("3K", "root", 20), expected)
    assert len({part.tobytes() for part in expected}) == 2
    assert found.correct("lookup table", "root").shape == (1, 3, 400)
    (trace,) = found.traces.query("size == '3K' and seed == 1 and step == 20 and split == 'total'")["mean"]
    assert row.trace == trace


def test_the_majority_is_a_share_of_the_test_sentences(found):
    _, test = found.store.get(found.group.labelled)
    for task, column in zip(found.group.tasks, test.labels.T.tolist(), strict=True):
        assert found.majority[task] == pytest.approx(max(map(column.count, column)) / len(column))


def test_parts_of_a_trace_add_up_to_it(found):
    """The total is one part of several; no other is taken for it."""
    keys = ["size", "seed", "step"]
    parts = found.traces[found.traces.split == "kind"].groupby(keys)["mean"].sum()
    traces = found.checkpoints.set_index(keys).trace
    np.testing.assert_allclose(parts.loc[traces.index], traces)


def test_probes_of_some_checkpoints(found):
    last = collect_probes(found.store, found.group, found.steps[-1:])
    assert last.probes["1K", 0].shape[0] == 1
    assert np.array_equal(last.correct("1K", "root"), found.correct("1K", "root"))


def test_untrained_models_are_the_same_ones_at_step_zero(found):
    """Read by the probe that reads the trained ones, whichever it is; computed once."""
    drawn = found.untrained
    assert found.untrained is drawn
    for key, run in found.group.probings((0,)).items():
        assert run.probe == found.group.probe
        assert np.array_equal(drawn.probes[key], found.store.get(run).correct)
    assert drawn.correct("3K", "root").shape == (2, 3, 400)
    assert drawn.baselines.keys() == found.baselines.keys()


def test_fine_tuned_models_stand_in_the_place_of_the_probes(found):
    tuned = finetuned(found)
    assert set(tuned.probes) == set(found.probes)
    run = found.group.measured("finetuning")["3K", 1]
    assert np.array_equal(tuned.correct("3K", "root")[1], found.store.get(run)[-1, :, :, 0])
    assert tuned.baselines.keys() == found.baselines.keys()


def test_accuracies_stand_in_one_table_each_in_its_interval(results):
    table = results.accuracy_table("root").set_index("representation")
    untrained = ["1K, untrained", "3K, untrained"]
    assert list(table.index) == ["majority class", "1K", "3K", *untrained, "lookup table", "one-hot tokens"]
    assert table.accuracy["majority class"] == table.low["majority class"] == 30
    assert table.accuracy.loc[["1K", "3K", "lookup table"]].tolist() == pytest.approx([60, 80, 50], abs=3)
    assert table.accuracy.loc[untrained].tolist() == pytest.approx([50, 50], abs=3)
    assert ((table.low <= table.accuracy) & (table.accuracy <= table.high)).all()
    baselines = results.baseline_table("root")
    assert baselines.representation.tolist() == ["lookup table", "one-hot tokens"]
    assert baselines.accuracy.tolist() == table.accuracy.loc[["lookup table", "one-hot tokens"]].tolist()
    alone = changed(results, results.checkpoints, group=replace(results.group, sizes=("3K",)))
    assert not alone.accuracy_table("root").representation.str.contains("untrained").any()


def test_between_checkpoints_a_sentence_is_right_to_a_share(results):
    """At a checkpoint's own KL it is right or wrong as there."""
    at = results.correct_at("1K", "root", 0.02 / 3)
    np.testing.assert_allclose(at, results.correct("1K", "root", results.steps[2]), atol=1e-6)
    between = results.correct_at("1K", "root", [0.02 / 3, 0.006, 0.02 / 4])
    np.testing.assert_allclose(between[0], at[0], atol=1e-6)
    np.testing.assert_allclose(between[2], results.correct("1K", "root", results.steps[3])[2], atol=1e-6)
    assert ((between[1] > 0.01) & (between[1] < 0.99)).any()
    with pytest.raises(UnreachableKL):
        results.correct_at("1K", "root", 0.001)


def test_results_of_a_page_share_their_resamples(results):
    other = changed(results, results.checkpoints)
    assert other.resamples is results.resamples


def test_saturated_means_every_seed_of_every_size(results):
    assert final(results).step.unique().tolist() == [160]
    assert len(final(results)) == 6
    assert saturated(results, "1K", "3K")
    table = results.checkpoints.copy()
    table.loc[(table["size"] == "3K") & (table.seed == 2), "saturated"] = False
    one_is_not = changed(results, table)
    assert saturated(one_is_not, "1K")
    assert not saturated(one_is_not, "3K")
    assert not saturated(one_is_not, "1K", "3K")


def test_the_shared_kl_is_what_all_reach(results):
    slower = changed(results, results.checkpoints.assign(kl_mean=2 * results.checkpoints.kl_mean))
    assert shared_kl([results]) == pytest.approx(0.02 / 6)
    assert shared_kl([results, slower]) == pytest.approx(0.02 / 3)
    assert shared_kl([results, slower], ["1K"]) == pytest.approx(0.02 / 3)
    with pytest.raises(UnreachableKL):
        shared_kl(
            [results, changed(results, results.checkpoints.assign(kl_mean=results.checkpoints.kl_mean + 1))]
        )


def measured(group, **estimates):
    """Return what a measurement would have found of a group, the same of every run."""
    rows = [
        {"size": size, "seed": seed, "step": step, "part": part, **Estimate(value, error, 5)._asdict()}
        for size in group.sizes
        for seed in range(group.seeds)
        for step in group.steps
        for part, (value, error) in estimates.items()
    ]
    return pd.DataFrame(rows)


def test_a_measurement_in_columns(results):
    table = wide(measured(results.group, kl=(0.5, 0.1), loss=(1.5, 0.2)))
    assert len(table) == len(results.checkpoints)
    row = table.iloc[-1]
    assert (row["size"], row.seed, row.step) == ("3K", 2, 160)
    found = row[["kl_mean", "kl_standard_error", "loss_mean", "loss_standard_error"]]
    assert found.tolist() == [0.5, 0.1, 1.5, 0.2]


def test_the_hessian_is_fisher_plus_gap(results, monkeypatch):
    """Their errors are independent, so they add in squares."""
    monkeypatch.setattr(module, "frame", lambda _, group, kind: measured(group, **{kind: (-2.0, 0.3)}))
    both = with_hessian(changed(results, results.checkpoints.assign(trace_se=0.4)))
    np.testing.assert_allclose(both.hessian, both.trace - 2)
    np.testing.assert_allclose(both.hessian_se, 0.5)
    table = fisher_and_hessian(both)
    assert table[["size", "step"]].to_numpy().tolist() == [
        [s, k] for s in ("1K", "3K") for k in results.steps
    ]
    np.testing.assert_allclose(table.Hessian, table.Fisher - 2)
    np.testing.assert_allclose(table.standard_error, 0.3 / 3**0.5)
    np.testing.assert_allclose(table["gap (%)"], -200 / table.Fisher)
    assert table.Fisher.iloc[0] == pytest.approx(101)  # 100 and the mean of the seeds 0, 1, 2
