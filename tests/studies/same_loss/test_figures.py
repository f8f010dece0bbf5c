"""Figures of the languages show what they are given."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from nltk import Tree

from sameloss.studies import drawing
from sameloss.studies.same_loss import figures


def test_a_tree_has_its_words_at_the_bottom_in_their_order(ax):
    tree = Tree.fromstring("(S (A (B x) (C y)) (D z))")
    figures.parse_tree(tree, ax)
    texts = {text.get_text(): text.get_position() for text in ax.texts}
    assert set(texts) == {"S", "A", "B", "C", "D", "x", "y", "z"}
    assert [texts[word][0] for word in "xyz"] == [0, 1, 2]
    assert texts["S"][1] > texts["A"][1] > texts["B"][1] > texts["x"][1] == texts["z"][1]


def test_a_tree_of_two_words_fits_its_figure():
    with plt.rc_context():
        drawing.use_style()
        ax = figures.parse_tree(Tree.fromstring("(S (A a) (B b))"), drawing.panels(1, width=9)[0])
        ax.figure.canvas.draw()  # matplotlib warns, which is an error here, of what it finds no room for


def test_words_of_a_reader_are_no_formulas_and_do_not_overlap(ax):
    words = ["$x^$", *("antidisestablishmentarianism" + str(k) for k in range(7))]
    symbols = " ".join(f"($a_$ {word})" for word in words)
    figures.parse_tree(Tree.fromstring(f"(S {symbols})"), ax)
    figure = ax.figure
    figure.set_size_inches(9, 3)
    figure.canvas.draw()
    boxes = [t.get_window_extent() for t in ax.texts if t.get_text() not in ("S", "$a_$")]
    assert len(boxes) == 8
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_language_figures_draw_what_they_are_given():
    axes = drawing.panels(4)
    lengths = pd.DataFrame({"length": [1, 2], "probability": [0.4, 0.6], "sampled": [0.5, 0.5]})
    figures.sentence_lengths(lengths, "PCFG", axes[0])
    assert [bar.get_height() for bar in axes[0].patches] == [0.5, 0.5]
    assert axes[0].lines[0].get_ydata().tolist() == [0.4, 0.6]
    figures.word_frequencies(pd.DataFrame({"word": [1, 2], "share": [0.3, 0.7]}), "PCFG", axes[1])
    assert list(axes[1].lines[0].get_ydata()) == [0.7, 0.3]
    tried = pd.DataFrame({"concentration": [1.0, 0.1], "mean": [3.0, 2.0], "standard_error": [0.1, 0.1]})
    figures.calibration_curve(tried, 2.5, 0.4, "PCFG", axes[2])
    assert axes[2].containers[0].lines[0].get_xdata().tolist() == [0.1, 1.0]
    masks = pd.DataFrame(
        {"language": "HMM", "words": 8, "masks": [1, 2], "entropy": [1.0, 1.5], "standard_error": 0.1}
    )
    figures.entropy_by_masks(masks, axes[3])
    assert axes[3].lines[-1].get_ydata()[0] == pytest.approx(np.log(8))
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in axes)
