"""The paper's claims: each with its place, its number, its tolerance, and the effect by which it is judged.

O is the OpenReview text, I the ICML text. Tolerances are fixed before the runs that they judge.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sameloss.statistics.bootstrap import UNDEFINED, Interval
from sameloss.studies.same_loss import effects
from sameloss.studies.same_loss.effects import Compared, arm_gain, arm_trace_excess, equivalence
from sameloss.studies.same_loss.groups import (
    ADAMW,
    ADVERSARIAL,
    COOLED,
    HMM,
    MAIN,
    MASK_RATE,
    NOISY,
    ONE_MASK,
    OPT,
    SAM,
    SGD_AFTER_ADAMW,
    SGD_AFTER_ADAMW_HMM,
    SHARPENED,
    UNTREATED,
    Arm,
    Group,
)
from sameloss.studies.same_loss.results import Results, enlarged_totals
from sameloss.studies.verdict import Claim, Topic

POINTS, NATS, EXCESS, R2 = "accuracy points", "nats", "relative excess", "signed r²"
SLOPE = "points a factor e"

LITTLE_ACCURACY = 2.0
"""What "does not change much" may be (App. E), in accuracy points."""

LITTLE_LOG_KL = 0.1
"""By how much a log KL that has levelled off may still fall where the steps double."""

OURS = "this book"
"""In the place of a claim that the paper does not publish, but that follows from what it says."""


@dataclass(frozen=True)
class ArmClaim(Claim):
    """A claim about groups of models, judged where a page has them as the paper means them."""

    arms: tuple[Arm, ...]  # what it is about; the first has the task
    effect: Callable[..., Interval]  # of the results of the arms and, where there is one, of the task
    task: int | None = field(default=None, kw_only=True)
    """Which of its tasks: 0, 1, 2 for the paper's A, B, C; the last where it has fewer."""

    def compute(self, results: list[Results]) -> Interval:
        """Return the effect; undefined where one of the arms it needs is not there."""
        needed = 1 + (len(self.arms) > 1)
        if len(results) < needed:
            return UNDEFINED
        return self.effect(
            *results, **({} if self.task is None else {"task": self.task_name(results[0].group)})
        )

    def task_name(self, group: Group) -> str | None:
        """Return the name of the task in a group of models."""
        tasks = group.tasks
        return None if self.task is None else tasks[min(self.task, len(tasks) - 1)]


def adversary_gain(
    ordinary: Results, *sweep: Results, task: str, compared: Compared = Compared.ENDS
) -> Interval:
    """Return AdamW's gain over the strongest adversary that still saturates, in points."""
    attacked = effects.strongest_saturated(sweep)
    return UNDEFINED if attacked is None else arm_gain(ordinary, attacked, task, compared)


def adversary_trace(ordinary: Results, *sweep: Results, compared: Compared = Compared.ENDS) -> Interval:
    """Return trace(adversarial) / trace(AdamW) - 1 of that adversary."""
    attacked = effects.strongest_saturated(sweep)
    return UNDEFINED if attacked is None else arm_trace_excess(attacked, ordinary, compared)


def entropy(results: Results) -> Interval:
    """Return by how much the KL of the largest size stays below the limit of saturation."""
    return effects.reaches_entropy(results, results.saturated_kl, results.sizes[-1:])


def enlarged_trace(results: Results) -> Interval:
    """Return trace(smallest) / trace(largest) - 1 with all models enlarged to one width as in App. B.1."""
    totals = enlarged_totals(results.frame("enlargement"))
    return effects.smallest_over_largest(results, totals[totals.way == "enlarged"])


def little_change(first: Results, second: Results, task: str) -> Interval:
    """Return by how much the difference of two arms stays below what counts as little."""
    return equivalence(arm_gain(first, second, task), LITTLE_ACCURACY)


ATTACK = (ADAMW, *ADVERSARIAL)
adversary_gain_matched = partial(adversary_gain, compared=Compared.EQUAL_KL)
adversary_trace_matched = partial(adversary_trace, compared=Compared.EQUAL_KL)
noise_trace = partial(arm_trace_excess, compared=Compared.COOLED)
noise_gain = partial(arm_gain, compared=Compared.COOLED)


def log_kl_levels_off(results: Results) -> Interval:
    """Return `LITTLE_LOG_KL` less the fall of log KL over the last doubling of the steps, all sizes' mean."""
    return effects.less_than(LITTLE_LOG_KL, effects.last_fall_of_log_kl(results))


def every_size_saturates(results: Results) -> Interval:
    """Return by how much the KL of the size that is furthest from the entropy stays below saturation."""
    return effects.reaches_entropy(results, results.saturated_kl)


def slope_of_treatments(*treated: Results, task: str) -> Interval:
    """Return the points gained where a treatment makes the trace fall by a factor e, at equal KL."""
    return effects.dose_response(treated, task)


def not_computed(results: Results) -> Interval:
    """Return an undefined effect: of SST-2, which needs the real OPT."""
    return UNDEFINED


# fmt: off
TOPICS: tuple[Topic[ArmClaim], ...] = (
    Topic("Do models reach the best possible loss?", (
        ArmClaim("entropy", "§2.3", "PCFG: with size, the loss reaches the entropy",
                 "02_existence", (MAIN,), entropy, unit=NATS),
        ArmClaim("entropy-hmm", "§2.3", "HMM: with size, the loss reaches the entropy",
                 "02_existence", (HMM,), entropy, unit=NATS),
        ArmClaim("entropy-opt", "§2.3", "OPT text: with size, the loss reaches the entropy",
                 "02_existence", (OPT,), entropy, unit=NATS),
        ArmClaim("logkl", "I, Fig. 10", "log KL levels off: it falls by less than a tenth as steps double",
                 "02_existence", (MAIN,), log_kl_levels_off, unit="log KL"),
    )),
    Topic("At the same loss, are larger models better?", (
        ArmClaim("fig2", "Fig. 2a", "larger models are more accurate, net of untrained ones (task B)",
                 "02_existence", (MAIN,), effects.size_gain, task=1, value=6.9, unit=POINTS),
        ArmClaim("fig9", "Fig. 9", "larger models more accurate on PCFG task A, net of untrained ones",
                 "02_existence", (MAIN,), effects.size_gain, task=0, unit=POINTS),
        ArmClaim("size-matched", OURS, "at exactly equal KL, larger models are more accurate (task B)",
                 "02_existence", (MAIN,), effects.size_gain_matched, task=1, unit=POINTS),
        ArmClaim("fig2-hmm", "Fig. 2b",
                 "larger models more accurate on the HMM, net of untrained ones (task-10)",
                 "02_existence", (HMM,), effects.size_gain, task=1, value=4.5, unit=POINTS),
        ArmClaim("fig9-hmm", "Fig. 9",
                 "larger models more accurate on the HMM, net of untrained ones (task-6)",
                 "02_existence", (HMM,), effects.size_gain, task=0, unit=POINTS),
        ArmClaim("size-matched-hmm", OURS,
                 "at exactly equal KL, larger models are more accurate on the HMM (task-10)",
                 "02_existence", (HMM,), effects.size_gain_matched, task=1, unit=POINTS),
        ArmClaim("fig2-opt", "Fig. 2c",
                 "larger models more accurate on OPT text, net of untrained ones (QNLI)",
                 "02_existence", (OPT,), effects.size_gain, task=0, value=2.0, unit=POINTS),
        ArmClaim("fig9-opt", "Fig. 9",
                 "larger models more accurate on OPT text, net of untrained ones (SST-2)",
                 "02_existence", (OPT,), not_computed, unit=POINTS),
    )),
    Topic("Once the loss has converged, do more steps make models better?", (
        ArmClaim("fig1", "Fig. 1a", "after the loss has converged, more steps raise accuracy (task C)",
                 "02_existence", (MAIN,), effects.step_gain, task=2, unit=POINTS),
        ArmClaim("fig1-matched", OURS, "at equal KL, accuracy rises with each doubling of the steps (task C)",
                 "02_existence", (MAIN,), effects.step_gain_matched, task=2, unit=POINTS),
        ArmClaim("fig3-accuracy", "Fig. 3", "SGD: accuracy rises as the trace falls (task C)",
                 "04_flatness", (SGD_AFTER_ADAMW,), effects.step_gain, task=2, value=1.6, unit=POINTS),
        ArmClaim("fig3-hmm", "Fig. 3", "SGD on the HMM: accuracy rises as the trace falls (task-10)",
                 "04_flatness", (SGD_AFTER_ADAMW_HMM,), effects.step_gain, task=1, value=4.0, unit=POINTS),
        ArmClaim("fig1-opt", "Fig. 1b",
                 "after the loss has converged, more steps raise accuracy on OPT text (QNLI)",
                 "02_existence", (OPT,), effects.step_gain, task=0, unit=POINTS),
    )),
    Topic("Is a lookup table, whose loss is perfect, worse?", (
        ArmClaim("tab1-lookup-A", "Tab. 1", "a lookup table probes worse than trained models (task A)",
                 "02_existence", (MAIN,), effects.trained_over_baseline, task=0, value=18.7, unit=POINTS),
        ArmClaim("tab1-lookup-B", "Tab. 1", "a lookup table probes worse than trained models (task B)",
                 "02_existence", (MAIN,), effects.trained_over_baseline, task=1, value=9.5, unit=POINTS),
    )),
    Topic("Are larger models flatter?", (
        ArmClaim("fig5-trace", "Fig. 5", "larger models have a smaller trace",
                 "04_flatness", (MAIN,), effects.trace_falls_with_size, value=2.68 / 1.54 - 1, unit=EXCESS),
        ArmClaim("fig5-trace-matched", OURS, "larger models have a smaller trace at exactly equal KL",
                 "04_flatness", (MAIN,), effects.trace_falls_with_size_matched,
                 value=2.68 / 1.54 - 1, unit=EXCESS),
        ArmClaim("fig5-enlarged", "Fig. 5 (I)",
                 "enlarged to one architecture, larger models have a smaller trace",
                 "b2_enlargement", (MAIN,), enlarged_trace, value=19.8 / 12.6 - 1, unit=EXCESS),
    )),
    Topic("Once the loss has converged, do more steps make models flatter?", (
        ArmClaim("fig3-trace", "Fig. 3", "SGD: after convergence, more steps lower the trace",
                 "04_flatness", (SGD_AFTER_ADAMW,), effects.trace_falls_with_steps, unit=EXCESS),
        ArmClaim("fig3-trace-adamw", "Fig. 3", "AdamW: after convergence, more steps lower the trace",
                 "04_flatness", (MAIN,), effects.trace_falls_with_steps, unit=EXCESS),
        ArmClaim("fig3-trace-hmm", "Fig. 3", "SGD on the HMM: after convergence, more steps lower the trace",
                 "04_flatness", (SGD_AFTER_ADAMW_HMM,), effects.trace_falls_with_steps, unit=EXCESS),
    )),
    Topic("Is the flatter model the more accurate one?", (
        ArmClaim("fig5-r2", "Fig. 5", "across sizes, accuracy falls as the trace rises: signed r²",
                 "04_flatness", (MAIN,), effects.size_correlation, task=1, value=0.92, unit=R2),
        ArmClaim("fig5-hmm", "Fig. 5",
                 "across sizes on the HMM, accuracy falls as the trace rises: signed r²",
                 "04_flatness", (HMM,), effects.size_correlation, task=1, value=0.94, unit=R2),
        ArmClaim("fig5-opt", "Fig. 5",
                 "across sizes on OPT text, accuracy falls as the trace rises: signed r²",
                 "04_flatness", (OPT,), effects.size_correlation, task=0, value=0.87, unit=R2),
        ArmClaim("fig10-A", "Fig. 10", "SGD: accuracy falls as the trace rises (task A): signed r²",
                 "04_flatness", (SGD_AFTER_ADAMW,), effects.step_correlation, task=0, unit=R2),
        ArmClaim("fig10-B", "Fig. 10", "SGD: accuracy falls as the trace rises (task B): signed r²",
                 "04_flatness", (SGD_AFTER_ADAMW,), effects.step_correlation, task=1, unit=R2),
        ArmClaim("fig10-hmm", "Fig. 10",
                 "SGD on the HMM: accuracy falls as the trace rises (task-6): signed r²",
                 "04_flatness", (SGD_AFTER_ADAMW_HMM,), effects.step_correlation, task=0, unit=R2),
    )),
    Topic("Does label noise flatten?", (
        ArmClaim("noise-trace", "§3",
                 "SGD's label noise lowers the trace, from one saturated point to one loss",
                 "a4_algorithms", (UNTREATED, NOISY), noise_trace, unit=EXCESS),
    )),
    Topic("Does flatness itself cause better transfer?", (
        ArmClaim("dose-A", OURS,
                 "at equal KL, the flatter a treatment makes a model, the more accurate (task A)",
                 "a4_algorithms", COOLED, slope_of_treatments, task=0, unit=SLOPE),
        ArmClaim("dose-B", OURS,
                 "at equal KL, the flatter a treatment makes a model, the more accurate (task B)",
                 "a4_algorithms", COOLED, slope_of_treatments, task=1, unit=SLOPE),
        ArmClaim("noise-accuracy", "§3, §4",
                 "SGD's label noise raises accuracy, from one saturated point to one loss (task A)",
                 "a4_algorithms", (NOISY, UNTREATED), noise_gain, task=0, unit=POINTS),
        ArmClaim("sharpened-accuracy", OURS, "a model that is made sharper is less accurate (task A)",
                 "a4_algorithms", (UNTREATED, SHARPENED), noise_gain, task=0, unit=POINTS),
    )),
    Topic("At the same loss, is an adversary's model worse?", (
        ArmClaim("tab1-adversarial-A-matched", OURS,
                 "adversarial pre-training probes worse at equal KL (task A)",
                 "a4_algorithms", ATTACK, adversary_gain_matched, task=0, value=6.8, unit=POINTS),
        ArmClaim("tab1-adversarial-B-matched", OURS,
                 "adversarial pre-training probes worse at equal KL (task B)",
                 "a4_algorithms", ATTACK, adversary_gain_matched, task=1, value=6.9, unit=POINTS),
        ArmClaim("tab1-adversarial-A", "Tab. 1", "adversarial pre-training probes worse (task A)",
                 "a4_algorithms", ATTACK, adversary_gain, task=0, value=6.8, unit=POINTS),
        ArmClaim("tab1-adversarial-B", "Tab. 1", "adversarial pre-training probes worse (task B)",
                 "a4_algorithms", ATTACK, adversary_gain, task=1, value=6.9, unit=POINTS),
        ArmClaim("tab2-accuracy", "Tab. 2 (I)",
                 "adversarial pre-training probes worse (task C, which is inferred)",
                 "04_flatness", ATTACK, adversary_gain, task=2, value=5.5, unit=POINTS),
    )),
    Topic("Is an adversary's model sharper?", (
        ArmClaim("tab2-trace-matched", OURS, "adversarial pre-training has a larger trace at equal KL",
                 "04_flatness", ATTACK, adversary_trace_matched, value=19.34 / 8.01 - 1, unit=EXCESS),
        ArmClaim("tab2-trace", "Tab. 2 (I)", "adversarial pre-training has a larger trace",
                 "04_flatness", ATTACK, adversary_trace, value=19.34 / 8.01 - 1, unit=EXCESS),
    )),
    Topic("Does SAM find flatter models?", (
        ArmClaim("sam-trace", "App. D", "SAM finds flatter models",
                 "d_practice", (ADAMW, SAM), arm_trace_excess, unit=EXCESS),
        ArmClaim("sam-accuracy", "App. D", "SAM finds more accurate models (task B)",
                 "d_practice", (SAM, ADAMW), arm_gain, task=1, unit=POINTS),
    )),
    Topic("Does it stay so with the usual 15 % of masks?", (
        ArmClaim("mask15", "App. E", f"15 % masking changes accuracy by less than {LITTLE_ACCURACY:g} points",
                 "e_mask_rate", (MASK_RATE, ONE_MASK), little_change, task=1, unit=POINTS),
        ArmClaim("mask15-kl", "App. E", "with 15 % masking, models saturate",
                 "e_mask_rate", (MASK_RATE,), every_size_saturates, unit=NATS),
        ArmClaim("mask15-size", "Fig. 11", "with 15 % masking, larger models more accurate, net of untrained",
                 "e_mask_rate", (MASK_RATE,), effects.size_gain, task=1, unit=POINTS),
        ArmClaim("mask15-r2", "Fig. 11", "with 15 % masking, accuracy falls as the trace rises: signed r²",
                 "e_mask_rate", (MASK_RATE,), effects.size_correlation, task=1, unit=R2),
    )),
)
# fmt: on
"""The questions that the claims are about, each with its claims, the most direct one first."""

CLAIMS: tuple[ArmClaim, ...] = tuple(claim for topic in TOPICS for claim in topic.claims)
