"""The experiment of Part I: languages with room, models of several sizes, one table of measurements.

What is compared, and why, is fixed in `chapters/protocol.md`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple, get_args

import pandas as pd
import torch

from sameloss.device import best_device
from sameloss.languages import HMMSpec, Language, LanguageSpec, PCFGSpec, Sentences, TeacherSpec
from sameloss.languages.entropy import context_information
from sameloss.languages.language import LabelKind
from sameloss.languages.paper import PAPER_HMM, PAPER_LANGUAGE
from sameloss.measures.downstream import (
    FinetuneSettings,
    OptimalProbe,
    contextual_features,
    finetune,
    one_hot_features,
    random_expansion,
)
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
from sameloss.store.store import Run, Store
from sameloss.studies.parameters import MOST_SEEDS, Config, param
from sameloss.training.loop import PLAIN, Execution, Optimisation
from sameloss.training.objectives import EXACT, NO_TREATMENT, ORDINARY, Objective, label, recipe

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
"""A small autoregressive transformer in the place of OPT-125M."""

Algorithm = tuple[str, float | None]
"""Name and strength in `training.algorithms`."""

TREATMENTS: tuple[Algorithm, ...] = (
    NO_TREATMENT,
    ("sgd-noise", 1.0),
    ("penalty-after", 0.01),
    ("sharpen-after", 0.03),
)
"""From one saturated model: plain SGD without label noise, with it, with a penalty on the log trace, and with
a reward for it."""

ALGORITHMS: tuple[Algorithm, ...] = (
    ("adversarial", 0.003),
    ("adversarial", 0.012),
    ("adversarial", 0.05),
    ("sam", 0.05),
    ("trace-penalty", 1e-4),
    ("dropout", 0.1),
    ("weight-decay", 0.1),
    ("mask-rate", 0.15),
    ("post-ln", None),
)
"""In the place of AdamW, from the first step on."""


class Setup(NamedTuple):
    """A language, its downstream tasks, and the models that are trained on it."""

    name: str
    language: LanguageSpec  # each replicate draws its own: the seed is the replicate's
    tasks: tuple[str, ...]
    models: Mapping[str, Shape]  # smallest first in each family
    lr: float  # the peak rate of the main comparison
    seeds: tuple[int, ...]  # of the replicates
    exact: bool = True  # whether descents have exact conditionals as labels


@dataclass(frozen=True)
class Measures:
    """What is measured of a model, and on how much; part of a run's key."""

    features: int | None = 768  # that all models are expanded to
    width: int = 96  # of the widest model, to which others are projected, expanded and enlarged
    train: int = 2000  # labelled sentences of a probe
    probe_sets: int = 3
    few_labels: tuple[int, ...] = (128, 500)
    many_labels: int = 8000
    trace_sentences: int = 8000


@dataclass(frozen=True)
class Experiment(Config):
    """Everything that decides the runs: what a reader can set, and what a preset does."""

    language: str = param(
        "grammar, hmm or opt; all: every one that the preset has", default="grammar", kind=str
    )
    size: str = param(
        "all, or one: d24 to d96 (the width); lstm16 to lstm64 on hmm; 2M to 730M: the paper's",
        default="all",
        kind=str,
    )
    seeds: int | None = param(
        "replicates, each with its own language, weights and batches; None: the preset's",
        most=MOST_SEEDS,
        example="5",
    )
    steps: int | None = param("steps of the longest descent; None: the preset's")
    labels: LabelKind = param(
        "posterior, or likelihood as in the released code", default="posterior", kind=str,
        choices=get_args(LabelKind),
    )  # fmt: skip
    probe_sets: int = param("sets of labelled sentences, each with a probe of its own", default=3,
                            name="probe_seeds", most=MOST_SEEDS)  # fmt: skip
    trace_sentences: int = param("masked sentences an estimate of the trace uses", default=8000, least=2)
    micro_batch: int | None = param("sentences that go through the model at once; None: the preset's")
    processes: int = param("that share one training, each on a core or GPU of its own", default=1)
    setups: tuple[Setup, ...] = ()
    descent_steps: tuple[int, ...] = (312, 625, 1250, 2500)
    complete: bool = True  # each descent is a training of its own; else a checkpoint of the longest
    descent_models: tuple[str, ...] | None = None  # None: all
    peak_lrs: tuple[float, ...] | None = (0.005, 0.00125)  # None: the main one alone
    plateau_steps: tuple[int, ...] = (1250, 2500, 5000, 7500)
    plateau_models: tuple[str, ...] | None = None  # None: all
    plateau_lr: float = 0.001
    controls: bool = True  # whether the smallest and the widest model are read in all ways
    algorithm_model: str = "d48"  # trained by other algorithms
    algorithm_seeds: int | None = None  # replicates of the pages on them; None: all
    algorithms: tuple[Algorithm, ...] = ()
    treated_models: tuple[str, ...] = ()  # made flatter and sharper from the longest descent
    treatments: tuple[Algorithm, ...] = TREATMENTS
    treatment_steps: int = 2000
    cooling_steps: int = 2000  # at most
    cooling_lr: float = 0.0005
    target_fraction: float = 1.5  # of the KL of the descent's end, where a plateau is cooled
    treated_cooling_lr: float = 0.0002
    treated_target_fraction: float = 1.05  # of the KL of the untreated model
    batch: int = 256
    corpus_sentences: int | None = None  # None: every batch is sampled afresh
    execution: Execution = PLAIN
    held_out: int = 4000  # sentences on which KL is measured
    test: int = 20_000  # labelled sentences
    measured: Measures = Measures()
    flatness_sentences: int = 150  # on which all measures of flatness are compared
    chain_steps: int = 60  # of Langevin dynamics, for the learning coefficient
    estimator_sentences: int = 8192  # on which estimators of the trace are compared
    language_sentences: int = param(
        "sentences that statistics of languages are taken on", default=20_000, name="sentences",
        most=1_000_000, least=2, example="5000",
    )  # fmt: skip
    glue: str = param(
        "of a real OPT: folder of QNLI and SST-2, or their name", default="nyu-mll/glue", kind=str
    )

    @property
    def measures(self) -> Measures:
        """Return what is measured, with what a reader asked for."""
        return replace(self.measured, probe_sets=self.probe_sets, trace_sentences=self.trace_sentences)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the steps of the descents, in proportion to the longest."""
        longest = self.descent_steps[-1]
        return tuple(round(steps * (self.steps or longest) / longest) for steps in self.descent_steps)

    def replicates(self) -> Iterator["Replicate"]:
        """Yield the draws of every language that the page shows."""
        for setup in self.setups:
            if self.language in ("all", setup.name):
                yield from (Replicate(self, setup, seed) for seed in _some(setup.seeds, self.seeds))

    def replicate(self, setup: Setup) -> "Replicate":
        """Return the first draw of a language."""
        return Replicate(self, setup, setup.seeds[0])

    def table(self, store: Store) -> pd.DataFrame:
        """Return all measurements as one tidy table."""
        return pd.concat([replicate.table(store) for replicate in self.replicates()], ignore_index=True)


def _some(seeds: tuple[int, ...], count: int | None) -> tuple[int, ...]:
    """Return so many seeds: the first, and new ones behind the last."""
    more = tuple(range(seeds[-1] + 1, seeds[-1] + 1 + max(0, (count or 0) - len(seeds))))
    return (seeds + more)[:count]


# A replicate: everything that is random is drawn anew, the language included.


@dataclass(frozen=True)
class Replicate:
    """One draw of a language, with all that is trained and measured on it."""

    experiment: Experiment
    setup: Setup
    seed: int

    @property
    def language(self) -> LanguageSpec:
        """The replicate's own draw."""
        language = self.setup.language  # a reader's grammar is not drawn
        return replace(language, seed=self.seed) if hasattr(language, "seed") else language  # type: ignore[type-var]

    @property
    def labelled(self) -> LabelledSampling:
        """Sentences with posterior labels: all sets that probes are fitted to, and the test set."""
        e = self.experiment
        sentences = max(e.measures.many_labels, e.measures.train * e.measures.probe_sets)
        tasks = Downstream(self.setup.tasks, e.labels, sentences, e.test, 1, self.seed)
        return LabelledSampling(self.language, tasks)

    @property
    def held_out(self) -> HeldOutConditionals:
        """Sentences on which KL is reported."""
        return HeldOutConditionals(self.language, self.experiment.held_out, self.seed)

    def descent(
        self, size: str, lr: float, steps: int, algorithm: Algorithm = ("adamw", None)
    ) -> Pretraining:
        """Train a new model, by the protocol on exact labels and with the whole decay of the rate."""
        e, chosen = self.experiment, recipe(*algorithm)
        objective = replace(chosen.objective, label_noise=0.0) if self.setup.exact else chosen.objective
        optimisation = Optimisation(steps if e.complete else e.lengths[-1], e.batch, lr)
        optimisation = replace(optimisation, **chosen.optimisation)
        known = self.labelled if objective.adversary else None
        changed: dict[str, Any] = {"norm": chosen.norm, "dropout": chosen.dropout, "downstream": known}
        run = self._training(size, self.seed, optimisation, objective, **changed)
        return run if e.complete else replace(run, checkpoints=e.lengths, resume_every=2500)

    def plateau(self, size: str, objective: Objective = ORDINARY) -> Pretraining:
        """Go on from the longest descent at a constant rate."""
        e = self.experiment
        optimisation = _constant(e.plateau_steps[-1], e.batch, e.plateau_lr)
        own = self._training(size, self.seed + PLATEAU, optimisation, objective, self.main(size))
        return replace(own, checkpoints=e.plateau_steps)

    def treated(self, size: str, algorithm: str, strength: float | None) -> Pretraining:
        """Go on from the longest descent with an algorithm of `training.algorithms`."""
        chosen, steps = recipe(algorithm, strength), self.experiment.treatment_steps
        optimisation = replace(_constant(steps, self.experiment.batch, 1.0), **chosen.optimisation)
        return self._training(size, self.seed + TREATMENT, optimisation, chosen.objective, self.main(size))

    def cooled(self, origin: Pretraining, step: int, size: str) -> CoolDown:
        """Bring a model from its plateau to a multiple of the KL that its longest descent ended at."""
        e = self.experiment
        return self._cooled(origin, step, size, self.main(size), e.cooling_lr, e.target_fraction)

    def treated_and_cooled(self, size: str, algorithm: str, strength: float | None) -> CoolDown:
        """Bring a treated model to the KL of the untreated one."""
        e = self.experiment
        origin, untreated = (self.treated(size, *how) for how in ((algorithm, strength), NO_TREATMENT))
        last = e.treatment_steps
        return self._cooled(origin, last, size, untreated, e.treated_cooling_lr, e.treated_target_fraction)

    def _cooled(
        self, origin: Pretraining, step: int, size: str, reference: Pretraining, lr: float, fraction: float
    ) -> CoolDown:
        """Go on from a checkpoint on exact labels, up to the first look at a low enough KL."""
        e = self.experiment
        optimisation = _constant(e.cooling_steps, e.batch, lr)
        plain = self._training(size, self.seed + COOLING, optimisation, EXACT, origin)
        looks = HeldOutConditionals(self.language, e.held_out, self.seed + COOLING)
        shared = {f.name: getattr(plain, f.name) for f in fields(plain)}
        own = {"origin_step": step, "held_out": looks, "reference": reference}
        return CoolDown(**shared | own, target_share=fraction)

    def main(self, size: str) -> Pretraining:
        """Return the longest descent at the main rate."""
        return self.descent(size, self.setup.lr, self.experiment.lengths[-1])

    def _training(
        self,
        size: str,
        seed: int,
        optimisation: Optimisation,
        objective: Objective,
        origin: Pretraining | None = None,
        **changed: Any,
    ) -> Pretraining:
        e, shape = self.experiment, self.setup.models[size]
        return Pretraining(
            CorpusSampling(self.language, e.corpus_sentences, seed),
            shape,
            optimisation,
            seed,
            checkpoints=(optimisation.steps,),
            micro_batch=e.micro_batch or optimisation.batch,
            resume_every=1000,
            objective=objective,
            origin=origin,
            execution=self._execution(shape, objective),
            **changed,
        )

    def _execution(self, shape: Shape, objective: Objective) -> Execution:
        """Return the preset's execution, or what the objective and the shape allow of it."""
        wanted = replace(self.experiment.execution, processes=self.experiment.processes).for_shape(shape)
        return wanted if objective == ORDINARY else wanted.eager_in_one_process()

    @property
    def models(self) -> list[str]:
        """The names of the models that the page shows."""
        e = self.experiment
        shown = [name for name in self.setup.models if e.size in ("all", name)]
        return [name for name in shown if e.descent_models is None or name in e.descent_models]

    def points(self) -> Iterator["Point"]:
        """Yield every model that is measured, the cheapest first."""
        e, lr = self.experiment, self.setup.lr
        transformers = [name for name in self.models if isinstance(self.setup.models[name], EncoderShape)]
        for size in self.models:
            controls = e.controls and size in (*transformers[:1], *transformers[-1:])
            yield Point(size, "untrained", lr, 0, self.main(size), 0)
            for rate in (lr, *(other for other in e.peak_lrs or () if other != lr)):
                for steps in e.lengths:
                    run, main = self.descent(size, rate, steps), rate == lr
                    compared = main and size == e.algorithm_model and steps == e.lengths[-1]
                    flatness = compared and bool(e.algorithms)
                    yield Point(size, "descent", rate, steps, run, steps, controls and main, flatness)
        for size in self.models if e.plateau_steps else ():
            if e.plateau_models is None or size in e.plateau_models:
                yield from self._after_descent(size)
        if e.plateau_steps and e.plateau_models is None and transformers and self.setup.exact:
            middle = transformers[len(transformers) // 2]
            exact = self.plateau(middle, EXACT)
            for steps in e.plateau_steps:
                yield Point(middle, "plateau, exact labels", e.plateau_lr, steps, exact, steps)

        for size in self.models:
            if size in e.treated_models and self.setup.exact:
                yield from self._treatments(size)
        if e.algorithm_model in self.models:
            yield from self._algorithms(e.algorithm_model)

    def _algorithms(self, size: str) -> Iterator["Point"]:
        e, lr = self.experiment, self.setup.lr
        for algorithm in e.algorithms:
            for steps in e.lengths:
                run, name = self.descent(size, lr, steps, algorithm), f"descent: {label(*algorithm)}"
                yield Point(size, name, lr, steps, run, steps, all_flatness=steps == e.lengths[-1])

    def _treatments(self, size: str) -> Iterator["Point"]:
        e = self.experiment
        for how in e.treatments:
            runs = {"treated": self.treated(size, *how), "cooled": self.treated_and_cooled(size, *how)}
            for stage_name, run in runs.items():
                step = run.checkpoints[-1]
                yield Point(
                    size, f"{stage_name}: {label(*how)}", run.optimisation.lr, e.treatment_steps, run, step
                )

    def _after_descent(self, size: str) -> Iterator["Point"]:
        e, plateau = self.experiment, self.plateau(size)
        for steps in e.plateau_steps:
            yield Point(size, "plateau", e.plateau_lr, steps, plateau, steps)
        for steps in (e.plateau_steps[0], e.plateau_steps[-1]) if self.setup.exact else ():
            cooled = self.cooled(plateau, steps, size)
            yield Point(size, "cooled", e.cooling_lr, steps, cooled, e.cooling_steps)

    def baselines(self) -> Run:
        """Return the measurement of what needs no model."""
        return language_baselines(self.labelled, self.held_out, self.experiment.measures)

    def measurements(self) -> Iterator[tuple["Point", Run]]:
        """Yield every measurement, with the model that it is of."""
        e = self.experiment
        for point in self.points():
            about = self.labelled, self.held_out, e.measures, point.controls
            yield point, model_measurement(point.training, point.step, *about)
            if point.all_flatness:
                yield point, flatness_measurement(point.training, point.step, e.flatness_sentences, self.seed)

    def runs(self) -> list[Run]:
        """Return all measurements."""
        return [self.baselines(), *(run for _, run in self.measurements())]

    def table(self, store: Store) -> pd.DataFrame:
        """Return all measurements of this replicate as one tidy table."""
        none = {"model": "none", "parameters": 0, "stage": "baseline", "lr": 0.0, "steps": 0}
        parts = [store.get(self.baselines()).assign(**none)]
        for point, run in self.measurements():
            labels = {"model": point.model, "stage": point.stage, "lr": point.lr, "steps": point.steps}
            spec, shape = self.language, point.training.shape
            labels["parameters"] = shape.parameter_count(spec.words, spec.max_length)
            parts.append(store.get(run).assign(**labels))
        found = pd.concat(parts, ignore_index=True).assign(language=self.setup.name, replicate=self.seed)
        return found[COLUMNS].fillna({"task": "", "reading": ""})


COLUMNS = [
    *("language", "replicate", "model", "parameters", "stage", "lr", "steps"),
    *("quantity", "task", "reading", "value", "standard_error"),
]
"""The columns of the table of measurements."""


class Point(NamedTuple):
    """A model that is measured: what was trained, how, and at which of its checkpoints."""

    model: str
    stage: str
    lr: float  # the peak, where it is not constant
    steps: int  # of the descent or of the plateau
    training: Pretraining
    step: int  # the checkpoint
    controls: bool = False  # whether it is read in all ways
    all_flatness: bool = False  # whether it has every measure of flatness


PLATEAU, COOLING, TREATMENT = 1000, 2000, 3000
"""Added to the seed: each part of a training has batches of its own."""


def _constant(steps: int, batch: int, lr: float) -> Optimisation:
    return Optimisation(steps, batch, lr, warmup=0.0, schedule="constant")


# What is measured of a model: KL, Fisher trace, and how many test sentences linear probes label right.

FEATURES, EXPANDED = "features", "expanded"


PROBE = OptimalProbe(ridges=(1e-3, 1e-2, 1e-1, 1.0), tolerance=2e-3)


class Features(NamedTuple):
    """Features of labelled sentences, one row a sentence."""

    training: torch.Tensor
    test: torch.Tensor

    def expanded(self, width: int) -> "Features":
        """Return them with random ones beside them."""
        return Features(random_expansion(self.training, width), random_expansion(self.test, width))


class ProbeData(NamedTuple):
    """Labelled sentences and how probes read them."""

    training: LabelledSentences
    test: LabelledSentences
    classes: tuple[int, ...]
    tasks: tuple[str, ...]

    @classmethod
    def of(cls, labelled: LabelledSampling, store: Store) -> "ProbeData":
        """Read the sentences of a run."""
        training, test = store.get(labelled)
        return cls(training, test, labelled.classes, labelled.downstream.tasks)

    def features(self, featurise: Callable[[Sentences], torch.Tensor]) -> "Features":
        """Return the features of the training and of the test sentences."""
        return Features(featurise(self.training.sentences), featurise(self.test.sentences))

    def accuracies(
        self,
        features: Features,
        reading: str,
        labels: int,
        sets: int,
        probe: OptimalProbe = PROBE,
    ) -> Iterator[dict[str, object]]:
        """Yield a row for each task: the percentage of test sentences that probes label right.

        Args:
            features: of the training and of the test sentences.
            reading: how they are read, for the row.
            labels: training sentences of a probe.
            sets: probes, each fitted to sentences of its own; the accuracy is their mean.
            probe: how it is fitted.

        """
        training = features.training[: labels * sets].unflatten(0, (sets, labels))
        classes = self.training.labels[: labels * sets].unflatten(0, (sets, labels))
        fitted = probe.fit(training, classes, self.classes, stream_seed("probe", 0))
        right = fitted.correct(features.test, self.test.labels).double()  # seed, sentence, task
        unseen = self._unseen(labels * sets)
        for subset, rows in {"": unseen | True, ", unseen": unseen}.items():
            each = 100 * right[:, rows].mean(1)
            for number, task in enumerate(self.tasks):
                estimate = Estimate.of(each[:, number])
                yield row("accuracy", estimate.mean, estimate.standard_error, task, reading + subset)

    def _unseen(self, labels: int) -> torch.Tensor:
        """Return which test sentences are none of the first labelled ones."""
        known = {tuple(tokens) for tokens in _padded(self.training.sentences)[:labels].tolist()}
        return torch.tensor([tuple(t) not in known for t in _padded(self.test.sentences).tolist()])


def _padded(sentences: Sentences) -> torch.Tensor:
    return sentences.tokens.long() * sentences.inside


def row(
    quantity: str, value: float, error: float = 0.0, task: str = "", reading: str = ""
) -> dict[str, object]:
    """Return a row of a table of measurements."""
    return {
        "quantity": quantity,
        "task": task,
        "reading": reading,
        "value": value,
        "standard_error": error,
    }


def _probing_seconds(run: Any) -> float:
    m, longest = run.measures, run.labelled.language.max_length
    width = m.features or run.training.shape.d_model * longest
    return 2 + m.train * m.probe_sets * width * 2e-6 * (1 + 4 * run.controls)


@stage("ModelMeasurement", seconds=_probing_seconds)
def model_measurement(
    training: TrainedRun,
    step: int,
    labelled: LabelledSampling,
    held_out: HeldOutConditionals,
    measures: Measures,
    controls: bool,
    store: Store,
) -> pd.DataFrame:
    """Measure a checkpoint: KL, traces, accuracies as they are and with as many features for all models.

    With `controls` also projected to few dimensions, expanded to as many features as the widest model has,
    with fewer and more labels, and fine-tuned.
    """
    m, checkpoints = measures, store.get(training)
    model, language = checkpoints.model(step), training.corpus.language.build()
    rows = [row("kl", *Estimate.of(divergences(model, *store.get(held_out)))[:2])]
    rows += [row("steps taken", len(checkpoints.history))] if step else []
    masked = held_out_masked(language, m.trace_sentences, held_out.seed, "trace")
    trace = fisher_trace(model, masked, generator=generator_for("trace labels", held_out.seed))
    rows += [row("trace", *trace.total[:2]), row("relative trace", *relative_trace(model, trace)[:2])]
    ratio, rest = divmod(m.width, training.shape.d_model)
    if isinstance(training.shape, EncoderShape) and not rest:
        rows.append(row("enlarged trace", *trace.scaled(lambda name: trace_law(name, ratio)).total[:2]))
    data = ProbeData.of(labelled, store)
    features = data.features(lambda sentences: contextual_features(model, sentences).to(best_device()))
    read = _read(features, m)
    expanded = read[EXPANDED]
    for reading, own in read.items():
        rows += data.accuracies(own, reading, m.train, m.probe_sets)
    if controls:
        widest = m.width * language.max_length
        rows += data.accuracies(features.expanded(widest), f"expanded to {widest}", m.train, m.probe_sets)
        projection = replace(PROBE, projection=m.width)
        rows += data.accuracies(features, f"projected to {m.width}", m.train, m.probe_sets, projection)
        for labels in m.few_labels:
            rows += data.accuracies(expanded, f"{labels} labels", labels, m.probe_sets)
        rows += data.accuracies(expanded, f"{m.many_labels} labels", m.many_labels, 1)
        rows += _finetuned(model, data, m.train)
    return pd.DataFrame(rows)


@stage("FlatnessMeasures", seconds=lambda run: run.sentences * run.training.shape.d_model / 1e3)
def flatness_measurement(
    training: TrainedRun, step: int, sentences: int, seed: int, store: Store
) -> pd.DataFrame:
    """Measure a checkpoint's flatness in other ways than by its trace, in float64."""
    about = training.corpus.language.build(), sentences, seed, "measures"
    masked, truth = held_out_masked(*about), held_out_conditionals(*about)
    model = store.get(training).model(step).double()
    found = flatness_measures(model, masked, truth, partial(generator_for, "measures", seed))
    return pd.DataFrame([row(MEASURES[name], *value[:2]) for name, value in found if name not in MEASURED])


MEASURED = ("trace", "relative_trace")
"""What `model_measurement` has, of more sentences."""

FINETUNING = FinetuneSettings(epochs=30, lr=1e-3, warmup_steps=50)
"""At the paper's rate of 1e-4 ten epochs of so few sentences leave a small model below the majority class."""


def _finetuned(model: MaskedLanguageModel, data: ProbeData, labels: int) -> Iterator[dict[str, object]]:
    """Yield the accuracy of the whole model, trained on as many sentences as a probe."""
    first = LabelledSentences(data.training.sentences.rows(slice(labels)), data.training.labels[:labels])
    for number, task in enumerate(data.tasks):
        classes = data.classes[number]
        seed = stream_seed("fine-tuning", number)
        tuned = finetune(model, first.sentences, first.labels[:, number], classes, FINETUNING, seed)
        right = tuned.correct(data.test.sentences, data.test.labels[:, number])
        yield row("accuracy", 100 * float(right.double().mean()), 0.0, task, "fine-tuned")


@stage("LanguageBaselines", seconds=lambda run: 2 + run.labelled.downstream.test / 500)
def language_baselines(
    labelled: LabelledSampling, held_out: HeldOutConditionals, measures: Measures, store: Store
) -> pd.DataFrame:
    """Measure what no model is needed for: majority, bare tokens, the lookup table, the bag of words.

    The lookup table holds the true log conditionals of every token: a perfect loss.
    """
    m, language = measures, labelled.language.build()
    sentences, conditionals = store.get(held_out)
    others = store.get(replace(held_out, seed=held_out.seed + COOLING))
    rows = [
        row("context", *context_information(language, sentences, conditionals)[:2]),
        row("bag-of-words kl", bag_of_words_kl(others, sentences, conditionals)),
    ]
    data = ProbeData.of(labelled, store)
    for number, task in enumerate(data.tasks):
        counts = data.test.labels[:, number].bincount()
        rows.append(row("accuracy", 100 * float(counts.max() / counts.sum()), 0.0, task, "majority"))
    for name, featurise in {"tokens": one_hot_features, "lookup": log_conditionals}.items():
        features = data.features(partial(featurise, language))
        for reading, read in _read(features, m).items():
            rows += data.accuracies(read, f"{name}, {reading}", m.train, m.probe_sets)
    return pd.DataFrame(rows)


def _read(features: Features, measures: Measures) -> dict[str, Features]:
    """Return features as they are, and with random ones beside them; at the paper's widths there are none."""
    width = measures.features
    return {FEATURES: features, EXPANDED: features if width is None else features.expanded(width)}


MOST_MAJORITY, LEAST_ROOM = 50.0, 15.0
"""What a draw of the grammar is held to, in points: the largest class, and the room above bare tokens."""


def accepted(baselines: pd.DataFrame) -> bool:
    """Tell whether a draw of the grammar leaves room for models to differ; no model is looked at."""
    accuracy = baselines[baselines.quantity == "accuracy"].set_index("reading").value
    majority, tokens = accuracy["majority"], accuracy[[f"tokens, {r}" for r in (FEATURES, EXPANDED)]]
    return bool(majority.max() <= MOST_MAJORITY and tokens.max() <= 100 - LEAST_ROOM)


def log_conditionals(language: Language, sentences: Sentences) -> torch.Tensor:
    """Represent each token by its true log conditional, and places beyond the end by zeros."""
    logs = language.conditionals(sentences).clamp_min(1e-30).log() * sentences.inside[..., None]
    return logs.float().flatten(1)


# The presets.

LADDER: dict[str, Shape] = {name: SIZES["laptop"][name] for name in ("d24", "d32", "d48", "d64", "d96")}
LSTMS: dict[str, Shape] = dict(LSTM_SIZES["laptop"])
PAPER_SIZES: dict[str, Shape] = dict(SIZES["paper"])

_GRAMMAR = Setup("grammar", GRAMMAR, ("root", "span2"), LADDER, 0.005, (4, 5, 6, 8, 9, 11, 12, 13))
_HMM = Setup("hmm", HMM, ("state3", "state5"), LADDER | LSTMS, 0.00125, (1, 2, 3))
_OPT = Setup("opt", STAND_IN, ("topic",), LADDER, 0.005, (1, 2), exact=False)
_ENDS = {name: LADDER[name] for name in ("d24", "d96")}
_PAPER_GRAMMAR = Setup(
    "grammar", PAPER_LANGUAGE, ("root", "span16", "span8"), PAPER_SIZES, 1e-3, (1,), exact=False
)
_PAPER_HMM = Setup(
    "hmm", PAPER_HMM, ("state6", "state10"), dict(LSTM_SIZES["paper"]), 1e-3, (0,), exact=False
)
_PAPER_OPT = Setup("opt", STAND_IN, ("topic",), PAPER_SIZES, 1e-3, (1,), exact=False)

WORKSTATION = Experiment(
    name="workstation",
    language="all",
    setups=(_GRAMMAR, _HMM),
    algorithms=ALGORITHMS,
    treated_models=("d32", "d64", "lstm32"),
)
"""What the protocol asks for, and `results/` records."""

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
    peak_lrs=None,
    plateau_steps=(625, 2500),
    plateau_models=("d24",),
    controls=False,
    algorithm_model="d24",
    algorithm_seeds=1,
    algorithms=(("adversarial", 0.012), ("sam", 0.05), ("mask-rate", 0.15)),
    treated_models=("d24",),
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
"""The same at the smallest scale that shows it: two sizes, two draws, one for other algorithms, half as many
steps, no controls."""

SMOKE = replace(
    LAPTOP,
    name="smoke",
    algorithm_seeds=None,
    setups=(
        _GRAMMAR._replace(models={name: SIZES["laptop"][name] for name in ("d8", "d16")}, seeds=(4, 5)),
        _HMM._replace(models={"lstm16": LSTMS["lstm16"]}, seeds=(1, 2)),
        _OPT._replace(
            language=replace(STAND_IN, words=6, max_length=4), models={"d8": SIZES["laptop"]["d8"]}
        ),
    ),
    descent_steps=(10, 20, 40),
    plateau_steps=(10, 20),
    plateau_models=("d8",),
    controls=True,
    algorithm_model="d8",
    treated_models=("d8",),
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
    peak_lrs=None,
    plateau_steps=(),
    controls=False,
    algorithm_model="235M",
    algorithms=(("adversarial", 0.003), ("sam", 0.05), ("mask-rate", 0.15)),
    treated_models=(),
    batch=4096,
    corpus_sentences=20_000_000,
    micro_batch=512,
    execution=Execution(autocast=True, compiled=True, by_length=True),
    held_out=20_000,
    test=10_000,
    probe_sets=1,
    trace_sentences=10_000,
    measured=Measures(features=None, train=20_000, many_labels=20_000),
    language_sentences=100_000,
)
"""The paper's languages, sizes and length of training, on sampled labels: one training a size."""

GPU = replace(
    PAPER,
    name="gpu",
    setups=(
        _PAPER_GRAMMAR._replace(models={n: PAPER_SIZES[n] for n in ("5M", "13M", "41M")}),
        _PAPER_HMM._replace(models={"4M": LSTM_SIZES["paper"]["4M"]}),
    ),
    descent_steps=(625, 1250, 2500, 5000, 7500, 10_000),
    algorithm_model="13M",
    batch=1024,
    corpus_sentences=4_000_000,
    micro_batch=1024,
)

PRESETS = {preset.name: preset for preset in (SMOKE, LAPTOP, WORKSTATION, GPU, PAPER)}
