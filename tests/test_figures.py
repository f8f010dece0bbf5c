"""Figures show what they are given, with labels, and do not change it."""

import base64
import re

import matplotlib as mpl
import pytest

mpl.use("agg")

from test_claims import results, table  # noqa: F401

from sameloss import figures


@pytest.fixture
def checkpoints(results):  # noqa: F811
    return results.checkpoints.assign(parameters=[1 if s == "1K" else 2 for s in results.checkpoints["size"]])


def test_every_axis_says_what_it_shows(checkpoints, results):  # noqa: F811
    before = checkpoints.copy()
    baselines = results.accuracy_table("root").query("representation in @results.baselines")
    axes = figures.panels(4)
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


def test_a_download_holds_the_table(checkpoints):
    html = figures.download(checkpoints, "data").data
    data = re.search(r'base64,([^"]+)"', html)[1]
    assert base64.b64decode(data).decode() == checkpoints.to_csv(index=False)
