"""The configuration, exact runs, and the page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from torch.nn import functional as F

from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.store.store import Store
from sameloss.studies.stability import pages
from sameloss.studies.stability.claims import TOPICS, judged
from sameloss.studies.stability.experiment import (
    LR,
    MLP,
    PRESETS,
    REPEATS,
    AllSwaps,
    RidgeSwaps,
    _largest_change,
)
from sameloss.studies.stability.pages import STUDY, found_by_record
from sameloss.studies.stability.training import Descent
from sameloss.studies.verdict import verdict_table

# Settings: what a reader may ask, and what is refused.

LAPTOP = PRESETS["laptop"]


def asked(tmp_path, **given):
    values = {"preset": "smoke", "artifacts": str(tmp_path), **given}
    return STUDY.open("ii2_stability", values).config


def test_the_presets_are_the_thesis_where_they_can_be():
    paper = PRESETS["paper"]
    assert [kind.descent.steps for kind in paper.kinds] == [100_000] * 4
    assert [kind.stops for kind in paper.kinds] == [(50_000, 100_000, 150_000)] * 4
    assert paper.kinds[2].descent.lr_at(40_000) == 0.01
    assert max(paper.sizes) <= min(paper.source_of(kind).pool for kind in paper.kinds) // 2
    assert PRESETS["gpu"].kinds[2].descent.drops == ((3200, 0.01), (4800, 0.001))


def test_the_seeds_are_none_of_the_pilots():
    assert all(min(preset.all_seeds) >= 100 for preset in PRESETS.values())


def test_only_logistic_regression_tells_halves():
    halves = {kind.name: LAPTOP.source_of(kind).halves for kind in LAPTOP.kinds}
    assert halves == {kind.name: kind.name == LR for kind in LAPTOP.kinds}


def test_a_reader_may_ask_for_one_model_with_other_settings(tmp_path):
    (kind,) = asked(tmp_path, model=MLP, steps=50, lr=0.2, momentum=0).kinds
    assert (kind.name, kind.descent.steps, kind.descent.lr, kind.descent.momentum) == (MLP, 50, 0.2, 0.0)
    assert asked(tmp_path, largest=320).sizes == (40, 80, 160, 320)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "forest"}, r"^Unknown model 'forest'; choose one of logistic regression, "),
        ({"largest": 1301}, "more than half of a pool of 1300"),
        ({"largest": 80}, "does not fill a batch of 32"),
        ({"data": "/no/such/folder"}, "Cannot load the images"),
        ({"seeds": 1}, "seeds is at least 2"),
        ({"momentum": 1}, "momentum is at most"),
        ({"device": "cuda"}, "device = cuda was asked for"),
        ({"preset": "gpuu"}, "Unknown preset"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, given, message, monkeypatch):
    monkeypatch.setattr("sameloss.hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ParameterError, match=message) as caught:
        asked(tmp_path, **given)
    assert "\n" not in str(caught.value)


def test_there_are_no_more_paths_than_pairs(tmp_path):
    few = asked(tmp_path, pairs=1)
    assert few.training(few.kinds[0], 40).paths == 1
    some = replace(LAPTOP, paths=3)
    assert some.training(some.kinds[0], 80).paths == 3


# All swaps of a sample of five, each trained by torch's own optimiser; ridge regression fitted anew.

SOURCE = ImageSource(halves=True)


@pytest.fixture(scope="module")
def run():
    return AllSwaps(SOURCE, Descent(0.1, 2, 15), size=5, candidates=3, drawn=(1, 15), seed=7)


@pytest.fixture(scope="module")
def table(run, tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store")).get(run).set_index(["loss", "drawn"])


def one_by_one(run):
    """Return the losses on the test set and the parameters of the sample and of each swap."""
    images = SOURCE.load()
    x, y = images.x.flatten(1).double(), images.y
    found = []
    for rows in run.rows(images):
        w = torch.zeros(65, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.SGD([w], lr=run.descent.lr)
        for positions in run.order()[0]:
            own = rows[positions]
            optimiser.zero_grad()
            F.binary_cross_entropy_with_logits(x[own] @ w[:-1] + w[-1], y[own].double()).backward()
            optimiser.step()
        with torch.no_grad():
            logits = x[images.pool :] @ w[:-1] + w[-1]
            losses = F.binary_cross_entropy_with_logits(logits, y[images.pool :].double(), reduction="none")
        found.append((losses, w.detach()))
    return found


def test_the_supremum_is_that_of_all_trainings(run, table):
    (first, own), *others = one_by_one(run)
    assert len(others) == 5 * 3
    largest = [float((losses - first).abs().max()) for losses, _ in others]
    assert table.exact["cross-entropy", 1] == pytest.approx(max(largest), rel=1e-4)
    assert table.distance.iloc[0] == pytest.approx(max(float((w - own).norm()) for _, w in others), rel=1e-4)
    assert table["median"]["cross-entropy", 15] == pytest.approx(max(largest), rel=1e-4)  # all of them drawn
    below = np.quantile(largest, 0.3), np.quantile(largest, 0.7)
    assert below[0] <= table["median"]["cross-entropy", 1] <= below[1]


def test_distances_are_below_their_bound_and_losses_below_its_slope(table):
    first = table.loc["cross-entropy"].iloc[0]
    assert 0 < first.distance <= first.bound
    assert first.exact <= first.slope * first.distance * (1 + 1e-6)
    assert REPEATS >= 1000


def test_the_largest_change_of_ridge_regression_is_that_of_all_fits(tmp_path):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(9, 4)), rng.choice([-1.0, 1.0], 9)
    fit = lambda rows: KernelRidge(alpha=0.1 * 5).fit(x[rows], y[rows]).predict(x[5:])  # noqa: E731
    before, largest = (fit(range(5)) - y[5:]) ** 2, 0.0
    for i in range(5):
        for z in range(5, 9):
            after = (fit([*range(i), z, *range(i + 1, 5)]) - y[5:]) ** 2
            largest = max(largest, float(np.abs(after - before).max()))
    assert _largest_change(x @ x.T, y, 5, 0.1) == pytest.approx(largest)


def test_no_case_of_ridge_regression_breaks_its_bound(tmp_path):
    table = Store(tmp_path).get(RidgeSwaps(SOURCE, (8, 16), (1e-2, 1e-1), 20, seed=1))
    assert len(table) == 2 * 2 * 2
    assert (table.change > 0).all()
    assert (table.change <= table.bound).all()


# The page: its runs, its tables side by side, its verdicts.


def test_all_of_a_size_are_one_stack(page):
    s = page.config
    assert len(page.trainings) == len(s.kinds) * len(s.sizes)
    assert all(run.seeds == s.all_seeds and run.pairs == s.pairs for run in page.trainings.values())
    assert len(page.runs()) == len(page.trainings) + len(s.swap_sizes) + 1


def test_tables_of_all_runs_stand_below_each_other(page, found):
    about = found.table[["kind", "size", "seed", "pair", "step"]]
    assert not about.duplicated().any()
    s = page.config
    assert len(about) == len(s.kinds) * len(s.sizes) * s.seeds * s.pairs * 3
    assert set(page.paths.kind) == set(found.falls.kind) == {kind.name for kind in s.kinds}


def test_verdicts_and_statements(page):
    assert page.verdicts().id.tolist() == [claim.id for topic in TOPICS for claim in topic.claims]
    assert set(page.statements().verdict) == {"holds"}
    assert page.seeds == 2


@pytest.mark.parametrize("name", ["laptop", "gpu", "paper"])
def test_longer_presets_say_what_they_would_compute(tmp_path, name):
    page = STUDY.open("ii2_stability", {"preset": name, "artifacts": str(tmp_path)})
    assert sum(run.effort for run in page.runs()) > 50


def test_a_record_is_judged_as_the_page_is(page, monkeypatch):
    kept = page.record_tables()
    monkeypatch.setattr(pages, "recorded", lambda table, preset, of: kept[table])
    monkeypatch.setattr(pages, "PRESETS", {"laptop-long": page.config})
    found = verdict_table(judged(found_by_record("laptop-long")))
    pd.testing.assert_frame_equal(found, page.verdicts())


def test_a_network_that_an_older_record_has_not_is_not_judged(page, monkeypatch):
    kept = page.record_tables()
    first = kept["twins"].kind == page.config.kinds[2].name
    older = kept | {"twins": kept["twins"][~first]}
    monkeypatch.setattr(pages, "recorded", lambda table, preset, of: older[table])
    monkeypatch.setattr(pages, "PRESETS", {"laptop-long": page.config})
    found = verdict_table(judged(found_by_record("laptop-long"))).set_index("id").verdict
    assert found["stab-beta-plain"] == "not testable here"
    assert found["stab-beta-brier"] == "not testable here"  # of every network, and one is not there
    assert found["stab-beta-momentum"] != "not testable here"


def test_a_measure_that_an_older_record_has_not_is_not_judged(page, monkeypatch):
    kept = page.record_tables()
    older = kept | {"twins": kept["twins"].drop(columns="gap clipped")}
    monkeypatch.setattr(pages, "recorded", lambda table, preset, of: older[table])
    monkeypatch.setattr(pages, "PRESETS", {"laptop-long": page.config})
    found = verdict_table(judged(found_by_record("laptop-long"))).set_index("id").verdict
    assert found["stab-beta-clipped"] == "not testable here"
    assert found["stab-beta-brier"] != "not testable here"
