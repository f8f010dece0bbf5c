"""Effects and verdicts on made-up results whose answer is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss import claims
from sameloss.downstream.bootstrap import Interval
from sameloss.paper import PUBLISHED, Published
from sameloss.results import Results
from sameloss.setting import resolve
from sameloss.verdicts import Verdict, judge

ACCURACY = {"1K": 0.6, "3K": 0.8}


@pytest.fixture
def results(tmp_path):
    setting = resolve({"preset": "smoke", "artifacts": str(tmp_path)})
    return Results(setting, *made_up(setting), checkpoints=table(setting))


def made_up(setting):
    rng = np.random.default_rng(5)

    def probe(accuracies):
        return np.stack([rng.random((3, 400, 2)) < accuracy for accuracy in accuracies])

    trained = {
        (size, seed): probe(np.linspace(ACCURACY[size] - 0.1, ACCURACY[size], 6))
        for size in setting.sizes
        for seed in range(3)
    }
    baselines = {"lookup table": probe([0.5]), "one-hot tokens": probe([0.4])}
    return trained, baselines, {"root": 0.3, "span2": 0.3}


def table(setting):
    rows = [
        {
            "size": size,
            "seed": seed,
            "step": step,
            "kl_mean": 0.02 / (1 + at),
            "trace": 100 / (1 + at) / (1 + (size == "3K")) + seed,
            "trace_se": 0.1,
            "root": 100 * ACCURACY[size] + at + seed,
            "span2": 50.0,
            "saturated": at >= 2,
        }
        for size in setting.sizes
        for seed in range(3)
        for at, step in enumerate(setting.steps)
    ]
    return pd.DataFrame(rows)


def test_size_gain(results):
    gain = claims.size_gain(results, "root")
    assert gain.value == pytest.approx(20, abs=3)
    assert gain.low > 10


def test_the_lookup_claim_is_about_every_size(results):
    gain = claims.trained_over_baseline(results, "root")
    sizes = [claims.accuracy_gain(results, "root", (s, None), ("lookup table", None)) for s in ("1K", "3K")]
    assert gain == Interval(*(min(ends) for ends in zip(*sizes, strict=True)))
    assert gain.value == pytest.approx(10, abs=4)


def test_step_gain_starts_at_the_first_saturated_checkpoint(results):
    first, last = results.steps[2], results.steps[-1]
    assert claims.saturated_ends(results) == [("1K", first, last), ("3K", first, last)]
    assert claims.step_gain(results, "root").value == pytest.approx(6, abs=3)


def test_trace_effects(results):
    assert claims.trace_falls_with_steps(results).value == pytest.approx(1, abs=0.1)
    by_size = claims.trace_falls_with_size(results)
    assert 0.5 < by_size.value < 1.1
    assert by_size.low > 0.3


def test_three_seeds_that_differ_as_much_as_the_effect_show_nothing(results):
    noisy = results.checkpoints.copy()
    noisy.loc[noisy["size"] == "1K", "trace"] *= noisy.seed.map({0: 0.3, 1: 1.0, 2: 3.0})
    effect = claims.trace_falls_with_size(replace(results, checkpoints=noisy))
    assert effect.low < 0 < effect.high


def test_one_seed_has_no_interval(results):
    one = replace(results.setting, preset=replace(results.setting.preset, seeds=1))
    alone = replace(results, setting=one, checkpoints=results.checkpoints.query("seed == 0"))
    assert judge(claims.size_gain(alone, "root"), PUBLISHED["fig2"]) == Verdict.NOT_TESTABLE
    assert judge(claims.trace_falls_with_size(alone), PUBLISHED["fig5-trace"]) == Verdict.NOT_TESTABLE


def test_correlation_is_signed_and_counts_runs(results):
    agree = claims.size_correlation(results, "root")
    assert 0.5 < agree.value <= 1
    reversed_trace = results.checkpoints.assign(trace=1 / results.checkpoints.trace)
    opposite = claims.size_correlation(replace(results, checkpoints=reversed_trace), "root")
    assert opposite.value == pytest.approx(-agree.value)
    assert np.isnan(claims.size_correlation(results, "span2").value)


def test_correlation_intervals_cover_chance(monkeypatch):
    """Without any correlation, 95 % intervals of 3 sizes x 3 seeds contain zero nearly always."""
    monkeypatch.setattr(claims, "REPLICATES", 300)
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(100):
        runs = pd.DataFrame({"size": list("aaabbbccc"), "seed": [0, 1, 2] * 3})
        runs["trace"], runs["root"] = np.exp(rng.normal(size=9)), rng.normal(size=9)
        interval = claims.flatness_correlation(runs, "root")
        covered += interval.low <= 0 <= interval.high
    assert 85 <= covered <= 100


def test_what_is_not_saturated_is_not_testable(results):
    far = replace(results, checkpoints=results.checkpoints.assign(saturated=False))
    for effect in (claims.size_gain, claims.trained_over_baseline, claims.step_gain, claims.size_correlation):
        assert judge(effect(far, "root"), PUBLISHED["fig2"]) == Verdict.NOT_TESTABLE
    assert judge(claims.trace_falls_with_size(far), PUBLISHED["fig5-trace"]) == Verdict.NOT_TESTABLE


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (6, 8, Verdict.REPRODUCED),
        (8, 9, Verdict.REPRODUCED),
        (9, 10, Verdict.DIRECTION),
        (0.5, 4, Verdict.DIRECTION),
        (0, 4, Verdict.NOT_SEEN),
        (-4, 4, Verdict.NOT_SEEN),
        (-4, -1, Verdict.CONTRADICTED),
        (float("nan"), float("nan"), Verdict.NOT_TESTABLE),
    ],
)
def test_verdicts_follow_from_interval_and_tolerance(low, high, verdict):
    published = Published("Tab. 0", "it helps", 6.9, "points", tolerance=0.25)
    assert judge(Interval((low + high) / 2, low, high), published) == verdict


def test_a_published_direction_is_reproduced_by_its_direction():
    assert judge(Interval(1, 0.5, 2), Published("Fig. 0", "it rises")) == Verdict.REPRODUCED
