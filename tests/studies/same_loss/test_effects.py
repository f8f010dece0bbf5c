"""Effects on made-up results whose answer is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up import changed, made_up

from sameloss.statistics.association import dose_slope
from sameloss.statistics.bootstrap import UNDEFINED, Interval
from sameloss.studies.config import replaced
from sameloss.studies.same_loss import effects
from sameloss.studies.same_loss.effects import Compared
from sameloss.studies.same_loss.groups import UNTREATED
from sameloss.studies.same_loss.results import excess, final, log_traces, shared_kl


def drawn_as(results, **probes):
    """Return results whose untrained models are right in other sentences, given by size."""
    untrained = {(size, seed): own for size, right in probes.items() for seed, own in enumerate(right)}
    return changed(results, results.checkpoints, drawn=replace(results.drawn, probes=untrained))


def test_size_gain(results):
    gain = effects.size_gain(results, "root")
    assert gain.value == pytest.approx(20, abs=3)
    assert gain.low > 10


def test_a_size_effect_is_net_of_untrained_models(results):
    """What they are better by before any training, the larger size loses: here 30 of its 20 points."""
    rng = np.random.default_rng(4)
    biased = {size: rng.random((3, 1, 3, 400, 2)) < share for size, share in (("1K", 0.2), ("3K", 0.5))}
    before, net = results, drawn_as(results, **biased)
    for effect in (effects.size_gain, effects.size_gain_matched):
        assert effect(net, "root").value == pytest.approx(effect(before, "root").value - 30, abs=3)
        assert effect(net, "root").high < 0


def test_what_training_adds_is_paired_with_the_untrained_model(results):
    """Untrained models are right in half of the sentences; one that learnt nothing adds exactly nothing."""
    assert effects.net_accuracy(results, "3K", "root").value == pytest.approx(0.3, abs=0.03)
    last = {"3K": [results.probes["3K", seed][-1:] for seed in range(3)]}
    same = effects.net_accuracy(drawn_as(results, **last), "3K", "root")
    assert same.value == 0
    assert (same.replicates == 0).all()


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


def test_correlation_is_signed_and_counts_runs(three_sizes):
    agree = effects.size_correlation(three_sizes, "root")
    assert 0.5 < agree.value <= 1
    reversed_trace = three_sizes.checkpoints.assign(trace=1 / three_sizes.checkpoints.trace)
    opposite = effects.size_correlation(changed(three_sizes, reversed_trace), "root")
    assert opposite.value == pytest.approx(-agree.value)
    assert np.isnan(effects.size_correlation(three_sizes, "span2").value)


def test_a_correlation_of_sizes_needs_three_that_end_saturated(results, three_sizes):
    """Of two sizes it would be a difference; a size one seed of which is not saturated does not count."""
    assert np.isnan(effects.size_correlation(results, "root")).all()
    table = three_sizes.checkpoints.copy()
    table.loc[(table["size"] == "9K") & (table.seed == 1), "saturated"] = False
    assert np.isnan(effects.size_correlation(changed(three_sizes, table), "root")).all()


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
                effects.trace_of_larger_matched,
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


def test_no_kl_in_common_is_not_testable(results):
    far = arm(results, 100.0, 0.8)
    assert np.isnan(effects.arm_gain(results, far, "root", Compared.EQUAL_KL).low)
    assert np.isnan(effects.arm_trace_excess(results, far, Compared.EQUAL_KL).low)


def test_size_effects_at_equal_kl(results):
    """Both sizes have the same KLs here, so matching changes nothing."""
    assert effects.size_gain_matched(results, "root") == effects.size_gain(results, "root")
    matched = effects.trace_falls_with_size_matched(results)
    assert matched == effects.trace_falls_with_size(results)
    larger = effects.trace_of_larger_matched(results)
    assert larger.value == pytest.approx(1 / (1 + matched.value) - 1)
    assert -1 < larger.low < larger.value < larger.high < 0


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


def test_the_last_fall_of_log_kl_is_that_of_the_last_doubling_of_the_steps(results):
    """From step 80, the fourth checkpoint, to step 160, the sixth, the KL falls from 1/4 to 1/6."""
    assert results.steps == (10, 20, 40, 80, 120, 160)
    assert effects.last_fall_of_log_kl(results).value == pytest.approx(np.log(6 / 4))
    table = results.checkpoints.copy()
    table.loc[(table["size"] == "3K") & (table.step == 160), "kl_mean"] = 0.02 / 4
    only_one_falls = effects.last_fall_of_log_kl(changed(results, table))
    assert only_one_falls.value == pytest.approx(np.log(6 / 4) / 2)


def test_without_a_doubling_of_the_steps_there_is_no_last_fall(results):
    """Of one checkpoint."""
    group = replaced(results.group, "settings.training.checkpoints", (1.0,))
    last = results.checkpoints[results.checkpoints.step == 160]
    assert effects.last_fall_of_log_kl(changed(results, last, group=group)) == UNDEFINED


def test_its_interval_is_over_seeds(results):
    """Falls of 0.1, 0.2 and 0.3, the same for both sizes: 4.30 times 0.1 / √3."""
    table = results.checkpoints.copy()
    last = table.step == 160
    table.loc[last, "kl_mean"] = 0.02 / 4 * np.exp(-0.1 * (1 + table.seed[last]))
    found = effects.last_fall_of_log_kl(changed(results, table))
    assert found.value == pytest.approx(0.2)
    assert (found.high - found.low) / 2 == pytest.approx(4.303 * 0.1 / 3**0.5, rel=0.1)


def test_less_than_is_positive_where_all_of_the_interval_stays_below():
    assert effects.less_than(0.1, Interval(0.05, 0.0, 0.09)).low == pytest.approx(0.01)
    assert effects.less_than(0.1, Interval(0.05, -0.5, 0.11)).low == pytest.approx(-0.01)
    assert effects.less_than(0.1, Interval(0.3, 0.2, 0.4)).high == pytest.approx(-0.1)


# Cooled to one loss


@pytest.fixture
def cooled(page):
    """Make up a cooled group of one size; its last KLs, traces and accuracies are given by seed."""

    def make(kl, trace=(50.0, 51.0, 52.0), root=(80.0, 81.0, 82.0), error=0.0001):
        found = made_up(UNTREATED.group(page.config), page.store)
        given = {"kl_mean": kl, "trace": trace, "root": root, "kl_standard_error": error}
        return changed(found, found.checkpoints.assign(**given))

    return make


def test_steps_with_exact_labels_are_not_compared_with_those_after_them(results):
    """Up to the last checkpoint: so nothing is left to compare with it."""
    settings = results.group.settings
    language = replace(settings.domain, exact_share=0.99)
    settings = replace(settings, domains={**settings.domains, "PCFG": language})
    exact = changed(replace(results, group=replace(results.group, settings=settings)), results.checkpoints)
    assert results.group.exact_steps == 0 < exact.group.exact_steps < exact.steps[-1]
    assert effects.saturated_ends(results)
    assert effects.saturated_ends(exact) == []
    for effect in (effects.step_gain, effects.step_gain_matched):
        assert not np.isnan(effect(results, "root").low)
        assert np.isnan(effect(exact, "root").low)
    assert not np.isnan(effects.last_fall_of_log_kl(results).low)
    assert np.isnan(effects.last_fall_of_log_kl(exact).low)
    assert np.isnan(effects.trace_falls_with_steps(exact).low)


def test_the_difference_of_kls_is_paired_and_its_error_counts_seeds_and_sentences(cooled):
    """Differences of 1, 2 and 3 thousandths; errors of 3 and 4 thousandths of the two sets of sentences."""
    first, second = cooled([0.011, 0.022, 0.033], error=0.003), cooled([0.010, 0.020, 0.030], error=0.004)
    difference, error = effects.kl_difference(first, second, "3K")
    assert difference == pytest.approx(0.002)
    assert error == pytest.approx(np.sqrt(0.001**2 / 3 + 0.003**2 + 0.004**2))
    turned = changed(second, second.checkpoints.iloc[::-1])
    assert effects.kl_difference(first, turned, "3K") == (difference, error)


@pytest.mark.parametrize(
    ("apart", "errors", "equal"),
    [
        (0.0, (0.0003, 0.0004), True),
        (0.0019, (0.0003, 0.0004), True),
        (-0.0019, (0.0003, 0.0004), True),
        (0.0021, (0.0003, 0.0004), False),
        (-0.0021, (0.0003, 0.0004), False),
        (0.0, (0.0009, 0.0012), True),
        (0.0, (0.0012, 0.0016), False),
    ],
)
def test_cooled_models_are_compared_where_their_kls_are_shown_to_be_equal(apart, errors, equal, cooled):
    """Difference and two errors within 0.15 of a KL of 0.02: a noisier pair is refused."""
    own = np.array([0.010, 0.020, 0.030])
    untreated, treated = cooled(own, error=errors[0]), cooled(own + apart, np.e * 50.0, error=errors[1])
    trace = effects.arm_trace_excess(treated, untreated, Compared.COOLED)
    gain = effects.arm_gain(treated, untreated, "root", Compared.COOLED)
    assert np.isfinite(trace).all() == np.isfinite(gain).all() == equal
    if equal:
        pair = log_traces(treated, "3K"), log_traces(untreated, "3K")
        assert trace == excess([pair])


def test_of_one_seed_no_kl_is_shown_to_be_equal(results, cooled):
    one = replaced(cooled(0.02).group, "settings.training.seeds", 1)
    alone = [cooled(0.02) for _ in range(2)]
    alone = [changed(found, found.checkpoints.query("seed == 0"), group=one) for found in alone]
    assert np.isnan(effects.kl_difference(*alone, "3K")[1])
    assert effects.arm_gain(*alone, "root", Compared.COOLED) == UNDEFINED


def test_those_of_another_kl_are_left_out(cooled):
    kl = np.array([0.010, 0.020, 0.030])
    untreated, near, far = cooled(kl), cooled(kl), cooled(kl + 0.1)
    found = effects.equally_cooled([untreated, far, near])
    assert [any(one is own for own in found) for one in (untreated, far, near)] == [True, False, True]
    assert len(found) == 2


def test_the_response_to_a_dose_is_within_seeds_and_at_equal_kl(cooled):
    """A factor e of the trace costs two points in every seed, however unlike the seeds are."""
    kl, level, base = np.array([0.01, 0.02, 0.03]), np.array([50.0, 60.0, 70.0]), np.array([1.0, 5.0, 9.0])
    doses = (0.0, 1.0, -0.5)
    treated = [cooled(kl, base * np.exp(dose), level - 2 * dose) for dose in doses]
    far = cooled(kl + 0.1, base * np.exp(2.0), level + 50)
    response = effects.dose_response([*treated, far], "root")
    assert response == pytest.approx((2.0, 2.0, 2.0))
    every = pd.concat([final(found) for found in treated])
    assert response == dose_slope(every, "root")
    assert np.isnan(effects.dose_response([treated[0], far], "root").value)  # one dose is left


def test_the_last_of_a_sweep_that_saturates_is_judged(results):
    far = changed(results, results.checkpoints.assign(saturated=False))
    mild, strong = (changed(results, results.checkpoints) for _ in range(2))
    assert effects.strongest_saturated([mild, strong, far]) is strong
    assert effects.strongest_saturated([mild, far, strong, far]) is strong
    assert effects.strongest_saturated([far]) is None
    assert effects.strongest_saturated([]) is None
