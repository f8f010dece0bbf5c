"""Measurements of languages under their names, with tables and figures."""

import itertools
from dataclasses import replace

import pandas as pd
import pytest
import torch
from cells import definitions, listed
from nltk import Tree

from sameloss.book.pages import open_page
from sameloss.languages import HMMSpec, Sentences
from sameloss.languages.autoregressive import STAND_IN_NOTE
from sameloss.languages.entropy import blind_entropy
from sameloss.languages.paper import PAPER_HMM, PAPER_HMM_SHAPE, PAPER_SHAPE
from sameloss.languages.pretrained import HubTeacherSpec
from sameloss.studies import drawing
from sameloss.studies.same_loss import languages
from sameloss.studies.same_loss.experiment import STAND_IN
from sameloss.studies.same_loss.languages import ENTROPY, measurements, published
from sameloss.studies.same_loss.parameters import chosen


@pytest.fixture(scope="module")
def page(shared):
    folder = str(shared / "same_loss")
    return open_page("a1_datasets", preset="smoke", sentences=60, artifacts=folder)


def test_published_entropies_are_those_of_the_papers_shapes_alone(page):
    like = {name: published(run.language) for name, run in measurements(chosen(page.values)).items()}
    assert {name: paper for name, paper in like.items() if paper} == {
        "grammar, paper's shape": "grammar", "HMM, paper's shape": "hmm",
    }  # fmt: skip
    opt = HubTeacherSpec()
    assert (published(opt), published(replace(opt, words=200))) == ("OPT", None)


def test_ceilings_of_every_task_are_in_order(page):
    runs = measurements(chosen(page.values)).values()
    table = pd.concat(page.store.get(run).ceilings for run in runs if run.tasks)
    ours, paper = {"root", "span2", "state3", "state5", "topic"}, {"span16", "span8", "state6", "state10"}
    assert set(table.task) == ours | paper
    assert (table.bayes >= table.hidden_majority - 1e-9).all()
    assert (table.bayes >= table.likelihood_accuracy - 1e-9).all()
    assert table.bayes.max() <= 1 + 1e-9
    assert table.bayes.min() > 1 / table.classes.max()


def test_a_stand_in_says_so(page, capsys):
    table = definitions("a1_datasets").drawn_sentences(languages.opt_language(chosen(page.values)))
    assert STAND_IN_NOTE in capsys.readouterr().out
    assert table.filter(like="topic").sum(axis=1).to_list() == pytest.approx([1] * 4)


def test_a_preset_without_an_autoregressive_language_shows_the_stand_in(opened):
    assert languages.opt_language(chosen(opened("a1_datasets", preset="workstation").values)) == STAND_IN


def test_languages_are_named_honestly(opened):
    plain = chosen(opened("a1_datasets", preset="laptop").values)
    names = ["grammar", "HMM", "OPT stand-in", "grammar, paper's shape", "HMM, paper's shape"]
    assert list(measurements(plain)) == names
    real = chosen(opened("a1_datasets", preset="paper", opt="facebook/opt-125m").values)
    assert list(measurements(real)) == ["grammar", "HMM", "facebook/opt-125m"]


def test_every_language_is_measured_with_its_tasks(opened):
    experiment = chosen(opened("a1_datasets", sentences=70).values)
    first = next(experiment.replicates())
    runs = measurements(experiment)
    assert {run.sentences for run in runs.values()} == {70}
    assert (runs["grammar"].language, runs["grammar"].tasks) == (first.language, first.setup.tasks)
    assert runs["HMM, paper's shape"].language == PAPER_HMM


def test_a_real_opt_is_measured_on_few_sentences(opened):
    real = chosen(opened("a1_datasets", preset="paper", opt="facebook/opt-125m").values)
    assert {name: run.sentences for name, run in measurements(real).items()} == {
        "grammar": 100_000, "HMM": 100_000, "facebook/opt-125m": 2000,
    }  # fmt: skip
    few = measurements(replace(real, language_sentences=30))
    assert few["facebook/opt-125m"].sentences == 30


def test_calibrations_begin_with_the_papers_shapes_and_aim_at_its_entropies():
    runs = listed("a1_datasets").calibrations
    assert [run.shape for run in runs.values()] == [PAPER_SHAPE, PAPER_HMM_SHAPE]
    assert [run.entropy for run in runs.values()] == [ENTROPY["grammar"], ENTROPY["hmm"]]
    assert {run.sentences for run in runs.values()} == {500}
    assert {run.sentences for run in listed("a1_datasets", "paper").calibrations.values()} == {5000}


# Figures

parse_tree = definitions("a1_datasets").parse_tree


def test_a_tree_has_its_words_at_the_bottom_in_their_order(ax):
    tree = Tree.fromstring("(S (A (B x) (C y)) (D z))")
    parse_tree(tree, ax)
    texts = {text.get_text(): text.get_position() for text in ax.texts}
    assert set(texts) == {"S", "A", "B", "C", "D", "x", "y", "z"}
    assert [texts[word][0] for word in "xyz"] == [0, 1, 2]
    assert texts["S"][1] > texts["A"][1] > texts["B"][1] > texts["x"][1] == texts["z"][1]


def test_a_tree_of_two_words_fits_its_figure():
    ax = parse_tree(Tree.fromstring("(S (A a) (B b))"), drawing.panels(1, width=9)[0])
    ax.figure.canvas.draw()  # where there is no room, matplotlib warns, which is an error here


def test_words_of_a_reader_are_no_formulas_and_do_not_overlap(ax):
    words = ["$x^$", *("antidisestablishmentarianism" + str(k) for k in range(7))]
    symbols = " ".join(f"($a_$ {word})" for word in words)
    parse_tree(Tree.fromstring(f"(S {symbols})"), ax)
    figure = ax.figure
    figure.set_size_inches(9, 3)
    figure.canvas.draw()
    boxes = [t.get_window_extent() for t in ax.texts if t.get_text() not in ("S", "$a_$")]
    assert len(boxes) == 8
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


# Words masked (A.2)

A2 = definitions("a2_conditionals")


def test_masks_are_as_many_as_asked_and_inside():
    sentences = Sentences(
        torch.tensor([[1, 2, 3, 0], [1, 2, 3, 4]]).repeat(500, 1), torch.tensor([3, 4]).repeat(500)
    )
    masked = A2.mask_some(sentences, 2, torch.Generator().manual_seed(0)).tokens
    assert ((masked[0::2, :3] == 0).sum(1) == 2).all()
    assert ((masked[1::2] == 0).sum(1) == 2).all()
    frequency = (masked[1::2] == 0).double().mean(0)
    assert (frequency - 0.5).abs().max() < 4 * (0.25 / 500) ** 0.5
    assert (A2.mask_some(sentences, 9, torch.Generator().manual_seed(0)).tokens[:, :3] == 0).all()


def test_entropy_rises_with_masks_to_the_blind_entropy():
    language = HMMSpec(4, 6, 4, 1, 0.3, 0.3, seed=1).build()
    sentences = language.sample(3000, torch.Generator().manual_seed(0))
    found = [
        A2.entropy_under_masks(language, A2.mask_some(sentences, k, torch.Generator().manual_seed(k)))
        for k in (1, 2, 3, 4)
    ]
    means = [estimate.mean for estimate in found]
    assert means == sorted(means)
    assert means[-1] == pytest.approx(blind_entropy(language), rel=1e-9)
    assert means[-1] - means[0] > 20 * found[0].standard_error
