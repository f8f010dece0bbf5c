"""Comparisons of ways to measure flatness on one checkpoint (Appendices B and B.1)."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial, reduce
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.languages import Language, LanguageSpec, PCFGSpec, Sentences, mask_one
from sameloss.languages.entropy import enumerate_sentences
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.gradient_norms import recordings
from sameloss.measures.flatness.hessian import dense_hessian, hutchinson_trace
from sameloss.measures.flatness.sharpness import local_learning_coefficient
from sameloss.measures.flatness.trace import EstimatedTrace, fisher_trace, minibatch_trace
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import deepen, widen
from sameloss.models.reparametrise import REPARAMETRISATIONS
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.measurements import MEASURES, flatness_measures, predictions
from sameloss.runs.sampling import held_out_conditionals, held_out_masked
from sameloss.runs.stage import stage
from sameloss.seeds import generator_for, stream_seed
from sameloss.statistics.intervals import Estimate
from sameloss.store.store import Report, Store


def _work(run: Any) -> float:
    return run.sentences * run.pretraining.sentence_flops


# Estimators of the trace, compared on one checkpoint.

PAPERS_LABELS = 50
"""Appendix B: of each masked sentence."""

HESSIAN_BATCH = 32
"""Sentences that share a random direction in parameter space."""


def _fisher(model: Encoder, masked: Batch, truth: Tensor, **options: Any) -> EstimatedTrace:
    return fisher_trace(model, masked, **options)


def _minibatch(model: Encoder, masked: Batch, truth: Tensor, **options: Any) -> EstimatedTrace:
    return minibatch_trace(model, masked, **options)


def _released(model: Encoder, masked: Batch, truth: Tensor, generator: torch.Generator) -> EstimatedTrace:
    """Hutchinson's estimator as in the released code: Gaussian directions and sampled labels."""
    masked = masked._replace(targets=torch.multinomial(truth, 1, generator=generator).squeeze(1))
    return hutchinson_trace(model, masked, batch=HESSIAN_BATCH, vectors="gaussian", generator=generator)


class Contestant(NamedTuple):
    """An estimator of the trace: its name in tables and figures, and how it is called."""

    label: str
    fraction: float  # sentences it draws, as a fraction of the population
    estimate: Callable[..., EstimatedTrace]


_sampled = partial(_fisher, estimator="sampled")
_hutchinson = partial(hutchinson_trace, batch=HESSIAN_BATCH)
_hutch = partial(hutchinson_trace, batch=HESSIAN_BATCH, rank=4)

ESTIMATORS = {
    "exact": Contestant("exact over labels", 1 / 8, partial(_fisher, estimator="exact")),
    "sampled-1": Contestant("1 sampled label", 1.0, partial(_sampled, labels=1)),
    "sampled-4": Contestant("4 sampled labels", 1 / 2, partial(_sampled, labels=4)),
    "sampled-50": Contestant(
        "50 sampled labels (the paper's)", 1 / 16, partial(_sampled, labels=PAPERS_LABELS)
    ),
    "signs-1": Contestant("1 vector of output signs", 1.0, partial(_fisher, estimator="rademacher")),
    "minibatch-8": Contestant("mini-batches of 8", 1.0, partial(_minibatch, batch=8)),
    "minibatch-64": Contestant("mini-batches of 64", 1.0, partial(_minibatch, batch=64)),
    "hutchinson-signs": Contestant("Hutchinson, signs, exact labels", 1 / 4, _hutchinson),
    "hutchinson-released": Contestant("Hutchinson, Gaussian, true labels (released code)", 1 / 4, _released),
    "hutch++-4": Contestant("Hutch++, rank 4", 1 / 16, _hutch),
}
"""The compared estimators, by their names in data."""


@stage("EstimatorComparison", schema=2, work=_work, accelerated=True)
def estimator_measurement(
    pretraining: TrainedRun, sentences: int, seed: int, store: Store, report: Report
) -> pd.DataFrame:
    """Compare estimators of the trace on a last checkpoint, whose trace over the sentences is known.

    The sentences are the whole population: the estimators draw from it with replacement. The labels are those
    of the model itself, so that the model is at its own minimum, the Hessian is the Fisher information, and
    all estimators have the same target. One row per estimator, the known trace first.
    """
    model = store.get(pretraining).last()
    population = held_out_masked(pretraining.corpus.language.build(), sentences, seed, "estimators")
    truth = predictions(model, population)
    exact = fisher_trace(model, population, estimator="exact")
    known = Estimate(exact.total.mean, 0.0, sentences)
    rows = [{"estimator": "known", **known._asdict(), **exact.cost._asdict()}]
    generator = generator_for("estimators", seed)
    for name, (_, fraction, estimate) in ESTIMATORS.items():
        drawn = torch.randint(sentences, (int(fraction * sentences),), generator=generator)
        trace = estimate(model, population.rows(drawn), truth[drawn], generator=generator)
        rows.append({"estimator": name, **trace.total._asdict(), **trace.cost._asdict()})
        report(len(rows) / (1 + len(ESTIMATORS)), name)
    return pd.DataFrame(rows)


# All measures of flatness under reparametrisations.

CHAINS: dict[str, Any] = {"chains": 3, "batch": 64, "lr": 3e-4, "localisation": 100.0}
"""Sampling of the learning coefficient: the slowest direction forgets its start in some 70 steps."""


@stage("ReparametrisationMeasurement", schema=2, work=_work, accelerated=True)
def reparametrisation_measurement(
    pretraining: TrainedRun, sentences: int, seed: int, chain_steps: int, store: Store, report: Report
) -> pd.DataFrame:
    """Measure a last checkpoint's flatness under changes of its parameters that keep its function.

    One row a form and measure: the estimate, and the largest change of a probability. All forms are measured
    on the same sentences with the same random numbers.
    """
    model = store.get(pretraining).last().double()
    about = pretraining.corpus.language.build(), sentences, seed, "reparametrisation"
    masked, truth = held_out_masked(*about), held_out_conditionals(*about)
    forms = dict(_forms(model, generator_for("reparametrisation", seed)))
    drawn = partial(generator_for, "measures", seed)
    rows = []
    for form, changed in forms.items():
        moved = float((predictions(changed, masked) - predictions(model, masked)).abs().max())
        measures = dict(flatness_measures(changed, masked, truth, drawn))
        chains = {**CHAINS, "steps": chain_steps, "generator": drawn()}
        coefficient = local_learning_coefficient(deepcopy(changed).float(), masked, truth, **chains)
        for measure, estimate in {**measures, "learning_coefficient": coefficient}.items():
            rows.append({"form": form, "measure": measure, "moved": moved, **estimate._asdict()})
        report(len(rows) / (len(MEASURES) * len(forms)), form)
    return pd.DataFrame(rows)


def _forms(model: Encoder, generator: torch.Generator) -> Iterator[tuple[str, Encoder]]:
    yield "as trained", model
    for name, reparametrise in REPARAMETRISATIONS.items():
        yield name, reparametrise(model, generator)
    yield "width × 2, as the paper", widen(model, 2)
    yield "width × 2, balanced", widen(model, 2, tied="balanced")
    yield "2 layers of zeros added", deepen(model, model.shape.layers + 2)


# Exact traces of a tiny model.

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
"""Sentences of four tokens and three words: there are 108 masked ones, which are the population."""

TINY_SHAPE = EncoderShape(d_model=8, heads=2, layers=1, d_inter=16)
"""A model whose dense Hessian takes seconds."""


@stage("IdentityMeasurement")
def identity_measurement(
    language: LanguageSpec, shape: EncoderShape, steps: tuple[int, ...], lr: float, seed: int, report: Report
) -> pd.DataFrame:
    """Train a tiny model on all masked sentences of a language, and compute three exact traces on the way.

    The labels are the exact conditionals, the optimiser is AdamW in float64, so that the model comes close to
    saturation; all masked sentences have the same weight. One row per step, see `_three_traces`.
    """
    built = language.build()
    masked, truth = everything_masked(built)
    model = Encoder(shape, built.words, built.max_length, stream_seed("initial weights", seed)).double()
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    rows = []
    for step in range(steps[-1] + 1):
        if step in steps:
            rows.append({"step": step, **_three_traces(model, masked, truth)})
            report(step / steps[-1], f"KL {rows[-1]['kl']:.2g}")
        optimiser.zero_grad()
        log_f = model(masked.masked, masked.positions).log_softmax(-1)
        (-(truth * log_f).sum(-1).mean()).backward()
        optimiser.step()
    return pd.DataFrame(rows)


def everything_masked(language: Language) -> tuple[Batch, Float[Tensor, "batch word"]]:
    """Return every masked sentence of an enumerable language once, with its exact conditional."""
    sentences = Sentences.joined(enumerate_sentences(language))
    parts = []
    for position in range(language.max_length):
        masked = mask_one(sentences.tokens, torch.full_like(sentences.lengths, position))
        masked, which = masked.unique(dim=0, return_inverse=True)
        first = torch.stack([(which == k).nonzero()[0, 0] for k in range(len(masked))])
        truth = language.conditionals(sentences.rows(first))[:, position]
        parts.append((masked, torch.full((len(masked),), position), truth))
    masked, positions, truth = (torch.cat(column) for column in zip(*parts, strict=True))
    return Batch(masked, positions, torch.zeros_like(positions), None), truth


def _three_traces(model: Encoder, masked: Batch, truth: Float[Tensor, "batch word"]) -> dict[str, float]:
    """Return KL (nats), squared gradient norms with labels of the model and of the language, and Tr H."""
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
