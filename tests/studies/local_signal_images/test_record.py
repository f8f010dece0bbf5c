"""Active neurons of II.3c, recomputed from the lines of the record without the library."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sameloss.book.cells import opened
from sameloss.store.record import kept_runs
from sameloss.studies.local_signal_images.claims import TOPICS
from sameloss.studies.verdict import verdict_table

RUNS = Path(__file__).parents[3] / "results" / "runs" / "ImageComparison"


def falls(examples, seeds, noise):
    """Points by which training lowers the active share, seed by layer, at a random place of 16 by 16."""
    found = {}
    for line in (json.loads(text) for path in RUNS.glob("*.jsonl") for text in path.read_text().splitlines()):
        p = line["manifest"]["parameters"]
        scene = tuple(p["scene"][name] for name in ("placement", "side", "noise"))
        if (p["examples"], *scene) == (examples, "random place", 16, noise) and p["seed"] in seeds:
            table = pd.read_csv(StringIO(line["files"]["table.csv"])).set_index(["measure", "of"]).value
            found[p["seed"]] = 100 * (table["active before"] - table["active after"])
    return pd.DataFrame(found).T


def interval(values, level=0.95):
    half = stats.t.isf((1 - level) / 2, len(values) - 1) * stats.sem(values)
    return np.mean(values), np.mean(values) - half, np.mean(values) + half


@pytest.mark.parametrize(("preset", "examples"), [("laptop", 500), ("laptop-long", 800)])
def test_active_neurons_of_the_record(preset, examples):
    page = opened("ii3_images", {"preset": preset}, kept_runs(), compared=True)
    seeds = {run.seed for run in page.runs()}
    noisy, clean = (falls(examples, seeds, noise) for noise in (1.0, 0.0))
    assert set(noisy.index) == set(clean.index) == seeds
    assert page.results.fall(1.0)["layer 3"].to_list() == pytest.approx(
        noisy["layer 3"].sort_index().to_list()
    )
    deeper = [noisy[layer] for layer in ("layer 2", "layer 3")]
    least, lowest = np.min([interval(own)[:2] for own in deeper], axis=0)
    expected = {
        "active": interval(sum(deeper) / 2),
        "active-every": (least, lowest, min(interval(own, 1 - 0.05 / 2)[2] for own in deeper)),
        "active-clean": interval((clean["layer 2"] + clean["layer 3"]) / 2),
    }
    library = verdict_table(TOPICS, page.results).set_index("id")
    for id, row in expected.items():
        own = library.loc[f"img-{id}"]
        assert (own.ours, own.low, own.high) == pytest.approx(row)
        assert own.direction == ("supported" if row[1] > 0 else "against" if row[2] < 0 else "open")
