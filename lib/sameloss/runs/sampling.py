"""Stored samples of languages: held-out sentences, pre-training corpora, and labelled sentences."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save
from torch import Tensor

from sameloss.checks import check_choice, check_counts
from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import Language, LanguageSpec, Sentences
from sameloss.languages.autoregressive import AutoregressiveLanguage
from sameloss.languages.language import NO_LABEL, LabelKind, labels
from sameloss.languages.masking import Batch, mask_batch
from sameloss.seeds import generator_for
from sameloss.store.store import Folder, Report, Run, Store, write_atomically
from sameloss.training.corpus import Corpus, EndlessCorpus, write_corpus

# Held-out sentences and their exact conditionals.

HELD_OUT = "held_out.safetensors"


def held_out(language: Language, count: int, seed: int, use: str) -> Sentences:
    """Draw sentences for one use, independent of those for other uses and of every corpus."""
    return language.sample(count, generator_for(use, seed))


def held_out_masked(language: Language, count: int, seed: int, use: str) -> Batch:
    """Draw masked sentences for one use."""
    return mask_batch(*_with_positions(language, count, seed, use))


def held_out_conditionals(language: Language, count: int, seed: int, use: str) -> Float[Tensor, "batch word"]:
    """Compute Pr(. | x_-t) of the masked sentences that `held_out_masked` draws."""
    sentences, positions = _with_positions(language, count, seed, use)
    if isinstance(language, AutoregressiveLanguage):  # other positions would cost a pass for every word
        return language.conditionals_at(sentences, positions)
    return language.conditionals(sentences)[torch.arange(count), positions]


def _with_positions(
    language: Language, count: int, seed: int, use: str
) -> tuple[Sentences, Int[Tensor, " batch"]]:
    """Draw sentences, and one uniformly distributed position in each."""
    sentences = held_out(language, count, seed, use)
    generator = generator_for(f"{use} positions", seed)
    return sentences, (torch.rand(count, generator=generator) * sentences.lengths).long()


@dataclass(frozen=True)
class HeldOutConditionals(Run):
    """Held-out sentences and their exact conditionals, on which all models are evaluated.

    A run of its own because some languages take minutes.
    """

    language: LanguageSpec
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        language = self.language.build()
        sentences = held_out(language, self.sentences, self.seed, "saturation")
        tensors = {**sentences._asdict(), "conditionals": language.conditionals(sentences)}
        content = save({name: value.contiguous() for name, value in tensors.items()})
        write_atomically(folder / HELD_OUT, content)

    @property
    def work(self) -> float:
        return self.language.reading_flops(self.sentences, self.sentences * self.language.max_length)

    def load(self, folder: Folder) -> tuple[Sentences, Float[Tensor, "batch seq word"]]:
        tensors = load_file(folder / HELD_OUT)
        return Sentences(tensors["tokens"], tensors["lengths"]), tensors["conditionals"]


# Pre-training corpora.


@dataclass(frozen=True)
class CorpusSampling(Run):
    """A pre-training corpus: stored shards, or an endless stream that stores nothing."""

    language: LanguageSpec
    sentences: int | None  # None: an endless stream
    seed: int

    schema: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.sentences is not None:
            check_counts(self, "sentences")

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        if self.sentences is None:
            return
        language, total = self.language.build(), self.sentences
        write_corpus(language, total, self.seed, folder, lambda n: report(n / total, f"{n:,} sentences"))

    def load(self, folder: Folder) -> Corpus | EndlessCorpus:
        return Corpus(folder) if self.sentences else EndlessCorpus(self.language.build(), self.seed)

    @property
    def work(self) -> float:
        return self.language.reading_flops(self.sentences or 0)


# Labelled sentences of downstream tasks.

MOST_DRAWS = 100
"""Draws per labelled sentence after which labels count as too rare."""


@dataclass(frozen=True)
class Downstream:
    """The downstream tasks and data (App. A.1)."""

    tasks: tuple[str, ...]
    label_kind: LabelKind
    train: int  # sentences per probe seed
    test: int
    probe_seeds: int
    seed: int

    def __post_init__(self) -> None:
        check_counts(self, "train", "test", "probe_seeds")
        check_choice(self, "label_kind", get_args(LabelKind))


class LabelledSentences(NamedTuple):
    """Sentences with their labels in each task."""

    sentences: Sentences
    labels: Int[Tensor, "batch task"]


@dataclass(frozen=True)
class LabelledSampling(Run):
    """Labelled sentences: a training set for each probe seed, concatenated, and one test set.

    Sentences without a label in some task, as early stopping can produce, are drawn again.
    """

    language: LanguageSpec
    downstream: Downstream

    schema: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not self.downstream.tasks:
            raise ParameterError("Labelled sentences need at least one task.")

    @property
    def classes(self) -> tuple[int, ...]:
        """Number of classes of each task."""
        return _classes(self.language, self.downstream.tasks)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        language, d = self.language.build(), self.downstream
        for use, count in {"probe training": d.train * d.probe_seeds, "probe test": d.test}.items():
            sentences, labelled = self._draw(language, use, count)
            np.savez(
                folder / f"{use}.npz",
                tokens=sentences.tokens.numpy().astype(np.uint16),
                lengths=sentences.lengths.numpy(),
                labels=labelled.numpy(),
            )

    @property
    def work(self) -> float:
        d = self.downstream  # each sentence is drawn, then labelled
        return self.language.reading_flops(2 * (d.train * d.probe_seeds + d.test))

    def _draw(self, language: Language, use: str, count: int) -> LabelledSentences:
        """Draw until `count` sentences have a label in every task."""
        generator, d = generator_for(use, self.downstream.seed), self.downstream
        parts: list[LabelledSentences] = []
        drawn = 0
        while (missing := count - sum(len(part.labels) for part in parts)) > 0:
            if drawn >= MOST_DRAWS * count:
                raise LanguageError(
                    f"Of {drawn} sentences fewer than {count} have a label in all of {', '.join(d.tasks)}."
                )
            sentences = language.sample(missing, generator)
            columns = [labels(language, sentences, task, d.label_kind) for task in d.tasks]
            labelled = torch.stack(columns, dim=1)
            kept = (labelled != NO_LABEL).all(1)
            parts.append(LabelledSentences(sentences.rows(kept), labelled[kept]))
            drawn += missing
        of_sentences, of_labels = zip(*parts, strict=True)
        return LabelledSentences(Sentences.joined(list(of_sentences)), torch.cat(of_labels))

    def load(self, folder: Folder) -> tuple[LabelledSentences, LabelledSentences]:
        """Load the training sets and the test set."""

        def part(use: str) -> LabelledSentences:
            with np.load(folder / f"{use}.npz") as saved:
                tokens = torch.from_numpy(saved["tokens"].astype(np.int64))
                sentences = Sentences(tokens, torch.from_numpy(saved["lengths"]))
                return LabelledSentences(sentences, torch.from_numpy(saved["labels"]))

        return part("probe training"), part("probe test")


@cache  # asked for every estimate of the cost of a probe
def _classes(spec: LanguageSpec, tasks: tuple[str, ...]) -> tuple[int, ...]:
    language = spec.build()
    return tuple(language.classes(task) for task in tasks)
