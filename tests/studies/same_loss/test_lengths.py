"""Draws and lengths of training near the lowest loss: the protocol's rules, which look at KL alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from sameloss.book.cells import opened
from sameloss.book.pages import open_page
from sameloss.languages.language import labels
from sameloss.store.record import kept_runs
from sameloss.studies.same_loss.experiment import GRAMMAR


def needed(kl):
    """The length that an arm of a draw still needs, if any, by its KLs (%) at the planned lengths.

    Twice the longest training where that ends above 3 %; the geometric mean of the neighbours that enclose it
    where they are more than a factor of 4 apart.
    """
    below = np.flatnonzero(kl <= 3)
    if not len(below):
        return [2 * kl.index[-1]]
    before, after = kl.index[max(0, below[0] - 1)], kl.index[below[0]]
    return [round(np.sqrt(before * after))] if kl[before] > 4 * kl[after] else []


@pytest.mark.parametrize(
    ("kls", "added"),
    [
        ({2500: 8.0, 5000: 4.0, 10_000: 2.0}, []),
        ({2500: 8.0, 5000: 6.0, 10_000: 3.1}, [20_000]),
        ({2500: 13.0, 5000: 12.1, 10_000: 2.9}, [7071]),
        ({2500: 2.0, 5000: 1.0}, []),  # nothing encloses it
    ],
)
def test_the_rule_by_hand(kls, added):
    assert needed(pd.Series(kls)) == added


@pytest.mark.parametrize("name", ["02_confirmation", "04_interventions"])
def test_added_lengths_are_those_of_the_rule(name):
    """All draws of an arm have the planned lengths; what only some have was added."""
    cells = open_page(name).recorded("workstation")[0]
    trained = cells.kl.drop("untrained", level="stage")
    for _, arm in trained.groupby(["stage", "model", "lr"]):
        by_draw = arm.droplevel(["stage", "model", "lr"]).unstack("steps").sort_index(axis=1)
        planned = by_draw.dropna(axis=1)
        for draw, kl in planned.iterrows():
            assert [*by_draw.loc[draw].dropna().index.difference(planned.columns)] == needed(kl), (
                draw,
                arm.name,
            )


def test_no_two_trainings_at_one_rate_share_weights_or_batches():
    runs = opened("02_confirmation", {"preset": "workstation"}, kept_runs()).runs()
    seeds = [
        run.training.seed
        for run in runs
        if run.kind == "ModelMeasurement" and run.training.optimisation.lr == 0.005
    ]
    assert len(seeds) == 2 * (16 * 11 + 8)
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("seed", [20, 22, 23])
def test_refused_draws_have_a_class_of_more_than_half(seed):
    language = replace(GRAMMAR, seed=seed).build()
    sentences = language.sample(5000, torch.Generator().manual_seed(seed))
    found = [labels(language, sentences, task, "posterior") for task in ("root", "span2")]
    assert max(float(own[own >= 0].bincount().max() / (own >= 0).sum()) for own in found) > 0.5
