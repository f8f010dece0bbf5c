"""The runs that compare ways to measure flatness on one checkpoint (Appendix B, B.1)."""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.languages import Language, LanguageSpec, PCFGSpec, Sentences, mask_one
from sameloss.languages.entropy import enumerate_sentences
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.gradient_norms import recordings
from sameloss.measures.flatness.hessian import dense_hessian, hutch_plus_plus_trace, hutchinson_trace
from sameloss.measures.flatness.sharpness import local_learning_coefficient
from sameloss.measures.flatness.trace import EstimatedTrace, fisher_trace, minibatch_trace
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import deepen, widen
from sameloss.models.reparametrise import REPARAMETRISATIONS
from sameloss.runs.measurements import MEASURES, LastCheckpointRun, flatness_measures, predictions
from sameloss.runs.sampling import held_out_conditionals, held_out_masked
from sameloss.seeds import stream_seed
from sameloss.statistics.intervals import Estimate
from sameloss.store.store import Report, Run, Store
from sameloss.studies.same_loss.experiment import Replicate

TINY_LANGUAGE = PCFGSpec(
    levels=2,
    start_symbols=2,
    symbols=2,
    start_rules=2,
    rules=3,
    words=3,
    words_per_symbol=2,
    rule_concentration=1.0,
    emission_concentration=1.0,
    smoothing=0.1,
    seed=3,
)
"""Four tokens of three words: everything it can mask, 108 sentences, is a population."""

TINY_SHAPE = EncoderShape(d_model=8, heads=2, layers=1, d_inter=16)
"""A model whose dense Hessian takes seconds."""


@dataclass(frozen=True)
class EstimatorComparison(LastCheckpointRun):
    """Every estimator of the trace on one checkpoint whose trace over given sentences is known.

    The sentences are the whole population: the estimators draw from it with replacement. The labels
    are those of the model itself, so that the model is at its own minimum, the Hessian is the Fisher
    information, and all estimators have the same target.
    """

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Sum over all sentences and labels, then estimate."""
        model, population = self.last_model(store), self.masked("estimators")
        truth = predictions(model, population)
        exact = fisher_trace(model, population, estimator="exact")
        known = Estimate(exact.total.mean, 0.0, self.sentences)
        rows = [{"estimator": "known", **known._asdict(), **exact.cost._asdict()}]
        generator = self.generator("estimators")
        contest = list(_contest(model, population, truth, generator))
        for name, share, estimate in contest:
            rows_drawn = torch.randint(self.sentences, (int(share * self.sentences),), generator=generator)
            trace = estimate(rows_drawn)
            rows.append({"estimator": name, **trace.total._asdict(), **trace.cost._asdict()})
            report(len(rows) / (1 + len(contest)), name)
        pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row an estimator, the known trace first: estimate and cost."""
        return pd.read_csv(folder / "table.csv")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.pretraining.shape.d_model / 2e4


ESTIMATORS = {
    "exact": "exact over labels",
    "sampled-1": "1 sampled label",
    "sampled-4": "4 sampled labels",
    "sampled-50": "50 sampled labels (the paper's)",
    "signs-1": "1 vector of output signs",
    "minibatch-8": "mini-batches of 8",
    "minibatch-64": "mini-batches of 64",
    "hutchinson-signs": "Hutchinson, signs, exact labels",
    "hutchinson-released": "Hutchinson, Gaussian, true labels (released code)",
    "hutch++-4": "Hutch++, rank 4",
}
"""The estimators that are compared: their names in data, and in tables and figures."""

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

    def hessian(estimate: Callable, vectors: str, rows: Tensor, **options: Any) -> EstimatedTrace:
        options |= {"batch": HESSIAN_BATCH, "vectors": vectors, "generator": generator}
        return estimate(model, population.rows(rows), truth[rows], **options)

    def released(rows: Tensor) -> EstimatedTrace:
        drawn = torch.multinomial(truth[rows], 1, generator=generator).squeeze(1)
        some = population.rows(rows)._replace(targets=drawn)
        return hutchinson_trace(model, some, batch=HESSIAN_BATCH, vectors="gaussian", generator=generator)

    yield "exact", 1 / 8, partial(fisher, "exact", 1)
    yield "sampled-1", 1.0, partial(fisher, "sampled", 1)
    yield "sampled-4", 1 / 2, partial(fisher, "sampled", 4)
    yield "sampled-50", 1 / 16, partial(fisher, "sampled", 50)
    yield "signs-1", 1.0, partial(fisher, "rademacher", 1)
    yield "minibatch-8", 1.0, partial(minibatch, 8)
    yield "minibatch-64", 1.0, partial(minibatch, 64)
    yield "hutchinson-signs", 1 / 4, partial(hessian, hutchinson_trace, "rademacher")
    yield "hutchinson-released", 1 / 4, released
    yield "hutch++-4", 1 / 16, partial(hessian, hutch_plus_plus_trace, "rademacher", rank=4)


CHAINS: dict[str, Any] = {"chains": 3, "batch": 64, "lr": 3e-4, "localisation": 100.0}
"""How the learning coefficient is sampled: the slowest direction forgets its start in some 70 steps."""


@dataclass(frozen=True)
class ReparametrisationMeasurement(LastCheckpointRun):
    """Every measure of flatness of one checkpoint under changes of its parameters, not of its function."""

    chain_steps: int  # of Langevin dynamics

    schema: ClassVar[int] = 2

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

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row a form and measure: largest change of a probability, and estimate."""
        return pd.read_csv(folder / "table.csv")

    def _with_coefficient(
        self, model: Encoder, masked: Batch, truth: Tensor
    ) -> Iterator[tuple[str, Estimate]]:
        """Yield all measures, each with the same random numbers for every model."""
        drawn = partial(self.generator, "measures")
        yield from flatness_measures(model, masked, truth, drawn)
        chains = {**CHAINS, "steps": self.chain_steps, "generator": drawn()}
        yield (
            "learning_coefficient",
            local_learning_coefficient(deepcopy(model).float(), masked, truth, **chains),
        )

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.pretraining.shape.d_model / 8e1


def _forms(model: Encoder, generator: torch.Generator) -> Iterator[tuple[str, Encoder]]:
    yield "as trained", model
    for name, reparametrise in REPARAMETRISATIONS.items():
        yield name, reparametrise(model, generator)
    yield "width × 2, as the paper", widen(model, 2)
    yield "width × 2, balanced", widen(model, 2, tied="balanced")
    yield "2 layers of zeros added", deepen(model, model.shape.layers + 2)


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
            norm = reduce(torch.add, recording.squared_norms(cotangents).values())
            true_labels[rows] += truth[rows, label] * norm.cpu()
    return {
        "kl": float((torch.xlogy(truth, truth) - truth * log_f).sum(-1).mean()),
        "fisher": fisher_trace(model, masked, estimator="exact").total.mean,
        "true_labels": float(true_labels.mean()),
        "hessian": float(dense_hessian(model, masked, truth).trace()),
    }


def identity() -> IdentityMeasurement:
    """Return the exact traces of a tiny model on its way to saturation, the same for all presets."""
    return IdentityMeasurement(TINY_LANGUAGE, TINY_SHAPE, (0, 30, 100, 300, 1000, 3000), 1e-2, 0)


def estimator_comparison(replicate: Replicate) -> EstimatorComparison:
    """Return the comparison of estimators on a model of middle size."""
    size = replicate.models[len(replicate.models) // 2]
    return EstimatorComparison(replicate.main(size), replicate.experiment.estimator_sentences, 0)


def reparametrisation(replicate: Replicate) -> ReparametrisationMeasurement:
    """Return all measures of the smallest model under reparametrisations."""
    e, run = replicate.experiment, replicate.main(replicate.models[0])
    return ReparametrisationMeasurement(run, e.flatness_sentences, 0, e.chain_steps)


def estimator_runs(replicate: Replicate) -> list[Run]:
    """Return what compares ways to measure flatness."""
    return [identity(), estimator_comparison(replicate), reparametrisation(replicate)]


# Tables of Appendix B.


def estimator_table(replicate: Replicate, store: Store, budget: float = 10.0) -> pd.DataFrame:
    """Return the estimators of the trace on one checkpoint, and their error at equal cost.

    `off` is the distance from the known trace in standard errors; `error_at_budget` the standard
    error, in per cent of the trace, that `budget` seconds on this machine would buy.
    """
    table = store.get(estimator_comparison(replicate))
    known, *_ = table["mean"]
    table = table.iloc[1:].reset_index(drop=True)
    table["off"] = (table["mean"] - known) / table.standard_error
    table["error_percent"] = 100 * table.standard_error / known
    table["error_at_budget"] = table.error_percent * np.sqrt(table.seconds / budget)
    return table.assign(known=known, label=table.estimator.map(ESTIMATORS))


class Variances(NamedTuple):
    """What the error of K sampled labels of n sentences is made of, relative to the trace.

    `between`/n + `within`/(K n) is the squared error, and n (`forward` + K `backward`) the seconds it
    takes; their product, the cost of a given error, is least at `best_labels` labels.
    """

    between: float
    within: float
    forward: float
    backward: float
    best_labels: float
    one_beside_best: float  # ratio of the costs of one label and of the best number
    error_one_label: float  # per cent, with the paper's number of sentences
    error_paper: float  # per cent, with the paper's labels and sentences
    error_50_sentences: float  # per cent, with the paper's labels of 50 sentences
    times_dearer: float  # ratio of the costs of the paper's labels and of one


def variances(table: pd.DataFrame) -> Variances:
    """Return what the error of sampled labels is made of, from the estimators of `estimator_table`."""
    rows = table.set_index("estimator")
    exact, one, many = (rows.loc[name] for name in ("exact", "sampled-1", "sampled-50"))
    between, total = ((row.standard_error / row.known) ** 2 * row["count"] for row in (exact, one))
    within = total - between
    single, all_labels = (row.seconds / row["count"] for row in (one, many))
    backward = (all_labels - single) / (PAPERS_LABELS - 1)
    forward = single - backward
    papers = between + within / PAPERS_LABELS
    best = max(1.0, math.sqrt(within / between * max(0.0, forward) / backward))
    least = (between + within / best) * (forward + best * backward)
    return Variances(
        between=between,
        within=within,
        forward=forward,
        backward=backward,
        best_labels=best,
        one_beside_best=total * single / least,
        error_one_label=100 * math.sqrt(total / PAPERS_SENTENCES),
        error_paper=100 * math.sqrt(papers / PAPERS_SENTENCES),
        error_50_sentences=100 * math.sqrt(papers / 50),
        times_dearer=papers * all_labels / (total * single),
    )


PAPERS_LABELS, PAPERS_SENTENCES = 50, 10_000
"""Appendix B: 50 labels of 10,000 masked sentences."""


def reparametrisation_table(replicate: Replicate, store: Store) -> pd.DataFrame:
    """Return each measure in each form relative to the model as trained: one row a form.

    A column holds the ratio; `moved` is the largest change of a probability.
    """
    table = store.get(reparametrisation(replicate))
    wide = table.pivot(index="form", columns="measure", values="mean").loc[table.form.unique(), [*MEASURES]]
    ratios = (wide / wide.iloc[0]).rename(columns=MEASURES)
    ratios.insert(0, "moved", table.groupby("form").moved.first())
    return ratios.reset_index()


def measured_values(replicate: Replicate, store: Store) -> pd.DataFrame:
    """Return the measures of the model as trained, with their errors."""
    table = store.get(reparametrisation(replicate))
    trained = table[table.form == table.form.iloc[0]]
    return trained[["measure", "mean", "standard_error", "count"]].replace({"measure": MEASURES})
