"""What a page compares, and the groups of pre-trainings behind it with all that is measured of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, cast

from sameloss.measures.downstream.probe import Probe
from sameloss.models.encoder import EncoderShape
from sameloss.models.enlarge import common_width
from sameloss.models.masked_model import Shape
from sameloss.runs.cool_down import CoolDown
from sameloss.runs.flatness import (
    EnlargementMeasurement,
    FlatnessMeasurement,
    HessianGapMeasurement,
    SaturationMeasurement,
    TraceMeasurement,
)
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.probing import BaselineProbing, Finetuning, Probing
from sameloss.runs.sampling import CorpusSampling, LabelledSampling
from sameloss.store.store import Run
from sameloss.studies.same_loss.settings import Domain, Settings, Shown
from sameloss.training.algorithms import EXACT, NO_TREATMENT, Recipe, label, recipe
from sameloss.training.execution import Execution
from sameloss.training.loop import Optimisation
from sameloss.training.objectives import ORDINARY, Objective

# A group of pre-trainings, some sizes of one language by one algorithm, and what is measured of them.

BASELINES = ("lookup table", "one-hot tokens")
"""Representations that no training made."""

Key = tuple[str, int]
"""Size and pre-training seed."""


@dataclass(frozen=True)
class Group:
    """Pre-trainings that differ in size and seed alone."""

    settings: Settings
    language: str  # name of the domain
    sizes: tuple[str, ...]  # smallest first
    algorithm: str
    strength: float | None
    length: int  # steps of ordinary training
    probe: Probe  # how its representations are read
    cooled: bool = False  # whether each is brought to one loss afterwards

    @property
    def about(self) -> str:
        """Return what tells the group from others of its preset, in words."""
        sizes = " to ".join(dict.fromkeys((self.sizes[0], self.sizes[-1])))
        name = label(self.algorithm, self.strength, cooled=self.cooled)
        return f"{name} on {self.language}, {sizes}, {self.steps[-1]:,} steps"

    @property
    def domain(self) -> Domain:
        """Return the language with its tasks and shapes."""
        return self.settings.domains[self.language]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the downstream tasks; all of them are measured, whatever a page shows."""
        return self.domain.tasks

    @property
    def seeds(self) -> int:
        """Return the number of pre-training seeds."""
        seeds, most = self.settings.training.seeds, self.domain.most_seeds
        return seeds if most is None else min(seeds, most)

    @property
    def recipe(self) -> Recipe:
        """Return what the algorithm changes of ordinary training."""
        return recipe(self.algorithm, self.strength)

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the steps after which a checkpoint is kept."""
        training = self.settings.training
        if self.cooled:
            return (training.cooling.steps,)
        steps = self.length * training.lengths.get(self.recipe.length, 1.0)
        return tuple(sorted({max(1, round(share * steps)) for share in training.checkpoints}))

    @property
    def exact_steps(self) -> int:
        """Return the number of first steps that have exact labels, before there are sampled ones."""
        same_throughout = self.recipe.origin or not self.recipe.objective.label_noise
        return 0 if same_throughout else round(self.domain.exact_share * self.steps[-1])

    @cached_property
    def corpus(self) -> CorpusSampling:
        """Return the pre-training corpus."""
        return CorpusSampling(self.domain.language, self.settings.training.corpus_sentences, seed=0)

    @cached_property
    def labelled(self) -> LabelledSampling:
        """Return the downstream sentences."""
        downstream = replace(self.settings.evaluation.downstream, tasks=self.tasks)
        unseen_by = self.corpus if downstream.unseen_test else None
        return LabelledSampling(self.domain.language, downstream, unseen_by)

    def pretrainings(self) -> dict[Key, Pretraining]:
        """Return the pre-trainings by size and seed."""
        return {(s, seed): self.pretraining(s, seed) for s in self.sizes for seed in range(self.seeds)}

    def pretraining(self, size: str, seed: int) -> Pretraining:
        """Return the pre-training of one size and seed."""
        if self.cooled:
            return self._cooling_down(size, seed)
        training, changed, shape = self.settings.training, self.recipe, self.domain.shapes[size]
        origin = replace(self, algorithm=changed.origin, strength=None) if changed.origin else None
        return Pretraining(
            self.corpus,
            shape,
            replace(self._optimisation(size), **changed.optimisation),
            seed,
            self.steps,
            training.micro_batch,
            training.resume_every,
            objective=self._objective(),
            norm=changed.norm,
            dropout=changed.dropout,
            downstream=self.labelled if changed.objective.adversary else None,
            origin=origin.pretraining(size, seed) if origin else None,
            execution=self._execution(shape),
        )

    def _objective(self) -> Objective:
        """Return the algorithm's; what starts from nothing has exact labels first, as the preset says."""
        return replace(self.recipe.objective, exact_steps=self.exact_steps)

    def _optimisation(self, size: str) -> Optimisation:
        """Return ordinary training's, at the rate of a model of this width, or the one it was tuned to."""
        training, width = self.settings.training, self.domain.shapes[size].d_model
        slower = width / training.rate_width if training.rate_width else 1.0
        rate = training.optimisation.lr / slower * self.domain.tuned.get(size, 1.0)
        return replace(training.optimisation, steps=self.steps[-1], lr=rate)

    def _cooling_down(self, size: str, seed: int) -> CoolDown:
        """Return what brings a treated model to the loss of the untreated: training without label noise."""
        cooling, uncooled = self.settings.training.cooling, replace(self, cooled=False)
        treated = uncooled.pretraining(size, seed)
        algorithm, strength = NO_TREATMENT
        untreated = replace(uncooled, algorithm=algorithm, strength=strength).pretraining(size, seed)
        return CoolDown(
            treated.corpus,
            treated.shape,
            # At a constant rate, so that those which stop earlier do not stop at a higher one.
            replace(
                self.settings.training.optimisation,
                steps=cooling.steps,
                lr=cooling.lr,
                warmup=0.0,
                schedule="constant",
            ),
            treated.seed,
            self.steps,
            treated.micro_batch,
            treated.resume_every,
            objective=EXACT,
            norm=treated.norm,
            origin=treated,
            held_out=HeldOutConditionals(self.domain.language, cooling.sentences, seed=1),
            reference=untreated,
            target_share=cooling.target_share,
            look_every=cooling.look_every,
        )

    def _execution(self, shape: Shape) -> Execution:
        """Return the preset's execution, or what the objective and the shape allow of it."""
        wanted = self.settings.training.execution.for_shape(shape)
        return wanted if self._objective() == ORDINARY else wanted.eager_in_one_process()

    def measured(self, kind: str) -> dict[Key, Run]:
        """Return one of the `MEASUREMENTS` of every pre-training."""
        return {key: MEASUREMENTS[kind](self, run) for key, run in self.pretrainings().items()}

    def probings(self, steps: tuple[int, ...] | None = None) -> dict[Key, Probing]:
        """Return the probings of some or all checkpoints; step 0 is the untrained model."""
        return {
            key: Probing(run, steps or self.steps, self.labelled, self.probe)
            for key, run in self.pretrainings().items()
        }

    def baselines(self) -> dict[str, BaselineProbing]:
        """Return the probings of what no training made."""
        return {name: BaselineProbing(name, self.labelled, self.probe) for name in BASELINES}

    def runs(self) -> list[Run]:
        """Return what every comparison of models reads."""
        measured = [run for kind in ("saturation", "trace") for run in self.measured(kind).values()]
        control = self.probings((0,)).values() if len(self.sizes) > 1 else ()  # sizes are compared net of it
        return [*measured, *self.probings().values(), *control, *self.baselines().values()]


def _saturation(group: Group, run: Pretraining) -> Run:
    sentences = group.settings.evaluation.saturation_sentences
    return SaturationMeasurement(run, HeldOutConditionals(group.domain.language, sentences, 0))


def _trace(group: Group, run: Pretraining) -> Run:
    much = group.settings.evaluation.flatness
    return TraceMeasurement(run, much.trace_sentences, much.trace_labels, "sampled", 0)


def _gap(group: Group, run: Pretraining) -> Run:
    much = group.settings.evaluation.flatness
    return HessianGapMeasurement(run, much.gap_sentences, much.gap_batch, 0)


def _measures(group: Group, run: Pretraining) -> Run:
    return FlatnessMeasurement(run, group.settings.evaluation.flatness.measure_sentences // 2, 0)


def lstms(group: Group) -> list[str]:
    """Return the sizes that are no transformers, and so have no enlargement."""
    return [size for size in group.sizes if not isinstance(group.domain.shapes[size], EncoderShape)]


def widened(group: Group) -> int:
    """Return the width that all sizes of a group can be enlarged to; only encoders can be."""
    return common_width(cast(EncoderShape, group.domain.shapes[size]) for size in group.sizes)


def _enlargement(group: Group, run: Pretraining) -> Run:
    much = group.settings.evaluation.flatness
    return EnlargementMeasurement(run, much.trace_sentences, 0, much.trace_labels, widened(group))


def _finetuning(group: Group, run: Pretraining) -> Run:
    evaluation = group.settings.evaluation
    return Finetuning(run, group.labelled, evaluation.finetune, evaluation.finetune_sentences)


MEASUREMENTS: dict[str, Callable[[Group, Pretraining], Run]] = {
    "saturation": _saturation,
    "trace": _trace,
    "gap": _gap,
    "measures": _measures,
    "enlargement": _enlargement,
    "finetuning": _finetuning,
}
"""What can be measured of a pre-training besides its probes."""


def protocols(group: Group) -> dict[str, Group]:
    """Return the group under every protocol of the probe, the solved one first, then the paper's."""
    evaluation = group.settings.evaluation
    adamw, solved, width = evaluation.adamw_probe, evaluation.optimal_probe, evaluation.projection
    probes: dict[str, Probe] = {
        "solved": solved,
        f"solved, {width} dimensions": replace(solved, projection=width),
        "AdamW": adamw,
        f"AdamW, {width} dimensions": replace(adamw, projection=width),
    }
    if evaluation.raw_probes:
        raw = replace(adamw, standardise=False)
        probes |= {"AdamW, raw features": raw, "AdamW, raw features, lr × 10": replace(raw, lr=10 * raw.lr)}
    return {name: replace(group, probe=probe) for name, probe in probes.items()}


def readings(group: Group) -> tuple[str, ...]:
    """Return the protocols under which sizes are compared: solved, with equal capacity, and the paper's."""
    return "solved", f"solved, {group.settings.evaluation.projection} dimensions", "AdamW"


def protocol_runs(group: Group, names: Iterable[str] | None = None) -> list[Run]:
    """Return the probings of untrained and last models and of the baselines, under some protocols or all.

    Under the group's own protocol its comparisons read the last models already.
    """
    every = protocols(group)
    return [
        run
        for name in names or every
        for run in (
            *every[name].probings((0,)).values(),
            *every[name].probings(None if every[name] == group else group.steps[-1:]).values(),
            *every[name].baselines().values(),
        )
    ]


# The groups of pre-trainings that the book compares, by name.


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
