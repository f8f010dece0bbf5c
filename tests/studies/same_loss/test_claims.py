"""Every published claim has an effect that supports it, a page that judges it, and a verdict."""

from pathlib import Path

import numpy as np
import pytest
from made_up import SATURATED, changed, made_up

from sameloss.statistics.association import UNDEFINED
from sameloss.studies.same_loss import claims as module
from sameloss.studies.same_loss.claims import (
    CLAIMS,
    LITTLE_ACCURACY,
    LITTLE_LOG_KL,
    ArmClaim,
    adversary_gain,
    adversary_trace,
    enlarged_trace,
    entropy,
    little_change,
)
from sameloss.studies.same_loss.effects import Compared, arm_gain
from sameloss.studies.same_loss.groups import ADVERSARIAL, ARMS, COOLED, Arm
from sameloss.studies.same_loss.results import enlarged_totals, final
from sameloss.studies.verdict import Verdict, judge

CHAPTERS = Path(__file__).parents[3] / "chapters"
BY_ID = {claim.id: claim for claim in CLAIMS}


def test_every_claim_is_known_by_its_id():
    assert len(BY_ID) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS, ids=list(BY_ID))
def test_a_claim_stands_in_a_chapter_that_compares_its_arms(claim):
    assert (CHAPTERS / f"{claim.page}.py").exists()
    assert set(claim.arms) <= set(ARMS[claim.page])
    assert claim.value is None or claim.value > 0  # effects are turned so that the claim is positive
    assert 0 < claim.tolerance < 1


@pytest.fixture
def arms(page):
    """Made-up results of each arm of a claim, all alike."""
    return lambda claim: [made_up(arm.group(page.config), page.store) for arm in claim.arms]


WITH_RUNS = {"fig5-enlarged"}
"""Claims whose effects read a measurement that made-up results do not have."""


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.id not in WITH_RUNS], ids=lambda claim: claim.id)
def test_every_effect_is_an_interval_around_its_value(claim, arms):
    value, low, high = claim.compute(arms(claim))
    assert np.isnan([value, low, high]).all() or low <= value <= high


TRUE = (
    "entropy",
    "entropy-hmm",
    "fig1",
    "fig2",
    "fig2-opt",
    "fig9-hmm",
    "size-matched",
    "size-matched-hmm",
    "fig3-trace-adamw",
    "fig5-trace",
)


@pytest.mark.parametrize("name", TRUE)
def test_effects_support_the_claims_that_are_true_of_what_was_made_up(name, arms):
    """Larger models are better and flatter, and so are those with more steps."""
    assert BY_ID[name].compute(arms(BY_ID[name])).low > 0


def test_a_claim_is_about_one_of_the_tasks(page):
    """The paper's A, B and C; the last that there is, where there are fewer."""
    main = made_up(page.group, page.store)
    claims = [ArmClaim("", "", "", "", (Arm(),), adversary_gain, task=task) for task in (0, 1, 2)]
    assert [claim.task_name(main.group) for claim in claims] == ["root", "span2", "span2"]
    assert BY_ID["entropy"].task_name(main.group) is None


def test_the_effect_gets_the_task_and_the_results_of_all_arms(page):
    seen = []

    def effect(*results, **given):
        seen.append((results, given))
        return UNDEFINED

    main = made_up(page.group, page.store)
    ArmClaim("", "", "", "", (Arm("adamw"), Arm("sam")), effect, task=1).compute([main, main])
    ArmClaim("", "", "", "", (Arm(),), effect).compute([main])
    assert seen == [((main, main), {"task": "span2"}), ((main,), {})]


def test_without_one_of_its_arms_a_claim_has_no_effect(page):
    """A preset may leave out the algorithm it is about, but not all of a sweep."""
    main = made_up(page.group, page.store)
    for claim in (BY_ID["sam-accuracy"], BY_ID["noise-trace"], BY_ID["tab1-adversarial-A"]):
        assert claim.compute([main]) == UNDEFINED
    assert BY_ID["entropy"].compute([]) == UNDEFINED
    assert np.isfinite(BY_ID["tab1-adversarial-A"].compute([main, main]).low)


@pytest.mark.parametrize("name", ["entropy", "entropy-hmm", "entropy-opt", "mask15-kl"])
def test_a_training_that_is_too_short_contradicts_no_entropy(name, arms):
    """Its KL is far above any limit; a longer one might reach it."""
    claim = BY_ID[name]
    (found,) = arms(claim)
    short = changed(found, found.checkpoints.assign(kl_mean=1.0, saturated=False))
    assert judge(claim.compute([found]), claim) == Verdict.DIRECTION
    assert judge(claim.compute([short]), claim) == Verdict.NOT_TESTABLE


def test_log_kl_levels_off_where_it_falls_by_less_than_a_tenth(arms):
    """What was made up falls by ln 1.5 as the steps double; where it hardly falls, the claim holds."""
    claim = BY_ID["logkl"]
    (found,) = arms(claim)
    assert claim.compute([found]).value == pytest.approx(LITTLE_LOG_KL - np.log(1.5))
    assert judge(claim.compute([found]), claim) == Verdict.CONTRADICTED
    slow = found.checkpoints.assign(kl_mean=0.005 * found.checkpoints.step**-0.05)
    level = claim.compute([changed(found, slow)])
    assert level.value == pytest.approx(0.1 - 0.05 * np.log(2))
    assert judge(level, claim) == Verdict.DIRECTION


def test_the_treatments_are_compared_at_their_ends_where_kls_are_equal(arms):
    """Label noise, flatter and more accurate; a sharpened one, the opposite; at another KL, nothing."""
    trace, accuracy, sharpened = (BY_ID[name] for name in NOISE_CLAIMS)
    untreated, other = arms(trace)
    rng = np.random.default_rng(3)
    probes = {key: rng.random((1, 3, 400, 2)) < 0.9 for key in other.probes}
    table = other.checkpoints.assign(trace=untreated.checkpoints.trace / 2)
    noisy = changed(other, table, probes=probes)
    assert trace.compute([untreated, noisy]).value == pytest.approx(1)
    assert accuracy.compute([noisy, untreated]).value == pytest.approx(20, abs=3)
    assert sharpened.compute([untreated, noisy]).value == pytest.approx(-20, abs=3)
    far = changed(noisy, table.assign(kl_mean=table.kl_mean + 0.1))
    assert trace.compute([untreated, far]) == accuracy.compute([far, untreated]) == UNDEFINED


NOISE_CLAIMS = ("noise-trace", "noise-accuracy", "sharpened-accuracy")


def test_a_dose_is_claimed_of_all_treatments(arms):
    """A factor e of the trace costs one point of task A, in every seed."""
    claim = BY_ID["dose-A"]
    treated = arms(claim)
    assert len(treated) == len(COOLED) == 8
    doses = np.linspace(-1, 1, len(treated))
    pairs = zip(treated, doses, strict=True)
    moved = [changed(r, r.checkpoints.assign(trace=np.exp(d), root=50 - d)) for r, d in pairs]
    assert claim.compute(moved) == pytest.approx((1, 1, 1))
    assert claim.compute(moved[:1]) == UNDEFINED


def test_the_entropy_is_the_largest_sizes_alone(results):
    table = results.checkpoints.copy()
    table.loc[table["size"] == "1K", ["kl_mean", "saturated"]] = 1.0, False
    assert entropy(changed(results, table)).value == pytest.approx(SATURATED - 0.02 / 6)
    assert np.isnan(BY_ID["mask15-kl"].compute([changed(results, table)]).low)


def test_the_strongest_adversary_that_saturates_is_judged(results):
    """Weaker ones, and stronger ones that do not reach the loss, do not count."""
    rng = np.random.default_rng(3)

    def attacked(accuracy, trace, *, saturated=True):
        probes = {key: rng.random((6, 3, 400, 2)) < accuracy for key in results.probes}
        table = results.checkpoints.assign(trace=trace * results.checkpoints.trace, saturated=saturated)
        return changed(results, table, probes=probes)

    sweep = attacked(0.6, 1.5), attacked(0.3, 3.0), attacked(0.1, 9.0, saturated=False)
    assert len(sweep) == len(ADVERSARIAL)
    gain = adversary_gain(results, *sweep, task="root")
    assert gain == arm_gain(results, sweep[1], "root")
    assert gain.value == pytest.approx(40, abs=3)  # (80 + 60) / 2 - 30
    matched = adversary_gain(results, *sweep, task="root", compared=Compared.EQUAL_KL)
    assert matched == arm_gain(results, sweep[1], "root", Compared.EQUAL_KL)
    assert adversary_trace(results, *sweep).value == pytest.approx(2)
    assert adversary_gain(results, sweep[2], task="root") == UNDEFINED
    assert adversary_trace(results, sweep[2]) == UNDEFINED


def test_little_change_is_within_two_points_in_either_direction(results):
    assert little_change(results, results, "root").value == LITTLE_ACCURACY
    rng = np.random.default_rng(3)
    probes = {key: rng.random((6, 3, 400, 2)) < 0.3 for key in results.probes}
    other = changed(results, results.checkpoints, probes=probes)
    for pair in ((results, other), (other, results)):
        assert little_change(*pair, "root").high < -30


def test_the_enlarged_trace_is_the_papers_way(results, monkeypatch):
    """Of the ways to compare sizes, the one whose embedding is divided by k, in all its parts."""
    ways = {"native": 1.0, "paper": 2.0, "balanced": 4.0, "relative": 8.0}
    last = final(results)
    rows = [
        {"size": row["size"], "seed": row.seed, "step": row.step, "form": form, "part": part,
         "mean": row.trace ** (factor * scale), "standard_error": 0.01, "count": 1}
        for _, row in last.iterrows()
        for form, factor in ways.items()
        for part, scale in {"total": 1.0, "without embeddings": 3.0}.items()
    ]  # fmt: skip
    traces = type(last)(rows)
    monkeypatch.setattr(module, "enlarged_totals", lambda _: enlarged_totals(traces))
    monkeypatch.setattr(type(results), "frame", lambda *_: traces)
    small, large = (last[last["size"] == size].trace for size in results.sizes)
    ratio = np.exp(np.mean(2 * np.log(small.to_numpy()) - 2 * np.log(large.to_numpy())))
    assert enlarged_trace(results).value == pytest.approx(ratio - 1)
