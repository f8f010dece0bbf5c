"""A setting: what a chapter studies, and from it the runs that it needs."""

from dataclasses import dataclass, replace
from functools import cached_property

from sameloss.errors import ParameterError
from sameloss.languages import LanguageSpec, TeacherSpec
from sameloss.measures.downstream.probe import ProbeSettings
from sameloss.models.enlarge import common_width
from sameloss.runs.finetuning import Finetuning
from sameloss.runs.flatness import (
    EnlargementMeasurement,
    FlatnessMeasurement,
    HessianGapMeasurement,
    TraceMeasurement,
)
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.languages import Calibration, LanguageMeasurement
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.probing import BaselineProbing, Probing
from sameloss.runs.sampling import CorpusSampling, LabelledSampling
from sameloss.runs.saturation import SaturationMeasurement
from sameloss.store.store import Run, Store
from sameloss.studies.dyck.runs import DyckStudy
from sameloss.studies.manifold_flow.runs import AdamDrift, Landscape, SGDDrift, ZeroConditionals
from sameloss.studies.manifold_flow.settings import FLOW_LANGUAGE, ZEROS_LANGUAGE
from sameloss.studies.same_loss.estimators import (
    EstimatorComparison,
    IdentityMeasurement,
    ReparametrisationMeasurement,
)
from sameloss.studies.same_loss.paper import ENTROPY, MEAN_LENGTH
from sameloss.studies.same_loss.settings import (
    PAPER_HMM_SHAPE,
    PAPER_SHAPE,
    PRESETS,
    TINY_LANGUAGE,
    TINY_SHAPE,
    Preset,
    Shape,
)
from sameloss.training.algorithms import Recipe, recipe
from sameloss.training.execution import Execution
from sameloss.training.objectives import ORDINARY

STAND_IN = "stand-in"
"""The value of `opt` that asks for the small teacher made here."""

MOST_OF_A_REAL_OPT = 100
"""Sentences on which a real OPT is measured, at most: it scores 2,000 candidates for each."""

GLUE = "nyu-mll/glue"
"""Where QNLI and SST-2 come from."""

MOST_CALIBRATING = 5000
"""Sentences of each step of a calibration, at most."""

BASELINES = ("lookup table", "one-hot tokens")

LANGUAGES = ("PCFG", "HMM")
"""Languages with names of their own; the third is the preset's OPT."""


@dataclass(frozen=True)
class Setting:
    """A resolved chapter: which runs it needs, where they are kept, what it may cost."""

    preset: Preset
    store: Store
    glue: str = GLUE  # name or folder of the GLUE data
    sizes: tuple[str, ...] = ()  # those a page shows; empty: all of the preset
    tasks: tuple[str, ...] = ()  # those a page shows; all are computed
    algorithm: str = "adamw"
    strength: float | None = None

    def __post_init__(self) -> None:
        """Fill in what the preset decides."""
        object.__setattr__(self, "sizes", self.sizes or tuple(self.preset.sizes))
        object.__setattr__(self, "tasks", self.tasks or self.preset.downstream.tasks)

    # Other settings beside this one

    def on(self, language: str) -> "Setting":
        """Return the setting on another language, with its tasks and sizes."""
        p = self.preset
        if language == "PCFG":
            return self
        spec, tasks, sizes, studied = {
            "HMM": (p.hmm, p.hmm_tasks, p.hmm_sizes, p.hmm_study_size),
            "OPT": (p.opt, p.opt_tasks, p.opt_sizes, p.study_size),
        }[language]
        if not tasks:
            raise ParameterError("A real OPT has no task of its own here; probe it on GLUE, see a1_datasets.")
        downstream = replace(p.downstream, tasks=tasks)
        other = replace(p, language=spec, sizes=sizes, study_size=studied, downstream=downstream)
        kept = tuple(size for size in self.sizes if size in sizes)  # none where the languages' sizes differ
        return replace(self, preset=other, sizes=kept, tasks=())

    def by(self, algorithm: str, strength: float | None = None) -> "Setting":
        """Return the setting with another training algorithm."""
        return replace(self, algorithm=algorithm, strength=strength)

    def study(self, algorithm: str, strength: float | None = None, *, full_length: bool = False) -> "Setting":
        """Return the comparison of algorithms: one size, the steps of a study or of ordinary training."""
        preset = self.preset if full_length else self.preset.with_steps(self.preset.study_steps)
        size = self.sizes if len(self.sizes) == 1 else (preset.study_size,)
        return replace(self, preset=preset, sizes=size).by(algorithm, strength)

    def across(self, sizes: tuple[str, ...]) -> "Setting":
        """Return the setting with other sizes."""
        return replace(self, sizes=sizes)

    # The runs

    @cached_property
    def corpus(self) -> CorpusSampling:
        """Return the pre-training corpus."""
        return CorpusSampling(self.preset.language, self.preset.corpus_sentences, seed=0)

    def pretrainings(self) -> dict[tuple[str, int], Pretraining]:
        """Return the pre-trainings by (size, seed)."""
        return {(s, seed): self.pretraining(s, seed) for s in self.sizes for seed in range(self.preset.seeds)}

    def pretraining(self, size: str, seed: int) -> Pretraining:
        """Return the pre-training of one size and seed."""
        p, changed = self.preset, self.recipe
        shape = p.shapes[size]
        return Pretraining(
            self.corpus,
            shape,
            replace(p.optimisation, steps=self.steps[-1], **changed.optimisation),
            seed,
            self.steps,
            p.micro_batch,
            p.resume_every,
            objective=changed.objective,
            norm=changed.norm,
            dropout=changed.dropout,
            downstream=self.labelled if changed.objective.adversary else None,
            origin=self.by(changed.origin).pretraining(size, seed) if changed.origin else None,
            execution=self._execution(shape),
        )

    def _execution(self, shape: Shape) -> Execution:
        """Return the preset's execution, or what the objective and the shape allow of it."""
        wanted = self.preset.execution.for_shape(shape)
        return wanted if self.recipe.objective == ORDINARY else wanted.eager_in_one_process()

    @property
    def recipe(self) -> Recipe:
        """Return what the algorithm changes."""
        return recipe(self.algorithm, self.strength)

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the steps after which a checkpoint is kept."""
        p = self.preset
        steps = p.optimisation.steps * (p.noise_length if self.recipe.longer else 1)
        return tuple(sorted({max(1, round(share * steps)) for share in p.checkpoints}))

    def saturations(self) -> dict[tuple[str, int], SaturationMeasurement]:
        """Return the saturation measurements by (size, seed)."""
        held_out = HeldOutConditionals(self.preset.language, self.preset.saturation_sentences, 0)
        return {k: SaturationMeasurement(run, held_out) for k, run in self.pretrainings().items()}

    def traces(self) -> dict[tuple[str, int], TraceMeasurement]:
        """Return the trace measurements by (size, seed)."""
        p = self.preset
        return {
            k: TraceMeasurement(run, p.trace_sentences, p.trace_labels, "sampled", 0)
            for k, run in self.pretrainings().items()
        }

    def gaps(self) -> dict[tuple[str, int], HessianGapMeasurement]:
        """Return the measurements of Hessian minus Fisher trace by (size, seed)."""
        p = self.preset
        return {
            k: HessianGapMeasurement(run, p.gap_sentences, p.gap_batch, 0)
            for k, run in self.pretrainings().items()
        }

    def flatness(self) -> dict[tuple[str, int], FlatnessMeasurement]:
        """Return all measures of flatness of the last checkpoints, by (size, seed)."""
        sentences = self.preset.measure_sentences // 2
        return {k: FlatnessMeasurement(run, sentences, 0) for k, run in self.pretrainings().items()}

    def enlargements(self) -> dict[tuple[str, int], EnlargementMeasurement]:
        """Return the traces of the last checkpoints enlarged to one width, by (size, seed)."""
        p, width = self.preset, common_width([self.preset.sizes[size] for size in self.sizes])
        return {
            k: EnlargementMeasurement(run, p.trace_sentences, 0, p.trace_labels, width)
            for k, run in self.pretrainings().items()
        }

    def estimator_comparison(self) -> EstimatorComparison:
        """Return the comparison of estimators on the middle size."""
        size = self.sizes[len(self.sizes) // 2]
        return EstimatorComparison(self.pretraining(size, 0), self.preset.comparison_sentences, 0)

    def identity(self) -> IdentityMeasurement:
        """Return the exact traces of a tiny model on its way to saturation, the same for all presets."""
        return IdentityMeasurement(TINY_LANGUAGE, TINY_SHAPE, (0, 30, 100, 300, 1000, 3000), 1e-2, 0)

    def trace_runs(self) -> list[Run]:
        """Return what compares ways to measure flatness."""
        return [self.identity(), self.estimator_comparison(), self.reparametrisation()]

    def reparametrisation(self) -> ReparametrisationMeasurement:
        """Return all measures of the smallest size under reparametrisations."""
        pretraining = self.pretraining(self.sizes[0], 0)
        p = self.preset
        return ReparametrisationMeasurement(pretraining, p.measure_sentences, 0, p.chain_steps)

    def dyck(self) -> DyckStudy:
        """Return the runs of the bracket language."""
        return DyckStudy(self.preset.dyck)

    def implicit_bias(self) -> tuple[SGDDrift, AdamDrift, ZeroConditionals, Landscape]:
        """Return the runs along the minimisers of tiny models."""
        flow = self.preset.flow
        instance = (FLOW_LANGUAGE, FLOW_LANGUAGE.words, 3.0, flow, 0)
        smooth = replace(ZEROS_LANGUAGE, smoothing=FLOW_LANGUAGE.smoothing)
        landscape = Landscape(
            0.7, ((0.45, 1.35), (1.4, 0.0)), ("large", "small"), 0.04, 4, flow.landscape_steps, 0
        )
        return (
            SGDDrift(*instance),
            AdamDrift(*instance),
            ZeroConditionals((ZEROS_LANGUAGE, smooth), 0),
            landscape,
        )

    @cached_property
    def labelled(self) -> LabelledSampling:
        """Return the downstream sentences."""
        p = self.preset
        return LabelledSampling(p.language, p.downstream, self.corpus if p.downstream.unseen_test else None)

    def language_measurements(self) -> dict[str, LanguageMeasurement]:
        """Return the measurements of the preset's languages and of the calibrated ones, by name."""
        own, paper = self.preset, PRESETS["paper"]
        chosen = {
            "PCFG": (own.language, own.downstream.tasks),
            "HMM": (own.hmm, own.hmm_tasks),
            self.opt_name: (own.opt, own.opt_tasks),
        }
        if own.language != paper.language:
            chosen["PCFG, paper's shape"] = (paper.language, paper.downstream.tasks)
        if own.hmm != paper.hmm:
            chosen["HMM, paper's shape"] = (paper.hmm, paper.hmm_tasks)
        return {
            name: LanguageMeasurement(*language, self._sentences(language[0]), 0)
            for name, language in chosen.items()
        }

    def _sentences(self, language: LanguageSpec) -> int:
        """Return on how many sentences a language is measured: few where each costs a minute."""
        slow = language is self.preset.opt and not isinstance(language, TeacherSpec)
        return (
            min(self.preset.language_sentences, MOST_OF_A_REAL_OPT)
            if slow
            else self.preset.language_sentences
        )

    @property
    def opt_name(self) -> str:
        """Name the autoregressive language honestly."""
        return "OPT stand-in" if isinstance(self.preset.opt, TeacherSpec) else self.preset.opt.model

    def language_runs(self) -> list[Run]:
        """Return what is measured of languages alone."""
        return [*self.language_measurements().values(), *self.calibrations().values()]

    def calibrations(self) -> dict[str, Calibration]:
        """Return the searches that gave the paper's shapes their published entropy."""
        sentences = min(self.preset.language_sentences, MOST_CALIBRATING)
        pcfg = (PAPER_SHAPE, ENTROPY["PCFG"], MEAN_LENGTH["PCFG"], (0.05, 1.0))
        hmm = (PAPER_HMM_SHAPE, ENTROPY["HMM"], None, (0.05, 1.0))
        return {"PCFG": Calibration(*pcfg, sentences, 0), "HMM": Calibration(*hmm, sentences, 0)}

    def probings(self, steps: tuple[int, ...] | None = None) -> dict[tuple[str, int], Probing]:
        """Return the probings by (size, seed), of some or all checkpoints."""
        steps = steps or self.steps
        return {
            key: Probing(run, steps, self.labelled, self.preset.probe)
            for key, run in self.pretrainings().items()
        }

    def baselines(self) -> dict[str, BaselineProbing]:
        """Return the probings of what no training made."""
        return {name: BaselineProbing(name, self.labelled, self.preset.probe) for name in BASELINES}

    def probing_runs(self, steps: tuple[int, ...] | None = None) -> list[Run]:
        """Return all probings, of models and of baselines."""
        return [*self.probings(steps).values(), *self.baselines().values()]

    @property
    def protocols(self) -> dict[str, ProbeSettings]:
        """Return the other probe protocols that the lookup table is compared under."""
        probe = self.preset.probe
        raw, dimensions = replace(probe, standardise=False), self.preset.projection
        return {
            f"projected to {dimensions} dimensions": replace(probe, projection=dimensions),
            "raw features": raw,
            "raw features, lr × 10": replace(raw, lr=10 * raw.lr),
        }

    def protocol_runs(self) -> list[Run]:
        """Return the probings of the last checkpoints under the other protocols."""
        settings = map(self.with_probe, self.protocols.values())
        return [run for s in settings for run in s.probing_runs(self.steps[-1:])]

    def with_probe(self, probe: ProbeSettings) -> "Setting":
        """Return the setting with another probe, all else equal."""
        return replace(self, preset=replace(self.preset, probe=probe))

    def finetunings(self) -> dict[tuple[str, int], Finetuning]:
        """Return the fine-tunings of the last checkpoints, by (size, seed)."""
        settings, examples = self.preset.finetune, self.preset.finetune_sentences
        return {k: Finetuning(r, self.labelled, settings, examples) for k, r in self.pretrainings().items()}

    def runs(self) -> list[Run]:
        """Return what every comparison of models reads."""
        return [*self.saturations().values(), *self.traces().values(), *self.probing_runs()]
