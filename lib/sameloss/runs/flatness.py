"""Measures of flatness of checkpoints, and stored traces."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.languages.masking import Batch
from sameloss.measures.flatness.diagonal import group_diagonals
from sameloss.measures.flatness.hessian import top_eigenvalue
from sameloss.measures.flatness.sharpness import adaptive_sharpness, worst_case_adaptive_sharpness
from sameloss.measures.flatness.trace import fisher_trace, relative_trace
from sameloss.models.encoder import Encoder
from sameloss.models.masked_model import parameter_layer
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.frames import Measurement, frame
from sameloss.runs.held_out import held_out_masked
from sameloss.seeds import generator_for
from sameloss.statistics.bootstrap import Estimate
from sameloss.store.store import Report, Run, Store

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


@torch.no_grad()
def predictions(model: Encoder, masked: Batch) -> Float[Tensor, "batch word"]:
    """Return f(x_-t), on the CPU."""
    masked = masked.to(next(model.parameters()).device)
    return model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()


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
