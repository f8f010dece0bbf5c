"""From a chapter's parameters to a complete, valid setting: the runs it needs."""

import types
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from sameloss.downstream.probe import ProbeSettings
from sameloss.errors import ParameterError
from sameloss.experiments import (
    BaselineProbing,
    Calibration,
    CorpusSampling,
    EnlargementMeasurement,
    EstimatorComparison,
    HessianGapMeasurement,
    IdentityMeasurement,
    LabelledSampling,
    LanguageMeasurement,
    Pretraining,
    Probing,
    ReparametrisationMeasurement,
    SaturationMeasurement,
    TraceMeasurement,
)
from sameloss.languages import LanguageSpec, TeacherSpec
from sameloss.models.enlarge import common_width
from sameloss.paper import ENTROPY, MEAN_LENGTH
from sameloss.presets import PAPER_HMM_SHAPE, PAPER_SHAPE, PRESETS, TINY_LANGUAGE, TINY_SHAPE, Preset
from sameloss.runs import Run, Store

CHECKPOINTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)
"""Shares of the steps after which a checkpoint is kept."""

STAND_IN = "stand-in"
"""The value of `opt` that asks for the small teacher made here."""

MOST_OF_A_REAL_OPT = 100
"""Sentences on which a real OPT is measured, at most: it scores 2,000 candidates for each."""

GLUE = "nyu-mll/glue"
"""Where QNLI and SST-2 come from."""

MOST_CALIBRATING = 5000
"""Sentences of each step of a calibration, at most."""

BASELINES = ("lookup table", "one-hot tokens")


@dataclass(frozen=True)
class Parameters:
    """What the `parameters` cell of a chapter may set; None means the preset's value."""

    preset: str = "auto"
    size: str = "all"
    task: str = "all"
    steps: int | None = None
    seeds: int | None = None
    probe_seeds: int | None = None
    trace_sentences: int | None = None
    sentences: int | None = None
    grammar: str | None = None
    length_limit: int | None = None
    opt: str = STAND_IN
    opt_corpus: str | None = None
    glue: str | None = None
    corpus: str = "fixed"
    test_sentences: str = "fresh"
    max_hours: float | None = None
    workers: int | None = None
    artifacts: str | None = None


@dataclass(frozen=True)
class Setting:
    """A resolved chapter: which runs it needs, where they are kept, what it may cost."""

    preset: Preset
    sizes: tuple[str, ...]
    tasks: tuple[str, ...]  # those a page shows; all are computed
    store: Store
    glue: str = GLUE  # name or folder of the GLUE data

    @cached_property
    def corpus(self) -> CorpusSampling:
        """Return the pre-training corpus."""
        return CorpusSampling(self.preset.language, self.preset.corpus_sentences, seed=0)

    def pretrainings(self) -> dict[tuple[str, int], Pretraining]:
        """Return the pre-trainings by (size, seed)."""
        return {(s, seed): self.pretraining(s, seed) for s in self.sizes for seed in range(self.preset.seeds)}

    def pretraining(self, size: str, seed: int) -> Pretraining:
        """Return the pre-training of one size and seed."""
        p = self.preset
        return Pretraining(
            self.corpus,
            p.sizes[size],
            p.optimisation,
            seed,
            self.steps,
            p.micro_batch,
            p.resume_every,
        )

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the steps after which a checkpoint is kept."""
        steps = self.preset.optimisation.steps
        return tuple(sorted({max(1, round(share * steps)) for share in CHECKPOINTS}))

    def saturations(self) -> dict[tuple[str, int], SaturationMeasurement]:
        """Return the saturation measurements by (size, seed)."""
        sentences = self.preset.saturation_sentences
        return {k: SaturationMeasurement(p, sentences, 0) for k, p in self.pretrainings().items()}

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
            self.opt_name: (own.opt, ("topic",) if isinstance(own.opt, TeacherSpec) else ()),
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
        raw = replace(self.preset.probe, standardise=False)
        return {"raw features": raw, "raw features, lr × 10": replace(raw, lr=10 * raw.lr)}

    def protocol_runs(self) -> list[Run]:
        """Return the probings of the last checkpoints under the other protocols."""
        settings = map(self.with_probe, self.protocols.values())
        return [run for s in settings for run in s.probing_runs(self.steps[-1:])]

    def with_probe(self, probe: ProbeSettings) -> "Setting":
        """Return the setting with another probe, all else equal."""
        return replace(self, preset=replace(self.preset, probe=probe))

    def runs(self) -> list[Run]:
        """Return every run of the setting."""
        return [
            *self.saturations().values(),
            *self.traces().values(),
            *self.gaps().values(),
            *self.enlargements().values(),
            *self.probing_runs(),
        ]


IPYTHON_NAMES = {"In", "Out", "exit", "quit", "open", "get_ipython"}


def parameters_of(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the parameters from a notebook's namespace, before anything else was assigned."""
    ignored = (types.ModuleType, types.FunctionType, types.MethodType, type)
    return {
        name: value
        for name, value in namespace.items()
        if not name.startswith("_") and name not in IPYTHON_NAMES and not isinstance(value, ignored)
    }


def resolve(given: Mapping[str, Any]) -> Setting:
    """Check a chapter's parameters and turn them into a setting.

    Args:
        given: the parameters by name.

    Raises:
        ParameterError: in one sentence, with what is valid.
        StoreError: where the artifacts folder cannot be written.

    """
    parameters = _typed(given)
    preset = _with_overrides(_choose_preset(parameters), parameters)
    sizes = tuple(preset.sizes) if parameters.size == "all" else (parameters.size,)
    tasks = preset.downstream.tasks if parameters.task == "all" else (parameters.task,)
    if tasks[0] not in preset.downstream.tasks:
        raise ParameterError(
            f"Unknown task {tasks[0]!r} for preset {preset.name}; choose one of all, "
            f"{', '.join(preset.downstream.tasks)}."
        )
    return Setting(
        preset, sizes, tasks, Store(parameters.artifacts or default_artifacts()), parameters.glue or GLUE
    )


def _typed(given: Mapping[str, Any]) -> Parameters:
    known = {field.name: field for field in fields(Parameters)}
    for name in given:
        if name not in known:
            raise ParameterError(f"Unknown parameter {name!r}; valid are {', '.join(known)}.")
    return Parameters(**{name: _converted(known[name], value) for name, value in given.items()})


def _converted(field: Field, value: Any) -> Any:
    """Accept `1e4` for an integer (papermill reads it as a float), refuse what is not one."""
    wanted, *optional = get_args(field.type) or (field.type,)
    if (value is None and optional) or (wanted is str and isinstance(value, str)):
        return value
    if wanted is not str and isinstance(value, int | float) and not isinstance(value, bool):
        if not value > 0:
            raise ParameterError(f"{field.name} must be positive; got {value}.")
        if wanted is float or float(value).is_integer():
            return wanted(value)
    kinds = {str: "a name", int: "a whole number", float: "a number"}
    raise ParameterError(f"{field.name} must be {kinds[wanted]}; got {value!r}.")


def _choose_preset(parameters: Parameters) -> Preset:
    """Let the preset follow the size, or check that the two go together."""
    name, size = parameters.preset, parameters.size
    if name not in ("auto", *PRESETS):
        raise ParameterError(f"Unknown preset {name!r}; choose one of auto, {', '.join(PRESETS)}.")
    holders = [p for p in PRESETS.values() if size in p.sizes]
    if size != "all" and not holders:
        names = dict.fromkeys(s for p in PRESETS.values() for s in p.sizes)
        raise ParameterError(f"Unknown size {size!r}; choose one of all, {', '.join(names)}.")
    if name == "auto":
        return holders[0] if holders else PRESETS["laptop"]
    if holders and PRESETS[name] not in holders:
        raise ParameterError(
            f"Size {size} does not belong to preset {name}, whose sizes are "
            f"{', '.join(PRESETS[name].sizes)}; size {size} goes with preset "
            f"{' or '.join(p.name for p in holders)}."
        )
    return PRESETS[name]


def _with_overrides(preset: Preset, parameters: Parameters) -> Preset:
    given = {
        k: v for k in ("seeds", "trace_sentences", "max_hours", "workers") if (v := getattr(parameters, k))
    }
    if parameters.steps:
        given["optimisation"] = replace(preset.optimisation, steps=parameters.steps)
    if parameters.sentences:
        given["language_sentences"] = parameters.sentences
    return _with_data(_with_languages(replace(preset, **given), parameters), parameters)


def _with_languages(preset: Preset, parameters: Parameters) -> Preset:
    """Put a reader's grammar and a real OPT in the place of the preset's."""
    pairs = {"length_limit": parameters.grammar, "opt_corpus": parameters.opt, "glue": parameters.opt}
    for name, needed in pairs.items():
        if getattr(parameters, name) is not None and needed in (None, STAND_IN):
            other = "opt" if needed else "grammar"
            raise ParameterError(f"{name} has an effect only together with {other}; give both or none.")
    if parameters.opt != STAND_IN:
        preset = replace(preset, opt=_hub_teacher(parameters))
    if parameters.grammar:
        language = _own_grammar(parameters)
        downstream = replace(preset.downstream, tasks=language.build().tasks)
        preset = replace(preset, language=language, downstream=downstream)
    return preset


def _with_data(preset: Preset, parameters: Parameters) -> Preset:
    endless = _choice(parameters, "corpus", ("fixed", "endless")) == "endless"
    unseen = _choice(parameters, "test_sentences", ("fresh", "unseen")) == "unseen"
    if unseen and endless:
        raise ParameterError("test_sentences = unseen needs corpus = fixed: an endless one holds everything.")
    seeds = parameters.probe_seeds or preset.downstream.probe_seeds
    downstream = replace(preset.downstream, probe_seeds=seeds, unseen_test=unseen)
    sentences = None if endless else preset.corpus_sentences
    return replace(preset, downstream=downstream, corpus_sentences=sentences)


def _hub_teacher(parameters: Parameters) -> LanguageSpec:
    from sameloss.languages.opt_hub import HubTeacherSpec  # transformers takes seconds

    return HubTeacherSpec.of(parameters.opt, parameters.opt_corpus)


def _own_grammar(parameters: Parameters) -> LanguageSpec:
    from sameloss.languages.formats import GrammarText  # nltk takes seconds

    try:
        text = Path(parameters.grammar).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"The grammar file {parameters.grammar} cannot be read ({error}).") from None
    spec = GrammarText(text, parameters.length_limit)
    spec.build()  # what is wrong with it is said here
    return spec


def _choice(parameters: Parameters, name: str, choices: tuple[str, ...]) -> str:
    value = getattr(parameters, name)
    if value not in choices:
        raise ParameterError(f"Unknown {name} {value!r}; choose one of {', '.join(choices)}.")
    return value


def default_artifacts() -> Path:
    """Return `artifacts` in the book's folder, so that every way to run shares it."""
    return book_root() / "artifacts"


def book_root() -> Path:
    """Return the nearest folder with a `_config.yml`, from here upwards; here, where there is none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / "_config.yml").exists()), here)
