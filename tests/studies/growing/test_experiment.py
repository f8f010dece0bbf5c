"""Operators, presets, stored runs and chapters of growing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from cells import definitions, listed
from stores import with_copies
from torch.utils.flop_counter import FlopCounterMode

from sameloss.book import page
from sameloss.book.cells import NOWHERE, opened
from sameloss.book.costs import h200_seconds
from sameloss.errors import ParameterError
from sameloss.measures.saturation import divergences
from sameloss.models.enlarge import PRESERVING, repeated
from sameloss.store.store import SCRATCH, Store, with_ancestors
from sameloss.studies.growing import experiment as runs
from sameloss.studies.growing.claims import FROM_SCRATCH, TOPICS
from sameloss.studies.growing.experiment import (
    NOT_GROWN,
    PUBLISHED,
    Candidates,
    GrowthBase,
    HeldOutTargets,
    Member,
    Operator,
    Stage,
    read_moments,
)

PRESETS = ("smoke", "laptop", "laptop-long", "gpu", "paper")
WAYS = definitions("ii5_stacking").WAYS

# Operators and presets


def test_an_operator_has_its_layer_map_and_a_unique_name():
    operator = Operator(1, 2, "random")
    assert operator.layers(4, 2) == repeated(4, 2, index=1, block=2)
    assert operator.name == "random, i = 1, b = 2"
    names = {Operator(i, b, filling).name for i in (0, 1) for b in (1, 2) for filling in PUBLISHED}
    assert len(names) == 8


@pytest.mark.parametrize("name", ["gpu", "paper"])
def test_the_larger_presets_have_the_operators_and_stages_of_the_thesis(name):
    """Thirty operators; six stages of four layers, with 3, 15, 27, 21 and 27 operators after the first."""
    growth = listed("ii5_growing", name).growth
    published = [o for o in growth.operators if o.filling in ("duplicate", "random")]
    assert len(published) == 30
    assert {o.index for o in published} == {0, 2, 4, 6, 8}
    assert {o.block for o in published} == {1, 2, 4}
    assert growth.deep.layers == 16
    stages = listed("ii5_stacking", name).stages(0, "adaptive")
    assert [stage.base.shape.layers for stage in stages] == [4, 8, 12, 16, 20]
    assert stages[-1].shape.layers == 24
    assert [len(stage.operators) for stage in stages] == [3, 15, 27, 21, 27]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_enough_operators_with_the_baselines(name):
    growth = listed("ii5_growing", name).growth
    assert len(growth.operators) >= (6 if name in ("smoke", "laptop") else 8)
    assert len(set(growth.operators)) == len(growth.operators)
    assert {growth.on_top("duplicate"), growth.on_top("random")} <= set(growth.operators)
    shallow, added = growth.shape.layers, growth.added
    assert growth.on_top("duplicate").layers(shallow, added) == repeated(
        shallow, added, shallow - added, added
    )
    assert {len(o.layers(shallow, added).sources) for o in growth.operators} == {growth.deep.layers}


@pytest.mark.parametrize("name", PRESETS)
def test_evaluations_begin_at_growth_and_end_with_the_training(name):
    growth = listed("ii5_growing", name).growth
    looks = growth.looks
    assert (looks[0], looks[-1]) == (0, growth.steps)
    assert growth.lag in looks
    assert list(looks) == sorted(set(looks))
    if name == "smoke":
        assert looks[:4] == (0, 1, 2, 3)


@pytest.mark.parametrize("name", PRESETS)
def test_the_operators_of_every_way_fit_every_stage(name):
    stacking = listed("ii5_stacking", name)
    for way in WAYS:
        for stage in stacking.stages(0, way):
            for operator in stage.operators:
                grown = operator.layers(stage.base.shape.layers, stage.added)
                assert len(grown.sources) == stage.shape.layers
    first = stacking.stages(0, "adaptive")[0]
    assert {operator.filling for operator in first.operators} == {"duplicate"}


def test_the_fixed_ways_repeat_what_their_names_say():
    tried = definitions("ii5_stacking").tried
    layers = {way: str(tried(way, 4, 4, 1)[0].layers(4, 4)) for way in WAYS}
    assert layers["last"] == layers["random"] == "0 1 2 3 (0) (1) (2) (3)"
    assert str(tried("middle", 8, 4, 1)[0].layers(8, 4)) == "0 1 2 3 4 5 (2) (3) (4) (5) 6 7"
    assert tried("last", 8, 4, 1)[0].index == 4


def test_evaluations_of_the_last_stage_are_equally_spaced():
    evaluated = definitions("ii5_stacking").evaluated
    assert evaluated(60, 4) == (15, 30, 45, 60)
    assert evaluated(60, 2) == (30, 60)
    assert evaluated(1, 3) == (1,)


def test_stages_have_as_many_layers_as_their_numbers():
    assert [stage.shape.layers for stage in listed("ii5_stacking", "laptop").stages(0, "last")] == [2, 3]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"state": "lost"}, "Unknown state 'lost'; choose one of mapped, reset, stale"),
        (
            {"steps": 40, "lag": 40},
            r"^LAG chooses after 1 to 39 of the 40 steps that follow growing; got lag",
        ),
        ({"steps": 5, "lag": 10}, r"after 1 to 4 of the 5 steps that follow growing; got lag = 10\.$"),
        ({"stage_lag": 15}, r"chosen after 0 to 7 of its steps, and before .* evaluated; got 15\.$"),
        (
            {"preset": "laptop-long", "stage_steps": 40, "stage_lag": 40},
            r"chosen after 0 to 39 of its steps, .* got 40\.$",
        ),
        ({"label_noise": -1}, "label_noise must be positive; got -1"),
        ({"layers": 3}, "Unknown parameter 'layers'"),
    ],
)
def test_a_page_says_what_is_valid(given, sentence):
    page = "ii5_stacking" if "stage_lag" in given else "ii5_growing"
    with pytest.raises(ParameterError, match=sentence):
        opened(page, {"preset": "smoke", **given}, NOWHERE)


def test_parameters_reach_the_runs():
    given = {"seeds": 3, "base_steps": 30, "steps": 20, "lag": 5, "label_noise": 1, "state": "reset"}
    growing = listed("ii5_growing", **given, lr=0.5, batch=7)
    run = growing.candidates(0, 0)
    assert (run.base.optimisation.steps, run.base.optimisation.lr) == (30, 0.5)
    assert run.base.optimisation.batch == run.base.micro_batch == 7
    assert run.base.objective.label_noise == 1
    assert (run.steps, run.carried) == (20, "reset")
    assert growing.growth.seeds == (0, 1, 2)
    assert run.key in {own.key for own in growing.page.runs()}


def test_parameters_reach_the_stages():
    given = {
        "stacks": 3,
        "stage_steps": 30,
        "last_steps": 40,
        "stage_lag": 5,
        "label_noise": 1,
        "state": "reset",
    }
    stacking = listed("ii5_stacking", **given, lr=0.5, batch=7)
    first, last = stacking.stages(0, "adaptive")
    assert (first.steps, last.steps, last.lag, last.carried) == (30, 40, 5, "reset")
    assert (first.base.optimisation.lr, first.base.optimisation.batch) == (0.5, 7)
    assert first.base.objective.label_noise == 1
    assert stacking.page.seeds == len(stacking.seeds) == 3
    assert last.key in {own.key for own in stacking.page.runs()}


# Growing once


@pytest.fixture(scope="module")
def table(growing):
    return growing.page.store.get(growing.candidates(0, 0))


def test_a_base_stores_its_optimiser_state(growing):
    checkpoints = growing.page.store.get(growing.candidates(0, 0).base)
    model, moments = checkpoints.last(), read_moments(checkpoints.folder)
    assert set(moments) == {name for name, _ in model.named_parameters()}
    assert {float(own.steps) for own in moments.values()} == {20.0}
    assert all(own.square.any() for name, own in moments.items() if "word" in name)


def test_every_operator_is_evaluated_at_every_step(growing, table):
    names = [operator.name for operator in growing.growth.operators]
    assert set(zip(table.operator, table.step, strict=True)) == {
        (name, step) for name in names for step in growing.growth.looks
    }
    assert (table[["chosen_by", "kl"]] > 0).to_numpy().all()
    assert table[table.step == 0].loss.isna().all()
    assert table[table.step > 0].loss.notna().all()


def test_only_preserving_operators_start_at_the_kl_of_the_shallow_model(growing, table):
    alone = growing.page.store.get(growing.candidates(0, NOT_GROWN))
    assert set(alone.operator) == {NOT_GROWN}
    before = alone[alone.step == 0].kl.item()
    first = table[table.step == 0].set_index("operator").kl
    for operator in growing.growth.operators:
        same = first[operator.name] == pytest.approx(before, abs=1e-6)
        assert same if operator.filling in PRESERVING else not same


def test_candidates_see_the_batches_of_the_shallow_model(growing, table):
    """A candidate that preserves the function has the shallow model's loss on the first batch."""
    alone = growing.page.store.get(growing.candidates(0, NOT_GROWN))
    assert 1 in growing.growth.looks
    loss = alone[alone.step == 1].loss.item()
    silent = next(o.name for o in growing.growth.operators if o.filling == "silent")
    assert table[(table.step == 1) & (table.operator == silent)].loss.item() == pytest.approx(loss, abs=1e-6)


def test_a_candidate_alone_is_the_same_as_in_an_ensemble(growing, table):
    chosen = growing.growth.operators[1]
    alone = growing.page.store.get(growing.growth.candidates(growing.candidates(0, 0).base, (chosen,)))
    among = table[table.operator == chosen.name]
    pd.testing.assert_frame_equal(
        alone.reset_index(drop=True), among.reset_index(drop=True), check_exact=False, rtol=1e-3, atol=1e-5
    )


def test_the_kl_at_one_position_per_sentence_agrees_with_that_at_all(growing):
    """Every position is masked equally often."""
    targets = HeldOutTargets(growing.page.store, growing.growth.held_out)
    sentences, conditionals = growing.page.store.get(growing.growth.held_out)
    model = growing.page.store.get(growing.candidates(0, 0).base).last()
    b = targets.batch
    with torch.no_grad():
        selection, evaluation = targets.kl(model(b.masked, b.positions, b.lengths)[None])
    whole = divergences(model, sentences, conditionals)
    assert float((selection + evaluation) / 2) == pytest.approx(float(whole.mean()), rel=0.25)
    assert b.positions.bincount().unique().numel() == 1


def test_training_from_nothing_takes_at_most_equal_flops(growing):
    page, growth = growing.page, growing.growth
    words, length = page.language.words, page.language.max_length
    shallow, deep = (shape.flops(words, length) for shape in (growth.shape, growth.deep))
    budget = shallow * page.base_steps + deep * growth.steps
    scratch = growing.candidates(0, FROM_SCRATCH)
    steps = scratch.base.optimisation.steps + scratch.steps
    assert deep * steps <= budget < deep * (steps + 1)
    assert scratch.base.shape.layers == 4


def killed(*_):
    raise KeyboardInterrupt


def test_killed_candidates_resume_from_the_saved_state(growing, table, tmp_path, monkeypatch):
    """Killed after the last step, 12, they resume from step 10 with the same table."""
    store, wanted = Store(tmp_path), growing.candidates(0, 0)
    often = replace(wanted, base=replace(wanted.base, resume_every=5))
    with monkeypatch.context() as patched:
        patched.setattr(runs.pd, "concat", killed)
        with pytest.raises(KeyboardInterrupt):
            store.compute(often)
    assert (store.partial(often) / SCRATCH / "resume.pt").exists()
    steps, train_together = [], runs.train_together

    def recorded(*args):
        for step in train_together(*args):
            steps.append(step.done)
            yield step

    monkeypatch.setattr(runs, "train_together", recorded)
    resumed = store.get(often)
    assert steps == [11, 12]
    pd.testing.assert_frame_equal(resumed, table)


def independent_runs(growing):
    """The runs of the page that do not depend on trained candidates."""
    runs = [growing.candidates(seed, part) for seed in growing.growth.seeds for part in growing.parts]
    trained = {run.key for run in runs}
    for run in with_ancestors(growing.page.runs()):
        dependent = trained & {ancestor.key for ancestor in with_ancestors([run])}
        if not dependent:
            yield run


def test_a_candidate_that_diverges_is_ranked_last(grow, growing, monkeypatch, tmp_path):
    """The weights of the first operator's model become NaN at its first step."""
    undisturbed = growing.page.results  # computed before the patch
    train_together = runs.train_together

    def diverging(ensemble, *args):
        for step in train_together(ensemble, *args):
            if len(ensemble) > 1:
                for weights in ensemble.weights.values():
                    weights[0] = torch.nan
            yield step

    monkeypatch.setattr(runs, "train_together", diverging)
    monkeypatch.setattr(page, "compute_all", lambda *_: None)  # in other processes; here as they are read
    copy = grow(with_copies(independent_runs(growing), growing.page.store, tmp_path / "copy"))
    grown = copy.page.results
    assert (grown.final[:, 0] == grown.kl.max((1, 2))).all()
    assert (grown.choice() > 0).all()
    assert grown.final[:, 1:] == pytest.approx(undisturbed.final[:, 1:], rel=1e-3)
    assert np.isfinite(copy.page.verdicts().ours.dropna()).all()


def test_a_member_has_the_kl_of_its_row(growing, table):
    run = growing.candidates(0, 0)
    targets = HeldOutTargets(growing.page.store, growing.growth.held_out)
    for at, operator in enumerate(run.operators):
        model = growing.page.store.get(Member(run, at)).last()
        b = targets.batch
        with torch.no_grad():
            _, kl = targets.kl(model(b.masked, b.positions, b.lengths)[None])
        row = table[(table.operator == operator.name) & (table.step == run.steps)]
        assert float(kl) == pytest.approx(row.kl.item(), rel=1e-4)


# Growing in stages


@pytest.fixture(scope="module")
def adaptive(stacking):
    return stacking.stages(0, "adaptive")[-1]


def test_stages_follow_each_other_and_ways_share_runs(stacking):
    first, second = stacking.stages(0, "adaptive")
    assert (first.shape.layers, second.shape.layers) == (2, 3)
    assert second.base == first
    assert (first.done, second.done) == (2 * 12, 2 * 12 + 24)
    assert [len(stage.operators) for stage in (first, second)] == [1, 2]
    assert stacking.stages(0, "last")[0].key == first.key  # one layer can only be repeated on top
    assert stacking.stages(0, "random")[0].key != first.key


def test_a_stage_without_a_choice_agrees_with_a_single_candidate(stacking):
    stage = stacking.stages(0, "last")[-1]
    s = replace(stage, looks=(0, *stage.looks))
    alone = Candidates(s.base, s.operators, s.added, s.steps, s.looks, s.carried, s.held_out)
    table = stacking.page.store.get(alone).set_index("step").kl
    kl = stacking.page.store.get(stage).table.set_index("step").kl
    assert kl.to_list() == pytest.approx(table.loc[kl.index].to_list(), rel=1e-6)


def test_a_stage_continues_with_the_best_operator_of_the_trial(stacking, adaptive):
    alone = [replace(adaptive, operators=(o,), lag=0, looks=(adaptive.lag,)) for o in adaptive.operators]
    kls = [stacking.page.store.get(run).table.chosen_by.item() for run in alone]
    best = adaptive.operators[kls.index(min(kls))]
    end = stacking.page.store.get(adaptive)
    assert set(end.table.operator) == {best.name}
    winner = replace(adaptive, operators=(best,), lag=0)
    expected = stacking.page.store.get(winner).table.kl
    assert end.table.kl.to_list() == pytest.approx(expected.to_list(), rel=1e-3)


def test_a_trial_of_no_steps_costs_nothing(stacking, adaptive):
    at_once = replace(adaptive, lag=0)
    assert at_once.flops == stacking.stages(0, "last")[-1].flops < adaptive.flops
    assert len(set(stacking.page.store.get(at_once).table.operator)) == 1


def test_flops_include_the_trials(stacking, adaptive):
    fixed = stacking.stages(0, "last")[-1]
    deep = fixed.root.flops_of_step(fixed.shape)
    assert adaptive.flops - fixed.flops == pytest.approx(adaptive.lag * deep)
    language = stacking.page.language
    by_hand = sum(
        steps * 32 * replace(fixed.shape, layers=layers).flops(language.words, language.max_length)
        for layers, steps in ((1, 12), (2, 12), (3, 24))
    )
    assert fixed.flops == pytest.approx(by_hand)
    assert stacking.page.store.get(adaptive).table.flops.iloc[-1] == pytest.approx(adaptive.flops)


def test_flops_agree_with_those_that_pytorch_counts(stacking, adaptive):
    """Two candidates in the trial, one to the end; computing exact labels takes 1 % more."""
    ensemble = adaptive.ensemble(stacking.page.store)
    with FlopCounterMode(display=False) as counter:
        trial = adaptive.trained(ensemble, stacking.page.store)
        for _ in range(adaptive.lag):
            next(trial)
        for _ in adaptive.trained(ensemble.kept([1]), stacking.page.store, adaptive.lag):
            pass
    assert counter.get_total_flops() == pytest.approx(adaptive.flops - adaptive.base.flops, rel=0.02)


def test_controls_take_at_most_equal_flops(stacking):
    fixed = stacking.stages(0, "last")[-1]
    scratch, shallow = (stacking.control(0, way) for way in (FROM_SCRATCH, NOT_GROWN))
    assert fixed.flops - fixed.root.flops_of_step(fixed.shape) < scratch.flops <= fixed.flops
    assert scratch.shape == fixed.shape
    assert shallow.shape.layers == 2
    assert shallow.base == fixed.base
    assert scratch.optimisation == fixed.optimisation


def test_the_learning_rate_decays_in_the_last_stage_only(stacking):
    first, last = (stage.optimisation for stage in stacking.stages(0, "last"))
    assert first.lr_at(0) == first.lr_at(11) == last.lr_at(0)
    assert last.lr_at(23) < last.lr / 20


def test_a_stage_stores_models_and_moments(stacking, adaptive):
    end = stacking.page.store.get(adaptive)
    model, moments = end.last(), read_moments(end.folder)
    assert set(moments) == {name for name, _ in model.named_parameters()}
    assert max(float(own.steps) for own in moments.values()) == adaptive.done
    batch = torch.tensor([[1, 0, 2, 3]]), torch.tensor([1])
    with torch.no_grad():
        logits = [end.model(step)(*batch) for step in adaptive.looks]
    assert not torch.equal(logits[0], logits[-1])


def test_the_tables_have_all_ways(stacking):
    stacks = stacking.page.results
    assert set(stacks.stages.way) == {*WAYS, NOT_GROWN, FROM_SCRATCH}
    end = stacking.page.store.get(stacking.stages(1, "last")[-1]).table.kl.iloc[-1]
    assert stacks.final("last")[1] == end
    verdicts = stacking.page.verdicts()
    assert len(verdicts) == verdicts.id.nunique() == 3


# The chapter on growing once


def test_results_are_those_of_the_runs(growing):
    grown = growing.page.results
    assert grown.kl.shape == (2, len(growing.growth.looks), len(growing.growth.operators))
    table = growing.page.store.get(growing.candidates(1, 0))
    rows = table[table.operator == grown.operators[2].name]
    assert grown.kl[1, :, 2] == pytest.approx(rows.kl.to_numpy())
    assert grown.chosen_by[1, :, 2] == pytest.approx(rows.chosen_by.to_numpy())
    assert growing.page.verdicts().id.tolist() == [claim.id for topic in TOPICS for claim in topic.claims]


def test_every_seed_has_its_own_runs(growing):
    runs = growing.page.runs()
    assert len(runs) == len({(run.kind, run.key) for run in runs}) == (3 + 9) * 2 + 2 * 2
    assert sum(isinstance(run, Candidates) for run in runs) == 6 + 2 * 2


def test_the_size_of_ensembles_does_not_change_results(grow, growing):
    split = grow(at_once=4)
    runs = [split.candidates(0, part) for part in split.parts]
    assert [len(run.operators) for run in runs] == [4, 2, 0]
    assert sum((run.operators for run in runs), ()) == growing.growth.operators
    assert split.page.results.kl == pytest.approx(growing.page.results.kl, rel=1e-3)


def test_the_gpu_preset_takes_an_hour_of_an_h200_at_most():
    """Training only, in float32."""
    both = listed("ii5_growing", "gpu").page, listed("ii5_stacking", "gpu").page
    ancestors = with_ancestors(run for page in both for run in page.runs())
    runs = [run for run in ancestors if isinstance(run, GrowthBase | Candidates | Stage)]
    assert 1800 < sum(map(h200_seconds, runs)) < 3600
