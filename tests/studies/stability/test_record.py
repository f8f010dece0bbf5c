"""The judged rows of II.2, recomputed from the record without the library."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sameloss.book.cells import opened
from sameloss.store.record import kept_runs
from sameloss.studies.stability.claims import TOPICS
from sameloss.studies.verdict import verdict_table

RUNS = Path(__file__).parents[3] / "results" / "runs" / "TwinTraining"
NAMES = {"LogisticRegression": "lr", "RandomFeatures": "convex", "Perceptron": "mlp", "SmallCNN": "cnn"}
SIZES = [80, 160, 320, 640]
NETWORKS = ["mlp", "mlp+", "cnn", "cnn+"]  # + for momentum
GAP, BETA = "gap cross-entropy", "beta cross-entropy"


def recorded():
    """By kind and size: the tables of all brief runs."""
    found = {}
    for line in (json.loads(text) for path in RUNS.glob("*.jsonl") for text in path.read_text().splitlines()):
        p = line["manifest"]["parameters"]
        if p.get("brief"):
            assert p["seeds"] == list(range(115, 175))
            name = NAMES[p["network"]["type"]] + "+" * (p["descent"]["momentum"] > 0)
            found[name.replace("convex+", "convex"), p["size"]] = [
                pd.read_csv(StringIO(line["files"][f"{of}.csv"])) for of in ("table", "paths")
            ]
    return found


def rows():
    """By claim: the effects that have to be positive, by seed, and whether they have to be within 0.35."""
    found = recorded()

    def b(kind, measure, stop=1):
        tables = {m: found[kind, m][0] for m in SIZES}
        of = {m: t[t.step == sorted(set(t.step))[stop]].set_index("seed")[measure] for m, t in tables.items()}
        return np.polyfit(np.log(SIZES), np.log(pd.DataFrame(of).T), 1)[0]

    def slower(kind, measure=BETA, than=GAP, stop=1):
        return b(kind, measure, stop) - b(kind, than, stop)

    def barrier(kind):
        falls = []
        for _, paths in (found[kind, m] for m in SIZES):
            lines = paths.pivot(index="alpha", columns=["seed", "pair"], values="test")
            falls.append(100 * (lines.loc[[0, 1]].min() - lines.drop([0, 1]).min()))
        return pd.concat(falls, axis=1).max(axis=1).groupby("seed").max().to_numpy()

    zero_one, z_out = "gap 0-1", ("others total variation", "gap Brier")
    return {
        "lr-beta": ([slower("lr")], True),
        "lr-distance": ([slower("lr", "distance")], True),
        "lr-errors": ([slower("lr", zero_one)], False),
        "beta-plain": ([slower("mlp")], False),
        "beta-momentum": ([slower("mlp+")], False),
        "beta-cnn-plain": ([slower("cnn")], False),
        "beta-cnn": ([slower("cnn+")], False),
        "beta-flat": ([b("mlp+", BETA) + 0.25], False),
        "beta-bounded": ([slower(kind, *z_out) for kind in NETWORKS], False),
        "beta-others": ([slower(kind, "others cross-entropy") for kind in NETWORKS], False),
        "stops": ([slower(kind, stop=stop) for kind in NETWORKS for stop in range(3)], False),
        "gaps": ([slower(kind, zero_one) for kind in NETWORKS], True),
        "distance-plain": ([slower("mlp", "distance") - 0.3], False),
        "distance-cnn-plain": ([slower("cnn", "distance") - 0.3], False),
        "distance-cnn": ([slower("cnn+", "distance") - 0.3], False),
        "distance-momentum": ([b("mlp+", "distance")], False),
        "norm": ([b(kind, "norm") for kind in NETWORKS], False),
        "normalised": ([slower(kind, "normalised") - 0.3 for kind in NETWORKS], False),
        "path-plain": ([2 - barrier("mlp")], False),
        "path-momentum": ([barrier("mlp+") - 2], False),
        "path-cnn": ([2 - barrier("cnn")], False),
        "path-cnn-momentum": ([barrier("cnn+") - 2], False),
        "convex": ([slower("convex")], False),
        "convex-distance": ([slower("convex", "distance") - 0.3], False),
    }


SIGNS = {"lr-errors", "beta-plain", "beta-momentum", "beta-cnn-plain", "beta-cnn", "beta-bounded",
         "beta-others", "stops", "distance-momentum", "norm", "convex"}  # fmt: skip


def ends(cells, in_margin, level):
    """The smallest value of all cells, its lower end, and its upper end corrected for their number."""
    found = []
    for values in cells:
        means = []
        for alpha in (1 - level, (1 - level) / len(cells)):
            half = stats.t.isf(alpha / 2, len(values) - 1) * stats.sem(values)
            means.append((values.mean() - half, values.mean() + half))
        (low, high), (least, most) = means
        if in_margin:
            near = 0.0 if least <= 0 <= most else min(abs(least), abs(most))
            found.append((0.35 - abs(values.mean()), 0.35 - max(abs(low), abs(high)), 0.35 - near))
        else:
            found.append((values.mean(), low, most))
    return np.min(found, axis=0)


def words(id, cells, in_margin):
    _, low, high = ends(cells, in_margin, 0.95)
    _, least, most = ends(cells, in_margin, 0.90)
    if low > 0 or high < 0:
        return "supported" if low > 0 else "against", ""
    return "open", "negligible" if id in SIGNS and least > -0.25 and most < 0.25 else ""


def test_every_judged_row_of_the_record():
    results = opened("ii2_stability", {}, kept_runs()).recorded("laptop-long")
    library = verdict_table(TOPICS, results).dropna(subset="low").set_index("id")
    ours = rows()
    assert set(library.index) == {f"stab-{id}" for id in ours}
    for id, (cells, in_margin) in ours.items():
        row = library.loc[f"stab-{id}"]
        assert (row.ours, row.low, row.high) == pytest.approx(tuple(ends(cells, in_margin, 0.95)), abs=1e-9)
        assert (row.direction, row["size"]) == words(id, cells, in_margin), id
