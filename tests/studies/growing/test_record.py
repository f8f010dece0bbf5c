"""The main rows of II.5 and II.5b, recomputed from the lines of the record without the library."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sameloss.book.cells import opened
from sameloss.statistics.prediction import mean_correlation
from sameloss.store.record import kept_runs
from sameloss.studies.growing.claims import STACKING_TOPICS, TOPICS
from sameloss.studies.verdict import verdict_table

RUNS = Path(__file__).parents[3] / "results" / "runs"
PRESETS = pytest.mark.parametrize("preset", ["laptop", "laptop-long"])


def lines(kind):
    """By key: parameters of all runs of a kind, and their tables."""
    found = {}
    for line in (
        json.loads(text) for path in (RUNS / kind).glob("*.jsonl") for text in path.read_text().splitlines()
    ):
        table = line["files"].get("table.csv")
        found[line["key"]] = line["manifest"]["parameters"], table and pd.read_csv(StringIO(table))
    return found


def recorded(name, preset):
    """A chapter's results from the lines."""
    return opened(name, {"preset": preset}, kept_runs(), compared=True).results


def interval(values, level=0.95):
    """Mean and Student's interval."""
    half = stats.t.isf((1 - level) / 2, len(values) - 1) * stats.sem(values)
    return np.array([np.mean(values), np.mean(values) - half, np.mean(values) + half])


def correlation(pairs):
    """The same for correlations, in Fisher's z."""
    own = [np.clip(stats.spearmanr(*pair).statistic, -1 + 1e-6, 1 - 1e-6) for pair in pairs]
    return np.tanh(interval(np.arctanh(own)))


def grown(layers, added, steps):
    """By seed: KLs of all operators on either half, step by operator, and the final KL without growing."""
    bases, found = lines("GrowthBase"), {}
    for parameters, table in lines("Candidates").values():
        base, _ = bases[parameters["base"]["key"]]
        if (base["shape"]["layers"], parameters["added"], parameters["steps"]) == (layers, added, steps):
            found.setdefault(base["seed"], []).append(table)
    for seed, tables in found.items():
        kl, chosen_by = (pd.concat(tables).pivot(index="step", columns="operator", values=half)
                         for half in ("kl", "chosen_by"))  # fmt: skip
        alone = kl.pop("not grown").iloc[-1]
        yield seed, chosen_by[kl.columns], kl, alone


@PRESETS
def test_the_main_rows_of_growing(preset):
    results = recorded("ii5_growing", preset)
    about, lag = {"laptop": ((2, 2, 350), 70), "laptop-long": ((6, 4, 800), 160)}[preset]
    own, steps = [list(row) for row in grown(*about)], about[-1]
    assert sorted(seed for seed, *_ in own) == list(results.growth.seeds)
    assert all(kl.notna().all(axis=None) for _, _, kl, _ in own)
    ends = [(seen, kl.iloc[-1], alone) for _, seen, kl, alone in own]
    looks = np.array(own[0][1].index)
    early = int(looks[np.abs(looks - 0.05 * steps).argmin()])
    gains = [np.log(alone / final[seen.iloc[-1].idxmin()]) for seen, final, alone in ends]
    regrets = [(final[seen.loc[lag].idxmin()] - final.min()) / np.ptp(final) for seen, final, _ in ends]
    ranks = {at: correlation([(seen.loc[at], final) for seen, final, _ in ends]) for at in (0, early, steps)}
    assert np.mean(results.regret(results.choice())) == pytest.approx(np.mean(regrets))
    order = {
        "initial": -ranks[0][[0, 2, 1]],
        "early": ranks[early],
        "lag": interval(0.25 - np.array(regrets)),
    }
    if not (interval(gains)[1] > 0 and ranks[steps][0] >= 0.8):
        order = dict.fromkeys(order, [np.nan] * 3)
    library = verdict_table(TOPICS, results).set_index("id")[["ours", "low", "high"]]
    for id, expected in (order | {"headroom": interval(gains)}).items():
        assert library.loc[f"grow-{id}"].to_list() == pytest.approx(list(expected), abs=1e-6, nan_ok=True), id
    for at, expected in ranks.items():
        assert mean_correlation(results.correlations(results.nearest(at))) == pytest.approx(expected)


def stacks(layers):
    """By way and seed: the final KL of stacks of so many layers."""
    stages, bases, found = lines("Stage"), lines("GrowthBase"), {}
    for parameters, table in stages.values():
        chain = [parameters]
        while (before := chain[-1]["base"]["key"]) in stages:
            chain.append(stages[before][0])
        root, _ = bases[before]
        grew = [stage for stage in chain if stage["operators"]]
        if not parameters["ends"] or root["shape"]["layers"] + len(grew) != layers:
            continue
        operators = [[(o["filling"], o["index"]) for o in stage["operators"]] for stage in chain]
        on_top = [[("duplicate", at)] for at in reversed(range(len(chain)))]
        adaptive = all(filling == "duplicate" for stage in operators for filling, _ in stage)
        way = "scratch" if not grew else "last" if operators == on_top else "adaptive"
        if way != "adaptive" or (adaptive and chain[0]["lag"]):
            found.setdefault(way, {})[root["seed"]] = table.kl.iloc[-1]
    return {way: pd.Series(ends).sort_index() for way, ends in found.items()}


@PRESETS
def test_the_main_rows_of_stacking(preset):
    results = recorded("ii5_stacking", preset)
    ends = stacks({"laptop": 3, "laptop-long": 6}[preset])
    assert {way: list(kl.index) for way, kl in ends.items()} == dict.fromkeys(
        ("last", "adaptive", "scratch"), sorted(set(results.stages.seed))
    )
    library = verdict_table(STACKING_TOPICS, results).set_index("id")
    for id, below in {
        "adaptive": ends["last"] - ends["adaptive"],
        "scratch": ends["scratch"] - ends["last"],
    }.items():
        mean, low, high = interval(below)
        row = library.loc[f"stack-{id}"]
        assert (row.ours, row.low, row.high) == pytest.approx((mean, low, high), abs=1e-9)
        direction = "supported" if low > 0 else "against" if high < 0 else "open"
        close = id == "adaptive" and direction == "open" and np.abs(interval(below, 0.9)).max() < 0.004
        assert (row.direction, row["size"]) == (direction, "negligible" if close else "")
