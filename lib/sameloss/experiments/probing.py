"""The runs that test representations downstream: labelled sentences and linear probes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from sameloss.corpus import stream_seed
from sameloss.deduplication import distinct, held_out_unseen
from sameloss.downstream.features import contextual_features, lookup_features, one_hot_features
from sameloss.downstream.probe import ProbeSettings, fit_probes
from sameloss.errors import LanguageError, ParameterError
from sameloss.experiments.pretraining import CorpusSampling, Pretraining
from sameloss.languages import Language, LanguageSpec, Sentences
from sameloss.languages.labels import UNDEFINED, LabelKind, labels
from sameloss.runs import Report, Run, Store

FEWEST = 100
"""Sentences drawn at once, at least: enough to find out that none has a label."""


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
        counts = {"probe training": d.train * d.probe_seeds, "probe test": d.test}
        for use, count in counts.items():
            unseen = d.unseen_test and use == "probe test"
            draw = self._draw_unseen(language, store) if unseen else self._draw(language, use)
            sentences, columns = self._labelled(language, draw, count, once=unseen)
            np.savez(
                folder / f"{use}.npz",
                tokens=sentences.tokens.numpy().astype(np.uint16),
                lengths=sentences.lengths.numpy(),
                labels=columns.numpy(),
            )

    def _draw(self, language: Language, use: str) -> Callable[[int], Sentences]:
        generator = torch.Generator().manual_seed(stream_seed(use, self.downstream.seed))
        return lambda count: language.sample(count, generator)

    def _draw_unseen(self, language: Language, store: Store) -> Callable[[int], Sentences]:
        if self.corpus is None or self.corpus.sentences is None:
            raise ParameterError("Unseen test sentences need a corpus of a fixed size to be absent from.")
        corpus = store.get(self.corpus)
        generator = torch.Generator().manual_seed(stream_seed("unseen test", self.downstream.seed))
        return lambda count: held_out_unseen(language, corpus, count, generator)

    def _labelled(
        self, language: Language, draw: Callable[[int], Sentences], count: int, once: bool
    ) -> LabelledSentences:
        """Draw until `count` sentences, each `once` if asked for, have a label in every task."""
        found: list[Sentences] = []
        while (missing := count - sum(len(part.lengths) for part in found)) > 0:
            more = draw(max(missing, FEWEST))
            defined = (self._labels(language, more) != UNDEFINED).all(1)
            if not defined.any():
                tasks = ", ".join(self.downstream.tasks)
                raise LanguageError(f"None of {len(defined)} sentences has a label in all of {tasks}.")
            found.append(more.rows(defined))
            if once:
                found = [distinct(Sentences.joined(found))]
        kept = Sentences.joined(found).rows(slice(count))
        return LabelledSentences(kept, self._labels(language, kept))

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
