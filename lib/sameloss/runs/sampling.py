"""Stored samples of languages, and what is measured of languages."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import nan
from pathlib import Path
from typing import ClassVar, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save
from torch import Tensor

from sameloss.checks import check_choice, check_counts
from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import HMMSpec, Language, LanguageSpec, PCFGSpec, Sentences
from sameloss.languages.entropy import blind_entropy, length_distribution, masked_entropy, word_shares
from sameloss.languages.language import NO_LABEL, LabelKind, ceilings, labels
from sameloss.languages.masking import Batch, mask_batch
from sameloss.languages.paper import calibrate, hmm_family, pcfg_family
from sameloss.seeds import generator_for
from sameloss.statistics.intervals import Estimate
from sameloss.store.store import Report, Run, Store, write_atomically
from sameloss.training.corpus import Corpus, EndlessCorpus, write_corpus

# Sentences that no training saw, and their exact conditionals.

HELD_OUT = "held_out.safetensors"


def held_out(language: Language, count: int, seed: int, use: str) -> Sentences:
    """Draw sentences for one use; no two uses, and no corpus, share their random numbers."""
    generator = generator_for(use, seed)
    return language.sample(count, generator)


def held_out_masked(language: Language, count: int, seed: int, use: str) -> Batch:
    """Draw masked sentences for one use."""
    return mask_batch(*_placed(language, count, seed, use))


def held_out_conditionals(language: Language, count: int, seed: int, use: str) -> Float[Tensor, "batch word"]:
    """Compute Pr(. | x_-t) of the masked sentences that `held_out_masked` draws."""
    sentences, positions = _placed(language, count, seed, use)
    if hasattr(language, "conditionals_at"):  # all positions would cost a pass for every word of each
        return language.conditionals_at(sentences, positions)
    return language.conditionals(sentences)[torch.arange(count), positions]


def _placed(language: Language, count: int, seed: int, use: str) -> tuple[Sentences, Int[Tensor, " batch"]]:
    """Draw sentences, and in each one of its positions, all equally likely."""
    sentences = held_out(language, count, seed, use)
    generator = generator_for(f"{use} positions", seed)
    return sentences, (torch.rand(count, generator=generator) * sentences.lengths).long()


@dataclass(frozen=True)
class HeldOutConditionals(Run):
    """Sentences that no training saw, and their exact conditionals: what all models are measured on.

    It is a run of its own, because some languages take minutes for what all models share.
    """

    language: LanguageSpec
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw the sentences and compute their conditionals."""
        language = self.language.build()
        sentences = held_out(language, self.sentences, self.seed, "saturation")
        tensors = {**sentences._asdict(), "conditionals": language.conditionals(sentences)}
        content = save({name: value.contiguous() for name, value in tensors.items()})
        write_atomically(folder / HELD_OUT, content)

    def load(self, folder: Path) -> tuple[Sentences, Float[Tensor, "batch seq word"]]:
        """Return the sentences and their conditionals."""
        tensors = load_file(folder / HELD_OUT)
        return Sentences(tensors["tokens"], tensors["lengths"]), tensors["conditionals"]


# The runs that draw sentences: pre-training corpora, and labelled sentences of downstream tasks.

MOST_DRAWS = 100
"""Draws for each wanted sentence after which labels are taken to be too rare."""


@dataclass(frozen=True)
class CorpusSampling(Run):
    """A pre-training corpus: shards of uint16, or nothing where sentences are drawn without end."""

    language: LanguageSpec
    sentences: int | None  # None: every batch is sampled afresh
    seed: int

    schema: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Refuse a corpus of no sentences."""
        if self.sentences is not None:
            check_counts(self, "sentences")

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw the sentences and write them as shards."""
        if self.sentences is None:
            return
        language = self.language.build()
        whole = self.sentences
        write_corpus(language, whole, self.seed, folder, lambda n: report(n / whole, f"{n:,} sentences"))

    def load(self, folder: Path) -> Corpus | EndlessCorpus:
        """Open the shards, or draw sentences without end."""
        return Corpus(folder) if self.sentences else EndlessCorpus(self.language.build(), self.seed)

    @property
    def effort(self) -> float:
        """Return the number of sentences in millions."""
        return (self.sentences or 0) / 1e6


@dataclass(frozen=True)
class Downstream:
    """The downstream tasks and data (App. A.1)."""

    tasks: tuple[str, ...]
    label_kind: LabelKind
    train: int  # sentences of each probe seed
    test: int
    probe_seeds: int
    seed: int

    def __post_init__(self) -> None:
        """Refuse parts without sentences, and labels of no kind."""
        check_counts(self, "train", "test", "probe_seeds")
        check_choice(self, "label_kind", get_args(LabelKind))


class LabelledSentences(NamedTuple):
    """Sentences with one column of labels for each task."""

    sentences: Sentences
    labels: torch.Tensor


@dataclass(frozen=True)
class LabelledSampling(Run):
    """Downstream sentences with their labels: one training part for each probe seed, and one test part.

    Sentences without a label in one of the tasks (early stop can leave none) are drawn again.
    """

    language: LanguageSpec
    downstream: Downstream

    schema: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Refuse sentences that would be labelled for nothing."""
        if not self.downstream.tasks:
            raise ParameterError("Labelled sentences need at least one task.")

    @property
    def classes(self) -> tuple[int, ...]:
        """Return the number of classes of each task."""
        return _classes(self.language, self.downstream.tasks)  # type: ignore[arg-type]  # frozen dataclasses

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw the sentences of both parts and label them."""
        language, d = self.language.build(), self.downstream
        for use, count in {"probe training": d.train * d.probe_seeds, "probe test": d.test}.items():
            sentences = self._draw(language, use, count)
            np.savez(
                folder / f"{use}.npz",
                tokens=sentences.tokens.numpy().astype(np.uint16),
                lengths=sentences.lengths.numpy(),
                labels=self._labels(language, sentences).numpy(),
            )

    def _draw(self, language: Language, use: str, count: int) -> Sentences:
        """Draw until `count` sentences have a label in every task."""
        generator = generator_for(use, self.downstream.seed)
        found: list[Sentences] = []
        drawn = 0
        while (missing := count - sum(len(part.lengths) for part in found)) > 0:
            if drawn >= MOST_DRAWS * count:
                tasks = ", ".join(self.downstream.tasks)
                raise LanguageError(
                    f"Of {drawn} sentences fewer than {count} have a label in all of {tasks}."
                )
            more = language.sample(missing, generator)
            found.append(more.rows((self._labels(language, more) != NO_LABEL).all(1)))
            drawn += missing
        return Sentences.joined(found)

    def _labels(self, language: Language, sentences: Sentences) -> torch.Tensor:
        tasks, kind = self.downstream.tasks, self.downstream.label_kind
        return torch.stack([labels(language, sentences, task, kind) for task in tasks], dim=1)

    def load(self, folder: Path) -> tuple[LabelledSentences, LabelledSentences]:
        """Return the training and the test sentences; training sentences lie probe seed after probe seed."""

        def part(use: str) -> LabelledSentences:
            with np.load(folder / f"{use}.npz") as saved:
                tokens = torch.from_numpy(saved["tokens"].astype(np.int64))
                sentences = Sentences(tokens, torch.from_numpy(saved["lengths"]))
                return LabelledSentences(sentences, torch.from_numpy(saved["labels"]))

        return part("probe training"), part("probe test")


@cache
def _classes(spec: LanguageSpec, tasks: tuple[str, ...]) -> tuple[int, ...]:
    """Return numbers of classes: runs that are only counted ask for those of a few languages a lot."""
    language = spec.build()
    return tuple(language.classes(task) for task in tasks)


# The runs that measure languages themselves: entropy, lengths, words, ceilings, calibration.

NATS_TOLERANCE = 0.005
"""How near to the published entropy a calibration stops, on its own sentences."""


class LanguageStatistics(NamedTuple):
    """The tidy tables that `LanguageMeasurement` makes."""

    entropy: Estimate  # nats a masked token
    blind: float  # entropy of a token given position and length alone; NaN where it cannot be summed
    lengths: pd.DataFrame  # length (tokens), probability, sampled (share of sentences)
    words: pd.DataFrame  # word, share of the tokens
    ceilings: pd.DataFrame  # one row a task: see `Ceilings`

    @property
    def mean_length(self) -> float:
        """The mean number of tokens, exact where the language can sum over all words."""
        column = "sampled" if self.lengths.probability.isna().any() else "probability"
        return float(self.lengths.length @ self.lengths[column])


@dataclass(frozen=True)
class LanguageMeasurement(Run):
    """Entropy, lengths, words and label ceilings of a language."""

    language: LanguageSpec
    tasks: tuple[str, ...]
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw sentences once and measure everything on them."""
        language = self.language.build()
        generator = generator_for("statistics", self.seed)
        sentences = language.sample(self.sentences, generator)
        entropy = masked_entropy(language, sentences, generator)
        shares = word_shares(language, sentences).tolist()
        lengths = sentences.lengths.bincount(minlength=language.max_length + 1)[1:] / self.sentences
        try:
            blind, exact = blind_entropy(language), length_distribution(language).tolist()
        except LanguageError:  # an autoregressive language cannot sum over all tokens
            blind, exact = nan, [nan] * len(lengths)
        found = [{"task": task, **ceilings(language, sentences, task)._asdict()} for task in self.tasks]
        length = range(1, language.max_length + 1)
        tables = {
            "entropy": pd.DataFrame([{**entropy._asdict(), "blind": blind}]),
            "lengths": pd.DataFrame({"length": length, "probability": exact, "sampled": lengths.tolist()}),
            "words": pd.DataFrame({"word": range(1, language.words + 1), "share": shares}),
            "ceilings": pd.DataFrame(found, columns=None if self.tasks else ["task"]),
        }
        for name, table in tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)

    def load(self, folder: Path) -> LanguageStatistics:
        """Return the tables."""
        names = ("entropy", "lengths", "words", "ceilings")
        entropy, *tables = (pd.read_csv(folder / f"{name}.csv") for name in names)
        mean, error, count, blind = entropy.iloc[0]
        return LanguageStatistics(Estimate(mean, error, int(count)), blind, *tables)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.language.max_length * self.language.words / 1e7


@dataclass(frozen=True)
class Calibration(Run):
    """The search for the concentration that gives a language of some shape a wanted entropy."""

    shape: PCFGSpec | HMMSpec
    entropy: float  # nats a masked token
    mean_length: float | None  # tokens; None where all sentences have one length
    concentrations: tuple[float, float]
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Search, and write down all that was tried."""
        if isinstance(self.shape, HMMSpec):
            family: Callable[[float], LanguageSpec] = hmm_family(self.shape)
        elif self.mean_length is not None:
            family = pcfg_family(self.shape, self.mean_length)
        else:
            raise ParameterError("Sentences of a grammar differ in length; give their mean_length.")
        options = {"sentences": self.sentences, "seed": self.seed}
        tried = calibrate(family, self.entropy, self.concentrations, tolerance=NATS_TOLERANCE, **options)
        rows = [{"concentration": t.concentration, **t.entropy._asdict()} for t in tried]
        pd.DataFrame(rows).to_csv(folder / "tried.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row for each language tried: its concentration, and its entropy with the error."""
        return pd.read_csv(folder / "tried.csv")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences / 200
