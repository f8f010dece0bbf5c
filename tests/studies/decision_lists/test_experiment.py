"""Presets and parameters, stored runs, training, and the page."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from cells import definitions

from sameloss.book.cells import NOWHERE, opened
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.store.store import Store
from sameloss.studies.decision_lists.experiment import (
    FIRST_SEED,
    THEOREM,
    Steps,
    TaskShape,
    evaluate,
    list_proofs,
    sgd,
)
from sameloss.studies.decision_lists.statements import STATEMENTS
from sameloss.studies.decision_lists.theory import Column, cyclic_lists, flow, uniform_sets
from sameloss.studies.parameters import PRESETS as NAMES

# Presets and parameters.


CHAPTER = definitions("ii4_decision_lists")


@cache
def lists(**given):
    return opened("ii4_decision_lists", {"preset": "laptop", **given}, NOWHERE)


def test_every_preset_is_there():
    assert list(lists().presets) == list(NAMES)
    assert TaskShape(lists().vocabulary, lists().length, lists().list_length) == TaskShape(200, 25, 4)


def test_seeds_are_not_those_of_the_pilot():
    for preset in NAMES:
        seeds = range(FIRST_SEED, FIRST_SEED + lists(preset=preset).seeds)
        assert not set(seeds) & {*range(6), 99, 999}


def test_other_rates_take_as_long():
    column = TaskShape(200, 25, 4).column(30.0)
    exact = flow(column, 1e6)
    time = exact.perfect / column.time_scale
    assert time == pytest.approx(1893, rel=1e-3)
    slow, fast = (CHAPTER.alone(column, rate, None, 20) for rate in (1.425, 7.125))
    assert (slow.rate, fast.rate) == (2.0, 10.0)
    assert slow.steps == round(1.7 * time / 2)
    assert slow.steps / fast.steps == pytest.approx(5, rel=0.01)


def test_sgd_ends_where_the_exact_flow_does_not():
    for readout in (4.0, 5.0):
        column = TaskShape(200, 25, 4).column(readout)
        assert CHAPTER.alone(column, 1.5, None, 20).steps == CHAPTER.MOST_STEPS
    assert CHAPTER.alone(TaskShape(200, 25, 4).column(8.0), 1.5, None, 20).steps < CHAPTER.MOST_STEPS


def test_the_theorems_read_out():
    assert TaskShape(200, 25, 4).theorem_column.readout == pytest.approx(9.591e6, rel=1e-3)


def test_a_readers_read_out_is_followed_and_drawn():
    flows, curves, *_ = lists(readout=8.0).runs()
    assert curves.readouts[0] == 8
    assert 8 in flows.readouts
    assert 8 not in lists().runs()[0].readouts


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"vocabulary": 20}, "length must be at most 20, the vocabulary; got 25"),
        ({"length": 1}, "length must be a whole number, at least 2; got 1"),
        ({"list_length": 9}, "list_length is at most 8; got 9"),
        ({"list_length": 1}, "list_length is at least 2; got 1"),
        ({"length": 95, "list_length": 6}, "With n = 95 of L = 200 tokens the order is right after a step"),
        ({"vocabulary": 26, "length": 3, "list_length": 0}, "list_length must be positive"),
        ({"readout": -3}, "readout must be positive; got -3"),
        ({"readout": 1e-300}, r"^readout is at least 0\.01; got 1e-300"),
        ({"readout": "theorem"}, "readout must be a number; got 'theorem'"),
        ({"length": 120}, "of any size, so there is nothing to follow; choose shorter sequences"),
        ({"seeds": 1}, "seeds is at least 2"),
        ({"steps": 0}, "steps must be positive"),
        ({"batch": 0}, "batch must be positive"),
        ({"size": "40K"}, "Unknown parameter 'size'; valid here are preset, vocabulary, length"),
    ],
)
def test_bad_parameters_end_in_one_sentence(given, sentence):
    with pytest.raises(ParameterError, match=sentence):
        lists(**given)


# Exact runs: every family of flows, curves, descent at both readings of λ.


def test_every_family_is_followed(page, tables):
    families = set(tables.flows.family)
    assert families == {"readout", "critical -0.5", "critical +0", "critical +0.5"}
    readouts = tables.flows[tables.flows.family == "readout"].readout
    followed = sorted({*page.readouts, tables.task.theorem_column.readout})
    assert sorted(readouts.unique()) == pytest.approx(followed)


def test_events_are_those_of_the_flow(page, tables):
    rows = tables.flows[(tables.flows.family == "readout") & (tables.flows.readout == 30)]
    exact = flow(tables.task.column(30.0), 1e6)
    assert rows.order.tolist() == [event.order for event in exact.events]
    np.testing.assert_allclose(rows.time, [event.time for event in exact.events])
    np.testing.assert_allclose(rows.natural, rows.time * (3 / 30) ** 2)


def test_curves_hold_scores_and_what_they_give(page, tables):
    curves = tables.curves
    assert curves["name"].unique().tolist() == [THEOREM, "30", "10"]
    for row in curves.iloc[::40].itertuples():
        column = tables.task.column(row.readout)
        scores = np.array([row.w1, row.w2, row.w3, row.wo])
        assert row.loss == pytest.approx(12 * column.loss(scores))
        assert row.attention == pytest.approx(column.weight_on_determining(scores))
        assert row.accuracy == pytest.approx(column.accuracy(scores))
    for _, curve in curves.groupby("name"):
        perfect = curve[curve.accuracy == 1].time.iloc[0]
        assert curve.time.iloc[-1] == pytest.approx(100 * perfect, rel=0.2)


def test_descent_is_gentle_only_with_the_curvature_of_all_scores(tables):
    everywhere = tables.descents[tables.descents.curvature == "everywhere"]
    assert (everywhere.rises == 0).all()
    assert (everywhere.steps > 0).all()
    assert (everywhere.steps < everywhere.promised).all()
    (start,) = tables.descents[tables.descents.curvature == "at the start"].itertuples()
    assert start.rises > 0
    assert start.bound < Column(200, 25, 4, 1e5).masses.sum() * (1e10 / 8 + 1e5) / 25


# Sampled runs: their evaluations, seeds and sizes.


def test_evaluations_and_seeds(page, tables):
    assert set(tables.both.seed) == {FIRST_SEED, FIRST_SEED + 1}
    assert tables.both.groupby("seed").step.apply(list).iloc[0] == list(range(0, 41, 2))
    assert set(tables.alone.rate) == {CHAPTER.alone(tables.task.column(30.0), 0.3, None, 20).rate}


# Steps of the proofs in random cases.


def test_every_kind_of_case_is_tried(page, tables):
    counts = tables.proofs.kind.value_counts()
    assert (counts == page.cases).all()
    assert len(counts) == 4
    exact = tables.proofs[tables.proofs.kind.isin(["V = cP", "rare, V = cP"])]
    assert exact.identity.notna().all()
    assert exact.light.max() <= 0
    assert tables.proofs[tables.proofs.kind == "V near cP"].identity.isna().all()


def test_other_seeds_are_other_cases(page):
    assert page.store.get(list_proofs(1, 0)).curvature[0] != page.store.get(list_proofs(1, 1)).curvature[0]


# Training: reproducible, close to the exact flow, of one matrix and of both; its evaluation.

TASK, SETS = cyclic_lists(12, 3), uniform_sets(12, 3).sequences


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def trained(readout, how, seed=0):
    *_, (_, scores, read_out) = sgd(TASK, 3, readout, how, generator(seed))
    return scores, read_out


@pytest.mark.parametrize("readout", [30.0, None])
def test_evaluations_are_at_equal_distances_and_equal_seeds_give_equal_bits(readout):
    how = Steps(0.5, 8, 10, 4)
    states = list(sgd(TASK, 3, readout, how, generator(1)))
    assert [step for step, *_ in states] == [0, 2, 5, 8, 10]
    assert not states[0][1].any()
    assert torch.equal(states[-1][1], trained(readout, how, 1)[0])
    assert not torch.equal(states[-1][1], trained(readout, how, 2)[0])


def test_with_small_steps_and_large_batches_it_is_the_flow():
    scores, _ = trained(30.0, Steps(0.005, 4000, 100, 1))
    exact = flow(Column(12, 3, 3, 30.0), 0.5 * (30 / 3) ** 2).scores(50.0)
    columns = torch.stack([scores[list(listed), token] for token, listed in enumerate(TASK.lists)])
    assert columns.mean(0).tolist() == pytest.approx(exact[:3].tolist(), abs=0.02)


def test_both_matrices_learn_the_task():
    seen = evaluate(TASK, *trained(None, Steps(5.0, 64, 150, 1)), SETS)
    assert seen["accuracy"] > 0.98
    assert seen["readout"] > 3
    assert seen["attention"] > 0.5


def test_evaluation_of_known_scores():
    fixed, scores = TASK.read_out(30.0).float(), torch.zeros(12, 12)
    nothing = evaluate(TASK, scores, fixed, SETS)
    assert nothing["accuracy"] == nothing["ordered"] == 0
    assert nothing["attention"] == pytest.approx(1 / 3)
    assert nothing["readout"] == 30
    for token, listed in enumerate(TASK.lists):
        scores[list(listed), token] = torch.tensor([3.0, 2.0, 1.0])
    seen = evaluate(TASK, scores, fixed, SETS)
    assert (seen["accuracy"], seen["listed_accuracy"], seen["ordered"]) == (1, 1, 1)
    scores[list(TASK.lists[1]), 1] = torch.tensor([3.0, 1.0, 2.0])  # not in order
    scores[list(TASK.lists[2]), 2] = torch.tensor([3.0, 2.0, 0.0])  # not above all others
    assert evaluate(TASK, scores, fixed, SETS)["ordered"] == pytest.approx(10 / 12)


def test_a_rate_that_is_too_large_is_named():
    with pytest.raises(NonFiniteLoss, match="diverged at the rate 1e\\+38; choose a smaller one"):
        trained(None, Steps(1e38, 8, 20, 1))


# The page: which runs it reads, and which of them a parameter changes.


def keys(**given):
    """Keys of a page's runs, by kind and read-out."""
    found = {}
    for run in lists(preset="smoke", **given).runs():
        found.setdefault((run.kind, getattr(run, "readout", 0) is None), set()).add(run.key)
    return found


def test_runs_have_their_own_keys_and_are_all_that_is_read(page, tables):
    assert not tables.flows.empty
    assert all(page.store.has(run) for run in page.runs())
    assert len({run.key for run in page.runs()}) == len(page.runs())


def test_equal_runs_have_equal_bits(page, tmp_path):
    store = Store(tmp_path)
    for run in page.runs():
        if run.kind == "ListSGD" and run.seed == FIRST_SEED + 1:
            store.compute(run)
            pd.testing.assert_frame_equal(store.get(run), page.store.get(run), rtol=1e-12)


def test_a_parameter_changes_what_it_is_about():
    first, alone, both = keys(), ("ListSGD", False), ("ListSGD", True)
    changed = lambda **given: {name for name, now in keys(**given).items() if now != first[name]}  # noqa: E731
    flows, curves, descents = (("ListFlows", False), ("ListCurves", False), ("ListDescents", False))
    assert changed(steps=50) == {both}
    assert changed(readout=20) == {flows, curves, alone}
    assert changed(seeds=3) == {alone, both}
    assert {flows, curves, descents, alone, both} <= changed(vocabulary=16)


def test_the_statements_are_judged_from_its_runs(page):
    table = page.statements()
    assert table.id.tolist() == list(STATEMENTS)
    assert (table.checks > 0).all()
    assert page.verdicts().empty
