"""The sampled runs: as many looks, seeds and sizes as asked for, and the same bits again."""

import pandas as pd

from sameloss.studies.decision_lists.experiment import _inverse
from sameloss.studies.decision_lists.theory import recall


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
