"""The runs of the protocol's second edition, and the rules that add lengths."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from sameloss.languages.language import labels
from sameloss.store.store import Store
from sameloss.studies.same_loss import sweeps
from sameloss.studies.same_loss.experiment import GRAMMAR, Measures
from sameloss.studies.same_loss.sweeps import (
    DRAWS,
    Cell,
    confirmation,
    interventions,
    kls,
    other_rates,
    too_short,
)


def trainings(cells):
    return [cell.training(number) for cell in cells for number in range(cell.trainings)]


def test_no_two_trainings_at_one_rate_share_weights_or_batches():
    seeds = [run.seed for run in trainings(confirmation())]
    assert len(set(seeds)) == len(seeds)


def test_sweeps_are_those_of_the_protocol():
    draws = {cell.draw for cell in confirmation()}
    assert len(draws) == 16
    assert min(draws) == 16
    assert len(list(confirmation([16]))) == 4 + 5 + 2  # with untrained models
    assert {cell.model for cell in interventions()} == {"d48"}
    assert {(cell.model, cell.lr) for cell in other_rates()} == {("d24", 0.01), ("d96", 0.0025)}
    assert {cell.draw for cell in interventions()} == {*DRAWS[:8]}


@pytest.mark.parametrize("seed", [20, 22, 23])
def test_refused_draws_have_a_class_of_more_than_half(seed):
    language = replace(GRAMMAR, seed=seed).build()
    sentences = language.sample(5000, torch.Generator().manual_seed(seed))
    found = [labels(language, sentences, task, "posterior") for task in ("root", "span2")]
    assert max(float(own[own >= 0].bincount().max() / (own >= 0).sum()) for own in found) > 0.5


def shares(curves):
    """KLs of the small model of the first draws, by steps."""
    numbered = zip(DRAWS, curves, strict=False)
    rows = {(draw, ARM, steps): kl for draw, curve in numbered for steps, kl in curve.items()}
    index = pd.MultiIndex.from_tuples(rows, names=["draw", "arm", "steps"])
    return pd.Series(list(rows.values()), index, dtype=float)


ARM = "d24, rate 0.005"
PLANNED = {1250: 16, 2500: 8, 5000: 4, 10_000: 2}


@pytest.mark.parametrize(
    ("curve", "added"),
    [
        (PLANNED, None),
        (PLANNED | {5000: 6, 10_000: 3.1}, 20_000),
        (PLANNED | {10_000: 3.2, 20_000: 3.1}, None),  # has been doubled
        (PLANNED | {5000: 12.1, 10_000: 2.9}, 7071),
        (PLANNED | {5000: 13, 7071: 12, 10_000: 2.9}, None),  # has been filled
        ({1250: 2.0}, None),  # nothing encloses it
    ],
)
def test_lengths_are_added_by_kl_alone_and_once(curve, added):
    expected = {} if added is None else {(16, ARM): added}
    assert too_short(shares([curve]), confirmation()) == expected


def test_an_added_length_is_part_of_its_sweep(monkeypatch):
    monkeypatch.setattr(sweeps, "ADDED", {(17, ARM): (20_000,)})
    added = {*sweeps.sweep("confirmation")} - {*confirmation()}
    assert added == {Cell(17, "d24", 0.005, 20_000, measures=sweeps.TUNED)}
    assert len(sweeps.sweep_runs("confirmation")[17]) == len(sweeps.sweep_runs("confirmation")[16]) + 2
    assert not {*sweeps.sweep("other-rates")} - {*other_rates()}


def test_a_cell_is_measured_and_only_its_kl_is_shown(tmp_path, monkeypatch):
    """With few steps and sentences."""
    few = Measures(features=400, train=60, probe_sets=1, many_labels=60, trace_sentences=20, capacities=True,
                   finetuning_lrs=(1e-3, 3e-3))  # fmt: skip
    tiny = replace(sweeps.WORKSTATION, held_out=50, test=100, measured=few, probe_sets=1)
    monkeypatch.setattr(sweeps, "WORKSTATION", tiny)
    store = Store(tmp_path)
    made = [Cell(16, "d24", 0.005, steps, measures=few) for steps in (0, 3)]
    assert kls(store, made).empty
    for run in (sweeps.baselines(16), *(run for cell in made for run in cell.measurements())):
        store.compute(run)
    (kl,) = kls(store, made)
    table = made[1].table(store)
    words = store.get(sweeps.baselines(16)).set_index("quantity").value["bag-of-words kl"]
    one, two = table[table.quantity == "kl"].value
    assert one != two  # other weights and batches
    assert kl == pytest.approx(100 * (one * two) ** 0.5 / words)
    read = {"features", "expanded", "expanded to 384", "projected to 96", "fine-tuned, rate 0.003"}
    assert read <= {*table.reading}
    assert {*table.training} == {0, 1}
    assert set(made[0].table(store).stage) == {"untrained"}
