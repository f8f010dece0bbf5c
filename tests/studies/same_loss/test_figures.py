"""Figures show what they are given, with labels, and do not change it."""

import base64
import re

import matplotlib as mpl
import pandas as pd
import pytest
from nltk import Tree

mpl.use("agg")


from sameloss.studies import drawing
from sameloss.studies.same_loss import figures


@pytest.fixture
def checkpoints(results):
    return results.checkpoints.assign(parameters=[1 if s == "1K" else 2 for s in results.checkpoints["size"]])


def test_every_axis_says_what_it_shows(checkpoints, results):
    before = checkpoints.copy()
    baselines = results.accuracy_table("root").query("representation in @results.baselines")
    axes = drawing.panels(4)
    figures.along_training(checkpoints, "kl_mean", "KL (nats)", axes[0], log=True)
    figures.accuracy_against_kl(checkpoints, "root", baselines, 0.02, axes[1])
    figures.accuracy_against_trace(checkpoints, "root", axes[2])
    figures.accuracy_by_representation(results.accuracy_table("root"), "root", axes[3])
    for ax in axes[:3]:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    assert "nats" in axes[1].get_xlabel()
    assert [t.get_text() for t in axes[3].get_yticklabels()][-2:] == ["lookup table", "one-hot tokens"]
    assert checkpoints.equals(before)
    labels = axes[1].get_legend_handles_labels()[1]
    assert labels == ["1K", "3K", "lookup table", "one-hot tokens"]


def test_language_figures_draw_what_they_are_given():
    tree = Tree.fromstring("(S (A (B x) (C y)) (D z))")
    ax = figures.parse_tree(tree, drawing.panels(1)[0])
    texts = {text.get_text(): text.get_position() for text in ax.texts}
    assert set(texts) == {"S", "A", "B", "C", "D", "x", "y", "z"}
    assert [texts[word][0] for word in "xyz"] == [0, 1, 2]
    assert texts["S"][1] > texts["A"][1] > texts["B"][1] > texts["x"][1] == texts["z"][1]
    axes = drawing.panels(4)
    lengths = pd.DataFrame({"length": [1, 2], "probability": [0.4, 0.6], "sampled": [0.5, 0.5]})
    figures.sentence_lengths(lengths, "PCFG", axes[0])
    figures.word_frequencies(pd.DataFrame({"word": [1, 2], "share": [0.3, 0.7]}), "PCFG", axes[1])
    assert list(axes[1].lines[0].get_ydata()) == [0.7, 0.3]
    tried = pd.DataFrame({"concentration": [1.0, 0.1], "mean": [3.0, 2.0], "standard_error": [0.1, 0.1]})
    figures.calibration_curve(tried, 2.5, 0.4, "PCFG", axes[2])
    masks = pd.DataFrame(
        {"language": "HMM", "words": 8, "masks": [1, 2], "entropy": [1.0, 1.5], "standard_error": 0.1}
    )
    figures.entropy_by_masks(masks, axes[3])
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in axes)
    assert len(drawing.panels(5)) == 5


def test_a_download_holds_the_table(checkpoints):
    html = drawing.download(checkpoints, "data").data
    data = re.search(r'base64,([^"]+)"', html)[1]
    assert base64.b64decode(data).decode() == checkpoints.to_csv(index=False)
