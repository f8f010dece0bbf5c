"""What a group's representations give by the number of labels."""

from dataclasses import replace

import numpy as np
import pytest
from made_up import made_up

from sameloss.book.studies import open_page
from sameloss.studies.same_loss.groups import protocols
from sameloss.studies.same_loss.results import (
    NO_SIZE,
    baseline_budgets,
    budgets,
    by_labels,
    code_bits,
    label_budget_runs,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two seeds of two sizes, briefly trained; only what is read by the number of labels is not made up."""
    given = {"preset": "smoke", "steps": 8, "seeds": 2, "artifacts": str(tmp_path_factory.mktemp("store"))}
    page = open_page("02_existence", **given)
    return made_up(page.group, page.store)


@pytest.fixture(scope="module")
def read(results):
    return by_labels(results)


def test_the_runs_are_of_untrained_and_last_models_and_of_baselines(results):
    group = results.group
    assert {run.steps for run in budgets(group).values()} == {(0, 8)}
    assert {key: run.pretraining for key, run in budgets(group).items()} == group.pretrainings()
    assert {run.labelled for run in label_budget_runs(group)} == {group.labelled}
    assert len(label_budget_runs(group)) == 4 + 2


def test_every_number_of_labels_has_its_results(results, read):
    assert list(read) == [8, 16, 32, 64, 128, 256, 400]
    found = results.store.get(budgets(results.group)["3K", 1]).correct
    for at, count in enumerate([8, 16, 32, 64, 128, 256]):
        own = read[count]
        assert np.array_equal(own.correct("3K", "span2")[1], found[1, at, ..., 1])
        assert np.array_equal(own.untrained.correct("3K", "span2")[1], found[0, at, ..., 1])
    one_hot = results.store.get(baseline_budgets(results.group)["one-hot tokens"]).correct
    assert np.array_equal(read[16].correct("one-hot tokens", "root"), one_hot[:, 1, ..., 0])


def test_all_labels_are_read_as_in_the_control(results, read):
    """By the solved probe, which is the group's own unless it was asked for another."""
    assert read[400] is results
    every = protocols(results.group)
    found = by_labels(replace(results, group=every["AdamW"]))[400]
    assert found.group == every["solved"]
    probing = results.store.get(every["solved"].probings((0, 8))["1K", 0]).correct
    assert np.array_equal(found.correct("1K", "root")[0], probing[1, ..., 0])
    assert found.gradient < 1e-3


def test_bits_are_of_all_labels(results):
    bits = code_bits(results)
    assert list(bits) == [
        ("1K", "untrained"), ("1K", "trained"), ("3K", "untrained"), ("3K", "trained"),
        (NO_SIZE, "lookup table"), (NO_SIZE, "one-hot tokens"),
    ]  # fmt: skip
    found = results.store.get(budgets(results.group)["3K", 1]).bits
    assert np.array_equal(bits["3K", "trained"][1], found[1, -1])
    assert np.array_equal(bits["3K", "untrained"][1], found[0, -1])
    assert bits["3K", "trained"].shape == (2, 3, 2)
    assert bits[NO_SIZE, "one-hot tokens"].shape == (1, 3, 2)
