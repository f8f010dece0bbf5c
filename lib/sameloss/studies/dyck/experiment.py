"""Settings and stored runs: searches, training, and simulated transfer."""

from dataclasses import dataclass
from itertools import product

import pandas as pd
import torch
from scipy.stats import binomtest

from sameloss.errors import LanguageError
from sameloss.runs.stage import stage
from sameloss.seeds import generator_for
from sameloss.store.store import Report
from sameloss.studies.dyck import theory
from sameloss.studies.dyck.theory import Inputs, Transformer


@dataclass(frozen=True)
class DyckSettings:
    """Sentence length, model width, and amounts of search, sampling and training; part of every key."""

    length: int = 6  # T, even
    width: int = 8  # m, neurons of the trained models
    rank: int = 4  # rows of Q and K of trained models
    restarts: int = 8
    minimisation_steps: int = 1000
    samples: tuple[int, ...] = (1, 2, 3, 5, 8, 12, 16, 24)  # downstream samples, n
    repetitions: int = 4000  # draws of n samples
    feature_widths: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    feature_seeds: int = 10
    noises: tuple[float, ...] = (0.0, 0.5, 1.0)  # added to labels of 1 and -1
    seeds: int = 10  # per noise
    training_steps: int = 12_000  # of SGD
    batch: int = 16
    lr: float = 0.4
    few: int = 16  # downstream samples for the heads of trained models
    seed: int = 0

    def __post_init__(self) -> None:
        """Require a case of Theorem 5.1 with few enough sentences to enumerate."""
        if self.length % 2:
            raise LanguageError(f"Theorem 5.1 needs a sentence_length that is even; got {self.length}.")

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the search for the smallest trace."""
        return tuple(sorted({2, 4, self.width}))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Training steps at which models are measured."""
        return tuple(round(self.training_steps * part / 12) for part in range(13))

    def generator(self, use: str) -> torch.Generator:
        return generator_for(f"dyck {use}", self.seed)


def measured(model: Transformer, inputs: Inputs) -> dict[str, float]:
    """Loss, trace (where the loss is zero), and trace over its lower bound."""
    done = theory.run(model, inputs)
    trace = float(theory.hessian_trace(model, inputs, done))
    ratio = trace / theory.lower_bound(inputs.length, model.width)
    return {"loss": float(done.loss), "trace": trace, "ratio": ratio}


def _error_after(model: Transformer, downstream: Inputs, few: int, generator: torch.Generator) -> float:
    """Median downstream error of 100 heads, each fitted on `few` samples."""
    return float(theory.fitted_losses(model, downstream, few, 100, generator).median())


@stage("DyckMinimisation", work=lambda run: run.settings.restarts * run.settings.minimisation_steps)
def dyck_minimisation(settings: DyckSettings, width: int) -> pd.DataFrame:
    """Search for solutions of the smallest trace from random points; a row per restart."""
    s, inputs, rows = settings, theory.pretraining_inputs(settings.length), []
    generator = s.generator(f"minimisation {width}")
    models = theory.minimise_trace(s.length, width, s.restarts, s.minimisation_steps, generator)
    for restart in range(s.restarts):
        model = models.model(restart)
        row = {"width": width, "restart": restart, **measured(model, inputs)}
        off, kinks = theory.off_direction(model), int(theory.kinks(model, inputs).sum())
        rows.append(row | {"off_direction": off, "kinks": kinks})
    return pd.DataFrame(rows)


@stage("DyckTransfer")
def dyck_transfer(settings: DyckSettings) -> pd.DataFrame:
    """Probability that the smallest head fitted on n samples errs downstream, exact and simulated.

    For solution (1) at several lengths, and for the kinked solution.
    """
    s, rows = settings, []
    lengths = sorted({6, 8, s.length})
    cases = [("solution (1)", length, theory.transferable_solution(length, s.width)) for length in lengths]
    cases.append(("kinked solution", s.length, theory.kinked_solution(s.length)))
    for name, length, model in cases:
        inputs, generator = theory.downstream_inputs(length), s.generator(f"transfer {name} {length}")
        exact = theory.failure_probability(model, inputs, list(s.samples))
        for samples, probability in zip(s.samples, exact, strict=True):
            losses = theory.fitted_losses(model, inputs, samples, s.repetitions, generator)
            failures = int((losses > theory.RIGHT).sum())
            low, high = binomtest(failures, s.repetitions).proportion_ci(method="exact")
            simulated = failures / s.repetitions
            rows.append(
                (name, length, samples, 0.5**samples, probability, simulated, low, high, s.repetitions)
            )
    columns = "solution length samples printed exact simulated low high repetitions"
    return pd.DataFrame(rows, columns=columns.split())


@stage("DyckFeatures", work=lambda run: run.settings.feature_seeds)
def dyck_features(settings: DyckSettings, report: Report) -> pd.DataFrame:
    """Measure random features, solution (2), by width: the best head, and the head of the paper's proof."""
    s, inputs, rows = settings, theory.pretraining_inputs(settings.length), []
    downstream = theory.downstream_inputs(s.length)
    for at, width in enumerate(s.feature_widths):
        generator = s.generator(f"features {width}")
        for seed in range(s.feature_seeds):
            best = theory.random_feature_solution(inputs, width, generator)
            proofs = best._replace(head=theory.constructed_head(best))
            found = measured(best, inputs)
            rows.append(
                {
                    "width": width,
                    "seed": seed,
                    "loss": found["loss"],
                    "norm": float(best.head.square().sum()),
                    "least_norm": theory.least_norm(theory.run(best, inputs).features),
                    "trace": found["trace"],
                    "ratio": found["ratio"],
                    "cancellation": theory.cancellation(best, inputs),
                    "error_own": float(theory.run(best, downstream).loss),
                    "error_few": _error_after(best, downstream, s.few, generator),
                    "constructed_loss": float(theory.run(proofs, inputs).loss),
                    "constructed_norm": float(proofs.head.square().sum()),
                }
            )
        report((at + 1) / len(s.feature_widths), f"width {width}")
    return pd.DataFrame(rows)


@stage("DyckTraining", work=lambda run: run.settings.training_steps)
def dyck_training(settings: DyckSettings, report: Report) -> pd.DataFrame:
    """Measure models along SGD with and without label noise, from V ~ N(0, T) and u ~ N(0, 1)."""
    s, inputs, rows = settings, theory.pretraining_inputs(settings.length), []
    downstream, spread = theory.downstream_inputs(s.length), (s.length**0.5, 1.0)
    pairs = list(product(s.noises, range(s.seeds)))
    noise = torch.tensor([noise for noise, _ in pairs], dtype=torch.float64)
    start = theory.random_start(s.length, s.width, s.seeds, s.generator("start"), s.rank, spread)
    start = Transformer(*(torch.cat([tensor] * len(s.noises)) for tensor in start))
    generator = s.generator("training")
    for step, models in theory.label_noise_sgd(
        start, inputs, noise, lr=s.lr, batch=s.batch, checkpoints=s.checkpoints, generator=generator
    ):
        few = s.generator("few samples")
        for at, (strength, seed) in enumerate(pairs):
            row = {"noise": strength, "seed": seed, "step": step}
            rows.append(row | trained(models.model(at), inputs, downstream, s.few, few))
        report(step / s.training_steps, f"step {step}")
    return pd.DataFrame(rows)


def trained(
    model: Transformer, inputs: Inputs, downstream: Inputs, few: int, generator: torch.Generator
) -> dict[str, float]:
    """Loss, 2 E‖∇f‖² (of Q and K: `attention`) and downstream errors of a trained model."""
    parts, below = theory.trace_parts(model, inputs), theory.run(model, downstream)
    refitted = theory.smallest_head(below.features, downstream.target)
    found = measured(model, inputs)
    return {
        "loss": found["loss"],
        "trace": found["trace"],
        "attention": float(parts["query"] + parts["key"]),
        "ratio": found["ratio"],
        "error_all": float(theory.head_loss(below.features, refitted, downstream.target)),
        "error_few": _error_after(model, downstream, few, generator),
        "error_own": float(below.loss),
        "off_direction": theory.off_direction(model),
    }
