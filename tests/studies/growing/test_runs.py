"""The runs, at a tiny scale, against what they are made of."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from stores import with_copies

from sameloss.measures.saturation import divergences
from sameloss.models.grow import PRESERVING
from sameloss.store.manifest import SCRATCH
from sameloss.store.store import Store, with_ancestors
from sameloss.studies.growing import experiment as runs
from sameloss.studies.growing.experiment import NOT_GROWN, GrowthLandscape, Member, Pairs, read_moments


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
    names = [operator.name for operator in page.growing.operators]
    assert set(zip(table.operator, table.step, strict=True)) == {
        (name, step) for name in names for step in page.growing.look_steps
    }
    assert (table[["chosen_by", "kl"]] > 0).to_numpy().all()
    assert table[table.step == 0].loss.isna().all()
    assert table[table.step > 0].loss.notna().all()


def test_preserving_operators_begin_where_the_shallow_model_ended(page, table):
    alone = page.store.get(page.not_grown(0))
    assert set(alone.operator) == {NOT_GROWN}
    before = alone[alone.step == 0].kl.item()
    first = table[table.step == 0].set_index("operator").kl
    for operator in page.growing.operators:
        same = first[operator.name] == pytest.approx(before, abs=1e-6)
        assert same if operator.filling in PRESERVING else not same


def test_all_candidates_see_the_batches_that_the_shallow_model_would(page, table):
    """One that preserves the function has the shallow model's loss on the first batch."""
    alone = page.store.get(page.not_grown(0))
    assert 1 in page.growing.look_steps
    loss = alone[alone.step == 1].loss.item()
    silent = next(o.name for o in page.growing.operators if o.filling == "silent")
    assert table[(table.step == 1) & (table.operator == silent)].loss.item() == pytest.approx(loss, abs=1e-6)


def test_a_candidate_alone_is_the_same_as_among_the_others(page, table):
    chosen = page.growing.operators[1]
    alone = page.store.get(page.grown_by(0, (chosen,)))
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
    growing = page.growing
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
    trained = {run.key for seed in page.growing.all_seeds for run in page.candidates(seed)}
    for run in with_ancestors(page.runs()):
        from_there = trained & {one.key for one in with_ancestors([run])}
        if not from_there or isinstance(run, GrowthLandscape):  # which is of before the first step
            yield run


def test_a_candidate_that_diverges_is_ranked_last_and_named(page, monkeypatch, tmp_path):
    """The first operator's model is made of NaN after its first step; the page goes on."""
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
    found = lost.grown
    assert found.diverged == (page.growing.operators[0].name,)
    assert (found.final[:, 0] == found.kl.max((1, 2))).all()
    assert (found.picked() > 0).all()
    assert found.final[:, 1:] == pytest.approx(page.grown.final[:, 1:], rel=1e-3)
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
