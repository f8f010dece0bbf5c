"""The runs that compare ways to measure flatness on one checkpoint (Appendix B, B.1)."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.corpus import Batch, generator_for, stream_seed
from sameloss.estimate import Estimate
from sameloss.experiments.measurements import held_out_conditionals, held_out_masked
from sameloss.experiments.pretraining import Pretraining
from sameloss.flatness import measures
from sameloss.flatness.diagonal import group_diagonals
from sameloss.flatness.estimated import EstimatedTrace
from sameloss.flatness.gradient_norms import recordings
from sameloss.flatness.hessian import dense_hessian, hutch_plus_plus_trace, hutchinson_trace
from sameloss.flatness.learning_coefficient import local_learning_coefficient
from sameloss.flatness.trace import fisher_trace, minibatch_trace
from sameloss.languages import Language, LanguageSpec, Sentences, mask_one
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import deepen, kind_of, trace_law, widen
from sameloss.models.reparametrise import REPARAMETRISATIONS
from sameloss.runs import Report, Run, Store
from sameloss.saturation import enumerate_sentences


@dataclass(frozen=True)
class _OfLastCheckpoint(Run):
    """A table about the last checkpoint of a pre-training."""

    pretraining: Pretraining
    sentences: int
    seed: int

    def last_model(self, store: Store) -> Encoder:
        """Return the model after all steps."""
        checkpoints = store.get(self.pretraining)
        return checkpoints.model(checkpoints.steps[-1])

    def masked(self, use: str) -> Batch:
        """Return masked sentences for one use."""
        return held_out_masked(self.pretraining.corpus.language.build(), self.sentences, self.seed, use)

    def generator(self, use: str) -> torch.Generator:
        """Return random numbers for one use."""
        return generator_for(use, self.seed)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return the table."""
        return pd.read_csv(folder / "table.csv")


@dataclass(frozen=True)
class EnlargementMeasurement(_OfLastCheckpoint):
    """Fisher trace of a checkpoint: native, enlarged to a given width, and relative to its parameters.

    Enlarged traces are the native ones times `trace_law`, so the large model is never made.
    """

    labels: int
    width: int  # d_model that the model is enlarged to

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure once, then apply the laws."""
        model = self.last_model(store)
        trace = fisher_trace(
            model,
            self.masked("enlargement"),
            labels=self.labels,
            generator=self.generator("enlargement labels"),
        )
        ratio = self.width // self.pretraining.shape.d_model
        forms = {"native": trace}
        forms |= {
            tied: trace.scaled(partial(trace_law, ratio=ratio, tied=tied)) for tied in ("paper", "balanced")
        }
        rows = [
            {"form": form, "part": part, **estimate._asdict()}
            for form, enlarged in forms.items()
            for part, estimate in _with_total(enlarged).items()
        ]
        relative = measures.relative_trace(model, trace)
        rows.append({"form": "relative", "part": "total", **relative._asdict()})
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)


def _with_total(trace: EstimatedTrace) -> dict[str, Estimate]:
    """Return the total, the total without the tied embedding and positions, and each kind's part."""
    rest = trace.by(lambda name: "embedding" if kind_of(name) == "embedding" else "without embeddings")
    return {"total": trace.total, "without embeddings": rest["without embeddings"], **trace.by(kind_of)}


@dataclass(frozen=True)
class EstimatorComparison(_OfLastCheckpoint):
    """Every estimator of the trace on one checkpoint whose trace over given sentences is known.

    The sentences are the whole population: the estimators draw from it with replacement. The labels
    are those of the model itself, so that the model is at its own minimum, the Hessian is the Fisher
    information, and all estimators have the same target.
    """

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Sum over all sentences and labels, then estimate."""
        model, population = self.last_model(store), self.masked("estimators")
        truth = predictions(model, population)
        exact = fisher_trace(model, population, estimator="exact")
        known = Estimate(exact.total.mean, 0.0, self.sentences)
        rows = [{"estimator": "all sentences, all labels", **known._asdict(), **exact.cost._asdict()}]
        generator = self.generator("estimators")
        contest = list(_contest(model, population, truth, generator))
        for name, share, estimate in contest:
            rows_drawn = torch.randint(self.sentences, (int(share * self.sentences),), generator=generator)
            trace = estimate(rows_drawn)
            rows.append({"estimator": name, **trace.total._asdict(), **trace.cost._asdict()})
            report(len(rows) / (1 + len(contest)), name)
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.pretraining.shape.d_model / 5e3


@torch.no_grad()
def predictions(model: Encoder, masked: Batch) -> Float[Tensor, "batch word"]:
    """Return f(x_-t), on the CPU."""
    masked = masked.to(next(model.parameters()).device)
    return model(masked.masked, masked.positions, masked.lengths).softmax(-1).cpu()


Contestant = tuple[str, float, Callable[[Tensor], EstimatedTrace]]
"""Name, number of sentences as a share of the population, estimate from their rows."""

HESSIAN_BATCH = 32
"""Sentences that share a random direction in the space of the parameters."""


def _contest(
    model: Encoder, population: Batch, truth: Tensor, generator: torch.Generator
) -> Iterator[Contestant]:
    def fisher(estimator: str, labels: int, rows: Tensor) -> EstimatedTrace:
        some = population.rows(rows)
        return fisher_trace(model, some, estimator=estimator, labels=labels, generator=generator)

    def minibatch(batch: int, rows: Tensor) -> EstimatedTrace:
        return minibatch_trace(model, population.rows(rows), batch=batch, generator=generator)

    def hessian(estimate: Callable, vectors: str, rows: Tensor, **options: int) -> EstimatedTrace:
        options |= {"batch": HESSIAN_BATCH, "vectors": vectors, "generator": generator}
        return estimate(model, population.rows(rows), truth[rows], **options)

    def released(rows: Tensor) -> EstimatedTrace:
        drawn = torch.multinomial(truth[rows], 1, generator=generator).squeeze(1)
        some = population.rows(rows)._replace(targets=drawn)
        options = {"batch": HESSIAN_BATCH, "vectors": "gaussian", "generator": generator}
        return hutchinson_trace(model, some, **options)

    yield "exact over labels", 1 / 8, partial(fisher, "exact", 1)
    yield "1 sampled label", 1.0, partial(fisher, "sampled", 1)
    yield "4 sampled labels", 1 / 2, partial(fisher, "sampled", 4)
    yield "50 sampled labels (the paper's)", 1 / 16, partial(fisher, "sampled", 50)
    yield "1 vector of output signs", 1.0, partial(fisher, "rademacher", 1)
    yield "mini-batches of 8", 1.0, partial(minibatch, 8)
    yield "mini-batches of 64", 1.0, partial(minibatch, 64)
    yield "Hutchinson, signs, exact labels", 1 / 4, partial(hessian, hutchinson_trace, "rademacher")
    yield "Hutchinson, Gaussian, true labels (released code)", 1 / 4, released
    yield "Hutch++, rank 4", 1 / 16, partial(hessian, hutch_plus_plus_trace, "rademacher", rank=4)


CHAINS = {"chains": 3, "batch": 64, "lr": 3e-4, "localisation": 100.0}
"""How the learning coefficient is sampled: the slowest direction forgets its start in some 70 steps."""


@dataclass(frozen=True)
class ReparametrisationMeasurement(_OfLastCheckpoint):
    """Every measure of flatness of one checkpoint under changes of its parameters, not of its function."""

    chain_steps: int  # of Langevin dynamics

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure form after form, on the same sentences with the same random numbers."""
        model = self.last_model(store).double()
        language = self.pretraining.corpus.language.build()
        about = language, self.sentences, self.seed, "reparametrisation"
        masked, truth = held_out_masked(*about), held_out_conditionals(*about)
        forms = dict(_forms(model, self.generator("reparametrisation")))
        rows = []
        for form, changed in forms.items():
            moved = float((predictions(changed, masked) - predictions(model, masked)).abs().max())
            for measure, estimate in self._with_coefficient(changed, masked, truth):
                rows.append({"form": form, "measure": measure, "moved": moved, **estimate._asdict()})
            report(len(rows) / (8 * len(forms)), form)
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    def _with_coefficient(
        self, model: Encoder, masked: Batch, truth: Tensor
    ) -> Iterator[tuple[str, Estimate]]:
        """Yield all measures, each with the same random numbers for every model."""
        drawn = partial(self.generator, "measures")
        yield from measured(model, masked, truth, drawn)
        chains = {**CHAINS, "steps": self.chain_steps, "generator": drawn()}
        yield (
            "learning coefficient",
            local_learning_coefficient(deepcopy(model).float(), masked, truth, **chains),
        )

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.pretraining.shape.d_model / 5e2


@dataclass(frozen=True)
class FlatnessMeasurement(_OfLastCheckpoint):
    """The measures of flatness of the last checkpoint of a pre-training (chapter D compares them)."""

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Measure in float64, all models on the same sentences."""
        about = self.pretraining.corpus.language.build(), self.sentences, self.seed, "measures"
        masked, truth = held_out_masked(*about), held_out_conditionals(*about)
        model = self.last_model(store).double()
        found = measured(model, masked, truth, partial(self.generator, "measures"))
        rows = [{"measure": name, **estimate._asdict()} for name, estimate in found]
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.pretraining.shape.d_model / 2e3


def measured(
    model: Encoder, masked: Batch, truth: Tensor, drawn: Callable[[], torch.Generator]
) -> Iterator[tuple[str, Estimate]]:
    """Yield the measures of flatness that need no chain; `drawn` begins the same random numbers again."""
    about = model, masked, truth
    trace = fisher_trace(model, masked, estimator="exact")
    diagonals = group_diagonals(model, masked, generator=drawn(), labels=2)
    yield "trace", trace.total
    yield "top eigenvalue", _exact(measures.top_eigenvalue(*about), masked)
    yield "Tr Diag(H)^½", diagonals.adam_trace()
    yield "adaptive trace", diagonals.adaptive_trace(model)
    average = measures.adaptive_sharpness(*about, rho=0.05, draws=10, generator=drawn())
    yield "adaptive sharpness", average
    worst = measures.worst_case_adaptive_sharpness(*about, rho=0.5)
    yield "worst adaptive sharpness", _exact(worst, masked)
    yield "relative trace", measures.relative_trace(model, trace)


def _forms(model: Encoder, generator: torch.Generator) -> Iterator[tuple[str, Encoder]]:
    yield "as trained", model
    for name, reparametrise in REPARAMETRISATIONS.items():
        yield name, reparametrise(model, generator)
    yield "width × 2, as the paper", widen(model, 2)
    yield "width × 2, balanced", widen(model, 2, tied="balanced")
    yield "2 layers of zeros added", deepen(model, model.shape.layers + 2)


def _exact(value: float, masked: Batch) -> Estimate:
    """Return a number without randomness of its own, over these sentences."""
    return Estimate(value, 0.0, len(masked.masked))


@dataclass(frozen=True)
class IdentityMeasurement(Run):
    """Three traces, all exact, along the training of a tiny model on everything its language can mask.

    It is trained on the exact conditionals with AdamW in float64, so that it comes close to
    saturation; the population is every masked sentence, all alike.
    """

    language: LanguageSpec
    shape: EncoderShape
    steps: tuple[int, ...]
    lr: float
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train, and stop at the given steps to measure."""
        language = self.language.build()
        masked, truth = everything_masked(language)
        seed = stream_seed("initial weights", self.seed)
        model = Encoder(self.shape, language.words, language.max_length, seed).double()
        optimiser = torch.optim.AdamW(model.parameters(), lr=self.lr, weight_decay=0.0)
        rows = []
        for step in range(self.steps[-1] + 1):
            if step in self.steps:
                rows.append({"step": step, **_three_traces(model, masked, truth)})
                report(step / self.steps[-1], f"KL {rows[-1]['kl']:.2g}")
            optimiser.zero_grad()
            log_f = model(masked.masked, masked.positions).log_softmax(-1)
            (-(truth * log_f).sum(-1).mean()).backward()
            optimiser.step()
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row a step: kl (nats), fisher, true_labels, hessian."""
        return pd.read_csv(folder / "table.csv")


def everything_masked(language: Language) -> tuple[Batch, Float[Tensor, "batch word"]]:
    """Return each masked sentence of an enumerable language once, with its exact conditional."""
    parts = [_masked_at(language, position) for position in range(language.max_length)]
    masked, positions, truth = (torch.cat(column) for column in zip(*parts, strict=True))
    return Batch(masked, positions, torch.zeros_like(positions), None), truth


def _masked_at(language: Language, position: int) -> tuple[Tensor, Tensor, Tensor]:
    sentences = Sentences(*map(torch.cat, zip(*enumerate_sentences(language), strict=True)))
    masked = mask_one(sentences.tokens, torch.full_like(sentences.lengths, position))
    masked, which = masked.unique(dim=0, return_inverse=True)
    first = torch.stack([(which == k).nonzero()[0, 0] for k in range(len(masked))])
    truth = language.conditionals(sentences.rows(first))[:, position]
    return masked, torch.full((len(masked),), position), truth


def _three_traces(model: Encoder, masked: Batch, truth: Float[Tensor, "batch word"]) -> dict[str, float]:
    """Return KL, and squared gradient norms with labels from the model and from the truth, and Tr H."""
    log_f = predictions(model, masked).log()
    true_labels = torch.zeros(len(truth), dtype=torch.float64)
    for rows, recording in recordings(model, masked):
        f = recording.logits.detach().softmax(-1)
        for label in range(f.shape[1]):
            cotangents = torch.eye(f.shape[1]).to(f)[label] - f
            norm = sum(recording.squared_norms(cotangents).values())
            true_labels[rows] += truth[rows, label] * norm.cpu()
    return {
        "kl": float((torch.xlogy(truth, truth) - truth * log_f).sum(-1).mean()),
        "fisher": fisher_trace(model, masked, estimator="exact").total.mean,
        "true_labels": float(true_labels.mean()),
        "hessian": float(dense_hessian(model, masked, truth).trace()),
    }
