"""The runs that measure the checkpoints of a pre-training: saturation and flatness."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor

from sameloss.corpus import Batch, generator_for, mask_batch
from sameloss.experiments.pretraining import Pretraining
from sameloss.flatness.hessian import fisher_gap
from sameloss.flatness.trace import fisher_trace
from sameloss.languages import Language, LanguageSpec, Sentences
from sameloss.runs import Report, Run, Store
from sameloss.saturation import enumerable, exact_saturation, saturation

HELD_OUT = "held_out.safetensors"


def held_out(language: Language, count: int, seed: int, use: str) -> Sentences:
    """Draw sentences for one use; no two uses, and no corpus, share their randomness."""
    generator = generator_for(use, seed)
    return language.sample(count, generator)


def held_out_masked(language: Language, count: int, seed: int, use: str) -> Batch:
    """Draw masked sentences for one use."""
    return mask_batch(*_placed(language, count, seed, use))


def held_out_conditionals(language: Language, count: int, seed: int, use: str) -> Float[Tensor, "batch word"]:
    """Return Pr(. | x_-t) of the masked sentences that `held_out_masked` draws."""
    sentences, positions = _placed(language, count, seed, use)
    return language.conditionals(sentences)[torch.arange(count), positions]


def _placed(language: Language, count: int, seed: int, use: str) -> tuple[Sentences, Int[Tensor, " batch"]]:
    """Draw sentences and a position in each, all of its positions equally likely."""
    sentences = held_out(language, count, seed, use)
    generator = generator_for(f"{use} positions", seed)
    return sentences, (torch.rand(count, generator=generator) * sentences.lengths).long()


@dataclass(frozen=True)
class HeldOutConditionals(Run):
    """Sentences that no training saw, and their exact conditionals: what all models are measured on.

    A run of its own, because some languages take minutes for what all models share.
    """

    language: LanguageSpec
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Sample, and compute the conditionals."""
        language = self.language.build()
        sentences = held_out(language, self.sentences, self.seed, "saturation")
        tensors = {**sentences._asdict(), "conditionals": language.conditionals(sentences)}
        save_file({name: value.contiguous() for name, value in tensors.items()}, folder / HELD_OUT)

    def load(self, folder: Path) -> tuple[Sentences, Float[Tensor, "batch seq word"]]:
        """Return sentences and conditionals."""
        tensors = load_file(folder / HELD_OUT)
        return Sentences(tensors["tokens"], tensors["lengths"]), tensors["conditionals"]


@dataclass(frozen=True)
class SaturationMeasurement(Run):
    """Entropy, KL and loss of every checkpoint of a pre-training, on the same held-out sentences."""

    pretraining: Pretraining
    held_out: HeldOutConditionals

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint; exactly where the language can be enumerated."""
        language = self.pretraining.corpus.language.build()
        checkpoints = store.get(self.pretraining)
        if enumerable(language):
            measure = partial(exact_saturation, language=language)
        else:
            sentences, conditionals = store.get(self.held_out)
            measure = partial(saturation, sentences=sentences, conditionals=conditionals)
        rows = []
        for step in checkpoints.steps:
            measured = measure(checkpoints.model(step))
            columns = {f"{k}_{f}": v for k, e in measured._asdict().items() for f, v in e._asdict().items()}
            rows.append({"step": step, **columns})
            report(len(rows) / len(checkpoints.steps), f"KL {measured.kl.mean:.4f}")
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row a checkpoint: `kl_mean`, `kl_standard_error`, ... in nats a token."""
        return pd.read_csv(folder / "table.csv")


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
