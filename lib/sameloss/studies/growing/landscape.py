"""The runs that measure what is there before growing pays: the landscape, and how local the language is."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.languages import LanguageSpec
from sameloss.languages.locality import beyond_windows
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.top_eigenvalue import top_eigenvalue
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.runs.frames import TABLE, Tabled
from sameloss.runs.held_out import held_out
from sameloss.store.store import Report, Store
from sameloss.studies.growing.runs import Candidates, Pairs

WINDOWS = (0, 1, 2, 3)


@dataclass(frozen=True)
class GrowthLandscape(Tabled):
    """What the landscape is like where each operator puts the model, before any step.

    One row an operator: squared norm of the gradient of the loss on exact labels, Fisher trace, and the
    largest eigenvalue of the Hessian, on so many of the pairs to choose by.
    """

    candidates: Candidates
    sentences: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure operator after operator."""
        pairs = Pairs(store, self.candidates.held_out)
        some = slice(0, min(self.sentences, pairs.half))
        ensemble = self.candidates.ensemble(store)
        rows = []
        for at, name in enumerate(self.candidates.names):
            rows.append(
                {
                    "operator": name,
                    **_landscape(ensemble.member(at), pairs.batch.rows(some), pairs.truth[some]),
                }
            )
            report((at + 1) / len(ensemble), name)
        pd.DataFrame(rows).to_csv(folder / TABLE, index=False)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        numbers = self.sentences * self.candidates.shape.d_model
        return len(self.candidates.names) * (5e-2 + 6e-4 * numbers)


def _landscape(
    model: MaskedLanguageModel, masked: Batch, truth: Float[Tensor, "batch word"]
) -> dict[str, float]:
    device = next(model.parameters()).device
    masked, truth = masked.to(device), truth.to(device)
    logits = model(masked.masked, masked.positions, masked.lengths)
    loss = torch.nn.functional.cross_entropy(logits, truth.to(logits))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return {
        "gradient": float(sum(gradient.square().sum() for gradient in gradients)),
        "trace": fisher_trace(model, masked, estimator="exact").total.mean,
        "eigenvalue": top_eigenvalue(model, masked, truth, tolerance=1e-2),
    }


@dataclass(frozen=True)
class LocalityMeasurement(Tabled):
    """How much of a masked word is told by words beyond its neighbours."""

    language: LanguageSpec
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Sum out what lies beyond each window."""
        language = self.language.build()
        sentences = held_out(language, self.sentences, self.seed, "locality")
        found = beyond_windows(language, sentences, WINDOWS)
        rows = [{"window": window, **estimate._asdict()} for window, estimate in found.items()]
        pd.DataFrame(rows).to_csv(folder / TABLE, index=False)
