"""The runs of growing: shallow models with their optimiser's state, all candidates of each, and controls."""

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from safetensors.torch import load_file, save
from torch import Tensor

from sameloss.languages import LanguageSpec
from sameloss.languages.locality import beyond_windows
from sameloss.languages.masking import Batch, mask_batch
from sameloss.measures.flatness.top_eigenvalue import top_eigenvalue
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder
from sameloss.models.grow import grow
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.runs.frames import TABLE, Tabled
from sameloss.runs.held_out import HeldOutConditionals, held_out
from sameloss.runs.pretraining import Pretraining
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.files import write_atomically
from sameloss.store.store import Report, Store
from sameloss.studies.growing.settings import Operator
from sameloss.training.ensembles import Ensemble, train_together
from sameloss.training.loop import Optimisation
from sameloss.training.masked_loss import noisy_targets
from sameloss.training.moments import Carried, Moments, grown_moments, moments_of

MOMENTS = "moments.safetensors"

NOT_GROWN = "not grown"
"""The name of a model that goes on as it is."""

WINDOWS = (0, 1, 2, 3)


@dataclass(frozen=True)
class GrowthBase(Pretraining):
    """The pre-training of a shallow model, which keeps what its optimiser knows at the end."""

    def keep_more(self, model: MaskedLanguageModel, optimiser: torch.optim.Optimizer, folder: Path) -> None:
        """Write the moments of all parameters."""
        found = moments_of(model, optimiser)
        tensors = {f"{name}/{field}": v for name, own in found.items() for field, v in own._asdict().items()}
        write_atomically(folder / MOMENTS, save({name: v.cpu().contiguous() for name, v in tensors.items()}))

    def grown_from(self, store: Store) -> tuple[Encoder, dict[str, Moments]]:
        """Return the model after all steps, and its moments."""
        checkpoints = store.get(self)
        tensors = load_file(checkpoints.folder / MOMENTS)
        model = checkpoints.last()
        fields = Moments._fields
        return model, {
            name: Moments(*(tensors[f"{name}/{field}"] for field in fields))
            for name, _ in model.named_parameters()
        }


class Pairs:
    """Masked sentences that no training saw, with the truth: half to choose by, half to judge by."""

    def __init__(self, store: Store, held_out: HeldOutConditionals) -> None:
        """Mask one position of each sentence, every position equally often."""
        sentences, conditionals = store.get(held_out)
        rows = torch.arange(len(sentences.lengths))
        positions = rows % sentences.lengths
        self.batch = mask_batch(sentences, positions)
        self.truth = conditionals[rows, positions]
        self.half = len(rows) // 2

    @torch.no_grad()
    def kl(self, logits: Float[Tensor, "member row word"]) -> tuple[Tensor, Tensor]:
        """Return the KL of each member on the two halves, in nats a masked token."""
        log_q = logits.double().cpu().log_softmax(-1)
        found = (torch.xlogy(self.truth, self.truth) - self.truth * log_q).sum(-1)
        return found[:, : self.half].mean(1), found[:, self.half :].mean(1)


@dataclass(frozen=True)
class Candidates(Tabled):
    """One shallow model grown by every operator, and all of them trained on the same batches.

    Without operators the model goes on as it is. A row is an operator at a look: `chosen_by` and `kl`
    are the KL on the two halves of the held-out pairs, `loss` that of the batch just trained on, nats a
    masked token.
    """

    base: GrowthBase
    operators: tuple[Operator, ...]
    added: int
    steps: int
    looks: tuple[int, ...]
    carried: Carried
    held_out: HeldOutConditionals

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Grow, train, look."""
        ensemble, pairs = self.ensemble(store), Pairs(store, self.held_out)
        nothing = torch.full((len(ensemble),), torch.nan)
        tables = [self._look(ensemble, pairs, 0, nothing)]
        corpus, language = store.get(self.base.corpus), self.base.corpus.language.build()
        stream, size = stream_seed("batches", self.base.seed), self.base.optimisation.batch
        steps = train_together(
            ensemble,
            lambda step: corpus.batch(stream, self.base.optimisation.steps + step, size),
            lambda batch: noisy_targets(language, batch, self.base.objective.label_noise),
            self.optimisation,
        )
        for step in steps:
            if step.done in self.looks:
                tables.append(self._look(ensemble, pairs, step.done, step.losses))
                report(step.done / self.steps, f"KL {tables[-1].kl.min():.4f}")
        pd.concat(tables).to_csv(folder / TABLE, index=False)

    @property
    def optimisation(self) -> Optimisation:
        """Return the settings after growing: from the rate at which the shallow model ended, down to zero.

        At a constant rate, the thesis' for BERT, models of this size go up and down by more than they differ.
        """
        return replace(self.base.optimisation, steps=self.steps, warmup=0.0, schedule="linear")

    def ensemble(self, store: Store) -> Ensemble:
        """Return the grown models before any further step."""
        model, moments = self.base.grown_from(store)
        if not self.operators:
            return Ensemble([model], [moments])
        maps = [operator.layers(model.shape.layers, self.added) for operator in self.operators]
        fillings = [operator.filling for operator in self.operators]
        drawn = [generator_for(f"new layers {operator.name}", self.base.seed) for operator in self.operators]
        return Ensemble(
            [grow(model, *given) for given in zip(maps, fillings, drawn, strict=True)],
            [grown_moments(moments, *given, self.carried) for given in zip(maps, fillings, strict=True)],
        )

    @property
    def names(self) -> list[str]:
        """Return what the members are called."""
        return [operator.name for operator in self.operators] or [NOT_GROWN]

    def _look(self, ensemble: Ensemble, pairs: Pairs, step: int, losses: Tensor) -> pd.DataFrame:
        chosen_by, kl = pairs.kl(ensemble.logits(pairs.batch))
        found = {"chosen_by": chosen_by, "kl": kl, "loss": losses.detach()}
        return pd.DataFrame(
            {"operator": self.names, "step": step} | {n: v.cpu().numpy() for n, v in found.items()}
        )

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        language = self.base.corpus.language
        rows = self.steps * self.base.optimisation.batch + len(self.looks) * self.held_out.sentences / 3
        return len(self.names) * rows * self.base.shape.flops(language.words, language.max_length) / 7e9


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
        return 3.5e-2 * self.sentences * len(self.candidates.names)


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
