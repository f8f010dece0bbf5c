"""The runs that test representations downstream: labelled sentences and linear probes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch

from sameloss.corpus import stream_seed
from sameloss.downstream.features import contextual_features, lookup_features, one_hot_features
from sameloss.downstream.probe import ProbeSettings, fit_probes
from sameloss.errors import ParameterError
from sameloss.experiments.measurements import held_out
from sameloss.experiments.pretraining import Pretraining
from sameloss.languages import PCFGSpec, Sentences
from sameloss.languages.language import LabelKind
from sameloss.runs import Report, Run, Store


@dataclass(frozen=True)
class Downstream:
    """The downstream tasks and data (App. A.1)."""

    tasks: tuple[str, ...]
    label_kind: LabelKind
    train: int  # sentences of each probe seed
    test: int
    probe_seeds: int
    seed: int


class LabelledSentences(NamedTuple):
    """Sentences with one column of labels for each task."""

    sentences: Sentences
    labels: torch.Tensor


@dataclass(frozen=True)
class LabelledSampling(Run):
    """Downstream sentences and labels: one training part for each probe seed, one test part."""

    language: PCFGSpec
    downstream: Downstream

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Sample and label."""
        language, d = self.language.build(), self.downstream
        counts = {"probe training": d.train * d.probe_seeds, "probe test": d.test}
        for use, count in counts.items():
            sentences = held_out(language, count, d.seed, use)
            labels = [language.labels(sentences, task, d.label_kind) for task in d.tasks]
            np.savez(
                folder / f"{use}.npz",
                tokens=sentences.tokens.numpy().astype(np.uint16),
                lengths=sentences.lengths.numpy(),
                labels=torch.stack(labels, dim=1).numpy(),
            )

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
