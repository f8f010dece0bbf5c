"""The search for a language: in order, up to the first that qualifies, and blind to what is studied."""

from dataclasses import replace

import numpy as np
import pytest
from toy_runs import TINY

from sameloss.languages import HierarchySpec
from sameloss.languages.entropy import context_information
from sameloss.measures.downstream.probe import one_hot_features
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.probing import BaselineProbing
from sameloss.seeds import stream_seed
from sameloss.store.store import Store
from sameloss.studies.same_loss import languages as module
from sameloss.studies.same_loss.languages import (
    CANDIDATES,
    Appraisal,
    Criteria,
    appraisal_runs,
    appraised,
    looked_at,
    repeated,
    saturated_sizes,
    search,
    search_runs,
)
from sameloss.studies.same_loss.results import final
from sameloss.studies.same_loss.settings import LAPTOP_LANGUAGE

CRITERIA = Criteria(context=0.5, headroom=20, tasks=2, sizes=3)

GOOD = Appraisal(0.5, {"root": 80.0, "span2": 80.0, "span4": 100.0})
TELLS_LITTLE = GOOD._replace(context=0.49)
EASY = GOOD._replace(one_hot={"root": 79.0, "span2": 80.1, "span4": 100.0})


def test_a_language_is_worth_training_on_from_its_criteria_on():
    assert GOOD.meets(CRITERIA)
    assert not TELLS_LITTLE.meets(CRITERIA)
    assert not EASY.meets(CRITERIA)
    assert EASY.meets(replace(CRITERIA, tasks=1))


@pytest.fixture
def searched():
    """Search among languages of given appraisals and numbers of saturated sizes, named by their place."""

    def run(*candidates, criteria=CRITERIA):
        specs = [replace(TINY, seed=seed) for seed in range(len(candidates))]
        asked, trained = [], []

        def appraise(spec):
            asked.append(spec.seed)
            return candidates[spec.seed][0]

        def saturating(spec):
            trained.append(spec.seed)
            return candidates[spec.seed][1]

        return search(specs, appraise, saturating, criteria), asked, trained

    return run


def test_it_stops_at_the_first_that_meets_all(searched):
    table, asked, trained = searched((EASY, 3), (GOOD, 2), (TELLS_LITTLE, 3), (GOOD, 3), (GOOD, 3))
    assert asked == [0, 1, 2, 3]
    assert trained == [1, 3]  # what context or tokens rule out is not trained on
    assert table.candidate.tolist() == [replace(TINY, seed=seed) for seed in asked]
    np.testing.assert_equal(table.sizes.to_numpy(), [np.nan, 2, np.nan, 3])
    assert table.found.tolist() == [False, False, False, True]
    assert table.context.tolist() == [0.5, 0.5, 0.49, 0.5]
    assert table["root"].tolist() == [79, 80, 80, 80]


def test_where_none_qualifies_all_were_looked_at_and_none_is_found(searched):
    table, asked, trained = searched((EASY, 3), (GOOD, 2), (TELLS_LITTLE, 3))
    assert asked == [0, 1, 2]
    assert trained == [1]
    assert not table.found.any()


def test_no_candidates_make_an_empty_table(searched):
    table, asked, trained = searched()
    assert table.empty
    assert asked == trained == []


def test_candidates_are_random_hierarchies_the_cheapest_first():
    assert len(set(CANDIDATES)) == len(CANDIDATES)
    assert {type(spec) for spec in CANDIDATES} == {HierarchySpec}
    cost = [(spec.words, spec.rules, spec.seed) for spec in CANDIDATES]
    assert cost == sorted(cost)


def test_the_laptops_language_is_one_of_them():
    *before, found = looked_at(LAPTOP_LANGUAGE)
    assert found == LAPTOP_LANGUAGE
    assert tuple(before) == CANDIDATES[: len(before)]
    assert found not in before
    assert looked_at(TINY) == ()


@pytest.fixture
def evaluation(page):
    """A preset's, with next to no sentences."""
    small = page.config.evaluation
    return replace(
        small,
        saturation_sentences=50,
        downstream=replace(small.downstream, train=100, test=60, probe_seeds=2),
    )


def test_an_appraisal_is_of_the_context_and_of_bare_tokens(evaluation, tmp_path):
    store, tasks = Store(tmp_path), ("root", "span2")
    found = appraised(store, TINY, tasks, evaluation)
    held_out = store.get(HeldOutConditionals(TINY, 50, 0))
    assert found.context == context_information(TINY.build(), *held_out).mean
    _, probing = appraisal_runs(TINY, tasks, evaluation)
    training, test = store.get(probing.labelled)
    features, held = (one_hot_features(TINY.build(), part.sentences) for part in (training, test))
    seed = stream_seed("probe", evaluation.downstream.seed)
    probe = evaluation.optimal_probe.fit(features[None], training.labels[None], (2, 2), seed)
    expected = 100 * probe.correct(held, test.labels).double().mean((0, 1))
    assert list(found.one_hot) == list(tasks)
    assert list(found.one_hot.values()) == pytest.approx(expected.tolist())


def test_it_reads_one_probe_seed_of_bare_tokens_and_trains_nothing(evaluation):
    held_out, probing = appraisal_runs(TINY, ("root",), evaluation)
    assert held_out == HeldOutConditionals(TINY, 50, 0)
    assert isinstance(probing, BaselineProbing)
    assert probing.representation == "one-hot tokens"
    assert (probing.labelled.downstream.tasks, probing.labelled.downstream.probe_seeds) == (("root",), 1)
    assert probing.probe == evaluation.optimal_probe


def test_saturated_sizes_are_those_of_the_group_on_that_language(opened, brief):
    """Counted as `Results` counts them: every seed of a size, by the group's own share."""
    counts = {}
    for share in (1.25, 1e-3):
        page = opened("02_existence", saturated_share=share, **brief)
        counts[share] = saturated_sizes(page.store, page.group, page.group.domain.language, enough=0)
        last = final(page.of(page.arms[0]))
        assert counts[share] == last.groupby("size").saturated.all().sum()
    assert counts == {1.25: 1, 1e-3: 0}


@pytest.fixture
def saturating(opened, monkeypatch):
    """Count sizes, those that are given being saturated, `at first` but for the last seed."""

    def count(enough, *good, seeds=2):
        page, asked = opened("02_existence", seeds=seeds), []

        def saturated(store, group, size, seed):
            asked.append((group, size, seed))
            return size in good or (f"{size} at first" in good and seed < seeds - 1)

        monkeypatch.setattr(module, "_saturated", saturated)
        return saturated_sizes(page.store, page.group, TINY, enough=enough), asked

    return count


def test_it_stops_where_too_few_sizes_are_left(saturating):
    """The smallest first: where it does not saturate, the larger one is not trained."""
    for enough, found, sizes in ((2, 0, {"1K"}), (1, 1, {"1K", "3K"})):
        count, asked = saturating(enough, "3K")
        assert count == found
        assert {size for _, size, _ in asked} == sizes
    assert saturating(2, "1K", "3K")[0] == 2
    assert saturating(1, "1K at first", "3K at first")[0] == 0  # every seed has to


def test_another_language_takes_the_place_of_the_groups_own(saturating):
    _, asked = saturating(0, "1K", "3K")
    (group, _, _), *_ = asked
    assert {run.corpus.language for run in group.pretrainings().values()} == {TINY}
    assert {run.held_out.language for run in group.measured("saturation").values()} == {TINY}


def test_what_is_repeated_is_the_search_that_found_the_language(opened, monkeypatch):
    """With its own tasks and settings; a language that no search found has none."""
    page, looks = opened("02_existence", preset="laptop"), []
    group = page.group

    def appraise(store, spec, tasks, evaluation):
        looks.append((spec, tasks, evaluation))
        return GOOD if spec == LAPTOP_LANGUAGE else EASY

    monkeypatch.setattr(module, "appraised", appraise)
    monkeypatch.setattr(module, "saturated_sizes", lambda store, group, spec, enough: enough)
    table = repeated(page.store, group)
    assert tuple(table.candidate) == looked_at(LAPTOP_LANGUAGE)
    assert table.found.tolist() == [spec == LAPTOP_LANGUAGE for spec in table.candidate]
    assert table.sizes.iloc[-1] == len(group.sizes) < Criteria().sizes
    assert {look[1:] for look in looks} == {(group.tasks, group.settings.evaluation)}
    assert repeated(page.store, opened("02_existence").group).empty


def test_its_runs_are_those_of_the_appraisals(opened):
    group = opened("02_existence", preset="laptop").group
    runs = search_runs(group)
    seen = len(looked_at(LAPTOP_LANGUAGE))
    assert [run.kind for run in runs] == seen * ["HeldOutConditionals", "BaselineProbing"]
    assert {run.labelled.language for run in runs[1::2]} == set(looked_at(LAPTOP_LANGUAGE))
    assert search_runs(opened("02_existence").group) == []
