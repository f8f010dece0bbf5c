"""Stages of stacking, at a tiny scale, against what they are made of."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from sameloss.studies.growing.claims import FROM_NOTHING, PAID
from sameloss.studies.growing.experiment import NOT_GROWN, WAYS, Candidates, read_moments


@pytest.fixture(scope="module")
def adaptive(stacking):
    return stacking.last_stage(0, "adaptive")


def test_stages_follow_each_other_and_ways_share_what_they_can(stacking, adaptive):
    first, second = stacking.stages(0, "adaptive")
    assert (first.shape.layers, second.shape.layers) == (2, 3)
    assert second.base == first
    assert (first.done, second.done) == (2 * 12, 2 * 12 + 24)
    assert [len(stage.operators) for stage in (first, second)] == [1, 2]
    assert stacking.stages(0, "last")[0].key == first.key  # one layer can be repeated in one way only
    assert stacking.stages(0, "random")[0].key != first.key


def test_a_stage_without_a_choice_is_the_end_of_a_candidate(stacking):
    """The same model, moments, batches and rates: only the bookkeeping differs."""
    stage = stacking.last_stage(0, "last")
    alone = Candidates(
        stage.base,
        stage.operators,
        stage.added,
        stage.steps,
        (0, *stage.looks),
        stage.carried,
        stage.held_out,
    )
    table = stacking.store.get(alone).set_index("step").kl
    found = stacking.store.get(stage).table.set_index("step").kl
    assert found.to_list() == pytest.approx(table.loc[found.index].to_list(), rel=1e-6)


def test_what_goes_on_is_the_best_after_the_trial(stacking, adaptive):
    alone = [
        replace(adaptive, operators=(operator,), lag=0, looks=(adaptive.lag,), steps=adaptive.steps)
        for operator in adaptive.operators
    ]
    tried = [stacking.store.get(run).table.chosen_by.item() for run in alone]
    best = adaptive.operators[tried.index(min(tried))]
    end = stacking.store.get(adaptive)
    assert set(end.table.operator) == {best.name}
    winner = replace(adaptive, operators=(best,), lag=0)
    expected = stacking.store.get(winner).table.kl
    assert end.table.kl.to_list() == pytest.approx(expected.to_list(), rel=1e-3)


def test_choosing_at_once_is_choosing_by_the_initial_loss(stacking, adaptive):
    at_once = replace(adaptive, lag=0)
    assert at_once.flops < adaptive.flops
    assert len(set(stacking.store.get(at_once).table.operator)) == 1


def test_trials_are_counted(stacking, adaptive):
    fixed = stacking.last_stage(0, "last")
    deep = fixed.root.flops_of_step(fixed.shape)
    assert adaptive.flops - fixed.flops == pytest.approx(adaptive.lag * deep)
    language = stacking.stacking.language
    by_hand = sum(
        steps * 32 * replace(fixed.shape, layers=layers).flops(language.words, language.max_length)
        for layers, steps in ((1, 12), (2, 12), (3, 24))
    )
    assert fixed.flops == pytest.approx(by_hand)
    paid = stacking.last_stage(0, PAID)
    assert fixed.flops - deep < paid.flops <= fixed.flops
    assert stacking.store.get(adaptive).table.flops.iloc[-1] == pytest.approx(adaptive.flops)


def test_operations_are_those_that_pytorch_counts(stacking, adaptive):
    """The trial of two candidates, then one of them to the end; the exact labels take 1 % more."""
    ensemble = adaptive.ensemble(stacking.store)
    with FlopCounterMode(display=False) as counter:
        trial = adaptive.trained(ensemble, stacking.store)
        for _ in range(adaptive.lag):
            next(trial)
        for _ in adaptive.trained(ensemble.kept([1]), stacking.store, adaptive.lag):
            pass
    assert counter.get_total_flops() == pytest.approx(adaptive.flops - adaptive.base.flops, rel=0.02)


def test_what_it_is_compared_with_costs_no_more(stacking):
    fixed = stacking.last_stage(0, "last")
    scratch, shallow = (stacking.last_stage(0, way) for way in (FROM_NOTHING, NOT_GROWN))
    assert fixed.flops - fixed.root.flops_of_step(fixed.shape) < scratch.flops <= fixed.flops
    assert scratch.shape == fixed.shape
    assert shallow.shape.layers == 2
    assert shallow.base == fixed.base
    assert scratch.optimisation == fixed.optimisation


def test_the_rate_falls_in_the_last_stage_alone(stacking):
    first, last = (stage.optimisation for stage in stacking.stages(0, "last"))
    assert first.lr_at(0) == first.lr_at(11) == last.lr_at(0)
    assert last.lr_at(23) < last.lr / 20


def test_a_stage_keeps_models_and_moments(stacking, adaptive):
    end = stacking.store.get(adaptive)
    model, moments = end.last(), read_moments(end.folder)
    assert set(moments) == {name for name, _ in model.named_parameters()}
    assert max(float(own.steps) for own in moments.values()) == adaptive.done
    batch = torch.tensor([[1, 0, 2, 3]]), torch.tensor([1])
    with torch.no_grad():
        looks = [end.model(step)(*batch) for step in adaptive.looks]
    assert not torch.equal(looks[0], looks[-1])


def test_all_ways_are_among_the_tables(stacking):
    for run in stacking.runs():
        stacking.store.get(run)
    stacks = stacking.stacks
    assert set(stacks.known.way) == {*WAYS, PAID, NOT_GROWN, FROM_NOTHING}
    assert stacks.tasks == ["root", "span2"]
    assert (stacks.known[[*stacks.tasks]] <= 100).to_numpy().all()
    end = stacking.store.get(stacking.last_stage(1, "last")).table.kl.iloc[-1]
    assert stacks.final("last")[1] == end
    verdicts = stacking.verdicts()
    assert len(verdicts) == verdicts.id.nunique() == 8
