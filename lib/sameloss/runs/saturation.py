"""The run that measures how far checkpoints are from the best possible loss."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from sameloss.languages.enumeration import enumerable
from sameloss.measures.saturation import exact_saturation, saturation
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.pretraining import Pretraining
from sameloss.store.store import Report, Run, Store


@dataclass(frozen=True)
class SaturationMeasurement(Run):
    """Entropy, KL and loss of every checkpoint of a pre-training, on the same held-out sentences."""

    pretraining: Pretraining
    held_out: HeldOutConditionals

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure checkpoint after checkpoint; exactly where the language can be enumerated."""
        language = self.pretraining.corpus.language.build()
        checkpoints = store.get(self.pretraining)
        if enumerable(language):
            measure = partial(exact_saturation, language=language)
        else:
            sentences, conditionals = store.get(self.held_out)
            measure = partial(saturation, sentences=sentences, conditionals=conditionals)
        rows = []
        for step in checkpoints.steps:
            measured = measure(checkpoints.model(step))
            columns = {f"{k}_{f}": v for k, e in measured._asdict().items() for f, v in e._asdict().items()}
            rows.append({"step": step, **columns})
            report(len(rows) / len(checkpoints.steps), f"KL {measured.kl.mean:.4f}")
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row a checkpoint: `kl_mean`, `kl_standard_error`, ... in nats a token."""
        return pd.read_csv(folder / "table.csv")
