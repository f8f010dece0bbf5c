"""The paper's claims, each with the effect by which this book judges it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from sameloss.statistics.bootstrap import UNDEFINED, Interval
from sameloss.studies.same_loss import effects
from sameloss.studies.same_loss.arms import (
    ADAMW,
    ADVERSARIAL,
    AFTER,
    AFTER_HMM,
    HMM,
    MAIN,
    MASK_RATE,
    NOISE,
    ONE_MASK,
    OPT,
    SAM,
    Arm,
    Study,
)
from sameloss.studies.same_loss.effects import Compared, arm_gain, arm_trace_excess, equivalence
from sameloss.studies.same_loss.paper import LITTLE_ACCURACY, LITTLE_KL, PUBLISHED
from sameloss.studies.same_loss.tables.flatness import AS_THE_PAPER, enlarged_totals, enlarged_traces
from sameloss.studies.verdict import judge

Effect = Callable[[Study, str | None], Interval]
"""From everything measured and the name of a task to an effect."""


@dataclass(frozen=True)
class Claim:
    """A published claim this book computes: how, and where it stands."""

    chapter: str
    arm: Arm  # whose tasks are meant
    task: int | None  # which of them: 0, 1, 2 for the paper's A, B, C
    effect: Effect

    def task_name(self, study: Study) -> str | None:
        """Return the task's name; the last task where there are fewer."""
        tasks = self.arm.setting(study.setting).preset.downstream.tasks
        return None if self.task is None else tasks[min(self.task, len(tasks) - 1)]

    def compute(self, study: Study) -> Interval:
        """Return the effect."""
        return self.effect(study, self.task_name(study))


def of(arm: Arm, effect: Callable[..., Interval]) -> Effect:
    """Return an effect of one arm's results, and of the task where it is about one."""
    return lambda study, task: effect(study.of(arm), *([] if task is None else [task]))


def adversary_gain(study: Study, task: str | None, compared: Compared = "after all steps") -> Interval:
    """Return AdamW's gain over the strongest adversary that still saturates, in points."""
    arm = study.strongest_saturated(ADVERSARIAL)
    return UNDEFINED if arm is None else arm_gain(study.of(ADAMW), study.of(arm), task, compared)


def adversary_trace(study: Study, _: str | None, compared: Compared = "after all steps") -> Interval:
    """Return trace(adversarial) / trace(AdamW) - 1 of that adversary."""
    arm = study.strongest_saturated(ADVERSARIAL)
    return UNDEFINED if arm is None else arm_trace_excess(study.of(arm), study.of(ADAMW), compared)


EXACT, *_, SAMPLED = NOISE


def noise_trace(study: Study, _: str | None) -> Interval:
    """Return trace(exact labels) / trace(sampled labels) - 1, both SGD from the same saturated point."""
    study.prepare([EXACT, SAMPLED])
    return arm_trace_excess(study.of(EXACT), study.of(SAMPLED))


def noise_accuracy(study: Study, task: str | None) -> Interval:
    """Return the accuracy that label noise adds, in points, from the same saturated point."""
    study.prepare([EXACT, SAMPLED])
    return arm_gain(study.of(SAMPLED), study.of(EXACT), task)


def enlarged_trace(study: Study, _: str | None) -> Interval:
    """Return trace(smallest) / trace(largest) - 1 with all models enlarged to one width as in App. B.1."""
    results = study.of(MAIN)
    totals = enlarged_totals(enlarged_traces(results.setting))
    return effects.smallest_over_largest(results, totals[totals.comparison == AS_THE_PAPER])


def mask_accuracy(study: Study, task: str | None) -> Interval:
    """Return by how much the difference that 15 % masks make stays below what counts as little."""
    study.prepare([MASK_RATE, ONE_MASK])
    return equivalence(arm_gain(study.of(MASK_RATE), study.of(ONE_MASK), task), LITTLE_ACCURACY)


def entropy(arm: Arm) -> Effect:
    """Return the effect: by how much the KL of the largest size stays below the limit of saturation."""

    def effect(study: Study, _: str | None) -> Interval:
        results = study.of(arm)
        return effects.reaches_entropy(results, study.setting.preset.saturated_kl, results.sizes[-1:])

    return effect


def mask_kl(study: Study, _: str | None) -> Interval:
    """Return by how much the KL of training with 15 % masks stays below what counts as little."""
    return effects.reaches_entropy(study.of(MASK_RATE), LITTLE_KL)


CLAIMS: dict[str, Claim] = {
    "entropy": Claim("02_existence", MAIN, None, entropy(MAIN)),
    "entropy-hmm": Claim("02_existence", HMM, None, entropy(HMM)),
    "entropy-opt": Claim("02_existence", OPT, None, entropy(OPT)),
    "fig1": Claim("02_existence", MAIN, 2, of(MAIN, effects.step_gain)),
    "fig1-matched": Claim("02_existence", MAIN, 2, of(MAIN, effects.step_gain_matched)),
    "fig2": Claim("02_existence", MAIN, 1, of(MAIN, effects.size_gain)),
    "fig2-hmm": Claim("02_existence", HMM, 1, of(HMM, effects.size_gain)),
    "fig2-opt": Claim("02_existence", OPT, 0, of(OPT, effects.size_gain)),
    "fig9": Claim("02_existence", MAIN, 0, of(MAIN, effects.size_gain)),
    "fig9-hmm": Claim("02_existence", HMM, 0, of(HMM, effects.size_gain)),
    "fig9-opt": Claim("02_existence", OPT, None, lambda study, _: UNDEFINED),  # SST-2 needs the real OPT
    "logkl": Claim("02_existence", MAIN, 1, of(MAIN, effects.size_gain_matched)),
    "logkl-hmm": Claim("02_existence", HMM, 1, of(HMM, effects.size_gain_matched)),
    "tab1-lookup-A": Claim("02_existence", MAIN, 0, of(MAIN, effects.trained_over_baseline)),
    "tab1-lookup-B": Claim("02_existence", MAIN, 1, of(MAIN, effects.trained_over_baseline)),
    "tab1-adversarial-A": Claim("a4_algorithms", ADAMW, 0, adversary_gain),
    "tab1-adversarial-B": Claim("a4_algorithms", ADAMW, 1, adversary_gain),
    "tab1-adversarial-A-matched": Claim(
        "a4_algorithms", ADAMW, 0, partial(adversary_gain, compared="at equal KL")
    ),
    "tab1-adversarial-B-matched": Claim(
        "a4_algorithms", ADAMW, 1, partial(adversary_gain, compared="at equal KL")
    ),
    "fig3-trace": Claim("04_flatness", AFTER, None, of(AFTER, effects.trace_falls_with_steps)),
    "fig3-trace-adamw": Claim("04_flatness", MAIN, None, of(MAIN, effects.trace_falls_with_steps)),
    "fig3-trace-hmm": Claim("04_flatness", AFTER_HMM, None, of(AFTER_HMM, effects.trace_falls_with_steps)),
    "fig3-accuracy": Claim("04_flatness", AFTER, 2, of(AFTER, effects.step_gain)),
    "fig3-hmm": Claim("04_flatness", AFTER_HMM, 1, of(AFTER_HMM, effects.step_gain)),
    "tab2-trace": Claim("04_flatness", ADAMW, None, adversary_trace),
    "tab2-trace-matched": Claim("04_flatness", ADAMW, None, partial(adversary_trace, compared="at equal KL")),
    "tab2-accuracy": Claim("04_flatness", ADAMW, 2, adversary_gain),
    "fig5-trace": Claim("04_flatness", MAIN, None, of(MAIN, effects.trace_falls_with_size)),
    "fig5-trace-matched": Claim("04_flatness", MAIN, None, of(MAIN, effects.trace_falls_with_size_matched)),
    "fig5-enlarged": Claim("b2_enlargement", MAIN, None, enlarged_trace),
    "fig5-r2": Claim("04_flatness", MAIN, 1, of(MAIN, effects.size_correlation)),
    "fig5-hmm": Claim("04_flatness", HMM, 1, of(HMM, effects.size_correlation)),
    "fig5-opt": Claim("04_flatness", OPT, 0, of(OPT, effects.size_correlation)),
    "fig10-A": Claim("04_flatness", AFTER, 0, of(AFTER, effects.step_correlation)),
    "fig10-B": Claim("04_flatness", AFTER, 1, of(AFTER, effects.step_correlation)),
    "fig10-hmm": Claim("04_flatness", AFTER_HMM, 0, of(AFTER_HMM, effects.step_correlation)),
    "noise-trace": Claim("a4_algorithms", ADAMW, None, noise_trace),
    "noise-accuracy": Claim("a4_algorithms", ADAMW, 2, noise_accuracy),
    "sam-trace": Claim(
        "d_practice", ADAMW, None, lambda study, _: arm_trace_excess(study.of(ADAMW), study.of(SAM))
    ),
    "sam-accuracy": Claim(
        "d_practice", ADAMW, 1, lambda study, task: arm_gain(study.of(SAM), study.of(ADAMW), task)
    ),
    "mask15": Claim("e_mask_rate", MASK_RATE, 1, mask_accuracy),
    "mask15-kl": Claim("e_mask_rate", MASK_RATE, None, mask_kl),
    "mask15-size": Claim("e_mask_rate", MASK_RATE, 1, of(MASK_RATE, effects.size_gain)),
    "mask15-r2": Claim("e_mask_rate", MASK_RATE, 1, of(MASK_RATE, effects.size_correlation)),
}


def verdict_table(study: Study, chapter: str | None = None) -> pd.DataFrame:
    """Return paper beside ours: one row a published claim, with a computed verdict.

    Args:
        study: what was measured.
        chapter: only the claims of this chapter about what it studies; where None everything published.

    """
    rows, tolerance = [], study.setting.preset.tolerance
    for name, claim in CLAIMS.items():
        if chapter and (claim.chapter != chapter or claim.arm not in study.arms):
            continue
        published, effect = PUBLISHED[name], claim.compute(study)
        if tolerance is not None:
            published = replace(published, tolerance=tolerance)
        rows.append(
            {
                "id": name,
                "place": published.place,
                "claim": published.claim,
                "paper": published.value,
                "unit": published.unit,
                "task": claim.task_name(study),
                "ours": effect.value,
                "low": effect.low,
                "high": effect.high,
                "verdict": str(judge(effect, published)),
            }
        )
    return pd.DataFrame(rows)
