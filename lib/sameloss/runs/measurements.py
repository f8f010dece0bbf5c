"""Measurements of checkpoints: flatness, and linear probes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sameloss.device import best_device
from sameloss.languages.masking import Batch
from sameloss.measures.downstream import (
    OptimalProbe,
    contextual_features,
)
from sameloss.measures.flatness.hessian import top_eigenvalue
from sameloss.measures.flatness.sharpness import (
    adaptive_sharpness,
    group_diagonals,
    worst_case_adaptive_sharpness,
)
from sameloss.measures.flatness.trace import fisher_trace, relative_trace
from sameloss.models.encoder import Encoder
from sameloss.models.masked_model import parameter_layer
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.sampling import LabelledSampling, held_out_masked
from sameloss.runs.stage import TABLE, Tabled
from sameloss.seeds import generator_for, stream_seed
from sameloss.statistics.intervals import Estimate
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

    def exact(value: float) -> Estimate:
        """Return a number without randomness of its own, over these sentences."""
        return Estimate(value, 0.0, len(masked.masked))

    trace = fisher_trace(model, masked, estimator="exact")
    diagonals = group_diagonals(model, masked, generator=drawn(), labels=2)
    yield "trace", trace.total
    yield "top_eigenvalue", exact(top_eigenvalue(*about))
    yield "adam_trace", diagonals.adam_trace()
    yield "adaptive_trace", diagonals.adaptive_trace(model)
    average = adaptive_sharpness(*about, rho=0.05, draws=10, generator=drawn())
    yield "adaptive_sharpness", average
    worst = worst_case_adaptive_sharpness(*about, rho=0.5)
    yield "worst_adaptive_sharpness", exact(worst)
    yield "relative_trace", relative_trace(model, trace)


@dataclass(frozen=True)
class TraceMeasurement(Tabled):
    """Fisher trace of every checkpoint of a pre-training: in total, by kind and depth of parameter.

    A row is the estimate of one part at one checkpoint; the column `split` is `total`, `kind` or `depth`, and
    the parts of each split add up to the trace.
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
        rows = []
        for number, step in enumerate(checkpoints.steps, start=1):
            model, how, labels = checkpoints.model(step), self.estimator, self.labels
            trace = fisher_trace(model, masked, estimator=how, labels=labels, generator=generator)
            depths = trace.by(parameter_layer)  # in the order that results of before have
            for split, parts in {
                "total": {"total": trace.total},
                "kind": trace.parts,
                "depth": depths,
            }.items():
                rows += [{"split": split, "step": step, "part": p, **e._asdict()} for p, e in parts.items()]
            report(number / len(checkpoints.steps), "")
        pd.DataFrame(rows).to_csv(folder / TABLE, index=False)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        pairs = self.sentences * self.labels * len(self.pretraining.checkpoints)
        return pairs * self.pretraining.shape.d_model / 6e5


# Stored probes of checkpoints.


class Probed(NamedTuple):
    """What probes found, with the axis `step` first."""

    correct: Bool[np.ndarray, "step seed sentence task"]  # which test sentences are right
    gradient: Float[np.ndarray, "step seed"]  # how far from its optimum each probe is


@dataclass(frozen=True)
class Probing(Run):
    """Linear probes of some checkpoints of a pre-training."""

    pretraining: TrainedRun
    steps: tuple[int, ...]
    labelled: LabelledSampling
    probe: OptimalProbe

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Probe checkpoint after checkpoint."""
        checkpoints, (training, test) = store.get(self.pretraining), store.get(self.labelled)
        split = (self.labelled.downstream.probe_seeds, self.labelled.downstream.train)
        labels = training.labels.unflatten(0, split)
        seed = stream_seed("probe", self.labelled.downstream.seed)
        results: list[tuple[torch.Tensor, torch.Tensor]] = []
        for step in self.steps:
            model = checkpoints.model(step)
            features = contextual_features(model, training.sentences).to(best_device()).unflatten(0, split)
            probes = self.probe.fit(features, labels, self.labelled.classes, seed)
            correct = probes.correct(contextual_features(model, test.sentences).to(features), test.labels)
            results.append((correct, probes.gradient(features, labels).cpu()))
            report(len(results) / len(self.steps), "")
        found = Probed(*(torch.stack(parts).numpy() for parts in zip(*results, strict=True)))
        np.savez_compressed(folder / "probes.npz", **found._asdict())

    def load(self, folder: Path) -> Probed:
        """Read what the probes found."""
        with np.load(folder / "probes.npz") as saved:
            return Probed(**saved)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        width = self.pretraining.shape.d_model * self.labelled.language.max_length
        d = self.labelled.downstream
        reads = d.train * d.probe_seeds * self.probe.passes * len(self.steps)
        classes = sum(self.labelled.classes) ** 0.7  # with few, more is done beside products
        return reads * width * classes / 8e8
