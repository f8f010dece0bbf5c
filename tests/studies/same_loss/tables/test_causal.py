"""Tables of the causal experiment, on made-up results whose answer is known."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_up import changed

from sameloss.runs.flatness import MEASURES
from sameloss.statistics.bootstrap import UNDEFINED
from sameloss.studies.same_loss import effects
from sameloss.studies.same_loss.effects import Compared
from sameloss.studies.same_loss.groups import (
    ADAMW,
    ADVERSARIAL,
    ALL_SIZES,
    COOLED,
    NOISY,
    SHARPENED,
    UNTREATED,
)
from sameloss.studies.same_loss.results import final
from sameloss.studies.same_loss.tables import causal
from sameloss.studies.same_loss.tables.comparison import CHAINLESS
from sameloss.training.algorithms import label

PENALISED = COOLED[4]

DOSES = {UNTREATED: 0.0, NOISY: -1.0, SHARPENED: 1.0, PENALISED: -0.5}
"""What was done to log trace; a factor e of it costs two points. Other treatments did nothing."""


@pytest.fixture
def cooled(filled):
    """The page on algorithms, whose treatments moved the trace; that of the penalty did not reach the KL."""
    page = filled("a4_algorithms")
    rng = np.random.default_rng(6)
    for arm in COOLED:
        found, dose = page.of(arm), DOSES.get(arm, 0.0)
        last = found.checkpoints
        table = last.assign(
            trace=last.trace * np.exp(dose),
            root=last.root - 2 * dose,
            kl_mean=last.kl_mean + 0.01 * (arm == PENALISED) + 0.00002 * rng.normal(size=3),
        )
        probes = {key: rng.random((1, 3, 400, 2)) < 0.7 - 0.1 * dose for key in found.probes}
        page._found[arm.of(page.config.shown)] = changed(found, table, probes=probes)
    return page


def test_treatments_stand_in_one_table(cooled, monkeypatch):
    """With how many steps each took to cool, and how far its KL is from that of the untreated ones."""
    lengths = {(arm.label, seed): 10 * at + seed for at, arm in enumerate(COOLED) for seed in range(3)}
    names = {
        run.key: (arm.label, run.seed)
        for arm in COOLED
        for run in cooled.of(arm).group.pretrainings().values()
    }

    def get(store, run):
        return SimpleNamespace(history=range(lengths[names[run.key]]))

    monkeypatch.setattr(type(cooled.store), "get", get)
    table = causal.cooled_table(cooled, ["root", "span2"]).set_index("treatment")
    assert list(table.index) == [arm.label for arm in COOLED]
    assert table.steps.tolist() == [10 * at + 1 for at in range(len(COOLED))]
    noisy, untreated = (final(cooled.of(arm)) for arm in (NOISY, UNTREATED))
    row = table.loc[NOISY.label]
    assert row.trace == pytest.approx(51 / np.e)
    assert (row.KL, row.share) == (noisy.kl_mean.mean(), noisy.kl_share.mean())
    assert (row.root, row.span2) == (noisy.root.mean(), 50)
    difference, error = effects.kl_difference(cooled.of(NOISY), cooled.of(UNTREATED), "3K")
    assert difference == pytest.approx(noisy.kl_mean.mean() - untreated.kl_mean.mean())
    assert row["apart (s.e.)"] == pytest.approx(difference / error)
    assert table["apart (s.e.)"][UNTREATED.label] == 0
    assert table["apart (s.e.)"][PENALISED.label] > 10
    assert (table["apart (s.e.)"].drop(PENALISED.label).abs() < 2).all()


def test_what_flatness_buys_is_compared_at_equal_kl(cooled):
    table = causal.bought_flatness(cooled, ["root", "span2"])
    treated = [arm.label for arm in COOLED[1:]]
    assert table.way.tolist() == [way for way in (*treated, causal.ADVERSARY, causal.SIZE) for _ in range(2)]
    assert table.task.tolist() == ["root", "span2"] * (len(treated) + 2)
    rows = table.set_index(["way", "task"])
    noisy, sharpened = rows.loc[(NOISY.label, "root")], rows.loc[(SHARPENED.label, "root")]
    assert (noisy.trace, sharpened.trace) == pytest.approx((1 / np.e - 1, np.e - 1))
    assert (noisy.value, sharpened.value) == pytest.approx((10, -10), abs=4)
    assert noisy.trace_high < 0 < noisy.low
    assert sharpened.high < 0 < sharpened.trace_low
    numbers = ["trace", "trace_low", "trace_high", "value", "low", "high"]
    assert rows.loc[PENALISED.label, numbers].isna().all(axis=None)
    assert table[table.way != PENALISED.label][numbers].notna().all(axis=None)


def test_the_adversary_and_the_sizes_are_compared_where_kls_are_equal(cooled):
    """The one that is judged; of the sizes net of untrained models."""
    rows = causal.bought_flatness(cooled, ["root"]).set_index("way")
    sizes, attacked = cooled.of(ALL_SIZES), cooled.of(ADVERSARIAL[-1])
    gained = ["value", "low", "high"]
    moved = ["trace", "trace_low", "trace_high"]
    assert tuple(rows.loc[causal.SIZE, gained]) == effects.size_gain_matched(sizes, "root")
    assert tuple(rows.loc[causal.SIZE, moved]) == effects.trace_of_larger_matched(sizes)
    assert rows.trace[causal.SIZE] < 0 < rows.value[causal.SIZE]
    pair = attacked, cooled.of(ADAMW)
    assert tuple(rows.loc[causal.ADVERSARY, gained]) == effects.arm_gain(*pair, "root", Compared.EQUAL_KL)
    assert tuple(rows.loc[causal.ADVERSARY, moved]) == effects.arm_trace_excess(*pair, Compared.EQUAL_KL)


def wrong(found, shares):
    """Return results whose last models err in a share of the sentences, by seed, in the first task."""
    probes = {}
    for key, share in zip(found.probes, shares, strict=True):
        right = np.ones((1, 3, 400, 2), bool)
        right[:, :, : round(400 * share), 0] = False
        probes[key] = right
    return replace(found, probes=probes)


def test_the_factor_of_errors_is_paired_by_seed_and_geometric(cooled):
    """Errors halved in one comparison, and an eighth in the other: a quarter, the same in every seed."""
    found = cooled.of(NOISY)
    other, half, eighth = (wrong(found, np.array([0.2, 0.4, 0.8]) / by) for by in (1, 2, 8))
    assert causal.error_factor([(half, other)], "root") == pytest.approx((0.5, 0.5, 0.5))
    both = causal.error_factor([(half, other), (eighth, other)], "root")
    assert both == pytest.approx((0.25, 0.25, 0.25))
    apart = causal.error_factor([(wrong(found, [0.1, 0.2, 0.2]), other)], "root")
    assert apart.value == pytest.approx((1 / 16) ** (1 / 3))
    assert apart.low < apart.value < apart.high
    undefined = causal.error_factor([(half, other)], "span2")  # nothing is wrong there
    assert undefined == pytest.approx(UNDEFINED, nan_ok=True)


@pytest.fixture
def few(cooled, monkeypatch):
    """With probes of few and of all labels: noise halves the error of the first task in each seed."""

    def by_labels(results):
        wrong = 0.2 if results is cooled.of(NOISY) else 0.4
        right = np.ones((1, 3, 400, 2), bool)
        right[:, :, : round(400 * wrong), 0] = False
        right[:, :, :40, 1] = False
        return dict.fromkeys([8, 16, 256, 400], replace(results, probes=dict.fromkeys(results.probes, right)))

    monkeypatch.setattr(causal, "by_labels", by_labels)
    return cooled


def test_the_error_from_few_labels_with_noise_over_that_without(few):
    table = causal.errors_by_labels(few, ["root", "span2"])
    assert table.labels.tolist() == ["8", "16", "256", "400", causal.FEW] * 2
    assert table.task.tolist() == ["root"] * 5 + ["span2"] * 5
    columns = ["factor", "low", "high"]
    np.testing.assert_allclose(table.loc[table.task == "root", columns], 0.5)
    np.testing.assert_allclose(table.loc[table.task == "span2", columns], 1)
    assert causal.few_labels_in_words(table) == (
        "task A × 0.50 (0.50 to 0.50), fewer errors; span 2 × 1.00 (1.00 to 1.00), not told from one"
    )


def test_without_one_kl_there_is_no_such_factor(few):
    found = few.of(NOISY)
    far = changed(found, found.checkpoints.assign(kl_mean=1.0))
    few._found[NOISY.of(few.config.shown)] = far
    table = causal.errors_by_labels(few, ["root"])
    assert table.empty
    assert causal.few_labels_in_words(table).startswith("not testable here")


def test_without_an_adversary_that_saturates_there_is_none(cooled):
    for arm in ADVERSARIAL:
        found = cooled.of(arm)
        far = changed(found, found.checkpoints.assign(saturated=False))
        cooled._found[arm.of(cooled.config.shown)] = far
    assert causal.ADVERSARY not in set(causal.bought_flatness(cooled, ["root"]).way)


def test_the_doses_are_those_at_equal_kl(cooled):
    """Two points a factor e; what the penalty did would be another slope, and is left out."""
    penalised = cooled.of(PENALISED)
    wild = changed(penalised, penalised.checkpoints.assign(root=1000.0))
    cooled._found[PENALISED.of(cooled.config.shown)] = wild
    table = causal.dose_table(cooled, ["root", "span2"]).set_index("task")
    assert table.loc["root", ["value", "low", "high"]].tolist() == pytest.approx([2, 2, 2])
    assert table.loc["span2"].isna().all()  # its accuracy is the same everywhere


def test_what_is_not_compared_is_named(cooled, filled):
    assert causal.refused(cooled) == (
        "Not compared, because their KL is not shown to be equal: penalty-after, μ = 0.002, cooled."
    )
    assert causal.refused(filled("a4_algorithms")) == "All came to the KL of the untreated models."


def test_measures_stand_relative_to_the_untreated_models(cooled, monkeypatch):
    """Geometric means over seeds: of the factors 1, e and e² it is e."""
    log_scale = {arm.label: at for at, arm in enumerate(COOLED)}

    def frame(found, kind):
        assert kind == "measures"
        rows = [
            {"seed": seed, "part": part, "mean": (1 + at) * np.exp(seed * log_scale[labelled(found)])}
            for seed in range(3)
            for at, part in enumerate((*CHAINLESS, "learning_coefficient"))
        ]
        return pd.DataFrame(rows)

    monkeypatch.setattr(type(cooled.of(NOISY)), "frame", frame)
    table = causal.invariant_measures(cooled).set_index("treatment")
    assert list(table.index) == [arm.label for arm in COOLED]
    assert list(table.columns) == [MEASURES[part] for part in CHAINLESS]
    for at, name in enumerate(table.index):
        np.testing.assert_allclose(table.loc[name], np.exp(at))


def labelled(found):
    return label(found.group.algorithm, found.group.strength, cooled=found.group.cooled)


def slopes(**intervals):
    return pd.DataFrame(
        {"task": task, "value": v, "low": a, "high": b} for task, (v, a, b) in intervals.items()
    )


def moved(**traces):
    return pd.DataFrame({"way": list(traces), "trace": list(traces.values())})


def test_the_sentence_says_what_each_task_does():
    """Of the treatments of one model alone, as far as they were compared."""
    ways = moved(noisy=-0.5, sharper=1.2, apart=np.nan)
    others = pd.DataFrame({"way": [causal.SIZE, causal.ADVERSARY], "trace": [-0.9, 9.0]})
    every = slopes(root=(1, 0.5, 1.5), span4=(-1, -2, -0.25), span2=(0.1, -1, 1))
    assert causal.in_words(every, pd.concat([ways, others])) == (
        "At equal KL, with the trace of one model moved by -50 % to +120 %, accuracy gains for each factor e "
        "by which the trace falls, in points: task A +1.00 (0.50 to 1.50), flatter is better; task B -1.00 "
        "(-2.00 to -0.25), flatter is worse; span 2 +0.10 (-1.00 to 1.00), no effect is told from zero."
    )


def test_the_sentence_where_nothing_could_be_compared():
    known, unknown = slopes(root=(1, 0.5, 1.5)), slopes(root=(np.nan, np.nan, np.nan))
    for found in (
        causal.in_words(unknown, moved(noisy=-0.5)),
        causal.in_words(known, moved(noisy=np.nan)),
        causal.in_words(known, pd.DataFrame({"way": [causal.SIZE], "trace": [-0.5]})),
    ):
        assert found == "Not testable here: too few treatments, or seeds, came to one KL."
