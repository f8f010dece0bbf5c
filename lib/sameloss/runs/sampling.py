"""The runs that draw sentences: pre-training corpora, and labelled sentences of downstream tasks."""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import ClassVar, NamedTuple, get_args

import numpy as np
import torch

from sameloss.checks import check_choice, check_counts
from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import Language, LanguageSpec, Sentences
from sameloss.languages.labels import NO_LABEL, LabelKind, labels
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Run, Store
from sameloss.training.corpus import Batches, Corpus, EndlessCorpus, write_corpus
from sameloss.training.unseen import held_out_unseen

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
        told = lambda done: report(done / self.sentences, f"{done:,} sentences")  # noqa: E731
        write_corpus(language, self.sentences, self.seed, folder, told)

    def load(self, folder: Path) -> Batches:
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
    unseen_test: bool = False  # test on distinct sentences that the pre-training corpus does not hold

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
    corpus: CorpusSampling | None = None  # what an unseen test set must avoid

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
        parts = {
            "probe training": self._draw(language, "probe training", d.train * d.probe_seeds),
            "probe test": self._draw_unseen(language, store) if d.unseen_test
            else self._draw(language, "probe test", d.test),
        }  # fmt: skip
        for use, sentences in parts.items():
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
            found.append(more.rows(self._labelled(language, more)))
            drawn += missing
        return Sentences.joined(found)

    def _draw_unseen(self, language: Language, store: Store) -> Sentences:
        """Draw labelled test sentences, each once, that the corpus does not hold."""
        if self.corpus is None or self.corpus.sentences is None:
            raise ParameterError("Unseen test sentences need a corpus of a fixed size to be absent from.")
        generator = generator_for("unseen test", self.downstream.seed)
        wanted = partial(self._labelled, language)
        corpus = store.get(self.corpus)
        return held_out_unseen(language, corpus, self.downstream.test, generator, wanted)

    def _labelled(self, language: Language, sentences: Sentences) -> torch.Tensor:
        return (self._labels(language, sentences) != NO_LABEL).all(1)

    def _labels(self, language: Language, sentences: Sentences) -> torch.Tensor:
        tasks, kind = self.downstream.tasks, self.downstream.label_kind
        return torch.stack([labels(language, sentences, task, kind) for task in tasks], dim=1)

    def load(self, folder: Path) -> tuple[LabelledSentences, LabelledSentences]:
        """Return the training and the test sentences; training sentences lie probe seed after probe seed."""
        return _load_labelled(folder / "probe training.npz"), _load_labelled(folder / "probe test.npz")


@cache
def _classes(spec: LanguageSpec, tasks: tuple[str, ...]) -> tuple[int, ...]:
    """Return numbers of classes: runs that are only counted ask for those of a few languages a lot."""
    language = spec.build()
    return tuple(language.classes(task) for task in tasks)


def _load_labelled(path: Path) -> LabelledSentences:
    with np.load(path) as part:
        tokens = torch.from_numpy(part["tokens"].astype(np.int64))
        sentences = Sentences(tokens, torch.from_numpy(part["lengths"]))
        return LabelledSentences(sentences, torch.from_numpy(part["labels"]))
