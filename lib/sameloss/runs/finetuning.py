"""The runs that fine-tune pre-trained models on the downstream tasks."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool

from sameloss.errors import ParameterError
from sameloss.measures.downstream.finetune import FinetuneSettings, finetune
from sameloss.measures.downstream.validation import check_labels
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import LabelledSampling, LabelledSentences
from sameloss.seeds import stream_seed
from sameloss.store.store import Report, Run, Store


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
