"""The page reads its runs, and judges its claims."""

from dataclasses import replace

import pytest
import torch

from sameloss.runs.cost import H200
from sameloss.store.store import Store, with_ancestors
from sameloss.studies.growing import pages
from sameloss.studies.growing.claims import CLAIMS
from sameloss.studies.growing.experiment import PRESETS, Candidates, GrowthBase, Stage
from sameloss.studies.growing.pages import GrowingPage, StackingPage


def test_everything_is_computed_beforehand_and_found(page):
    for run in page.runs():
        page.store.get(run)
    grown = page.grown
    seeds, looks, operators = grown.kl.shape
    assert (seeds, looks, operators) == (2, len(page.growing.look_steps), len(page.growing.operators))
    table = page.store.get(page.candidates(1)[0])
    name = grown.operators[2].name
    own = table[table.operator == name]
    assert grown.kl[1, :, 2] == pytest.approx(own.kl.to_numpy())
    assert grown.chosen_by[1, :, 2] == pytest.approx(own.chosen_by.to_numpy())
    verdicts = page.verdicts()
    assert verdicts.id.tolist() == [claim.id for claim in CLAIMS]


def test_records_stand_beside_a_page_judged_as_it_is(page, monkeypatch):
    """A record that found what the page did, with five seeds, says the same under the page's tolerance."""
    verdicts = page.verdicts()
    monkeypatch.setattr("sameloss.studies.evidence.records", lambda name: {"laptop-long": {"seeds": 5}})
    monkeypatch.setattr(pages, "found_by_record", lambda name, preset: page.grown)
    evidence = page.evidence(verdicts)
    sources = [str(source) for source in evidence.source.unique()]
    assert sources == ["laptop-long, recorded, 5 seeds", "smoke, this page, 2 seeds"]
    recorded, own = (evidence[evidence.source == source] for source in evidence.source.unique())
    assert recorded.verdict.tolist() == own.verdict.tolist()


def test_every_seed_has_its_own_runs(page):
    runs = page.runs()
    distinct = 1 + (4 + 9) * 2 + 2
    assert len(runs) == distinct + 2  # one of the two ages is that of the page
    assert len({(run.kind, run.key) for run in runs}) == distinct
    assert sum(isinstance(run, Candidates) for run in runs) == 6 + 2 * 2


def test_candidates_that_do_not_fit_are_trained_in_parts(page):
    """With the same results, since a candidate is the same alone as among others."""
    parts = replace(page.growing, together=4, seeds=1)
    parted = GrowingPage(page.name, replace(page.config, growing=parts), page.store)
    assert [len(run.operators) for run in parted.candidates(0)] == [4, 2]
    assert sum((run.operators for run in parted.candidates(0)), ()) == page.growing.operators
    for run in parted.runs():
        page.store.get(run)
    assert parted.grown.kl == pytest.approx(page.grown.kl[:1], rel=1e-3)
    assert parted.grown.landscape["trace"] == pytest.approx(page.grown.landscape["trace"][:1], rel=1e-6)


def operations(run):
    """Return what the training of a run takes itself."""
    if isinstance(run, Candidates):
        return len(run.names) * run.steps * run.base.root.flops_of_step(run.shape)
    return run.flops - run.base.flops if isinstance(run, Stage) else run.flops


def test_the_gpu_preset_takes_an_hour_of_an_h200_at_most(tmp_path):
    """Training alone, in float32: products at the assumed share of the data sheet, and handing out blocks."""
    settings, store = PRESETS["gpu"], Store(tmp_path)
    both = GrowingPage("ii5_growing", settings, store), StackingPage("ii5_stacking", settings, store)
    ancestors = with_ancestors(run for page in both for run in page.runs())
    runs = [run for run in ancestors if isinstance(run, GrowthBase | Candidates | Stage)]
    products = sum(map(operations, runs)) / H200.products(settings.growing.shape.d_model, torch.float32)
    blocks = sum((run.done if isinstance(run, GrowthBase) else run.steps) * run.shape.layers for run in runs)
    assert 1800 < products + blocks * H200.block_s < 3600
