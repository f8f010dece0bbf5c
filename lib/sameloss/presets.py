"""Presets and the check of a chapter's parameters: from a few names to a complete, valid setting."""

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
    CorpusSampling,
    Downstream,
    LabelledSampling,
    Pretraining,
    Probing,
    SaturationMeasurement,
    TraceMeasurement,
)
from sameloss.languages import PCFGSpec
from sameloss.models.encoder import EncoderShape
from sameloss.models.sizes import SIZES
from sameloss.pretrain import Optimisation
from sameloss.runs import Run, Store

CHECKPOINTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)
"""Shares of the steps after which a checkpoint is kept."""

BASELINES = ("lookup table", "one-hot tokens")


@dataclass(frozen=True)
class Preset:
    """Everything a chapter needs to know but its own parameters."""

    name: str
    sizes: dict[str, EncoderShape]
    language: PCFGSpec
    corpus_sentences: int
    optimisation: Optimisation
    micro_batch: int
    resume_every: int
    seeds: int
    downstream: Downstream
    probe: ProbeSettings
    saturation_sentences: int
    trace_sentences: int
    trace_labels: int
    max_hours: float
    workers: int | None = None  # processes; None: the number of cores


LAPTOP_LANGUAGE = PCFGSpec(
    levels=3,
    start_symbols=4,
    symbols=4,
    start_rules=5,
    rules=5,
    words=16,
    words_per_symbol=6,
    rule_concentration=0.7,
    emission_concentration=0.7,
    smoothing=0.03,
    seed=1,
)

SMOKE_LANGUAGE = replace(
    LAPTOP_LANGUAGE, levels=2, symbols=3, start_symbols=3, start_rules=3, rules=3, words=6,
    words_per_symbol=3,
)  # fmt: skip

PAPER_LANGUAGE = PCFGSpec(
    levels=5,
    start_symbols=9,
    symbols=8,
    start_rules=1,
    rules=20,
    words=200,
    words_per_symbol=100,
    rule_concentration=1.0,
    emission_concentration=1.0,
    early_stop=(0.1, 0.25),
)

_LAPTOP = Preset(
    name="laptop",
    sizes=SIZES["laptop"],
    language=LAPTOP_LANGUAGE,
    corpus_sentences=1 << 20,
    optimisation=Optimisation(steps=6000, batch=256, lr=3e-3),
    micro_batch=256,
    resume_every=500,
    seeds=3,
    downstream=Downstream(
        tasks=("root", "span4", "span2"),
        label_kind="likelihood",
        train=8000,
        test=4000,
        probe_seeds=3,
        seed=0,
    ),
    probe=ProbeSettings(),
    saturation_sentences=8000,
    trace_sentences=5000,
    trace_labels=1,
    max_hours=1.0,
)

_SMOKE = replace(
    _LAPTOP,
    name="smoke",
    sizes=SIZES["smoke"],
    language=SMOKE_LANGUAGE,
    corpus_sentences=20_000,
    optimisation=Optimisation(steps=160, batch=64, lr=1e-2),
    resume_every=50,
    downstream=replace(_LAPTOP.downstream, tasks=("root", "span2"), train=400, test=400),
    probe=ProbeSettings(epochs=20, batch=64),
    saturation_sentences=500,
    trace_sentences=200,
    max_hours=0.1,
)

_PAPER = replace(
    _LAPTOP,
    name="paper",
    sizes=SIZES["paper"],
    language=PAPER_LANGUAGE,
    corpus_sentences=20_000_000,
    optimisation=Optimisation(steps=30_000, batch=4096, lr=1e-3),
    micro_batch=512,
    resume_every=500,
    seeds=1,
    downstream=replace(
        _LAPTOP.downstream,
        tasks=("root", "span16", "span8"),
        train=80_000,
        test=20_000,
        probe_seeds=5,
    ),
    saturation_sentences=100_000,
    trace_sentences=10_000,
    trace_labels=50,
    max_hours=24.0,
    workers=1,
)

_GPU = replace(
    _PAPER,
    name="gpu",
    sizes={name: SIZES["paper"][name] for name in ("2M", "5M", "9M", "13M", "41M")},
    corpus_sentences=4_000_000,
    optimisation=Optimisation(steps=10_000, batch=1024, lr=1e-3),
    seeds=3,
    downstream=replace(_PAPER.downstream, train=20_000, test=10_000, probe_seeds=3),
    saturation_sentences=20_000,
    trace_labels=1,
    max_hours=2.0,
)

PRESETS = {preset.name: preset for preset in (_SMOKE, _LAPTOP, _GPU, _PAPER)}


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

    @cached_property
    def labelled(self) -> LabelledSampling:
        """Return the downstream sentences."""
        return LabelledSampling(self.preset.language, self.preset.downstream)

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

    def with_probe(self, probe: ProbeSettings) -> "Setting":
        """Return the setting with another probe, all else equal."""
        return replace(self, preset=replace(self.preset, probe=probe))

    def runs(self) -> list[Run]:
        """Return every run of the setting."""
        return [*self.saturations().values(), *self.traces().values(), *self.probing_runs()]


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
        given: the parameters, or the whole namespace of a notebook that has assigned nothing else.

    Raises:
        ParameterError: in one sentence, with what is valid.
        StoreError: where the artifacts folder cannot be written.

    """
    parameters = _typed(parameters_of(given))
    preset = _with_overrides(_choose_preset(parameters), parameters)
    sizes = tuple(preset.sizes) if parameters.size == "all" else (parameters.size,)
    tasks = preset.downstream.tasks if parameters.task == "all" else (parameters.task,)
    if tasks[0] not in preset.downstream.tasks:
        raise ParameterError(
            f"Unknown task {tasks[0]!r} for preset {preset.name}; choose one of all, "
            f"{', '.join(preset.downstream.tasks)}."
        )
    return Setting(preset, sizes, tasks, Store(parameters.artifacts or default_artifacts()))


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
        if wanted is float or value == round(value):
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
    if parameters.probe_seeds:
        given["downstream"] = replace(preset.downstream, probe_seeds=parameters.probe_seeds)
    return replace(preset, **given)


def default_artifacts() -> Path:
    """Return `artifacts` beside the nearest `_config.yml`, so that every way to run shares it."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "_config.yml").exists():
            return folder / "artifacts"
    return here / "artifacts"
