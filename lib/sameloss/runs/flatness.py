"""The runs that measure the flatness of checkpoints."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.languages.masking import Batch
from sameloss.measures.flatness import sharpness as measures
from sameloss.measures.flatness.diagonal import group_diagonals
from sameloss.measures.flatness.estimated_trace import EstimatedTrace
from sameloss.measures.flatness.hutchinson import fisher_gap
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder
from sameloss.models.enlarge import kind_of, trace_law
from sameloss.runs.held_out import held_out_conditionals, held_out_masked
from sameloss.runs.pretraining import Pretraining
from sameloss.seeds import generator_for
from sameloss.statistics.estimate import Estimate
from sameloss.store.store import Report, Run, Store


@dataclass(frozen=True)
class _OfLastCheckpoint(Run):
    """A table about the last checkpoint of a pre-training."""

    pretraining: Pretraining
    sentences: int
    seed: int

    def last_model(self, store: Store) -> Encoder:
        """Return the model after all steps."""
        checkpoints = store.get(self.pretraining)
        return checkpoints.model(checkpoints.steps[-1])

    def masked(self, use: str) -> Batch:
        """Return masked sentences for one use."""
        return held_out_masked(self.pretraining.corpus.language.build(), self.sentences, self.seed, use)

    def generator(self, use: str) -> torch.Generator:
        """Return random numbers for one use."""
        return generator_for(use, self.seed)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return the table."""
        return pd.read_csv(folder / "table.csv")


@dataclass(frozen=True)
class EnlargementMeasurement(_OfLastCheckpoint):
    """Fisher trace of a checkpoint: native, enlarged to a given width, and relative to its parameters.

    Enlarged traces are the native ones times `trace_law`, so the large model is never made.
    """

    labels: int
    width: int  # d_model that the model is enlarged to

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure once, then apply the laws."""
        model = self.last_model(store)
        trace = fisher_trace(
            model,
            self.masked("enlargement"),
            labels=self.labels,
            generator=self.generator("enlargement labels"),
        )
        ratio = self.width // self.pretraining.shape.d_model
        forms = {"native": trace}
        forms |= {
            tied: trace.scaled(partial(trace_law, ratio=ratio, tied=tied)) for tied in ("paper", "balanced")
        }
        rows = [
            {"form": form, "part": part, **estimate._asdict()}
            for form, enlarged in forms.items()
            for part, estimate in _with_total(enlarged).items()
        ]
        relative = measures.relative_trace(model, trace)
        rows.append({"form": "relative", "part": "total", **relative._asdict()})
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)


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
class FlatnessMeasurement(_OfLastCheckpoint):
    """The measures of flatness of the last checkpoint of a pre-training (chapter D compares them)."""

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure in float64, all models on the same sentences."""
        about = self.pretraining.corpus.language.build(), self.sentences, self.seed, "measures"
        masked, truth = held_out_masked(*about), held_out_conditionals(*about)
        model = self.last_model(store).double()
        found = measured(model, masked, truth, partial(self.generator, "measures"))
        rows = [{"measure": name, **estimate._asdict()} for name, estimate in found]
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.pretraining.shape.d_model / 2e3


def measured(
    model: Encoder, masked: Batch, truth: Tensor, drawn: Callable[[], torch.Generator]
) -> Iterator[tuple[str, Estimate]]:
    """Yield the measures of flatness that need no chain; `drawn` begins the same random numbers again."""
    about = model, masked, truth
    trace = fisher_trace(model, masked, estimator="exact")
    diagonals = group_diagonals(model, masked, generator=drawn(), labels=2)
    yield "trace", trace.total
    yield "top eigenvalue", _exact(measures.top_eigenvalue(*about), masked)
    yield "Tr Diag(H)^½", diagonals.adam_trace()
    yield "adaptive trace", diagonals.adaptive_trace(model)
    average = measures.adaptive_sharpness(*about, rho=0.05, draws=10, generator=drawn())
    yield "adaptive sharpness", average
    worst = measures.worst_case_adaptive_sharpness(*about, rho=0.5)
    yield "worst adaptive sharpness", _exact(worst, masked)
    yield "relative trace", measures.relative_trace(model, trace)


def _exact(value: float, masked: Batch) -> Estimate:
    """Return a number without randomness of its own, over these sentences."""
    return Estimate(value, 0.0, len(masked.masked))


@dataclass(frozen=True)
class TraceMeasurement(Run):
    """Fisher trace of every checkpoint of a pre-training: in total, by kind and depth of parameter."""

    pretraining: Pretraining
    sentences: int
    labels: int
    estimator: str
    seed: int

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint, on the same masked sentences."""
        language = self.pretraining.corpus.language.build()
        masked = held_out_masked(language, self.sentences, self.seed, "trace")
        generator = generator_for("trace labels", self.seed)
        checkpoints = store.get(self.pretraining)
        rows = []
        for step in checkpoints.steps:
            trace = fisher_trace(
                checkpoints.model(step),
                masked,
                estimator=self.estimator,
                labels=self.labels,
                generator=generator,
            )
            for split, parts in {
                "total": {"total": trace.total},
                "kind": trace.parts,
                "depth": trace.layers,
            }.items():
                rows += [{"step": step, "split": split, "part": k, **e._asdict()} for k, e in parts.items()]
            report((1 + checkpoints.steps.index(step)) / len(checkpoints.steps), "")
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row a checkpoint and part: split (total, kind, depth), mean, standard_error, count."""
        return pd.read_csv(folder / "table.csv")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        pairs = self.sentences * self.labels * len(self.pretraining.checkpoints)
        return pairs * self.pretraining.shape.d_model / 6e5


@dataclass(frozen=True)
class HessianGapMeasurement(Run):
    """Trace of the Hessian minus the Fisher trace, of every checkpoint of a pre-training."""

    pretraining: Pretraining
    sentences: int
    batch: int  # sentences that share a random direction
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint, on sentences that the trace did not use."""
        language = self.pretraining.corpus.language.build()
        about = language, self.sentences, self.seed, "gap"
        masked, truth = held_out_masked(*about), held_out_conditionals(*about)
        generator = generator_for("gap directions", self.seed)
        checkpoints = store.get(self.pretraining)
        rows = []
        for step in checkpoints.steps:
            gap = fisher_gap(checkpoints.model(step), masked, truth, batch=self.batch, generator=generator)
            rows.append({"step": step, **gap.total._asdict()})
            report(len(rows) / len(checkpoints.steps), "")
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row a checkpoint: mean, standard_error, count."""
        return pd.read_csv(folder / "table.csv")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * len(self.pretraining.checkpoints) * self.pretraining.shape.d_model / 1e5
