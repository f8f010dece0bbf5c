"""Effects on made-up results whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest
from made_up import changed

from sameloss.statistics.bootstrap import Interval
from sameloss.studies.parameters import replaced
from sameloss.studies.same_loss import effects
from sameloss.studies.same_loss.effects import Compared
from sameloss.studies.same_loss.results import shared_kl


def test_size_gain(results):
    gain = effects.size_gain(results, "root")
    assert gain.value == pytest.approx(20, abs=3)
    assert gain.low > 10


def test_what_training_adds_is_paired_with_the_untrained_model(results):
    """In these results the first step stands for the untrained model, which is 10 points worse."""
    net = effects.net_accuracy(results, "3K", "root")
    assert net.value == pytest.approx(0.1, abs=0.03)
    same = replace(results, probes={key: right[[0, 0]] for key, right in results.probes.items()})
    assert effects.net_accuracy(same, "3K", "root").value == 0
    assert (effects.net_accuracy(same, "3K", "root").replicates == 0).all()


def test_the_lookup_claim_is_about_every_size(results):
    gain = effects.trained_over_baseline(results, "root")
    lookup = effects.accuracy(results, "lookup table", "root")
    sizes = [effects.gain([(effects.accuracy(results, s, "root"), lookup)]) for s in ("1K", "3K")]
    assert gain == Interval(*(min(ends) for ends in zip(*sizes, strict=True)))
    assert gain.value == pytest.approx(10, abs=4)


def test_step_gain_starts_at_the_first_saturated_checkpoint(results):
    first, last = results.steps[2], results.steps[-1]
    assert effects.saturated_ends(results) == [("1K", first, last), ("3K", first, last)]
    assert effects.step_gain(results, "root").value == pytest.approx(6, abs=3)


def test_trace_effects(results):
    assert effects.trace_falls_with_steps(results).value == pytest.approx(1, abs=0.1)
    by_size = effects.trace_falls_with_size(results)
    assert 0.5 < by_size.value < 1.1
    assert by_size.low > 0.3


def test_three_seeds_that_differ_as_much_as_the_effect_show_nothing(results):
    noisy = results.checkpoints.copy()
    noisy.loc[noisy["size"] == "1K", "trace"] *= noisy.seed.map({0: 0.3, 1: 1.0, 2: 3.0})
    effect = effects.trace_falls_with_size(changed(results, noisy))
    assert effect.low < 0 < effect.high


def test_one_seed_has_no_interval(results):
    one = replaced(results.group, "settings.training.seeds", 1)
    alone = changed(results, results.checkpoints.query("seed == 0"), group=one)
    for effect in (effects.size_gain(alone, "root"), effects.trace_falls_with_size(alone)):
        assert np.isnan([effect.low, effect.high]).all()


def test_correlation_is_signed_and_counts_runs(results):
    agree = effects.size_correlation(results, "root")
    assert 0.5 < agree.value <= 1
    reversed_trace = results.checkpoints.assign(trace=1 / results.checkpoints.trace)
    opposite = effects.size_correlation(changed(results, reversed_trace), "root")
    assert opposite.value == pytest.approx(-agree.value)
    assert np.isnan(effects.size_correlation(results, "span2").value)


def test_what_is_not_saturated_has_no_effect(results):
    far = changed(results, results.checkpoints.assign(saturated=False))
    found = [
        *(
            effect(far, "root")
            for effect in (
                effects.size_gain,
                effects.size_gain_matched,
                effects.trained_over_baseline,
                effects.step_gain,
                effects.step_gain_matched,
                effects.size_correlation,
                effects.step_correlation,
            )
        ),
        *(
            effect(far)
            for effect in (
                effects.trace_falls_with_size,
                effects.trace_falls_with_size_matched,
                effects.trace_falls_with_steps,
            )
        ),
        effects.arm_gain(far, results, "root"),
        effects.arm_trace_excess(results, far),
    ]
    assert np.isnan(found).all()


def test_one_seed_that_is_not_saturated_leaves_its_size_out(results):
    table = results.checkpoints.copy()
    table.loc[(table["size"] == "1K") & (table.seed == 1), "saturated"] = False
    apart = changed(results, table)
    assert effects.saturated_sizes(apart) == ["3K"]
    assert np.isnan(effects.size_gain(apart, "root").low)
    assert effects.trained_over_baseline(apart, "root").value == pytest.approx(30, abs=4)


def arm(results, kl, accuracy):
    """Return results of another algorithm: its KLs are multiplied, its accuracies are given."""
    rng = np.random.default_rng(9)
    probes = {
        key: np.stack([rng.random((3, 400, 2)) < a for a in np.linspace(accuracy - 0.1, accuracy, 6)])
        for key in results.probes
    }
    table = results.checkpoints.assign(kl_mean=kl * results.checkpoints.kl_mean)
    return changed(results, table, probes=probes)


def test_at_equal_kl_a_run_is_taken_where_it_has_that_kl(results):
    """Twice the KL at every step: at the other's last KL, this one's first checkpoints count."""
    ahead = arm(results, 0.5, 0.8)
    assert shared_kl([results, ahead]) == pytest.approx(0.02 / 6)
    ends = effects.arm_gain(ahead, results, "root")
    matched = effects.arm_gain(ahead, results, "root", Compared.EQUAL_KL)
    # `ahead` has KL 0.02 / 6 at its third of six checkpoints, where its accuracy is 0.06 lower.
    assert ends.value - matched.value == pytest.approx(6, abs=2)


def test_interpolation_between_checkpoints_is_in_the_logarithm(results):
    kl = np.sqrt(0.02 / 2 * 0.02 / 3)
    at = effects.accuracy(results, "3K", "root", kl=kl)
    steps = results.steps[1:3]
    around = [effects.accuracy(results, "3K", "root", step=step).value for step in steps]
    assert at.value == pytest.approx(np.mean(around))
    traces = effects.log_traces(results, "3K", kl=kl).value
    ends = [effects.log_traces(results, "3K", step=step).value for step in steps]
    np.testing.assert_allclose(traces, np.mean(ends, axis=0))


def test_an_end_against_where_the_other_had_its_kl(results):
    """The slower one's end, 0.02 / 6, is the faster one's third checkpoint of six."""
    ahead = arm(results, 0.5, 0.8)
    found = effects.arm_gain(results, ahead, "root", Compared.LAST_KL)
    pairs = [
        (effects.accuracy(results, s, "root"), effects.accuracy(ahead, s, "root", step=results.steps[2]))
        for s in results.sizes
    ]
    assert found == pytest.approx(effects.gain(pairs), abs=1e-6)
    assert np.isnan(effects.arm_gain(ahead, results, "root", Compared.LAST_KL).low)
    traces = effects.arm_trace_excess(results, ahead, Compared.LAST_KL)
    assert traces.value == pytest.approx(0.5 - 1, abs=0.03)


def test_no_kl_in_common_is_not_testable(results):
    far = arm(results, 100.0, 0.8)
    assert np.isnan(effects.arm_gain(results, far, "root", Compared.EQUAL_KL).low)
    assert np.isnan(effects.arm_trace_excess(results, far, Compared.EQUAL_KL).low)


def test_size_effects_at_equal_kl(results):
    """Both sizes have the same KLs here, so matching changes nothing."""
    assert effects.size_gain_matched(results, "root") == effects.size_gain(results, "root")
    matched = effects.trace_falls_with_size_matched(results)
    assert matched == effects.trace_falls_with_size(results)


def test_steps_at_equal_kl_count_within_runs(results):
    """Accuracy made of steps and KL: the coefficient of the steps comes back."""
    rng = np.random.default_rng(0)
    kl = 0.01 * np.exp(rng.normal(size=len(results.checkpoints)) / 3)
    accuracy = 3 * np.log2(results.checkpoints.step) - 20 * np.log(kl) + 10 * results.checkpoints.seed
    table = results.checkpoints.assign(kl_mean=kl, root=accuracy)
    found = effects.step_gain_matched(changed(results, table), "root")
    assert found.value == pytest.approx(3)
    assert found.low == pytest.approx(3)


def test_equivalence_is_positive_where_both_ends_are_small():
    assert effects.equivalence(Interval(0.1, -0.5, 0.6), 2.0).low == pytest.approx(1.4)
    assert effects.equivalence(Interval(-3.0, -4.0, -2.5), 2.0).high == pytest.approx(-0.5)


def test_the_worst_size_decides_whether_the_entropy_is_reached(results):
    table = results.checkpoints.copy()
    table.loc[table["size"] == "1K", "kl_mean"] += 0.01
    found = effects.reaches_entropy(changed(results, table), 0.02)
    assert found.value == pytest.approx(0.02 - 0.02 / 6 - 0.01)
    better = effects.reaches_entropy(changed(results, table), 0.02, ["3K"])
    assert better.value == pytest.approx(0.02 - 0.02 / 6)


def test_a_training_that_is_too_short_says_nothing_of_the_entropy(results):
    """Where it would end is not known: no limit, however far, is missed."""
    table = results.checkpoints.copy()
    table.loc[table["size"] == "1K", ["kl_mean", "saturated"]] = 1.0, False
    short = changed(results, table)
    assert np.isnan(effects.reaches_entropy(short, 0.02)).all()
    assert effects.reaches_entropy(short, 0.02, ["3K"]).low > 0


def test_the_entropys_interval_is_over_seeds(results):
    """Student's t of three seeds: 4.30 standard errors."""
    table = results.checkpoints.assign(kl_mean=0.01 + 0.001 * results.checkpoints.seed)
    found = effects.reaches_entropy(changed(results, table), 0.02)
    assert found.value == pytest.approx(0.009)
    assert (found.high - found.low) / 2 == pytest.approx(4.303 * 0.001 / 3**0.5, rel=0.1)


def test_the_last_of_a_sweep_that_saturates_is_judged(results):
    far = changed(results, results.checkpoints.assign(saturated=False))
    mild, strong = (changed(results, results.checkpoints) for _ in range(2))
    assert effects.strongest_saturated([mild, strong, far]) is strong
    assert effects.strongest_saturated([mild, far, strong, far]) is strong
    assert effects.strongest_saturated([far]) is None
    assert effects.strongest_saturated([]) is None
