"""The run that measures how far checkpoints are from the best possible loss."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from sameloss.languages.entropy import context_information
from sameloss.languages.enumeration import enumerable
from sameloss.measures.saturation import exact_saturation, saturation
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.frames import Measurement, frame
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.store.store import Report, Store


@dataclass(frozen=True)
class SaturationMeasurement(Measurement):
    """Entropy, KL and loss of every checkpoint of a pre-training, on the same held-out sentences.

    The parts of its frame are `entropy`, `kl`, `loss` and `context`, all there is to learn of the language,
    in nats a masked token.
    """

    pretraining: TrainedRun
    held_out: HeldOutConditionals

    schema: ClassVar[int] = 3

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.7 * (1 + self.pretraining.shape.d_model**2 / 2000) * len(self.pretraining.checkpoints)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint; exactly where the language can be enumerated."""
        language = self.pretraining.corpus.language.build()
        checkpoints = store.get(self.pretraining)
        sentences, conditionals = store.get(self.held_out)
        context = context_information(language, sentences, conditionals)
        if enumerable(language):
            measure = partial(exact_saturation, language=language)
        else:
            measure = partial(saturation, sentences=sentences, conditionals=conditionals)
        frames = []
        for step in checkpoints.steps:
            found = measure(checkpoints.model(step))
            frames.append(frame({**found._asdict(), "context": context}, step))
            report(len(frames) / len(checkpoints.steps), f"KL {found.kl.mean:.4f}")
        self.save(frames, folder)
