"""The runs that test representations downstream: labelled sentences and linear probes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from sameloss.corpus import generator_for, stream_seed
from sameloss.deduplication import held_out_unseen
from sameloss.downstream.features import contextual_features, lookup_features, one_hot_features
from sameloss.downstream.probe import ProbeSettings, fit_probes
from sameloss.errors import LanguageError, ParameterError
from sameloss.experiments.pretraining import CorpusSampling, Pretraining
from sameloss.languages import Language, LanguageSpec, Sentences
from sameloss.languages.labels import UNDEFINED, LabelKind, labels
from sameloss.runs import Report, Run, Store

DRAWS = 100
"""Draws for each wanted sentence after which labels are taken to be too rare."""


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


class LabelledSentences(NamedTuple):
    """Sentences with one column of labels for each task."""

    sentences: Sentences
    labels: torch.Tensor


@dataclass(frozen=True)
class LabelledSampling(Run):
    """Downstream sentences and labels: one training part for each probe seed, one test part.

    Sentences without a label in one of the tasks (early stop can leave none) are drawn again.
    """

    language: LanguageSpec
    downstream: Downstream
    corpus: CorpusSampling | None = None  # what an unseen test set must avoid

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Sample and label."""
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
            if drawn >= DRAWS * count:
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
        return (self._labels(language, sentences) != UNDEFINED).all(1)

    def _labels(self, language: Language, sentences: Sentences) -> torch.Tensor:
        tasks, kind = self.downstream.tasks, self.downstream.label_kind
        return torch.stack([labels(language, sentences, task, kind) for task in tasks], dim=1)

    def load(self, folder: Path) -> tuple[LabelledSentences, LabelledSentences]:
        """Return (training, test); training sentences lie probe seed after probe seed."""
        return tuple(_load_labelled(folder / f"probe {part}.npz") for part in ("training", "test"))


def _load_labelled(path: Path) -> LabelledSentences:
    with np.load(path) as part:
        tokens = torch.from_numpy(part["tokens"].astype(np.int64))
        sentences = Sentences(tokens, torch.from_numpy(part["lengths"]))
        return LabelledSentences(sentences, torch.from_numpy(part["labels"]))


class _Probing(Run):
    """What the two kinds of probing share."""

    labelled: LabelledSampling
    probe: ProbeSettings

    def _fit(
        self,
        data: tuple[LabelledSentences, LabelledSentences],
        featurise: Callable[[Sentences], torch.Tensor],
    ) -> torch.Tensor:
        """Fit the probes of one representation; return which test sentences they get right."""
        training, test = data
        downstream, language = self.labelled.downstream, self.labelled.language.build()
        split = (downstream.probe_seeds, downstream.train)
        features = featurise(training.sentences).unflatten(0, split)
        labels = training.labels.unflatten(0, split)
        classes = [language.classes(task) for task in downstream.tasks]
        seed = stream_seed("probe", downstream.seed)
        probes = fit_probes(features, labels, classes, self.probe, seed)
        return probes.correct(featurise(test.sentences), test.labels)

    def _save(self, folder: Path, results: list[torch.Tensor]) -> None:
        np.savez_compressed(folder / "probes.npz", correct=torch.stack(results).numpy())

    def load(self, folder: Path) -> np.ndarray:
        """Return which test sentences are right, axes (step, probe seed, test sentence, task)."""
        with np.load(folder / "probes.npz") as saved:
            return saved["correct"]


@dataclass(frozen=True)
class Probing(_Probing):
    """Linear probes of some checkpoints of a pre-training."""

    pretraining: Pretraining
    steps: tuple[int, ...]
    labelled: LabelledSampling
    probe: ProbeSettings

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Probe checkpoint after checkpoint."""
        checkpoints, data = store.get(self.pretraining), store.get(self.labelled)
        results = []
        for step in self.steps:
            results.append(self._fit(data, partial(contextual_features, checkpoints.model(step))))
            report(len(results) / len(self.steps), "")
        self._save(folder, results)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        width = self.pretraining.shape.d_model * self.labelled.language.max_length
        d = self.labelled.downstream
        reads = d.train * d.probe_seeds * self.probe.epochs * len(self.steps)
        return reads * width / 1e9


@dataclass(frozen=True)
class BaselineProbing(_Probing):
    """Linear probes of a representation that no training made."""

    representation: str
    labelled: LabelledSampling
    probe: ProbeSettings

    REPRESENTATIONS: ClassVar = {
        "lookup table": lookup_features,
        "one-hot tokens": one_hot_features,
    }

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Probe the representation; the result has one `step`."""
        if self.representation not in self.REPRESENTATIONS:
            names = ", ".join(self.REPRESENTATIONS)
            raise ParameterError(f"Unknown representation {self.representation!r}; choose {names}.")
        representation = self.REPRESENTATIONS[self.representation]
        language = self.labelled.language.build()
        self._save(folder, [self._fit(store.get(self.labelled), partial(representation, language))])
