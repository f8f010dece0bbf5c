"""Operators, ways to stack, the configuration, the stored runs, the landscape, and the page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from small_growth import SMALL, SMALL_STAGES
from stores import with_copies
from torch.utils.flop_counter import FlopCounterMode

from sameloss.errors import ParameterError
from sameloss.measures.saturation import divergences
from sameloss.models.enlarge import PRESERVING, repeated, stacked
from sameloss.runs.cost import H200
from sameloss.store.store import SCRATCH, Store, with_ancestors
from sameloss.studies.growing import experiment as runs
from sameloss.studies.growing.claims import CLAIMS, FROM_NOTHING, PAID
from sameloss.studies.growing.experiment import (
    NOT_GROWN,
    PRESETS,
    PUBLISHED,
    WAYS,
    Candidates,
    GrowthBase,
    Member,
    Operator,
    Pairs,
    Stage,
    growth_landscape,
    read_moments,
)
from sameloss.studies.growing.pages import STUDY, GrowingPage, StackingPage

# An operator is a map, and a way to begin what is new in it.


def test_an_operator_has_its_map_and_a_name_of_its_own():
    operator = Operator(1, 2, "random")
    assert operator.layers(4, 2) == repeated(4, 2, index=1, block=2)
    assert operator.name == "random, i = 1, b = 2"
    names = {Operator(i, b, filling).name for i in (0, 1) for b in (1, 2) for filling in PUBLISHED}
    assert len(names) == 8


# Ways to stack, and the thesis' own stages.


@pytest.mark.parametrize("name", ["gpu", "paper"])
def test_the_larger_presets_have_the_thesis_stages(name):
    """Six stages of four layers, with 3, 15, 27, 21 and 27 operators after the first."""
    stages = PRESETS[name].stacking
    assert stages.depths == (4, 8, 12, 16, 20, 24)
    assert [len(stages.tried("adaptive", stage)) for stage in range(1, 6)] == [3, 15, 27, 21, 27]


@pytest.mark.parametrize("name", PRESETS)
def test_every_way_has_operators_that_fit_every_stage(name):
    stages = PRESETS[name].stacking
    for way in WAYS:
        for stage, depth in enumerate(stages.depths[:-1], start=1):
            for operator in stages.tried(way, stage):
                grown = operator.layers(depth, stages.added)
                assert len(grown.sources) == stages.depths[stage]
    assert {"duplicate"} == {operator.filling for operator in stages.tried("adaptive", 1)}


def test_the_fixed_ways_repeat_what_their_names_say():
    stages = PRESETS["gpu"].stacking
    layers = {way: str(stages.tried(way, 1)[0].layers(4, 4)) for way in WAYS}
    assert layers["last"] == layers["random"] == "0 1 2 3 (0) (1) (2) (3)"
    assert str(stages.tried("middle", 2)[0].layers(8, 4)) == "0 1 2 3 4 5 (2) (3) (4) (5) 6 7"
    assert stages.tried("last", 2)[0].index == 4


def test_looks_are_of_the_last_stage_and_end_with_it():
    assert SMALL_STAGES.looks(60) == (15, 30, 45, 60)
    assert replace(SMALL_STAGES, looked=2).looks(60) == (30, 60)


def test_layers_that_there_are_not_cannot_be_repeated():
    with pytest.raises(ParameterError, match="From 1 layers 1 to 1 can be added; got 2"):
        replace(SMALL_STAGES, added=2)


# Operators and presets, and what is refused.


def test_the_larger_presets_have_the_thesis_thirty_operators():
    for name in ("gpu", "paper"):
        growing = PRESETS[name].growing
        published = [o for o in growing.operators if o.filling in ("duplicate", "random")]
        assert len(published) == 30
        assert {o.index for o in published} == {0, 2, 4, 6, 8}
        assert {o.block for o in published} == {1, 2, 4}
        assert growing.deep.layers == 16


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_operators_enough_and_its_baselines_among_them(name):
    growing = PRESETS[name].growing
    assert len(growing.operators) >= (6 if name in ("smoke", "laptop") else 8)
    assert len(set(growing.operators)) == len(growing.operators)
    assert {growing.on_top("duplicate"), growing.on_top("random")} <= set(growing.operators)
    shallow, added = growing.shape.layers, growing.added
    assert growing.on_top("duplicate").layers(shallow, added) == stacked(shallow, added)


@pytest.mark.parametrize("name", PRESETS)
def test_looks_begin_at_growth_and_end_at_the_end(name):
    growing = PRESETS[name].growing
    looks = growing.look_steps
    assert looks[0] == 0
    assert looks[-1] == growing.steps
    assert growing.lag in looks
    assert list(looks) == sorted(set(looks))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"added": 3}, "From 2 layers 1 to 2 can be added; got 3"),
        ({"every": 9, "added": 1, "preserving": ()}, "needs at least 3 operators; got 2"),
        ({"preserving": (Operator(1, 1, "silent"),)}, "The first of 2 out of 2 layers is 0 to 0"),
        ({"preserving": (Operator(0, 3, "muted"),)}, "A block size divides the 2 added layers; got 3"),
    ],
)
def test_what_cannot_be_grown_or_ranked_is_refused(change, sentence):
    with pytest.raises(ParameterError, match=sentence):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"state": "lost"}, "Unknown state 'lost'; choose one of mapped, reset, stale"),
        (
            {"steps": 40, "lag": 40},
            r"^LAG chooses after 1 to 39 of the 40 steps that follow growing; got lag",
        ),
        ({"steps": 5, "lag": 10}, r"after 1 to 4 of the 5 steps that follow growing; got lag = 10\.$"),
        ({"stage_lag": 15}, r"chosen after 0 to 7 of its steps, and before .* looked at; got 15\.$"),
        ({"label_noise": -1}, "label_noise must be positive; got -1"),
        ({"layers": 3}, "Unknown parameter 'layers'"),
    ],
)
def test_a_page_says_what_is_valid(given, sentence, tmp_path):
    page = "ii5_stacking" if "stage_lag" in given else "ii5_growing"
    with pytest.raises(ParameterError, match=sentence):
        STUDY.open(page, {"preset": "smoke", "artifacts": str(tmp_path), **given})


def test_parameters_reach_the_runs(tmp_path):
    given = {
        "preset": "smoke",
        "seeds": 3,
        "base_steps": 30,
        "steps": 20,
        "lag": 5,
        "label_noise": 1,
        "state": "reset",
    }
    page = STUDY.open("ii5_growing", {**given, "artifacts": str(tmp_path)})
    (candidates,) = page.candidates(0)
    assert candidates.base.optimisation.steps == 30
    assert candidates.base.objective.label_noise == 1
    assert (candidates.steps, candidates.carried) == (20, "reset")
    assert list(page.settings.all_seeds) == [0, 1, 2]


# The runs, at a tiny scale, against what they are made of.


@pytest.fixture(scope="module")
def table(page):
    return page.store.get(page.candidates(0)[0])


def test_a_base_keeps_what_its_optimiser_knows(page):
    checkpoints = page.store.get(page.base(0))
    model, moments = checkpoints.last(), read_moments(checkpoints.folder)
    assert set(moments) == {name for name, _ in model.named_parameters()}
    assert {float(own.steps) for own in moments.values()} == {20.0}
    assert all(own.square.any() for name, own in moments.items() if "word" in name)


def test_every_operator_is_looked_at_at_every_look(page, table):
    names = [operator.name for operator in page.settings.operators]
    assert set(zip(table.operator, table.step, strict=True)) == {
        (name, step) for name in names for step in page.settings.look_steps
    }
    assert (table[["chosen_by", "kl"]] > 0).to_numpy().all()
    assert table[table.step == 0].loss.isna().all()
    assert table[table.step > 0].loss.notna().all()


def test_preserving_operators_begin_where_the_shallow_model_ended(page, table):
    alone = page.store.get(page.not_grown(0))
    assert set(alone.operator) == {NOT_GROWN}
    before = alone[alone.step == 0].kl.item()
    first = table[table.step == 0].set_index("operator").kl
    for operator in page.settings.operators:
        same = first[operator.name] == pytest.approx(before, abs=1e-6)
        assert same if operator.filling in PRESERVING else not same


def test_all_candidates_see_the_batches_that_the_shallow_model_would(page, table):
    """One that preserves the function has the shallow model's loss on the first batch."""
    alone = page.store.get(page.not_grown(0))
    assert 1 in page.settings.look_steps
    loss = alone[alone.step == 1].loss.item()
    silent = next(o.name for o in page.settings.operators if o.filling == "silent")
    assert table[(table.step == 1) & (table.operator == silent)].loss.item() == pytest.approx(loss, abs=1e-6)


def test_a_candidate_alone_is_the_same_as_among_the_others(page, table):
    chosen = page.settings.operators[1]
    alone = page.store.get(page.grown_by(page.base(0), (chosen,)))
    among = table[table.operator == chosen.name]
    pd.testing.assert_frame_equal(
        alone.reset_index(drop=True), among.reset_index(drop=True), check_exact=False, rtol=1e-3, atol=1e-5
    )


def test_the_pairs_kl_is_that_of_all_positions_on_average(page):
    """Each sentence has one of its positions masked, and every position comes equally often."""
    pairs = Pairs(page.store, page.held_out)
    sentences, conditionals = page.store.get(page.held_out)
    model = page.store.get(page.base(0)).last()
    b = pairs.batch
    with torch.no_grad():
        chosen_by, judged = pairs.kl(model(b.masked, b.positions, b.lengths)[None])
    whole = divergences(model, sentences, conditionals)
    assert float((chosen_by + judged) / 2) == pytest.approx(float(whole.mean()), rel=0.25)
    assert b.positions.bincount().unique().numel() == 1


def test_training_from_nothing_costs_no_more(page):
    growing = page.settings
    shallow, deep = (
        s.flops(growing.language.words, growing.language.max_length) for s in (growing.shape, growing.deep)
    )
    budget = shallow * growing.optimisation.steps + deep * growing.steps
    assert deep * page.equal_flops <= budget < deep * (page.equal_flops + 1)
    scratch = page.scratch(0)
    assert scratch.base.optimisation.steps + scratch.steps == page.equal_flops
    assert scratch.base.shape.layers == 4


def killed(*_):
    raise KeyboardInterrupt


def test_killed_candidates_go_on_where_they_were_saved(page, table, tmp_path, monkeypatch):
    """Killed after step 12, the last look: what was saved after step 10 makes the same of it."""
    store, wanted = Store(tmp_path), page.candidates(0)[0]
    often = replace(wanted, base=replace(wanted.base, resume_every=5))
    with monkeypatch.context() as patched:
        patched.setattr(runs.pd, "concat", killed)
        with pytest.raises(KeyboardInterrupt):
            store.compute(often)
    assert (store.partial(often) / SCRATCH / "resume.pt").exists()
    taken = []
    trained = runs.train_together

    def told(*given):
        for step in trained(*given):
            taken.append(step.done)
            yield step

    monkeypatch.setattr(runs, "train_together", told)
    found = store.get(often)
    assert taken == [11, 12]
    pd.testing.assert_frame_equal(found, table)


def undisturbed(page):
    """Return the runs of a page to which it is nothing what becomes of its candidates."""
    trained = {run.key for seed in page.settings.all_seeds for run in page.candidates(seed)}
    for run in with_ancestors(page.runs()):
        from_there = trained & {one.key for one in with_ancestors([run])}
        if not from_there or isinstance(run, growth_landscape):  # which is of before the first step
            yield run


def test_a_candidate_that_diverges_is_ranked_last_and_named(page, monkeypatch, tmp_path):
    """The first operator's model is made of NaN after its first step; the page goes on."""
    whole = page.results  # computed before anything breaks
    trained = runs.train_together

    def breaking(ensemble, *given):
        for step in trained(ensemble, *given):
            if len(ensemble) > 1:
                for weights in ensemble.weights.values():
                    weights[0] = torch.nan
            yield step

    monkeypatch.setattr(runs, "train_together", breaking)
    alone = replace(page, config=replace(page.config, ages=()))
    lost = replace(alone, store=with_copies(undisturbed(alone), page.store, tmp_path / "lost"))
    found = lost.results
    assert found.diverged == (page.settings.operators[0].name,)
    assert (found.final[:, 0] == found.kl.max((1, 2))).all()
    assert (found.picked() > 0).all()
    assert found.final[:, 1:] == pytest.approx(whole.final[:, 1:], rel=1e-3)
    assert np.isfinite(lost.verdicts().ours.dropna()).all()


def test_a_member_is_the_model_of_its_row(page, table):
    run = page.candidates(0)[0]
    pairs = Pairs(page.store, page.held_out)
    for at, operator in enumerate(run.operators):
        model = page.store.get(Member(run, at)).last()
        b = pairs.batch
        with torch.no_grad():
            _, kl = pairs.kl(model(b.masked, b.positions, b.lengths)[None])
        row = table[(table.operator == operator.name) & (table.step == run.steps)]
        assert float(kl) == pytest.approx(row.kl.item(), rel=1e-4)


# What is measured before growing pays.


def test_the_landscape_of_operators_that_preserve_the_function(page):
    found = page.store.get(page.landscape(0)[0]).set_index("operator")
    assert (found > 0).to_numpy().all()
    assert len(found) == len(page.settings.operators)


def test_information_beyond_the_neighbours_falls_with_the_window(page):
    found = page.store.get(page.locality)
    assert found["mean"].is_monotonic_decreasing
    assert found["mean"].iloc[-1] == pytest.approx(0, abs=1e-9)  # sentences of four words
    assert np.isfinite(found.standard_error).all()


# Stages of stacking, at a tiny scale, against what they are made of.


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
    language = stacking.settings.language
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
    stacks = stacking.results
    assert set(stacks.known.way) == {*WAYS, PAID, NOT_GROWN, FROM_NOTHING}
    assert stacks.tasks == ["root", "span2"]
    assert (stacks.known[[*stacks.tasks]] <= 100).to_numpy().all()
    end = stacking.store.get(stacking.last_stage(1, "last")).table.kl.iloc[-1]
    assert stacks.final("last")[1] == end
    verdicts = stacking.verdicts()
    assert len(verdicts) == verdicts.id.nunique() == 8


# The page reads its runs, and judges its claims.


def test_everything_is_computed_beforehand_and_found(page):
    for run in page.runs():
        page.store.get(run)
    grown = page.results
    seeds, looks, operators = grown.kl.shape
    assert (seeds, looks, operators) == (2, len(page.settings.look_steps), len(page.settings.operators))
    table = page.store.get(page.candidates(1)[0])
    name = grown.operators[2].name
    own = table[table.operator == name]
    assert grown.kl[1, :, 2] == pytest.approx(own.kl.to_numpy())
    assert grown.chosen_by[1, :, 2] == pytest.approx(own.chosen_by.to_numpy())
    verdicts = page.verdicts()
    assert verdicts.id.tolist() == [claim.id for claim in CLAIMS]


def test_every_seed_has_its_own_runs(page):
    runs = page.runs()
    distinct = 1 + (4 + 9) * 2 + 2
    assert len(runs) == distinct + 2  # one of the two ages is that of the page
    assert len({(run.kind, run.key) for run in runs}) == distinct
    assert sum(isinstance(run, Candidates) for run in runs) == 6 + 2 * 2


def test_candidates_that_do_not_fit_are_trained_in_parts(page):
    """With the same results, since a candidate is the same alone as among others."""
    parts = replace(page.settings, together=4, seeds=1)
    parted = GrowingPage(page.name, replace(page.config, growing=parts), page.store)
    assert [len(run.operators) for run in parted.candidates(0)] == [4, 2]
    assert sum((run.operators for run in parted.candidates(0)), ()) == page.settings.operators
    for run in parted.runs():
        page.store.get(run)
    assert parted.results.kl == pytest.approx(page.results.kl[:1], rel=1e-3)
    assert parted.results.landscape["trace"] == pytest.approx(page.results.landscape["trace"][:1], rel=1e-6)


def operations(run):
    """Return what the training of a run takes itself."""
    if isinstance(run, Candidates):
        return len(run.names) * run.steps * run.base.root.flops_of_step(run.shape)
    return run.flops - run.base.flops if isinstance(run, Stage) else run.flops


def test_the_gpu_preset_takes_an_hour_of_an_h200_at_most(tmp_path):
    """Training alone, in float32: products at the assumed share of the data sheet, and handing out blocks."""
    settings, store = PRESETS["gpu"], Store(tmp_path)
    both = GrowingPage("ii5_growing", settings, store), StackingPage("ii5_stacking", settings, store)
    ancestors = with_ancestors(run for page in both for run in page.runs())
    runs = [run for run in ancestors if isinstance(run, GrowthBase | Candidates | Stage)]
    products = sum(map(operations, runs)) / H200.products(settings.growing.shape.d_model, torch.float32)
    blocks = sum((run.done if isinstance(run, GrowthBase) else run.steps) * run.shape.layers for run in runs)
    assert 1800 < products + blocks * H200.block_s < 3600
