"""The runs, at a tiny scale, against what they are made of."""

import numpy as np
import pandas as pd
import pytest
import torch

from sameloss.measures.saturation import divergences
from sameloss.models.grow import PRESERVING
from sameloss.studies.growing.runs import NOT_GROWN, Pairs


@pytest.fixture(scope="module")
def table(page):
    return page.store.get(page.candidates(0)[0])


def test_a_base_keeps_what_its_optimiser_knows(page):
    model, moments = page.base(0).grown_from(page.store)
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
    model, _ = page.base(0).grown_from(page.store)
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


def test_the_landscape_of_operators_that_preserve_the_function(page):
    found = page.store.get(page.landscape(0)[0]).set_index("operator")
    assert (found > 0).to_numpy().all()
    assert len(found) == len(page.growing.operators)


def test_information_beyond_the_neighbours_falls_with_the_window(page):
    found = page.store.get(page.locality)
    assert found["mean"].is_monotonic_decreasing
    assert found["mean"].iloc[-1] == pytest.approx(0, abs=1e-9)  # sentences of four words
    assert np.isfinite(found.standard_error).all()
