"""The configuration, the stored runs, and the page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.errors import ParameterError
from sameloss.store.pool import compute_all
from sameloss.studies.decision_lists.experiment import (
    MOST_STEPS,
    PARTS,
    PRESETS,
    THEOREM,
    ListProofs,
    TaskShape,
    _inverse,
    curvature_at_start,
)
from sameloss.studies.decision_lists.pages import STUDY
from sameloss.studies.decision_lists.statements import STATEMENTS
from sameloss.studies.decision_lists.tables import joint_by_vocabulary, joint_table
from sameloss.studies.decision_lists.theory import Column, flow, recall
from sameloss.studies.parameters import PRESETS as NAMES

# The presets, and what a reader may set.


def lists(**given):
    return STUDY.open("ii4_decision_lists", {"preset": "laptop", **given}).config


def test_every_preset_is_there():
    assert list(PRESETS) == list(NAMES)
    assert PRESETS["laptop"].task == TaskShape(200, 25, 4)
    assert max(PRESETS["gpu"].sweeps.words) == 3200
    assert max(PRESETS["paper"].drawn) == 1_000_000


def test_seeds_are_not_those_of_the_pilot():
    for preset in PRESETS.values():
        assert not set(preset.all_seeds) & {*range(6), 99, 999}


def test_other_rates_take_as_long():
    settings = PRESETS["laptop"]
    assert settings.exact_time == pytest.approx(1893, rel=1e-3)
    slow, fast = settings.steps_at(1.425), settings.steps_at(7.125)
    assert (slow.rate, fast.rate) == (2.0, 10.0)
    assert slow.steps == round(1.7 * settings.exact_time / 2)
    assert slow.steps / fast.steps == pytest.approx(5, rel=0.01)


def test_sgd_ends_where_the_exact_flow_does_not():
    for readout in (4.0, 5.0):
        assert lists(readout=readout).steps_at(1.5).steps == MOST_STEPS
    assert lists(readout=8.0).steps_at(1.5).steps < MOST_STEPS


def test_the_theorems_read_out():
    assert TaskShape(200, 25, 4).theorem_readout == pytest.approx(9.591e6, rel=1e-3)


def test_a_readers_read_out_is_followed_and_drawn():
    found = lists(readout=8.0)
    assert found.readout == 8
    assert found.shown[0] == 8
    assert lists().readouts == PRESETS["laptop"].readouts


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"vocabulary": 20}, "A sequence of 25 different tokens needs a vocabulary of as many; it has 20"),
        ({"length": 1}, "length must be a whole number, at least 2; got 1"),
        ({"list_length": 9}, "list_length is at most 8; got 9"),
        ({"list_length": 1}, "list_length is at least 2; got 1"),
        ({"length": 95, "list_length": 6}, "With n = 95 of L = 200 tokens the order is right after a step"),
        ({"vocabulary": 26, "length": 3, "list_length": 0}, "list_length must be positive"),
        ({"readout": -3}, "readout must be positive; got -3"),
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


# The exact runs: every family of flows, curves with what they are of, descent at both readings of λ.


def test_every_family_is_followed(page, tables):
    families = set(tables.flows.family)
    sweeps = page.config.sweeps
    assert {"luce", "readout", "rules", "rarity", "critical -0.5", "critical +0", "critical +0.5"} <= families
    assert set(tables.flows[tables.flows.family == "rules"].rules) == set(sweeps.rules)
    assert set(tables.flows[tables.flows.family == "rarity"].rarity) == set(sweeps.rarities)
    readouts = tables.flows[tables.flows.family == "readout"].readout
    followed = sorted({*page.config.readouts, page.config.task.theorem_readout})
    assert sorted(readouts.unique()) == pytest.approx(followed)


def test_events_are_those_of_the_flow(page, tables):
    own = tables.flows[(tables.flows.family == "readout") & (tables.flows.readout == 30)]
    found = flow(page.config.task.column(30.0), 1e6)
    assert own.order.tolist() == [event.order for event in found.events]
    np.testing.assert_allclose(own.time, [event.time for event in found.events])
    np.testing.assert_allclose(own.natural, own.time * (3 / 30) ** 2)


def test_curves_hold_scores_and_what_they_give(page, tables):
    curves = tables.curves
    assert curves["name"].unique().tolist() == [THEOREM, *(f"{c:g}" for c in page.config.shown)]
    for row in curves.iloc[::40].itertuples():
        column = page.config.task.column(row.readout)
        scores = np.array([row.w1, row.w2, row.w3, row.wo])
        assert row.loss == pytest.approx(12 * column.loss(scores))
        assert row.attention == pytest.approx(column.weight_on_determining(scores))
        assert row.accuracy == pytest.approx(column.accuracy(scores))
    for _, own in curves.groupby("name"):
        perfect = own[own.accuracy == 1].time.iloc[0]
        assert own.time.iloc[-1] == pytest.approx(100 * perfect, rel=0.2)


def test_descent_is_gentle_only_with_the_curvature_of_all_scores(tables):
    everywhere = tables.descents[tables.descents.curvature == "everywhere"]
    assert (everywhere.rises == 0).all()
    assert (everywhere.steps > 0).all()
    assert (everywhere.steps < everywhere.promised).all()
    (start,) = tables.descents[tables.descents.curvature == "at the start"].itertuples()
    assert start.rises > 0
    assert start.bound < Column(200, 25, 4, 1e5).masses.sum() * (1e10 / 8 + 1e5) / 25


def test_the_curvature_at_the_start_is_that_of_the_loss():
    """Along its largest direction, by differences of the loss; equal to the Hessian of all entries."""
    column = Column(8, 4, 3, 6.0)
    step = 1e-3
    largest = curvature_at_start(column)
    rng, root = np.random.default_rng(0), column.multiplicities**0.5
    for _ in range(50):
        direction = rng.normal(size=4)
        direction /= np.linalg.norm(direction)
        moved = step * direction / root
        second = (column.loss(moved) - 2 * column.loss(0 * moved) + column.loss(-moved)) / step**2
        assert second <= largest * (1 + 1e-3)


# The sampled runs: as many looks, seeds and sizes as asked for, and the same bits again.


def rows(run):
    return pd.DataFrame(run.rows(lambda *_: None))


def test_equal_runs_have_equal_bits(page):
    for run in (page.steps(100), page.alone(100, page.config.rates[0]), page.both(100), page.samples(101)):
        pd.testing.assert_frame_equal(rows(run), page.store.get(run), check_exact=False, rtol=1e-12)


def test_looks_and_seeds(page, tables):
    settings = page.config
    assert set(tables.both.seed) == set(settings.all_seeds)
    assert tables.both.groupby("seed").step.apply(list).iloc[0] == settings.both.look_steps
    assert set(tables.alone.rate) == {settings.steps_at(rate).rate for rate in settings.rates}
    assert tables.steps.groupby("seed")["count"].apply(list).iloc[0] == list(settings.drawn)


def test_samples_are_learnt(page, tables):
    sizes, words = page.config.samples.sizes, page.config.samples.words
    assert len(tables.samples) == page.config.seeds * len(sizes) * len(words)
    assert (tables.samples.trained_error == 0).all()
    errors = tables.samples.groupby("size").error.mean()
    assert errors.is_monotonic_decreasing


def test_blocks_are_looked_at_before_and_after(page, tables):
    assert len(tables.blocks) == 2 * len(page.blocks())
    first, last = (tables.blocks[tables.blocks.step == step] for step in (0, page.config.blocks.steps))
    assert (last.accuracy.to_numpy() > first.accuracy.to_numpy() + 0.5).all()


def test_the_inverse_map_reads_rows(task):
    turned = _inverse(task)
    assert all(turned.permutation[label] == token for token, label in enumerate(task.permutation))
    assert recall(turned, task.read_out(1.0).T) == 1


# The steps of the proofs in many cases, and assumptions dropped.


def test_every_kind_of_case_is_tried(page, tables):
    counts = tables.proofs.kind.value_counts()
    assert (counts == page.config.cases).all()
    assert len(counts) == 4
    exact = tables.proofs[tables.proofs.kind.isin(["V = cP", "rare, V = cP"])]
    assert exact.identity.notna().all()
    assert exact.light.max() <= 0
    assert tables.proofs[tables.proofs.kind == "V near cP"].identity.isna().all()


def test_other_seeds_are_other_cases():
    first, again, other = (list(ListProofs(2, seed).rows(lambda *_: None)) for seed in (0, 0, 1))
    assert first[0]["curvature"] == again[0]["curvature"] != other[0]["curvature"]


def test_every_part_is_followed(tables):
    assert set(tables.departures.what) == set(PARTS)


def test_repeats_take_longer_and_move_the_scores(tables):
    own = tables.dropped("repeats").set_index(["value", "name", "readout"]).number
    for readout in (100.0, 1000.0):
        assert own["repeated", "time", readout] > 100 * own["different", "time", readout]
        assert own["repeated", "spread", readout] == pytest.approx(1.386, rel=0.1)


def test_what_the_other_parts_hold(page, tables):
    starts = tables.dropped("start")
    assert starts.number.is_monotonic_increasing
    assert len(starts) == len(page.config.departures.starts)
    radius = tables.dropped("radius")
    assert radius[radius.value.astype(float) == 0].number.eq(1).all()
    assert radius.number.between(0, 1).all()
    assert tables.dropped("persistence").number.tolist()[2] == 1
    joint = tables.dropped("theorem 4.4").pivot(index="value", columns="name", values="number")
    assert len(joint) == 2
    assert (joint["move over radius"] > 0).all()
    assert (joint["move over radius"] < joint["time over promise"]).all()  # |∂L/∂V| is below 1
    assert (tables.dropped("theorem 4.4").number < 1e-3).all()


# The page on decision lists: which runs it reads, and what its parameters change.


def open_page(**given):
    return STUDY.open("ii4_decision_lists", {"preset": "smoke", **given})


def test_all_that_its_tables_read_is_among_its_runs(page, tables):
    assert not tables.flows.empty
    assert all(page.store.has(run) for run in page.runs())


def test_runs_have_their_own_keys():
    keys = [run.key for run in open_page().runs()]
    assert len(set(keys)) == len(keys)


def test_both_matrices_are_trained_on_larger_tasks_where_a_preset_has_some(page):
    larger = TaskShape(20, 4, 3)
    own = replace(page.config, larger=(larger,))
    wider = replace(page, config=own)
    assert len(wider.runs()) == len(page.runs()) + own.seeds
    compute_all(wider.store, wider.runs(), 1)
    table = joint_by_vocabulary(wider.tables)
    assert table["vocabulary L"].tolist() == [own.task.words] * own.seeds + [20] * own.seeds
    assert table.drop(columns="vocabulary L")[: own.seeds].equals(joint_table(page.tables))
    last = wider.store.get(wider.both(100, larger)).accuracy.iloc[-1]
    assert table["accuracy at the end"].iloc[own.seeds] == last
    assert [task.words for task in PRESETS["gpu"].larger] == [400, 800]


def test_a_parameter_changes_what_it_is_about():
    first, other = open_page(), open_page(steps=50)
    assert first.both(100).key != other.both(100).key
    assert first.flows.key == other.flows.key
    assert first.alone(100, 0.3).key == other.alone(100, 0.3).key
    assert open_page(vocabulary=16).flows.key != first.flows.key
    assert open_page(readout=20).alone(100, 0.3).readout == 20
    assert 20 in open_page(readout=20).flows.readouts


def test_seeds_are_those_of_everything_drawn():
    page = open_page(seeds=3)
    assert page.seeds == 3
    assert len({run.seed for run in page.runs() if hasattr(run, "how") and hasattr(run, "looked")}) == 3


def test_the_statements_are_judged_from_its_runs(page):
    table = page.statements()
    assert table.id.tolist() == list(STATEMENTS)
    assert (table.checks > 0).all()
    assert page.verdicts().empty
