"""Associations against independent formulas, and intervals against simulated studies."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress, t

from sameloss.statistics import association
from sameloss.statistics.association import (
    dose_slope,
    partial_r2,
    signed_r2,
    slope,
    step_slope,
    trajectories_of,
    within_size_r2,
)
from sameloss.statistics.bootstrap import UNDEFINED

ALL = (signed_r2, within_size_r2, partial_r2, slope)


def random_table(seed, sizes=3, seeds=3, steps=4):
    """Checkpoints of random values, accuracy related to trace and KL, a few of them missing."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [["small", "middle", "big", "huge"][:sizes], range(seeds), 100 * 2 ** np.arange(steps)],
        names=["size", "seed", "step"],
    )
    table = index.to_frame(index=False)
    table["kl_mean"] = rng.lognormal(-5, 1, len(table))
    table["trace"] = 50 * table.kl_mean**0.5 * rng.lognormal(0, 0.5, len(table))
    table["root"] = 60 - 2 * np.log(table.trace) + rng.normal(size=len(table))
    return table.drop(index=[0, 3]) if steps > 3 else table


def columns(table):
    return -np.log(table.trace), table.root, np.log(table.kl_mean)


def squared(r):
    return np.sign(r) * r**2


def test_runs_are_the_tables_in_its_order():
    table = random_table(0).sample(frac=1, random_state=0)
    runs = trajectories_of(table, "root")
    assert [len(size) for size in runs] == [3, 3, 3]
    part = table[(table["size"] == table["size"].iloc[0]) & (table.seed == 1)]
    np.testing.assert_array_equal(runs[0][1], np.stack(columns(part)))
    without = trajectories_of(table.drop(columns="kl_mean"), "root")
    assert [len(run) for size in without for run in size] == [2] * 9


@pytest.mark.parametrize("sizes", [1, 3])
def test_values_equal_independent_formulas(sizes):
    table = random_table(1, sizes)
    flatness, accuracy, log_kl = columns(table)
    runs = trajectories_of(table, "root")
    assert signed_r2(runs).value == pytest.approx(squared(np.corrcoef(flatness, accuracy)[0, 1]))
    assert slope(runs).value == pytest.approx(linregress(flatness, accuracy).slope)
    xy, xz, yz = np.corrcoef([flatness, accuracy, log_kl])[[0, 0, 1], [1, 2, 2]]
    partial = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    assert partial_r2(runs).value == pytest.approx(squared(partial))
    centred = [values - values.groupby(table["size"]).transform("mean") for values in (flatness, accuracy)]
    assert within_size_r2(runs).value == pytest.approx(squared(np.corrcoef(centred)[0, 1]))


def test_the_slope_of_steps_is_that_of_a_regression_on_run_log_kl_and_log_step():
    table = random_table(2)
    design = pd.get_dummies(table["size"] + table.seed.astype(str)).astype(float)
    design = design.assign(log_kl=np.log(table.kl_mean), doublings=np.log2(table.step))
    coefficients = np.linalg.lstsq(design.to_numpy(), table.root.to_numpy())[0]
    assert step_slope(table, "root").value == pytest.approx(coefficients[-1])


def by_loops(runs):
    """The interval of signed r² as it is defined: one correlation of stacked runs for each resample."""

    def z(runs):
        return np.arctanh(np.corrcoef(np.hstack([run[:2] for size in runs for run in size]))[0, 1])

    rng = np.random.default_rng(0)
    drawn = [
        z([[size[i] for i in rng.integers(0, len(size), len(size))] for size in runs])
        for _ in range(association.REPLICATES)
    ]
    seeds, freedom = min(map(len, runs)), sum(map(len, runs)) - len(runs)
    half = np.sqrt(seeds / (seeds - 1)) * t.ppf(0.975, freedom) * np.std(drawn)
    return [squared(np.tanh(z(runs) + side * half)) for side in (0, -1, 1)]


@pytest.mark.parametrize(("sizes", "seeds", "steps"), [(3, 3, 4), (3, 3, 1), (2, 2, 5), (4, 5, 2)])
def test_intervals_equal_those_by_loops(monkeypatch, sizes, seeds, steps):
    monkeypatch.setattr(association, "REPLICATES", 400)
    runs = trajectories_of(random_table(sizes + seeds, sizes, seeds, steps), "root")
    runs[0] = runs[0] + runs[0][:1]  # sizes may have unequal numbers of runs
    np.testing.assert_allclose(signed_r2(runs), by_loops(runs), rtol=1e-10)


@pytest.mark.parametrize("statistic", ALL)
def test_intervals_count_runs_not_checkpoints(statistic):
    runs = trajectories_of(random_table(4), "root")
    dense = [[np.repeat(run, 10, axis=1) for run in size] for size in runs]
    np.testing.assert_allclose(statistic(dense), statistic(runs), rtol=1e-9)
    more = [3 * size for size in runs]
    assert np.ptp(statistic(more)) < 0.7 * np.ptp(statistic(runs))


@pytest.mark.parametrize("statistic", ALL)
def test_units_of_flatness_and_levels_of_accuracy_do_not_matter(statistic):
    runs = trajectories_of(random_table(5), "root")
    moved = [[run + np.array([[1e3], [-50.0], [7.0]]) for run in size] for size in runs]
    np.testing.assert_allclose(statistic(moved), statistic(runs), rtol=1e-8)
    turned = [[run * np.array([[-1.0], [1.0], [1.0]]) for run in size] for size in runs]
    value, low, high = statistic(turned)
    np.testing.assert_allclose(
        (value, -high, -low), (-statistic(runs).value, *statistic(runs)[1:]), rtol=1e-8
    )


def test_a_common_cause_is_not_association_at_equal_kl():
    """KL drives both: they correlate, but not given KL."""
    table = random_table(6, seeds=40, steps=3)
    rng = np.random.default_rng(7)
    table["trace"] = table.kl_mean * rng.lognormal(0, 0.2, len(table))
    table["root"] = 50 - 3 * np.log(table.kl_mean) + 0.6 * rng.normal(size=len(table))
    plain, partial = signed_r2(trajectories_of(table, "root")), partial_r2(trajectories_of(table, "root"))
    assert plain.low > 0.9
    assert abs(partial.value) < 0.03
    assert partial.low < 0 < partial.high


def test_sizes_that_differ_are_not_association_within_sizes():
    table = random_table(8, seeds=100, steps=1)
    rng, level = np.random.default_rng(15), table["size"].map({"small": 0, "middle": 3, "big": 6})
    table["trace"] = np.exp(rng.normal(size=len(table)) - level)
    table["root"] = 50 + level + rng.normal(size=len(table))
    plain, within = signed_r2(trajectories_of(table, "root")), within_size_r2(trajectories_of(table, "root"))
    assert plain.low > 0.6
    assert abs(within.value) < 0.05
    assert within.low < 0 < within.high


@pytest.mark.parametrize("statistic", ALL)
@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.head(0),
        lambda table: table[(table["size"] == "big") & (table.seed < 2)],
        lambda table: table[(table["size"] != "big") | (table.seed == 0)],
        lambda table: table.assign(trace=0.3),
        lambda table: table.assign(root=33.3),
    ],
    ids=["nothing", "two runs", "one seed of a size", "one trace", "one accuracy"],
)
def test_what_cannot_be_computed_is_undefined(statistic, change):
    np.testing.assert_equal(statistic(trajectories_of(change(random_table(10)), "root")), UNDEFINED)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop(columns="kl_mean"),
        lambda table: table.assign(kl_mean=0.013),
        lambda table: table[table["size"] == "big"].groupby("seed").head(1),  # three checkpoints
        lambda table: table.assign(trace=table.kl_mean**0.3),
        lambda table: table.assign(root=60 + np.log(table.kl_mean) / 3),
    ],
    ids=["no KL", "one KL", "three checkpoints", "KL is the trace", "KL is the accuracy"],
)
def test_what_leaves_nothing_given_kl_is_undefined(change):
    for seed in range(20):  # rounding is different in each
        runs = trajectories_of(change(random_table(seed)), "root")
        np.testing.assert_equal(partial_r2(runs), UNDEFINED)


def test_sizes_without_differences_leave_nothing_within():
    table = random_table(12)
    runs = trajectories_of(
        table.assign(root=table["size"].map({"small": 0.1, "middle": 0.3, "big": 0.7})), "root"
    )
    np.testing.assert_equal(within_size_r2(runs), UNDEFINED)
    assert np.isfinite(signed_r2(runs)).all()


def test_steps_that_do_not_vary_have_no_slope():
    np.testing.assert_equal(step_slope(random_table(13, steps=1), "root"), UNDEFINED)


def treated_table(seed=0, seeds=4, treatments=5):
    """Models of one size, each seed under every treatment; seeds differ by far more than treatments."""
    table, rng = random_table(seed, 1, seeds, treatments), np.random.default_rng(seed)
    level = table.seed.map(dict(enumerate(rng.normal(0, 5, seeds))))
    return table.assign(trace=table.trace * np.exp(level), root=table.root + 9 * level)


def test_the_slope_of_doses_is_that_of_a_regression_on_seed_and_flatness():
    table = treated_table()
    design = pd.get_dummies(table.seed).astype(float).assign(flatness=-np.log(table.trace))
    coefficients = np.linalg.lstsq(design.to_numpy(), table.root.to_numpy())[0]
    assert dose_slope(table, "root").value == pytest.approx(coefficients[-1])
    between = slope(trajectories_of(table, "root")).value
    assert abs(between - coefficients[-1]) > 1


def test_what_differs_between_seeds_does_not_count_in_the_slope_of_doses():
    table = treated_table()
    moved = table.assign(trace=table.trace * 7.0**table.seed, root=table.root + 30 * table.seed)
    np.testing.assert_allclose(dose_slope(moved, "root"), dose_slope(table, "root"), rtol=1e-8)
    low, high = dose_slope(table, "root")[1:]
    assert low < dose_slope(table, "root").value < high
    alike = table.assign(root=60 - 2 * np.log(table.trace) + 9 * table.seed)
    np.testing.assert_allclose(dose_slope(alike, "root"), 3 * [2.0])


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table[table.seed < 2],
        lambda table: table.groupby("seed").head(1),
        lambda table: table.assign(trace=1.0 + table.seed),
        lambda table: table.assign(root=33.3 + table.seed),
    ],
    ids=["two seeds", "one treatment", "one trace of a seed", "one accuracy of a seed"],
)
def test_without_doses_there_is_no_slope_of_them(change):
    np.testing.assert_equal(dose_slope(change(treated_table()), "root"), UNDEFINED)


SPREAD = np.array([1.0, 0.3])
"""Standard deviations between runs, and between checkpoints of one run."""


def simulated_runs(rng, correlation):
    """Three sizes of three runs of three checkpoints: log KL drives both, deviations from it correlate."""
    factor = np.linalg.cholesky([[1, correlation], [correlation, 1]])
    return [[one_run(rng, factor, size) for _ in range(3)] for size in range(3)]


def one_run(rng, factor, size):
    log_kl = LEVELS[size] + 0.5 * rng.normal()
    deviations = SPREAD[0] * factor @ rng.normal(size=(2, 1)) + SPREAD[1] * factor @ rng.normal(size=(2, 3))
    return np.vstack([deviations + np.array([[0.0], [50.0]]) - np.array([[1.0], [2.0]]) * log_kl, log_kl])


LEVELS = -np.add.outer(0.3 * np.arange(3), 0.7 * np.arange(3))


@pytest.mark.parametrize("correlation", [0.0, 0.85])
def test_intervals_cover_the_truth_with_three_seeds(monkeypatch, correlation):
    """95 % intervals of 3 sizes x 3 seeds cover what infinitely many seeds of these sizes would give."""
    monkeypatch.setattr(association, "REPLICATES", 400)
    kl, own = LEVELS.var() + 0.5**2, (SPREAD**2).sum()
    truth = {partial_r2: correlation**2, slope: (2 * kl + correlation * own) / (kl + own)}
    rng = np.random.default_rng(14)
    studies = [simulated_runs(rng, correlation) for _ in range(300)]
    found = {statistic: np.array([statistic(runs) for runs in studies]) for statistic in truth}
    for statistic, (_, low, high) in ((key, values.T) for key, values in found.items()):
        assert 0.88 <= np.mean((low <= truth[statistic]) & (truth[statistic] <= high)) <= 1
    detected = np.mean(found[partial_r2][:, 1] > 0)
    assert detected > 0.8 if correlation else detected < 0.08
    assert np.median(np.ptp(found[slope][:, 1:], axis=1)) < 2
