"""Measurements of checkpoints (flatness, linear probes) and of languages (entropy, lengths, ceilings)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import ClassVar, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sameloss.device import best_device
from sameloss.errors import LanguageError
from sameloss.languages import HMMSpec, LanguageSpec, PCFGSpec
from sameloss.languages.entropy import blind_entropy, length_distribution, masked_entropy, word_shares
from sameloss.languages.language import ceilings
from sameloss.languages.masking import Batch
from sameloss.languages.paper import calibrate, hmm_family, pcfg_family
from sameloss.measures.downstream import OptimalProbe, contextual_features, probing_flops
from sameloss.measures.flatness.hessian import top_eigenvalue
from sameloss.measures.flatness.sharpness import (
    adaptive_sharpness,
    group_diagonals,
    worst_case_adaptive_sharpness,
)
from sameloss.measures.flatness.trace import fisher_trace, relative_trace
from sameloss.models.encoder import Encoder
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.sampling import LabelledSampling
from sameloss.seeds import generator_for, stream_seed
from sameloss.statistics.intervals import Estimate
from sameloss.store.store import Folder, Report, Run, Store

# Flatness of checkpoints.

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
"""The measures of flatness in the order of tables: names in data to names on pages."""


@torch.no_grad()
def predictions(model: Encoder, masked: Batch) -> Float[Tensor, "batch word"]:
    """Compute f(x_-t), on the CPU."""
    masked = masked.to(next(model.parameters()).device)
    return model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()


def flatness_measures(
    model: Encoder, masked: Batch, truth: Tensor, drawn: Callable[[], torch.Generator]
) -> Iterator[tuple[str, Estimate]]:
    """Yield the measures of flatness that need no Markov chain, by their names in `MEASURES`.

    Args:
        model: preferably in float64.
        masked: the population of masked sentences.
        truth: Pr(. | x_-t) at the masked positions.
        drawn: makes a new generator, always with the same seed, for each measure that draws.

    """

    def exact(value: float) -> Estimate:
        return Estimate(value, 0.0, len(masked.masked))

    trace = fisher_trace(model, masked, estimator="exact")
    diagonals = group_diagonals(model, masked, generator=drawn(), labels=2)
    yield "trace", trace.total
    yield "top_eigenvalue", exact(top_eigenvalue(model, masked, truth))
    yield "adam_trace", diagonals.adam_trace()
    yield "adaptive_trace", diagonals.adaptive_trace(model)
    average = adaptive_sharpness(model, masked, truth, rho=0.05, draws=10, generator=drawn())
    yield "adaptive_sharpness", average
    yield "worst_adaptive_sharpness", exact(worst_case_adaptive_sharpness(model, masked, truth, rho=0.5))
    yield "relative_trace", relative_trace(model, trace)


# Linear probes of checkpoints.


@dataclass(frozen=True)
class Probing(Run):
    """Linear probes of some checkpoints of a pre-training: which test sentences they classify correctly."""

    pretraining: TrainedRun
    steps: tuple[int, ...]
    labelled: LabelledSampling
    probe: OptimalProbe

    schema: ClassVar[int] = 2
    accelerated: ClassVar[bool] = True

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        checkpoints, (training, test) = store.get(self.pretraining), store.get(self.labelled)
        split = (self.labelled.downstream.probe_seeds, self.labelled.downstream.train)
        labels = training.labels.unflatten(0, split)
        seed = stream_seed("probe", self.labelled.downstream.seed)
        results: list[Tensor] = []
        for step in self.steps:
            model = checkpoints.model(step)
            features = contextual_features(model, training.sentences).to(best_device()).unflatten(0, split)
            probes = self.probe.fit(features, labels, self.labelled.classes, seed)
            results.append(
                probes.correct(contextual_features(model, test.sentences).to(features), test.labels)
            )
            report(len(results) / len(self.steps), "")
        np.savez_compressed(folder / "probes.npz", correct=torch.stack(results).numpy())

    def load(self, folder: Folder) -> Bool[np.ndarray, "step seed sentence task"]:
        with np.load(folder / "probes.npz") as saved:
            return saved["correct"]

    @property
    def work(self) -> float:
        d = self.labelled.downstream
        width = self.pretraining.shape.d_model * self.labelled.language.max_length
        return len(self.steps) * probing_flops(d.train, width, d.probe_seeds)


# Languages.


class LanguageStatistics(NamedTuple):
    """Results of a `LanguageMeasurement`."""

    entropy: Estimate  # nats per masked token
    blind: float  # entropy of a token given only position and length; NaN where it cannot be computed
    lengths: pd.DataFrame  # length (tokens), probability, sampled (fraction of the sentences)
    words: pd.DataFrame  # word, share (fraction of the tokens)
    ceilings: pd.DataFrame  # one row per task: see `Ceilings`

    @property
    def mean_length(self) -> float:
        """Mean number of tokens, exact where the probabilities of lengths are known."""
        column = "sampled" if self.lengths.probability.isna().any() else "probability"
        return float(self.lengths.length @ self.lengths[column])


@dataclass(frozen=True)
class LanguageMeasurement(Run):
    """Entropy, lengths, words and label ceilings of a language, on one sample of sentences."""

    language: LanguageSpec
    tasks: tuple[str, ...]
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        language = self.language.build()
        generator = generator_for("statistics", self.seed)
        sentences = language.sample(self.sentences, generator)
        entropy = masked_entropy(language, sentences, generator)
        shares = word_shares(language, sentences).tolist()
        lengths = sentences.lengths.bincount(minlength=language.max_length + 1)[1:] / self.sentences
        try:
            blind, exact = blind_entropy(language), length_distribution(language).tolist()
        except LanguageError:  # an autoregressive language cannot sum over all sentences
            blind, exact = nan, [nan] * len(lengths)
        rows = [{"task": task, **ceilings(language, sentences, task)._asdict()} for task in self.tasks]
        length = range(1, language.max_length + 1)
        tables = {
            "entropy": pd.DataFrame([{**entropy._asdict(), "blind": blind}]),
            "lengths": pd.DataFrame({"length": length, "probability": exact, "sampled": lengths.tolist()}),
            "words": pd.DataFrame({"word": range(1, language.words + 1), "share": shares}),
            "ceilings": pd.DataFrame(rows, columns=None if self.tasks else ["task"]),
        }
        for name, table in tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)

    def load(self, folder: Folder) -> LanguageStatistics:
        names = ("entropy", "lengths", "words", "ceilings")
        entropy, *tables = (pd.read_csv(folder / f"{name}.csv") for name in names)
        mean, error, count, blind = entropy.iloc[0]
        return LanguageStatistics(Estimate(mean, error, int(count)), blind, *tables)

    @property
    def work(self) -> float:
        return self.language.reading_flops(self.sentences, self.sentences)


@dataclass(frozen=True)
class Calibration(Run):
    """Search for the concentration at which a language of some shape has a given entropy.

    Its table has one row per language tried: the concentration, and the entropy with its standard error.
    """

    shape: PCFGSpec | HMMSpec
    entropy: float  # nats per masked token
    mean_length: float | None  # tokens; None where all sentences have the same length
    concentrations: tuple[float, float]
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        family: Callable[[float], LanguageSpec]
        if isinstance(self.shape, HMMSpec):
            family = hmm_family(self.shape)
        else:
            family = pcfg_family(self.shape, cast(float, self.mean_length))
        tried = calibrate(family, self.entropy, self.concentrations, sentences=self.sentences, seed=self.seed)
        rows = [{"concentration": t.concentration, **t.entropy._asdict()} for t in tried]
        pd.DataFrame(rows).to_csv(folder / "tried.csv", index=False)

    def load(self, folder: Folder) -> pd.DataFrame:
        return pd.read_csv(folder / "tried.csv")
