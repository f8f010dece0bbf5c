"""The groups of pre-trainings that the book compares, by name."""

from dataclasses import dataclass, replace
from typing import Literal

from sameloss.studies.same_loss.groups import Group
from sameloss.studies.same_loss.settings import Settings, Shown
from sameloss.training.algorithms import label


@dataclass(frozen=True)
class Arm:
    """One group of pre-trainings, all seeds of it; what is left out is as the page shows it."""

    algorithm: str = ""
    strength: float | None = None
    language: str = ""
    sizes: Literal["all", "two", "one"] = "one"  # one: where algorithms are compared; two: up to that
    full_length: bool = False  # as many steps as the preset says; comparisons of algorithms have fewer
    cooled: bool = False  # brought to one loss afterwards, see `CoolDown`

    def of(self, shown: Shown) -> "Arm":
        """Return the arm with what a page shows in the place of what is left out.

        >>> Arm(sizes="all").of(Shown(domain="HMM")).language
        'HMM'
        """
        own = self if self.algorithm else replace(self, algorithm=shown.algorithm, strength=shown.strength)
        return replace(own, language=own.language or shown.domain)

    def group(self, settings: Settings) -> Group:
        """Return the arm's group under some settings."""
        arm = self.of(settings.shown)
        length = (
            settings.training.optimisation.steps if self.full_length else settings.training.compared_steps
        )
        sizes, probe = arm._sizes(settings), settings.evaluation.optimal_probe
        return Group(settings, arm.language, sizes, arm.algorithm, arm.strength, length, probe, arm.cooled)

    def _sizes(self, settings: Settings) -> tuple[str, ...]:
        """Return the arm's sizes; a page about one size has that one alone."""
        domain, asked = settings.domains[self.language], settings.shown.size
        if asked is not None and asked in domain.shapes:
            return (asked,)
        sizes = tuple(domain.sizes)
        up_to_compared = sizes[: sizes.index(domain.compared) + 1] if domain.compared in sizes else sizes
        return {"all": sizes, "two": up_to_compared[:2], "one": (domain.compared,)}[self.sizes]

    @property
    def label(self) -> str:
        """Return the arm's algorithm with its strength, as tables have it."""
        return label(self.algorithm or "adamw", self.strength, cooled=self.cooled)

    def left_out(self, settings: Settings) -> bool:
        """Tell whether a preset leaves the arm out: its algorithm, or its language.

        >>> from sameloss.studies.same_loss.settings import PRESETS
        >>> ADAMW.left_out(PRESETS["laptop"]), SGD_AFTER_ADAMW.left_out(PRESETS["laptop"])
        (False, True)
        """
        return self.language not in ("", *settings.domains) or self.label in settings.training.left_out


def sweep(algorithm: str, *strengths: float) -> tuple[Arm, ...]:
    """Return one arm for each strength of an algorithm."""
    return tuple(Arm(algorithm, strength) for strength in strengths)


MAIN = Arm(sizes="all", full_length=True)
ALL_SIZES = replace(MAIN, algorithm="adamw")  # of a page that is about algorithms
HMM, OPT = (replace(MAIN, language=language) for language in ("HMM", "OPT"))
ADAMW, SOFT, SGD, POST_LN = (Arm(name) for name in ("adamw", "soft", "sgd", "post-ln"))
SGD_AFTER_ADAMW = Arm("sgd-after", full_length=True)
SGD_AFTER_ADAMW_HMM = replace(SGD_AFTER_ADAMW, language="HMM")
ADVERSARIAL = sweep("adversarial", 0.003, 0.006, 0.012)
NOISE = sweep("sgd-noise", 0.0, 0.5, 1.0)
SAM, PENALTY = Arm("sam"), Arm("trace-penalty")
REGULARISED = Arm("dropout"), Arm("weight-decay")
ONE_MASK, MASK_RATE = Arm("adamw", sizes="two"), Arm("mask-rate", sizes="two")

FROM_ONE_POINT = (
    *NOISE,
    Arm("sharpen-after"),
    Arm("penalty-after"),
    Arm("sam-after"),
    Arm("noise-rate", 0.1),
    Arm("noise-batch", 128),
)
"""What is done to one saturated model: SGD without label noise first, and with all of it third."""

COOLED = tuple(replace(arm, cooled=True) for arm in FROM_ONE_POINT)
"""The same, each brought to one loss afterwards."""

UNTREATED, NOISY, SHARPENED = COOLED[0], COOLED[2], COOLED[3]

EVERYWHERE = (MAIN, HMM, OPT)
"""Ordinary training of all sizes on every language."""

RECORDED = tuple(replace(MAIN, language=language) for language in ("HMM-LSTM", "PCFG-paper", "HMM-paper"))
"""The same, where only records have it."""

SEARCHED = (MAIN, HMM, RECORDED[0])
"""Of which learning rates are looked at, where the preset does."""

TRAINED = (ADAMW, *ADVERSARIAL, SOFT, SGD, *REGULARISED)
"""Algorithms of Appendix A.4 that start from nothing, AdamW first."""

ARMS: dict[str, tuple[Arm, ...]] = {
    "01_introduction": (*EVERYWHERE, ADAMW, *ADVERSARIAL, *NOISE, *COOLED),
    "02_existence": EVERYWHERE,
    "04_flatness": (*EVERYWHERE, SGD_AFTER_ADAMW, SGD_AFTER_ADAMW_HMM, ADAMW, *ADVERSARIAL),
    "a3_models": (ADAMW, POST_LN),
    "a4_algorithms": (*TRAINED, *NOISE, *COOLED, ALL_SIZES),
    "b2_enlargement": (MAIN,),
    "d_practice": (ADAMW, SAM, PENALTY, *REGULARISED, *ADVERSARIAL, SOFT),
    "e_mask_rate": (MASK_RATE, ONE_MASK),
}
"""What each page compares."""

EVERYTHING = tuple(dict.fromkeys(arm for arms in ARMS.values() for arm in arms))
"""All groups that some page compares."""
