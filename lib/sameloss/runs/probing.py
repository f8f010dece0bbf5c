"""The runs that test representations downstream by linear probes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from sameloss.device import best_device
from sameloss.errors import ParameterError
from sameloss.languages import Sentences
from sameloss.measures.downstream.features import contextual_features, lookup_features, one_hot_features
from sameloss.measures.downstream.probe import Probe
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import LabelledSampling, LabelledSentences
from sameloss.seeds import stream_seed
from sameloss.store.store import Report, Run, Store


class Probed(NamedTuple):
    """What probes found, with the axis `step` first; of what no training made there is a single step."""

    correct: Bool[np.ndarray, "step seed sentence task"]  # which test sentences are right
    gradient: Float[np.ndarray, "step seed"]  # how far from its optimum each probe is


class _Probing(Run):
    """The part that both kinds of probing share: fitting, and the table of what is right."""

    labelled: LabelledSampling
    probe: Probe

    schema: ClassVar[int] = 2

    def _fit(
        self,
        data: tuple[LabelledSentences, LabelledSentences],
        featurise: Callable[[Sentences], torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Fit probes of a representation; return which test sentences are right, and the gradients."""
        training, test = data
        downstream = self.labelled.downstream
        split = (downstream.probe_seeds, downstream.train)
        device = best_device()  # all probes of a representation are trained there, side by side
        features = featurise(training.sentences).to(device).unflatten(0, split)
        labels = training.labels.unflatten(0, split)
        seed = stream_seed("probe", downstream.seed)
        probes = self.probe.fit(features, labels, self.labelled.classes, seed)
        correct = probes.correct(featurise(test.sentences).to(device), test.labels)
        return correct, probes.gradient(features, labels).cpu()

    def _save(self, folder: Path, results: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        found = Probed(*(torch.stack(parts).numpy() for parts in zip(*results, strict=True)))
        np.savez_compressed(folder / "probes.npz", **found._asdict())

    def load(self, folder: Path) -> Probed:
        """Read what the probes found."""
        with np.load(folder / "probes.npz") as saved:
            return Probed(saved["correct"], saved["gradient"])


@dataclass(frozen=True)
class Probing(_Probing):
    """Linear probes of some checkpoints of a pre-training."""

    pretraining: Pretraining
    steps: tuple[int, ...]
    labelled: LabelledSampling
    probe: Probe

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
        reads = d.train * d.probe_seeds * self.probe.passes * len(self.steps)
        return reads * width / 1e9


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
