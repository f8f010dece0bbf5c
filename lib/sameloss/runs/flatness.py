"""Stored measurements of checkpoints: saturation, flatness."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.languages.entropy import context_information
from sameloss.languages.enumeration import enumerable
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.diagonal import group_diagonals
from sameloss.measures.flatness.hessian import top_eigenvalue
from sameloss.measures.flatness.hutchinson import fisher_gap
from sameloss.measures.flatness.sharpness import adaptive_sharpness, worst_case_adaptive_sharpness
from sameloss.measures.flatness.trace import EstimatedTrace, fisher_trace, relative_trace
from sameloss.measures.saturation import exact_saturation, saturation
from sameloss.models.encoder import Encoder
from sameloss.models.enlarge import Tying, kind_of, trace_law
from sameloss.models.masked_model import parameter_layer
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.frames import Measurement, frame
from sameloss.runs.held_out import HeldOutConditionals, held_out_conditionals, held_out_masked
from sameloss.seeds import generator_for
from sameloss.statistics.bootstrap import Estimate
from sameloss.store.store import Report, Run, Store

# The run that measures how far checkpoints are from the best possible loss.


@dataclass(frozen=True)
class SaturationMeasurement(Measurement):
    """Entropy, KL and loss of every checkpoint of a pre-training, on the same held-out sentences.

    The parts of its frame are `entropy`, `kl`, `loss` and `context`, all there is to learn of the language,
    in nats a masked token.
    """

    pretraining: TrainedRun
    held_out: HeldOutConditionals

    schema: ClassVar[int] = 3

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.7 * (1 + self.pretraining.shape.d_model**2 / 2000) * len(self.pretraining.checkpoints)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint; exactly where the language can be enumerated."""
        language = self.pretraining.corpus.language.build()
        checkpoints = store.get(self.pretraining)
        sentences, conditionals = store.get(self.held_out)
        context = context_information(language, sentences, conditionals)
        if enumerable(language):
            measure = partial(exact_saturation, language=language)
        else:
            measure = partial(saturation, sentences=sentences, conditionals=conditionals)
        frames = []
        for step in checkpoints.steps:
            found = measure(checkpoints.model(step))
            frames.append(frame({**found._asdict(), "context": context}, step))
            report(len(frames) / len(checkpoints.steps), f"KL {found.kl.mean:.4f}")
        self.save(frames, folder)


# The runs that measure the flatness of checkpoints.

MEASURES = {
    "trace": "trace",
    "top_eigenvalue": "top eigenvalue",
    "adam_trace": "Tr Diag(H)^½",
    "adaptive_trace": "adaptive trace",
    "adaptive_sharpness": "adaptive sharpness",
    "worst_adaptive_sharpness": "worst adaptive sharpness",
    "relative_trace": "relative trace",
    "learning_coefficient": "learning coefficient",
}
"""The measures of flatness in the order of tables: from the name in data to the one that readers see."""


@dataclass(frozen=True)
class LastCheckpointRun(Run):
    """A run about the last checkpoint of a pre-training."""

    pretraining: TrainedRun
    sentences: int
    seed: int

    @property
    def step(self) -> int:
        """Return the number of training steps of the last checkpoint."""
        return self.pretraining.checkpoints[-1]

    def last_model(self, store: Store) -> Encoder:
        """Return the model after all steps."""
        return store.get(self.pretraining).last()

    def masked(self, use: str) -> Batch:
        """Return masked sentences for one use."""
        return held_out_masked(self.pretraining.corpus.language.build(), self.sentences, self.seed, use)

    def generator(self, use: str) -> torch.Generator:
        """Return random numbers for one use."""
        return generator_for(use, self.seed)


@dataclass(frozen=True)
class EnlargementMeasurement(LastCheckpointRun, Measurement):
    """Fisher trace of a checkpoint: native, enlarged to a given width, and relative to its parameters.

    Enlarged traces are the native ones times `trace_law`, so the large model is never made. The column
    `form` of its frame is `native`, `paper`, `balanced` or `relative`; the parts are `total`, `without
    embeddings` and the kinds of parameters, of `relative` the total alone.
    """

    labels: int
    width: int  # d_model that the model is enlarged to

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure once, then apply the laws."""
        model = self.last_model(store)
        trace = fisher_trace(
            model,
            self.masked("enlargement"),
            labels=self.labels,
            generator=self.generator("enlargement labels"),
        )
        forms = {"native": trace} | {tied: self._enlarged(trace, tied) for tied in get_args(Tying)}
        frames = [frame(_with_total(t), self.step, form=form) for form, t in forms.items()]
        relative = {"total": relative_trace(model, trace)}
        self.save([*frames, frame(relative, self.step, form="relative")], folder)

    def _enlarged(self, trace: EstimatedTrace, tied: Tying) -> EstimatedTrace:
        """Return the trace that the model enlarged to the width has."""
        ratio = self.width // self.pretraining.shape.d_model
        return trace.scaled(partial(trace_law, ratio=ratio, tied=tied))


def _with_total(trace: EstimatedTrace) -> dict[str, Estimate]:
    """Return the total, the total without the tied embedding and positions, and each kind's part."""
    rest = trace.by(lambda name: "embedding" if kind_of(name) == "embedding" else "without embeddings")
    return {"total": trace.total, "without embeddings": rest["without embeddings"], **trace.by(kind_of)}


@torch.no_grad()
def predictions(model: Encoder, masked: Batch) -> Float[Tensor, "batch word"]:
    """Return f(x_-t), on the CPU."""
    masked = masked.to(next(model.parameters()).device)
    return model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()


@dataclass(frozen=True)
class FlatnessMeasurement(LastCheckpointRun, Measurement):
    """The measures of flatness of the last checkpoint of a pre-training (chapter D compares them).

    The parts of its frame are those of `MEASURES` that need no chain.
    """

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure in float64, all models on the same sentences."""
        about = self.pretraining.corpus.language.build(), self.sentences, self.seed, "measures"
        masked, truth = held_out_masked(*about), held_out_conditionals(*about)
        model = self.last_model(store).double()
        found = flatness_measures(model, masked, truth, partial(self.generator, "measures"))
        self.save([frame(dict(found), self.step)], folder)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.pretraining.shape.d_model / 2e3


def flatness_measures(
    model: Encoder, masked: Batch, truth: Tensor, drawn: Callable[[], torch.Generator]
) -> Iterator[tuple[str, Estimate]]:
    """Yield the measures of flatness that need no chain, by their names in `MEASURES`.

    Args:
        model: best in float64.
        masked: masked sentences, the whole population of the measures without an error of their own.
        truth: Pr(. | x_-t) at the masked positions.
        drawn: begins the same random numbers again, for each measure that draws.

    """
    about = model, masked, truth
    trace = fisher_trace(model, masked, estimator="exact")
    diagonals = group_diagonals(model, masked, generator=drawn(), labels=2)
    yield "trace", trace.total
    yield "top_eigenvalue", _exact(top_eigenvalue(*about), masked)
    yield "adam_trace", diagonals.adam_trace()
    yield "adaptive_trace", diagonals.adaptive_trace(model)
    average = adaptive_sharpness(*about, rho=0.05, draws=10, generator=drawn())
    yield "adaptive_sharpness", average
    worst = worst_case_adaptive_sharpness(*about, rho=0.5)
    yield "worst_adaptive_sharpness", _exact(worst, masked)
    yield "relative_trace", relative_trace(model, trace)


def _exact(value: float, masked: Batch) -> Estimate:
    """Return a number without randomness of its own, over these sentences."""
    return Estimate(value, 0.0, len(masked.masked))


@dataclass(frozen=True)
class TraceMeasurement(Measurement):
    """Fisher trace of every checkpoint of a pre-training: in total, by kind and depth of parameter.

    The column `split` of its frame is `total`, `kind` or `depth`; the parts of each split add up to
    the trace.
    """

    pretraining: TrainedRun
    sentences: int
    labels: int
    estimator: str
    seed: int

    schema: ClassVar[int] = 3

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint, on the same masked sentences."""
        language = self.pretraining.corpus.language.build()
        masked = held_out_masked(language, self.sentences, self.seed, "trace")
        generator = generator_for("trace labels", self.seed)
        checkpoints = store.get(self.pretraining)
        estimated = partial(
            fisher_trace, masked=masked, estimator=self.estimator, labels=self.labels, generator=generator
        )
        frames = []
        for number, step in enumerate(checkpoints.steps, start=1):
            trace = estimated(checkpoints.model(step))
            depths = trace.by(parameter_layer)  # in the order that results of before have
            splits = {"total": {"total": trace.total}, "kind": trace.parts, "depth": depths}
            frames += [frame(parts, step, split=split) for split, parts in splits.items()]
            report(number / len(checkpoints.steps), "")
        self.save(frames, folder)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        pairs = self.sentences * self.labels * len(self.pretraining.checkpoints)
        return pairs * self.pretraining.shape.d_model / 6e5


@dataclass(frozen=True)
class HessianGapMeasurement(Measurement):
    """Trace of the Hessian minus the Fisher trace, of every checkpoint of a pre-training.

    Its frame has one part, `gap`.
    """

    pretraining: TrainedRun
    sentences: int
    batch: int  # sentences that share a random direction
    seed: int

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint, on sentences that the trace did not use."""
        language = self.pretraining.corpus.language.build()
        about = language, self.sentences, self.seed, "gap"
        masked, truth = held_out_masked(*about), held_out_conditionals(*about)
        generator = generator_for("gap directions", self.seed)
        checkpoints = store.get(self.pretraining)
        frames = []
        for step in checkpoints.steps:
            gap = fisher_gap(checkpoints.model(step), masked, truth, batch=self.batch, generator=generator)
            frames.append(frame({"gap": gap.total}, step))
            report(len(frames) / len(checkpoints.steps), "")
        self.save(frames, folder)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * len(self.pretraining.checkpoints) * self.pretraining.shape.d_model / 1e5
