"""The experiment of Part I: languages, models of several sizes, and one table of measurements.

`chapters/protocol.md` fixes what is compared, and why.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import pandas as pd
import torch

from sameloss.device import best_device, multiplies_bfloat16
from sameloss.languages import HMMSpec, Language, LanguageSpec, PCFGSpec, Sentences, TeacherSpec
from sameloss.languages.entropy import context_information, entropies
from sameloss.languages.language import LabelKind
from sameloss.languages.paper import PAPER_HMM, PAPER_LANGUAGE
from sameloss.languages.pretrained import OWN, HubTeacherSpec
from sameloss.measures.downstream import (
    FinetuneSettings,
    OptimalProbe,
    contextual_features,
    finetune,
    one_hot_features,
    probing_bytes,
    probing_flops,
    random_expansion,
)
from sameloss.measures.flatness.gradient_norms import CHUNK_BYTES
from sameloss.measures.flatness.trace import fisher_trace, relative_trace
from sameloss.measures.saturation import bag_of_words_kl, divergences
from sameloss.models.encoder import EncoderShape
from sameloss.models.enlarge import trace_law
from sameloss.models.masked_model import MaskedLanguageModel, Shape
from sameloss.models.sizes import LSTM_SIZES, SIZES
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.measurements import MEASURES, flatness_measures
from sameloss.runs.pretraining import CoolDown, Pretraining
from sameloss.runs.sampling import (
    CorpusSampling,
    Downstream,
    HeldOutConditionals,
    LabelledSampling,
    LabelledSentences,
    held_out_conditionals,
    held_out_masked,
)
from sameloss.runs.stage import stage
from sameloss.seeds import generator_for, stream_seed
from sameloss.statistics.intervals import Estimate
from sameloss.store.store import SMALL_BYTES, Run, Store
from sameloss.studies.parameters import MOST_SEEDS
from sameloss.training.loop import PLAIN, Execution, Optimisation
from sameloss.training.objectives import EXACT, ORDINARY, Objective, label, recipe

# The languages, and the models that are trained on them.

GRAMMAR = PCFGSpec(
    levels=2,
    start_symbols=8,
    symbols=8,
    start_rules=8,
    rules=8,
    words=32,
    words_per_symbol=8,
    rule_concentration=1.0,
    emission_concentration=1.0,
    early_stop=(0.1, 0.26),
    smoothing=0.05,
)
HMM = HMMSpec(
    states=16,
    words=16,
    length=8,
    blocks=2,
    transition_concentration=0.15,
    emission_concentration=1.0,
    smoothing=0.1,
)
STAND_IN = TeacherSpec(scale=0.5, logit_scale=0.7)
"""A small autoregressive transformer in place of OPT-125M."""

SMOLLM2 = HubTeacherSpec(
    "smollm2", words=200, max_length=6, corpus=OWN, fingerprint="7cc1de981f433bf5", tolerance=1e-3
)
"""SmolLM2-135M-Instruct with four bits per weight, from a folder beside the book (README)."""

Algorithm = tuple[str, float | None]
"""Name in `training.objectives.ALGORITHMS`, and strength."""

ADAMW: Algorithm = ("adamw", None)


class Teacher(NamedTuple):
    """How much of a pre-trained language model a preset uses."""

    words: int  # the most frequent tokens
    max_length: int  # tokens
    corpus_sentences: int
    held_out: int  # sentences with conditionals at all positions: most of the cost
    tolerance: float = 0.0  # of conditionals; 0: exact


class Setup(NamedTuple):
    """A language, its downstream tasks, and the models trained on it."""

    name: str
    language: LanguageSpec  # each replicate draws its own, with its own seed
    tasks: tuple[str, ...]
    models: Mapping[str, Shape]  # smallest first in each family
    lr: float  # peak rate of the main comparison
    seeds: tuple[int, ...]  # one per replicate
    exact: bool = True  # whether descents are trained on exact conditionals


@dataclass(frozen=True)
class Measures:
    """What is measured of a model, and on how many sentences; part of a run's key."""

    features: int | None = 768  # number to which all models' features are expanded
    width: int = 96  # of the widest model, to which others are projected, expanded and enlarged
    train: int = 2000  # labelled sentences per probe
    probe_sets: int = 3
    few_labels: tuple[int, ...] = (128, 500)
    many_labels: int = 8000
    trace_sentences: int = 8000
    capacities: bool = False  # whether features are expanded and projected without the other controls
    finetuning_lrs: tuple[float, ...] = ()  # of models that are fine-tuned without the other controls
    estimator: str = "sampled"  # of the trace, see `fisher_trace`
    trace_labels: int = 1  # that it draws for a sentence


@dataclass(frozen=True)
class Experiment:
    """Amounts of all runs; chapters say which are made."""

    name: str = field(default="", compare=False)  # of the preset
    language: str = "grammar"  # or all that it has
    size: str = "all"  # or one
    seeds: int | None = None  # replicates of each language; None: all of the setup's
    steps: int | None = None  # of the longest descent; None: the last of `descent_steps`
    labels: LabelKind = "posterior"
    probe_sets: int = 3
    trace_sentences: int = 8000
    estimator: str = "sampled"  # of the trace
    trace_labels: int = 1  # for each of its sentences
    micro_batch: int | None = None  # None: the batch
    processes: int = 1  # that share one training
    setups: tuple[Setup, ...] = ()
    descent_steps: tuple[int, ...] = (312, 625, 1250, 2500)
    saturates: bool = True  # whether its longest descents are meant to end near the best loss
    complete: bool = True  # whether each descent is a training of its own, not a checkpoint of the longest
    plateau_steps: tuple[int, ...] = (1250, 2500, 5000, 7500)
    plateau_lr: float = 0.001
    algorithm_model: str = "d48"  # the size trained by other algorithms
    algorithm_seeds: int | None = None  # replicates on the pages about algorithms; None: all
    treatment_steps: int = 2000
    cooling_steps: int = 2000  # at most
    cooling_lr: float = 0.0005
    target_fraction: float = 1.5  # a plateau is cooled to this multiple of the descent's final KL
    treated_cooling_lr: float = 0.0002
    treated_target_fraction: float = 1.05  # a treated model, to this multiple of the untreated model's KL
    batch: int = 256
    corpus_sentences: int | None = None  # None: every batch is sampled afresh
    execution: Execution = PLAIN
    held_out: int = 4000  # sentences for KL
    test: int = 20_000  # labelled sentences
    measured: Measures = Measures()
    flatness_sentences: int = 150  # sentences on which all measures of flatness are compared
    chain_steps: int = 60  # of Langevin dynamics, for the learning coefficient
    estimator_sentences: int = 8192  # sentences on which estimators of the trace are compared
    language_sentences: int = 20_000  # sentences on which statistics of languages are taken
    teacher: Teacher = Teacher(words=48, max_length=8, corpus_sentences=20_000, held_out=200)

    @property
    def measures(self) -> Measures:
        """The preset's measures, with what a reader has set."""
        own = {f.name: getattr(self, f.name) for f in fields(Measures) if hasattr(self, f.name)}
        return replace(self.measured, **own)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Steps of the descents, scaled to the longest one, each once."""
        longest = self.descent_steps[-1]
        scaled = (round(steps * (self.steps or longest) / longest) for steps in self.descent_steps)
        return tuple(dict.fromkeys(max(1, steps) for steps in scaled))

    @property
    def about(self) -> str:
        """Its preset and models, in words."""
        models = {r.setup.name: ", ".join(r.models) for r in self.replicates()}
        preset = f"preset {self.name}" + ("" if self.saturates else " (too few steps to saturate)")
        return ", ".join([preset, *(f"{name}: {models[name]}" for name in models)])

    def replicates(self) -> Iterator["Replicate"]:
        """Yield the replicates of all chosen languages; seeds beyond the preset's follow its last one."""
        for setup in self.setups:
            if self.language in ("all", setup.name):
                seeds = (*setup.seeds, *range(setup.seeds[-1] + 1, setup.seeds[-1] + MOST_SEEDS))
                yield from (Replicate(self, setup, seed) for seed in seeds[: self.seeds or len(setup.seeds)])


# A replicate: everything random is drawn anew, the language included.


@dataclass(frozen=True)
class Replicate:
    """One draw of a language, with all that is trained and measured on it."""

    experiment: Experiment
    setup: Setup
    seed: int

    @property
    def language(self) -> LanguageSpec:
        """The replicate's draw."""
        return self.setup.language.drawn(self.seed)

    @property
    def _amounts(self) -> "Experiment | Teacher":
        return self.experiment.teacher if self.language.pretrained else self.experiment

    @cached_property
    def labelled(self) -> LabelledSampling:
        """Labelled sentences: the training sets of all probes, and the test set."""
        e = self.experiment
        sentences = max(e.measures.many_labels, e.measures.train * e.measures.probe_sets)
        tasks = Downstream(self.setup.tasks, e.labels, sentences, e.test, 1, self.seed)
        return LabelledSampling(self.language, tasks)

    @cached_property
    def held_out(self) -> HeldOutConditionals:
        """Sentences on which KL is reported."""
        return HeldOutConditionals(self.language, self._amounts.held_out, self.seed)

    @property
    def models(self) -> list[str]:
        """Names of the chosen models."""
        return [name for name in self.setup.models if self.experiment.size in ("all", name)]

    @property
    def transformers(self) -> list[str]:
        """Those that are no LSTMs."""
        return [name for name in self.models if isinstance(self.setup.models[name], EncoderShape)]

    def descent(self, size: str, lr: float, steps: int, algorithm: Algorithm = ADAMW) -> Pretraining:
        """A training from scratch, by default AdamW; on exact labels where the setup has them."""
        e, chosen = self.experiment, recipe(*algorithm)
        objective = replace(chosen.objective, label_noise=0.0) if self.setup.exact else chosen.objective
        optimisation = Optimisation(steps if e.complete else e.lengths[-1], e.batch, lr)
        optimisation = replace(optimisation, **chosen.optimisation)
        run = self._training(
            size, self.seed, optimisation, objective, norm=chosen.norm, dropout=chosen.dropout,
            downstream=self.labelled if objective.adversary else None,
        )  # fmt: skip
        return run if e.complete else replace(run, checkpoints=e.lengths, resume_every=2500)

    def longest_descent(self, size: str) -> Pretraining:
        """AdamW's longest training on the main comparison's labels, at its peak rate."""
        return self.descent(size, self.setup.lr, self.experiment.lengths[-1])

    def plateau(self, size: str, objective: Objective = ORDINARY) -> Pretraining:
        """Continue the longest descent at a constant rate."""
        e = self.experiment
        optimisation = _constant(e.plateau_steps[-1], e.batch, e.plateau_lr)
        run = self._training(
            size, self.seed + PLATEAU, optimisation, objective, origin=self.longest_descent(size)
        )
        return replace(run, checkpoints=e.plateau_steps)

    def treated(self, size: str, algorithm: str, strength: float | None) -> Pretraining:
        """Continue the longest descent with another algorithm."""
        chosen, steps = recipe(algorithm, strength), self.experiment.treatment_steps
        optimisation = replace(_constant(steps, self.experiment.batch, 1.0), **chosen.optimisation)
        seed = self.seed + TREATMENT
        return self._training(size, seed, optimisation, chosen.objective, origin=self.longest_descent(size))

    def cooled(
        self, origin: Pretraining, step: int, size: str, untreated: Pretraining | None = None
    ) -> Pretraining:
        """Continue a checkpoint on exact labels until its KL, on sentences of its own, is low enough.

        That is relative to the end of the longest descent, and for a treated model to the untreated one.
        """
        e, seed, reference = self.experiment, self.seed + COOLING, untreated or self.longest_descent(size)
        lr, fraction = e.cooling_lr, e.target_fraction
        if untreated:
            lr, fraction = e.treated_cooling_lr, e.treated_target_fraction
        optimisation = _constant(e.cooling_steps, e.batch, lr)
        held_out = replace(self.held_out, seed=seed)
        return self._training(
            size, seed, optimisation, EXACT, kind=CoolDown, origin=origin, origin_step=step,
            held_out=held_out, reference=reference, target_share=fraction,
        )  # fmt: skip

    def _training(
        self, size: str, seed: int, optimisation: Optimisation, objective: Objective,
        kind: type[Pretraining] = Pretraining, **fields: Any,
    ) -> Pretraining:  # fmt: skip
        """The run of one training, compiled or in several processes where objective and shape allow."""
        e, shape = self.experiment, self.setup.models[size]
        execution = replace(e.execution, processes=e.processes).for_shape(shape)
        execution = replace(execution, autocast=execution.autocast and multiplies_bfloat16())
        sentences = self._amounts.corpus_sentences
        return kind(
            CorpusSampling(self.language, sentences, seed if sentences is None else self.seed),
            shape,
            optimisation,
            seed,
            checkpoints=(optimisation.steps,),
            micro_batch=e.micro_batch or optimisation.batch,
            resume_every=1000,
            objective=objective,
            execution=execution if objective == ORDINARY else execution.eager_in_one_process(),
            **fields,
        )

    def baselines(self) -> "Measurement":
        """Measure what needs no model."""
        run = language_baselines(self.labelled, self.held_out, self.experiment.measures)
        return Measurement(self, "none", "baseline", 0.0, 0, run)

    def measured(
        self, size: str, stage: str, steps: int, training: Pretraining, step: int | None = None,
        *, algorithm: Algorithm = ADAMW, controls: bool = False,
    ) -> "Measurement":  # fmt: skip
        """Measure a model.

        Args:
            size: its name.
            stage: how it was trained.
            steps: of this descent, plateau or treatment.
            training: that has it.
            step: of its checkpoint; None: `steps`.
            algorithm: of this training, or a treatment.
            controls: whether it is read in all ways.

        """
        about = self.labelled, self.held_out, self.experiment.measures, controls
        run = model_measurement(training, steps if step is None else step, *about)
        return Measurement(self, size, stage, training.optimisation.lr, steps, run, algorithm)

    def untrained(self, size: str) -> "Measurement":
        """Measure the initial weights of a model."""
        return self.measured(size, "untrained", 0, self.longest_descent(size))

    def trained(
        self, size: str, steps: int, lr: float | None = None, algorithm: Algorithm = ADAMW,
        *, controls: bool = False,
    ) -> "Measurement":  # fmt: skip
        """Measure the end of a descent, by default at the main rate."""
        run = self.descent(size, lr or self.setup.lr, steps, algorithm)
        return self.measured(size, "descent", steps, run, algorithm=algorithm, controls=controls)

    def flatness(self, size: str, algorithm: Algorithm = ADAMW) -> "Measurement":
        """Measure the flatness of the longest descent's end in all ways."""
        steps = self.experiment.lengths[-1]
        run = self.descent(size, self.setup.lr, steps, algorithm)
        measurement = flatness_measurement(run, steps, self.experiment.flatness_sentences, self.seed)
        return Measurement(self, size, "descent", run.optimisation.lr, steps, measurement, algorithm)


OTHER = "other descent"
"""The stage of a descent by another algorithm than AdamW."""


COLUMNS = [
    *("language", "replicate", "model", "parameters", "stage", "algorithm", "variant", "lr", "steps"),
    *("quantity", "task", "reading", "value", "standard_error"),
]
"""The columns of the table of measurements, which has one number per row.

A variant is an algorithm other than AdamW, or a treatment, with its strength; AdamW has none.
"""


class Measurement(NamedTuple):
    """A run that measures a model, with what the table of measurements says of the model."""

    replicate: Replicate
    model: str
    stage: str
    lr: float  # the peak, where it is not constant
    steps: int  # of the descent, plateau or treatment
    run: Run
    algorithm: Algorithm = ADAMW

    def described(self) -> dict[str, Any]:
        """The columns of the table that are the same for all its numbers."""
        setup, spec = self.replicate.setup, self.replicate.language
        shape, other = setup.models.get(self.model), self.algorithm != ADAMW
        return {
            "language": "pretrained" if spec.pretrained else setup.name,
            "replicate": self.replicate.seed,
            "model": self.model,
            "parameters": shape.parameter_count(spec.words, spec.max_length) if shape else 0,
            "stage": OTHER if other and self.stage == "descent" else self.stage,
            "algorithm": self.algorithm[0],
            "variant": label(*self.algorithm) if other else "",
            "lr": self.lr,
            "steps": self.steps,
        }


def tabled(measurements: Sequence[Measurement], numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of measurements, stacked, as one table, see `COLUMNS`."""
    about = pd.DataFrame([measurement.described() for measurement in measurements])
    return numbers.join(about, on="run")[COLUMNS].fillna({"task": "", "reading": ""})


PLATEAU, COOLING, TREATMENT = 1000, 2000, 3000
"""Offsets of the seed: each part of a training has batches of its own."""


def _constant(steps: int, batch: int, lr: float) -> Optimisation:
    return Optimisation(steps, batch, lr, warmup=0.0, schedule="constant")


# Measurements of a model: KL, Fisher trace, and the accuracy of linear probes.

FEATURES, EXPANDED = "features", "expanded"

PROBE = OptimalProbe(ridges=(1e-3, 1e-2, 1e-1, 1.0), tolerance=2e-3)

Features = tuple[torch.Tensor, torch.Tensor]
"""Features of the training and of the test sentences, one row per sentence."""

Row = dict[str, object]
"""A row of a table of measurements, without the columns that describe the model."""


class ProbeData(NamedTuple):
    """Labelled sentences, and how probes read them."""

    training: LabelledSentences
    test: LabelledSentences
    classes: tuple[int, ...]
    tasks: tuple[str, ...]

    @classmethod
    def of(cls, labelled: LabelledSampling, store: Store) -> "ProbeData":
        training, test = store.get(labelled)
        return cls(training, test, labelled.classes, labelled.downstream.tasks)

    def features(self, featurise: Callable[[Sentences], torch.Tensor]) -> Features:
        return featurise(self.training.sentences), featurise(self.test.sentences)

    def accuracies(
        self, features: Features, reading: str, labels: int, sets: int, probe: OptimalProbe = PROBE
    ) -> Iterator[Row]:
        """Yield the test accuracy (%) of linear probes for each task, of all and of unseen sentences.

        Args:
            features: of the training and the test sentences.
            reading: name of the features and labels, for the table.
            labels: training sentences per probe.
            sets: number of probes, each with training sentences of its own; their accuracies are averaged.
            probe: how each is fitted.

        """
        training = features[0][: labels * sets].unflatten(0, (sets, labels))
        classes = self.training.labels[: labels * sets].unflatten(0, (sets, labels))
        fitted = probe.fit(training, classes, self.classes, stream_seed("probe", 0))
        correct = fitted.correct(features[1], self.test.labels).double()  # seed, sentence, task
        unseen = self._unseen(labels * sets)
        for subset, rows in {"": unseen | True, ", unseen": unseen}.items():
            accuracies = 100 * correct[:, rows].mean(1)
            for number, task in enumerate(self.tasks):
                estimate = Estimate.of(accuracies[:, number])
                yield row("accuracy", estimate.mean, estimate.standard_error, task, reading + subset)

    def _unseen(self, labels: int) -> torch.Tensor:
        """Mask of the test sentences that are none of the first labelled ones."""
        known = {tuple(tokens) for tokens in _padded(self.training.sentences)[:labels].tolist()}
        return torch.tensor([tuple(t) not in known for t in _padded(self.test.sentences).tolist()])


def _padded(sentences: Sentences) -> torch.Tensor:
    return sentences.tokens.long() * sentences.inside


def row(quantity: str, value: float, error: float = 0.0, task: str = "", reading: str = "") -> Row:
    """Return a row of `COLUMNS` without those of the model; readings name what a probe has read."""
    return {"quantity": quantity, "task": task, "reading": reading, "value": value, "standard_error": error}


def _probed_width(run: Any) -> int:
    return run.measures.features or run.training.shape.d_model * run.labelled.language.max_length


def _measuring_work(run: Any) -> float:
    """Gradients of a trace, probes, of which controls are about four more, and fine-tuning of each task."""
    m, once = run.measures, run.training.sentence_flops
    probe = probing_flops(m.train, _probed_width(run), m.probe_sets)
    labels = run.training.corpus.language.words if m.estimator == "exact" else m.trace_labels
    tuned = (len(m.finetuning_lrs) + run.controls) * len(run.labelled.downstream.tasks) * FINETUNING.epochs
    probes = (5 if run.controls or m.capacities else 1) * probe
    return probes + (labels * m.trace_sentences + tuned * m.train) * once


def _measuring_bytes(run: Any) -> float:
    """The larger of trace (weights, and 3.5 times its chunk) and probe; with controls, on many labels."""
    m, test = run.measures, run.labelled.downstream.test
    sizes = [(m.train, m.probe_sets), *([(m.many_labels, 1)] if run.controls else [])]
    probes = (probing_bytes(labels, _probed_width(run), sets, test) for labels, sets in sizes)
    return SMALL_BYTES + max(*probes, 4 * run.training.parameter_count + 3.5 * CHUNK_BYTES[best_device()])


@stage(
    "ModelMeasurement",
    work=_measuring_work,
    memory=_measuring_bytes,
    accelerated=True,
    advice="choose a smaller size or fewer probe_seeds",
)
def model_measurement(
    training: TrainedRun,
    step: int,
    labelled: LabelledSampling,
    held_out: HeldOutConditionals,
    measures: Measures,
    controls: bool,
    store: Store,
) -> pd.DataFrame:
    """Measure a checkpoint: KL, traces, and accuracies on its features and on as many for all models.

    With `controls` also on its features projected to few dimensions, expanded to as many as the widest model
    has, with fewer and more labels, and fine-tuned.
    """
    m, checkpoints = measures, store.get(training)
    model, language = checkpoints.model(step), training.corpus.language.build()
    rows = [row("kl", *Estimate.of(divergences(model, *store.get(held_out)))[:2])]
    rows += [row("steps taken", len(checkpoints.history))] if step else []
    masked = held_out_masked(language, m.trace_sentences, held_out.seed, "trace")
    generator = generator_for("trace labels", held_out.seed)
    trace = fisher_trace(model, masked, estimator=m.estimator, labels=m.trace_labels, generator=generator)
    rows += [row("trace", *trace.total[:2]), row("relative trace", *relative_trace(model, trace)[:2])]
    ratio, rest = divmod(m.width, training.shape.d_model)
    if isinstance(training.shape, EncoderShape) and not rest:
        rows.append(row("enlarged trace", *trace.scaled(lambda name: trace_law(name, ratio)).total[:2]))
    data = ProbeData.of(labelled, store)
    features = data.features(lambda sentences: contextual_features(model, sentences).to(best_device()))
    readings = _readings(features, m.features)
    expanded = readings[EXPANDED]
    for reading, values in readings.items():
        rows += data.accuracies(values, reading, m.train, m.probe_sets)
    if controls or m.capacities:
        widest = m.width * language.max_length
        rows += data.accuracies(_expanded(features, widest), f"expanded to {widest}", m.train, m.probe_sets)
        projection = replace(PROBE, projection=m.width)
        rows += data.accuracies(features, f"projected to {m.width}", m.train, m.probe_sets, projection)
    for lr in m.finetuning_lrs:
        rows += _finetuned(model, data, m.train, replace(FINETUNING, lr=lr), f"fine-tuned, rate {lr:g}")
    if controls:
        for labels in m.few_labels:
            rows += data.accuracies(expanded, f"{labels} labels", labels, m.probe_sets)
        rows += data.accuracies(expanded, f"{m.many_labels} labels", m.many_labels, 1)
        rows += _finetuned(model, data, m.train, FINETUNING, "fine-tuned")
    return pd.DataFrame(rows)


def _expanded(features: Features, width: int) -> Features:
    return random_expansion(features[0], width), random_expansion(features[1], width)


def _readings(features: Features, width: int | None) -> dict[str, Features]:
    """Features as they are, and expanded by random ones to one number for all models, if there is one."""
    return {FEATURES: features, EXPANDED: features if width is None else _expanded(features, width)}


@stage(
    "FlatnessMeasures",
    work=lambda run: run.sentences * run.training.corpus.language.words * run.training.sentence_flops,
    memory=lambda run: SMALL_BYTES + 30 * 8 * run.training.parameter_count,  # most of it: 20 diagonals
    accelerated=True,
)
def flatness_measurement(
    training: TrainedRun, step: int, sentences: int, seed: int, store: Store
) -> pd.DataFrame:
    """Measure a checkpoint's flatness in other ways than `model_measurement` does, in float64."""
    about = training.corpus.language.build(), sentences, seed, "measures"
    masked, truth = held_out_masked(*about), held_out_conditionals(*about)
    model = store.get(training).model(step).double()
    values = dict(flatness_measures(model, masked, truth, partial(generator_for, "measures", seed)))
    names = [name for name in values if name not in ("trace", "relative_trace")]
    return pd.DataFrame([row(MEASURES[name], *values[name][:2]) for name in names])


FINETUNING = FinetuneSettings(epochs=30, lr=1e-3, warmup_steps=50)
"""At the paper's rate of 1e-4, ten epochs on so few sentences leave a small model below the majority."""


def _finetuned(
    model: MaskedLanguageModel, data: ProbeData, labels: int, settings: FinetuneSettings, reading: str
) -> Iterator[Row]:
    """Yield the accuracy of the whole model, fine-tuned on as many sentences as a probe is fitted to."""
    sentences, classes = data.training.sentences.rows(slice(labels)), data.training.labels[:labels]
    for number, task in enumerate(data.tasks):
        seed = stream_seed("fine-tuning", number)
        tuned = finetune(model, sentences, classes[:, number], data.classes[number], settings, seed)
        correct = tuned.correct(data.test.sentences, data.test.labels[:, number])
        yield row("accuracy", 100 * float(correct.double().mean()), 0.0, task, reading)


def _baseline_probe(run: Any) -> tuple[int, int, int]:
    """Sentences, features and sets of the widest probe, which reads which word stands where."""
    m, spec = run.measures, run.labelled.language
    return m.train, max(m.features or 0, spec.words * spec.max_length), m.probe_sets


@stage(
    "LanguageBaselines",
    work=lambda run: (2 - run.labelled.language.pretrained) * probing_flops(*_baseline_probe(run)),
    memory=lambda run: SMALL_BYTES + probing_bytes(*_baseline_probe(run), run.labelled.downstream.test),
    accelerated=True,
)
def language_baselines(
    labelled: LabelledSampling, held_out: HeldOutConditionals, measures: Measures, store: Store
) -> pd.DataFrame:
    """Measure what needs no model: majority, one-hot tokens, the lookup table, the bag of words.

    The lookup table represents each token by its true log conditionals: a perfect loss. A pre-trained model
    would need days for those of all labelled sentences, so its language goes without, and has its entropy.
    """
    m, language = measures, labelled.language.build()
    sentences, conditionals = store.get(held_out)
    rows = [row("context", *context_information(language, sentences, conditionals)[:2])]
    pretrained = labelled.language.pretrained
    if pretrained:  # too few conditionals to fit a bag of words to
        rows.append(row("entropy", *Estimate.of(entropies(conditionals, sentences))[:2]))
    else:
        others = store.get(replace(held_out, seed=held_out.seed + COOLING))
        rows.append(row("bag-of-words kl", bag_of_words_kl(others, sentences, conditionals)))
    data = ProbeData.of(labelled, store)
    for number, task in enumerate(data.tasks):
        counts = data.test.labels[:, number].bincount()
        rows.append(row("accuracy", 100 * float(counts.max() / counts.sum()), 0.0, task, "majority"))
    readers = [("tokens", one_hot_features), ("lookup", log_conditionals)]
    for name, featurise in readers[: 1 if pretrained else 2]:
        train, test = data.features(partial(featurise, language))
        features = train.to(best_device()), test.to(best_device())
        # One-hot tokens of a large vocabulary are more than all models' features: those stay as they are.
        width = max(m.features or 0, features[0].shape[1])
        for reading, values in _readings(features, width).items():
            rows += data.accuracies(values, f"{name}, {reading}", m.train, m.probe_sets)
    return pd.DataFrame(rows)


def log_conditionals(language: Language, sentences: Sentences) -> torch.Tensor:
    """Represent each token by its true log conditionals, and padding by zeros."""
    logs = language.conditionals(sentences).clamp_min(1e-30).log() * sentences.inside[..., None]
    return logs.float().flatten(1)


# The presets.

LADDER: dict[str, Shape] = {name: SIZES["laptop"][name] for name in ("d24", "d32", "d48", "d64", "d96")}
LSTMS: dict[str, Shape] = dict(LSTM_SIZES["laptop"])
PAPER_SIZES: dict[str, Shape] = dict(SIZES["paper"])
PAPER_LSTMS: dict[str, Shape] = dict(LSTM_SIZES["paper"])

_GRAMMAR = Setup("grammar", GRAMMAR, ("root", "span2"), LADDER, 0.005, (4, 5, 6, 8, 9, 11, 12, 13))
_HMM = Setup("hmm", HMM, ("state3", "state5"), LADDER | LSTMS, 0.00125, (1, 2, 3))
_OPT = Setup("opt", STAND_IN, ("topic",), LADDER, 0.005, (1, 2), exact=False)
_ENDS = {name: LADDER[name] for name in ("d24", "d96")}
_THREE = {name: LADDER[name] for name in ("d24", "d48", "d96")}
_SMOLLM2 = Setup("opt", SMOLLM2, ("next",), _THREE, 0.005, (1, 2, 3), exact=False)
_PAPER_GRAMMAR = Setup(
    "grammar", PAPER_LANGUAGE, ("root", "span16", "span8"), PAPER_SIZES, 1e-3, (1,), exact=False
)
_PAPER_HMM = Setup("hmm", PAPER_HMM, ("state6", "state10"), PAPER_LSTMS, 1e-3, (0,), exact=False)
_PAPER_OPT = Setup("opt", HubTeacherSpec(), ("next",), PAPER_SIZES, 1e-3, (1,), exact=False)

WORKSTATION = Experiment(
    name="workstation",
    language="all",
    setups=(_GRAMMAR, _HMM),
)
"""What the protocol specifies; its measurements are in `results/`."""

PRETRAINED = replace(
    WORKSTATION,
    name="pretrained",
    language="opt",
    setups=(_GRAMMAR, _HMM, _SMOLLM2),
    plateau_steps=(625, 1250, 2500),
    test=5000,
    trace_sentences=1000,
    measured=Measures(many_labels=6000),
    teacher=Teacher(SMOLLM2.words, SMOLLM2.max_length, 100_000, held_out=100, tolerance=1e-3),
)
"""The same comparisons of models trained on sentences of a pre-trained one, in `results/` too."""

LAPTOP = replace(
    WORKSTATION,
    name="laptop",
    language="grammar",
    setups=(
        _GRAMMAR._replace(models=_ENDS, seeds=(4, 5)),
        _HMM._replace(models=_ENDS | LSTMS, seeds=(1, 2)),
        _OPT._replace(models=_ENDS),
    ),
    descent_steps=(312, 625, 1250),
    plateau_steps=(625, 2500),
    algorithm_model="d24",
    algorithm_seeds=1,
    treatment_steps=500,
    held_out=2000,
    test=5000,
    probe_sets=2,
    trace_sentences=2000,
    measured=Measures(many_labels=4000),
    flatness_sentences=50,
    chain_steps=30,
    estimator_sentences=4096,
    language_sentences=10_000,
)
"""The smallest scale that shows the same: two sizes, two draws, one for other algorithms, half the steps, no
controls."""

SMOKE = replace(
    LAPTOP,
    name="smoke",
    algorithm_seeds=None,
    teacher=Teacher(words=12, max_length=4, corpus_sentences=500, held_out=20),
    setups=(
        _GRAMMAR._replace(models={name: SIZES["laptop"][name] for name in ("d8", "d16")}, seeds=(4, 5)),
        _HMM._replace(models={"lstm16": LSTMS["lstm16"]}, seeds=(1, 2)),
        _OPT._replace(
            language=replace(STAND_IN, words=6, max_length=4), models={"d8": SIZES["laptop"]["d8"]}
        ),
    ),
    descent_steps=(10, 20, 40),
    plateau_steps=(10, 20),
    algorithm_model="d8",
    treatment_steps=10,
    cooling_steps=20,
    batch=64,
    held_out=100,
    test=300,
    trace_sentences=100,
    measured=Measures(features=128, width=16, train=100, few_labels=(32,), many_labels=256),
    flatness_sentences=40,
    chain_steps=10,
    estimator_sentences=1024,
    language_sentences=500,
)

PAPER = replace(
    WORKSTATION,
    name="paper",
    language="grammar",
    setups=(_PAPER_GRAMMAR, _PAPER_HMM, _PAPER_OPT),
    descent_steps=(1875, 3750, 7500, 15_000, 22_500, 30_000),
    complete=False,
    algorithm_model="235M",
    batch=4096,
    corpus_sentences=20_000_000,
    teacher=Teacher(2000, 24, corpus_sentences=20_000_000, held_out=2000, tolerance=1e-3),
    micro_batch=512,
    execution=Execution(autocast=True, compiled=True, by_length=True),
    held_out=20_000,
    test=10_000,
    probe_sets=1,
    trace_sentences=10_000,
    measured=Measures(features=None, train=20_000, many_labels=20_000),
    language_sentences=100_000,
)
"""The paper's languages, sizes and lengths of training, on sampled labels: one training per size."""

GPU = replace(
    PAPER,
    name="gpu",
    setups=(
        _PAPER_GRAMMAR._replace(models={n: PAPER_SIZES[n] for n in ("5M", "13M", "41M")}),
        _PAPER_HMM._replace(models={"4M": PAPER_LSTMS["4M"]}),
        _PAPER_OPT._replace(models={n: PAPER_SIZES[n] for n in ("5M", "13M", "41M")}),
    ),
    teacher=PAPER.teacher._replace(corpus_sentences=4_000_000, held_out=500),
    descent_steps=(625, 1250, 2500, 5000, 7500, 10_000),
    algorithm_model="13M",
    batch=1024,
    corpus_sentences=4_000_000,
    micro_batch=1024,
)

GPU_HOUR = replace(
    PAPER,
    name="gpu-hour",
    setups=(
        _PAPER_GRAMMAR._replace(models={"235M": PAPER_SIZES["235M"]}),
        _PAPER_HMM._replace(models={"4M": PAPER_LSTMS["4M"]}),
    ),
    descent_steps=(500, 1000, 2000, 4000),
    saturates=False,
    corpus_sentences=4_000_000,
    held_out=4000,
    test=5000,
    trace_sentences=2000,
    measured=Measures(features=None, train=5000, many_labels=5000),
    language_sentences=20_000,
)
"""The paper's 235M in half an hour of an H200, to see every figure: too few steps to saturate."""

PRESETS = {preset.name: preset for preset in (SMOKE, LAPTOP, WORKSTATION, PRETRAINED, GPU_HOUR, GPU, PAPER)}
