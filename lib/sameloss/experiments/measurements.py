"""The runs that measure the checkpoints of a pre-training: saturation and flatness."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from sameloss.corpus import mask_batch, stream_seed
from sameloss.experiments.pretraining import Pretraining
from sameloss.flatness.trace import Estimator, fisher_trace
from sameloss.languages import Language, Sentences
from sameloss.runs import Report, Run, Store
from sameloss.saturation import enumerable, exact_saturation, saturation


def held_out(language: Language, count: int, seed: int, use: str) -> Sentences:
    """Draw sentences for one use; no two uses, and no corpus, share their randomness."""
    generator = torch.Generator().manual_seed(stream_seed(use, seed))
    return language.sample(count, generator)


@dataclass(frozen=True)
class SaturationMeasurement(Run):
    """Entropy, KL and loss of every checkpoint of a pre-training, on the same held-out sentences."""

    pretraining: Pretraining
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint; exactly where the language can be enumerated."""
        language = self.pretraining.corpus.language.build()
        checkpoints = store.get(self.pretraining)
        if enumerable(language):
            measure = partial(exact_saturation, language=language)
        else:
            sentences = held_out(language, self.sentences, self.seed, "saturation")
            conditionals = language.conditionals(sentences)
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
    """Fisher trace of every checkpoint of a pre-training, by parameter group."""

    pretraining: Pretraining
    sentences: int
    labels: int
    estimator: Estimator
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint, on the same masked sentences."""
        language = self.pretraining.corpus.language.build()
        sentences = held_out(language, self.sentences, self.seed, "trace")
        generator = torch.Generator().manual_seed(stream_seed("trace labels", self.seed))
        place = torch.rand(self.sentences, generator=generator)
        masked = mask_batch(sentences, (place * sentences.lengths).long())
        checkpoints = store.get(self.pretraining)
        rows = []
        for step in checkpoints.steps:
            measured = fisher_trace(
                checkpoints.model(step),
                masked,
                estimator=self.estimator,
                labels=self.labels,
                generator=generator,
            )
            for part, estimate in {"total": measured.total, **measured.parts}.items():
                rows.append({"step": step, "part": part, **estimate._asdict()})
            report((1 + checkpoints.steps.index(step)) / len(checkpoints.steps), "")
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row a checkpoint and part: mean, standard_error, count."""
        return pd.read_csv(folder / "table.csv")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        pairs = self.sentences * self.labels * len(self.pretraining.checkpoints)
        return pairs * self.pretraining.shape.d_model / 2e5
