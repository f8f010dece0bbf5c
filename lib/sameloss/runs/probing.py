"""Stored probes of representations, and fine-tuning."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from sameloss.device import best_device
from sameloss.errors import ParameterError
from sameloss.languages import Sentences
from sameloss.measures.downstream.finetune import FinetuneSettings, finetune
from sameloss.measures.downstream.online_code import code_lengths, doubling, probes_by_count
from sameloss.measures.downstream.optimal_probe import OptimalProbe
from sameloss.measures.downstream.probe import (
    Probe,
    check_labels,
    contextual_features,
    lookup_features,
    one_hot_features,
    random_expansion,
)
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import LabelledSampling, LabelledSentences
from sameloss.seeds import stream_seed
from sameloss.store.store import Report, Run, Store

# The runs that test representations downstream by linear probes.


class Probed(NamedTuple):
    """What probes found, with the axis `step` first; of what no training made there is a single step."""

    correct: Bool[np.ndarray, "step seed sentence task"]  # which test sentences are right
    gradient: Float[np.ndarray, "step seed"]  # how far from its optimum each probe is


class ProbedByLabels(NamedTuple):
    """The same by the number of labelled sentences, and the bits for their labels: see `code_lengths`.

    All sentences of a probe seed have bits, but no probe here: those of `Probed` read all of them.
    """

    correct: Bool[np.ndarray, "step count seed sentence task"]
    bits: Float[np.ndarray, "step count_and_all seed task"]


Representation = Callable[[Sentences], torch.Tensor]


class _Probing(Run):
    """The part that all kinds of probing share: fitting, and the table of what is right."""

    labelled: LabelledSampling
    probe: Probe

    schema: ClassVar[int] = 2

    FOUND: ClassVar[Any] = Probed  # what is saved

    def _fit(
        self, data: tuple[LabelledSentences, LabelledSentences], featurise: Representation
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Fit probes of a representation; return which test sentences are right, and the gradients."""
        training, test = data
        features, labels = self._by_seed(training, featurise)
        seed = stream_seed("probe", self.labelled.downstream.seed)
        probes = self.probe.fit(features, labels, self.labelled.classes, seed)
        correct = probes.correct(featurise(test.sentences).to(features), test.labels)
        return correct, probes.gradient(features, labels).cpu()

    def _by_seed(
        self, training: LabelledSentences, featurise: Representation
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features and labels, axis `seed` first."""
        split = (self.labelled.downstream.probe_seeds, self.labelled.downstream.train)
        features = featurise(training.sentences).to(best_device())  # where all probes are fitted
        return features.unflatten(0, split), training.labels.unflatten(0, split)

    def _save(self, folder: Path, results: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        found = self.FOUND(*(torch.stack(parts).numpy() for parts in zip(*results, strict=True)))
        np.savez_compressed(folder / "probes.npz", **found._asdict())

    def load(self, folder: Path) -> Any:
        """Read what the probes found."""
        with np.load(folder / "probes.npz") as saved:
            return self.FOUND(**saved)


@dataclass(frozen=True)
class Probing(_Probing):
    """Linear probes of some checkpoints of a pre-training."""

    pretraining: TrainedRun
    steps: tuple[int, ...]
    labelled: LabelledSampling
    probe: Probe
    expanded: int | None = None  # features in all, with random ones: see `random_expansion`

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Probe checkpoint after checkpoint."""
        checkpoints, data = store.get(self.pretraining), store.get(self.labelled)
        results = []
        for step in self.steps:
            results.append(self._fit(data, partial(self._features, checkpoints.model(step))))
            report(len(results) / len(self.steps), "")
        self._save(folder, results)

    def _features(self, model: MaskedLanguageModel, sentences: Sentences) -> torch.Tensor:
        features = contextual_features(model, sentences)
        return features if self.expanded is None else random_expansion(features, self.expanded)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        width = self.expanded or self.pretraining.shape.d_model * self.labelled.language.max_length
        d = self.labelled.downstream
        reads = d.train * d.probe_seeds * self.probe.passes * len(self.steps)
        classes = sum(self.labelled.classes) ** 0.7  # with few, more is done beside products
        return reads * width * classes / 8e8


@dataclass(frozen=True)
class BaselineProbing(_Probing):
    """Linear probes of a representation that no training made."""

    representation: str
    labelled: LabelledSampling
    probe: Probe

    REPRESENTATIONS: ClassVar = {
        "lookup table": lookup_features,
        "one-hot tokens": one_hot_features,
    }

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Probe the representation; the result has a single step."""
        if self.representation not in self.REPRESENTATIONS:
            names = ", ".join(self.REPRESENTATIONS)
            raise ParameterError(f"Unknown representation {self.representation!r}; choose {names}.")
        representation = self.REPRESENTATIONS[self.representation]
        language = self.labelled.language.build()
        self._save(folder, [self._fit(store.get(self.labelled), partial(representation, language))])


FEWEST_LABELS = 8


class _ByLabels(_Probing):
    """The part that both kinds share which fit a probe to the first 8, 16, 32, ... sentences of each seed."""

    probe: OptimalProbe

    FOUND: ClassVar[Any] = ProbedByLabels

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the numbers of labelled sentences, the last of them all."""
        return doubling(FEWEST_LABELS, self.labelled.downstream.train)

    def _fit(
        self, data: tuple[LabelledSentences, LabelledSentences], featurise: Representation
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Fit probes of a representation; return which test sentences are right, and the bits."""
        training, test = data
        features, labels = self._by_seed(training, featurise)
        held_out = featurise(test.sentences).to(features)
        correct, bits = [], []
        for own in zip(features, labels, strict=True):
            probes = probes_by_count(*own, self.labelled.classes, self.counts[:-1], self.probe)
            correct.append(torch.cat([known.correct(held_out, test.labels) for known in probes]))
            bits.append(code_lengths(probes, *own, self.counts))
        return torch.stack(correct, 1), torch.stack(bits, 1)


@dataclass(frozen=True)
class LabelBudget(_ByLabels, Probing):
    """Solved probes of some checkpoints of a pre-training, by the number of labels."""

    probe: OptimalProbe


@dataclass(frozen=True)
class BaselineLabelBudget(_ByLabels, BaselineProbing):
    """Solved probes of a representation that no training made, by the number of labels."""

    probe: OptimalProbe


# The runs that fine-tune pre-trained models on the downstream tasks.


@dataclass(frozen=True)
class Finetuning(Run):
    """Fine-tuning of the last checkpoint of a pre-training, for each probe seed and task (App. A.4)."""

    pretraining: Pretraining
    labelled: LabelledSampling
    settings: FinetuneSettings
    examples: int | None = None  # training sentences of each probe seed: the first so many; None: all

    def __post_init__(self) -> None:
        """Refuse more training sentences than there are."""
        most = self.labelled.downstream.train
        if self.examples is not None and not 0 < self.examples <= most:
            raise ParameterError(
                f"examples lies in 1..{most}, the training sentences of a probe seed; got {self.examples}."
            )

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Fine-tune for one probe seed after the other; labels that teach nothing are refused before."""
        model = store.get(self.pretraining).last()
        training, test = store.get(self.labelled)
        parts = [self._part(training, seed) for seed in range(self.labelled.downstream.probe_seeds)]
        labels = torch.stack([part.labels for part in parts])
        check_labels(labels, self.labelled.classes, self.labelled.downstream.tasks)
        correct = []
        for seed, part in enumerate(parts):
            correct.append(self._tune(model, part, test, seed))
            report(len(correct) / len(parts), "")
        np.savez_compressed(folder / "probes.npz", correct=torch.stack(correct)[None].numpy())

    def _part(self, training: LabelledSentences, seed: int) -> LabelledSentences:
        """Return the training sentences of one probe seed."""
        start = seed * self.labelled.downstream.train
        own = slice(start, start + self._examples)
        return LabelledSentences(training.sentences.rows(own), training.labels[own])

    def _tune(
        self, model: MaskedLanguageModel, training: LabelledSentences, test: LabelledSentences, seed: int
    ) -> torch.Tensor:
        """Fine-tune on each task, and return which test sentences are right, axes (sentence, task)."""
        results = []
        for task, classes in enumerate(self.labelled.classes):
            own = stream_seed("fine-tuning", self.labelled.downstream.seed, seed, task)
            labels = training.labels[:, task]
            tuned = finetune(model, training.sentences, labels, classes, self.settings, own)
            results.append(tuned.correct(test.sentences, test.labels[:, task]))
        return torch.stack(results, dim=1)

    @property
    def _examples(self) -> int:
        return self.examples or self.labelled.downstream.train

    def load(self, folder: Path) -> Bool[np.ndarray, "step seed sentence task"]:
        """Return which test sentences are right, with the axes of `Probed`; the only step is the last."""
        with np.load(folder / "probes.npz") as saved:
            return saved["correct"]

    @property
    def effort(self) -> float:
        """Return a rough number of seconds on a laptop's core."""
        d, shape = self.labelled.downstream, self.pretraining.shape
        sentences = self._examples * self.settings.epochs * d.probe_seeds * len(d.tasks)
        return sentences * self.labelled.language.max_length * shape.d_model * shape.layers / 8e6
