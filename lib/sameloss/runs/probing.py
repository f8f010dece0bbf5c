"""Stored probes of checkpoints."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from sameloss.device import best_device
from sameloss.languages import Sentences
from sameloss.measures.downstream.probe import (
    Probe,
    contextual_features,
)
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.sampling import LabelledSampling, LabelledSentences
from sameloss.seeds import stream_seed
from sameloss.store.store import Report, Run, Store


class Probed(NamedTuple):
    """What probes found, with the axis `step` first."""

    correct: Bool[np.ndarray, "step seed sentence task"]  # which test sentences are right
    gradient: Float[np.ndarray, "step seed"]  # how far from its optimum each probe is


@dataclass(frozen=True)
class Probing(Run):
    """Linear probes of some checkpoints of a pre-training."""

    pretraining: TrainedRun
    steps: tuple[int, ...]
    labelled: LabelledSampling
    probe: Probe

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Probe checkpoint after checkpoint."""
        checkpoints, data = store.get(self.pretraining), store.get(self.labelled)
        results = []
        for step in self.steps:
            results.append(self._fit(data, partial(contextual_features, checkpoints.model(step))))
            report(len(results) / len(self.steps), "")
        found = Probed(*(torch.stack(parts).numpy() for parts in zip(*results, strict=True)))
        np.savez_compressed(folder / "probes.npz", **found._asdict())

    def _fit(
        self,
        data: tuple[LabelledSentences, LabelledSentences],
        featurise: Callable[[Sentences], torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Fit probes of a representation; return which test sentences are right, and the gradients."""
        training, test = data
        split = (self.labelled.downstream.probe_seeds, self.labelled.downstream.train)
        features = featurise(training.sentences).to(best_device()).unflatten(0, split)
        labels = training.labels.unflatten(0, split)
        seed = stream_seed("probe", self.labelled.downstream.seed)
        probes = self.probe.fit(features, labels, self.labelled.classes, seed)
        correct = probes.correct(featurise(test.sentences).to(features), test.labels)
        return correct, probes.gradient(features, labels).cpu()

    def load(self, folder: Path) -> Probed:
        """Read what the probes found."""
        with np.load(folder / "probes.npz") as saved:
            return Probed(**saved)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        width = self.pretraining.shape.d_model * self.labelled.language.max_length
        d = self.labelled.downstream
        reads = d.train * d.probe_seeds * self.probe.passes * len(self.steps)
        classes = sum(self.labelled.classes) ** 0.7  # with few, more is done beside products
        return reads * width * classes / 8e8
