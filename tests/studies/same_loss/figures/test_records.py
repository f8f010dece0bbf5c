"""Figures of a record show what it has, named by language."""

import matplotlib.pyplot as plt
import pytest

from sameloss.studies.same_loss.figures import records
from sameloss.studies.same_loss.groups import SGD_AFTER_ADAMW


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_every_task_of_every_language_has_a_panel(recorded_page):
    axes = records.against_kl(recorded_page, "PCFG", "HMM")
    assert [ax.get_title() for ax in axes] == ["PCFG", "PCFG", "HMM", "HMM"]
    assert [ax.get_ylabel() for ax in axes] == [
        f"probe accuracy, {name} (%)" for name in ("task A", "span 2", "state 2", "state 3")
    ]
    assert [ax.get_legend() is not None for ax in axes] == [True, False, True, False]
    named = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert named == ["1K", "3K", "lookup table", "one-hot tokens"]


def test_flatness_is_that_of_the_last_checkpoints(recorded_page):
    (ax, _) = records.against_trace(recorded_page, "PCFG")
    shown = {x for line in ax.get_lines() for x in line.get_xdata()}
    last = recorded_page.trained("PCFG").query("step == steps")
    assert shown == set(last.trace)


def test_a_language_that_is_not_recorded_has_no_panel(recorded_page):
    assert records.against_trace(recorded_page, "HMM-LSTM") == []
    assert plt.get_fignums() == []


def test_an_algorithm_is_drawn_along_its_training(recorded_page):
    axes = records.along_training(recorded_page, SGD_AFTER_ADAMW.label)
    assert [ax.get_title() for ax in axes] == 3 * ["PCFG"] + 3 * ["HMM"]
    assert [ax.get_yscale() for ax in axes] == 2 * ["log", "log", "linear"]
