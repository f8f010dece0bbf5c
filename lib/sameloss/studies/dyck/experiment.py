"""The configuration of this study and its stored runs: searches, trainings and simulations."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from scipy.stats import binomtest

from sameloss.errors import LanguageError, ModelError
from sameloss.runs.stage import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Run, Store
from sameloss.studies.dyck import theory
from sameloss.studies.dyck.statements import all_checks
from sameloss.studies.dyck.theory import Inputs, Transformer
from sameloss.studies.parameters import PRESETS as PRESET_NAMES
from sameloss.studies.parameters import Config, param

# How long the bracket strings are, how wide the models, and how much is searched and trained.


@dataclass(frozen=True)
class DyckConfig(Config):
    """How long the sentences and how wide the models are, and how much is searched, drawn and trained."""

    key_name: ClassVar[str] = "DyckSettings"

    length: int = param("T, even, 6 to 10; None: 6", 6, name="sentence_length", example="8")
    width: int = param("m, neurons of the trained models, from 2; None: the preset's", 8, most=100_000)
    rank: int = 4  # rows of Q and K of what is trained
    restarts: int = 8
    minimisation_steps: int = 1000
    samples: tuple[int, ...] = (1, 2, 3, 5, 8, 12, 16, 24)  # downstream samples, n
    repetitions: int = 4000  # of drawing n samples
    feature_widths: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    feature_seeds: int = 10
    noises: tuple[float, ...] = (0.0, 0.5, 1.0)  # of the labels, which are 1 and -1
    seeds: int = 10  # of each noise
    training_steps: int = param("of SGD; None: the preset's", 12_000, name="steps")
    batch: int = 16
    lr: float = 0.4
    few: int = 16  # downstream samples that a trained model's head is fitted on
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what Theorem 5.1 is not about, and more sentences than are enumerated in seconds."""
        super().__post_init__()
        if self.length % 2 or not 6 <= self.length <= 10:
            raise LanguageError(
                "Theorem 5.1 needs a sentence_length that is even and at least 6, and all sentences are "
                f"enumerated, so that it can be at most 10; got {self.length}."
            )
        if self.width < 2:
            raise ModelError(
                f"Theorem 5.1 needs a width of at least 2, a neuron for each sign; got {self.width}."
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the widths at which the trace is minimised."""
        return tuple(sorted({2, 4, self.width}))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Return the steps of training that are measured: every twelfth of it."""
        return tuple(round(self.training_steps * part / 12) for part in range(13))

    def generator(self, use: str) -> torch.Generator:
        """Return random numbers for one use."""
        return generator_for(f"dyck {use}", self.seed)


PRESETS = {name: DyckConfig(name) for name in PRESET_NAMES} | {
    "smoke": DyckConfig(
        "smoke",
        width=4,
        restarts=4,
        minimisation_steps=300,
        samples=(1, 5),
        repetitions=1000,
        feature_widths=(16, 128, 256),
        feature_seeds=3,
        seeds=2,
        training_steps=600,
    ),
    "laptop": DyckConfig("laptop", minimisation_steps=700, feature_seeds=5, training_steps=8000),
}
"""All but the first two are alike: tiny models need no more than a laptop."""


# The runs of the bracket language (Section 5, Appendix F): searches, trainings and simulations.


@dataclass(frozen=True)
class _DyckRun(Tabled):
    settings: DyckConfig

    def rows(self, store: Store, report: Report) -> Iterable[dict[str, Any]]:
        """Return the rows of the table."""
        raise NotImplementedError

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Store them."""
        pd.DataFrame(list(self.rows(store, report))).to_csv(folder / TABLE, index=False)


def _measured(model: Transformer, inputs: Inputs) -> dict[str, float]:
    """Return a model's loss, its trace where that is zero, and the trace over its lower bound."""
    done = theory.run(model, inputs)
    trace = float(theory.hessian_trace(model, inputs, done))
    ratio = trace / theory.lower_bound(inputs.length, model.width)
    return {"loss": float(done.loss), "trace": trace, "ratio": ratio}


def _error_after(model: Transformer, downstream: Inputs, few: int, generator: torch.Generator) -> float:
    """Return the median downstream error of heads fitted on few samples, over 100 drawings."""
    return float(theory.fitted_losses(model, downstream, few, 100, generator).median())


@dataclass(frozen=True)
class DyckMinimisation(_DyckRun):
    """Solutions of the smallest trace that a search from random points finds, at one width."""

    width: int

    def rows(self, store: Store, report: Report) -> Iterator[dict[str, Any]]:
        """Search, then measure each restart."""
        s, inputs = self.settings, theory.pretraining_inputs(self.settings.length)
        generator = s.generator(f"minimisation {self.width}")
        found = theory.minimise_trace(s.length, self.width, s.restarts, s.minimisation_steps, generator)
        for restart in range(s.restarts):
            model = found.model(restart)
            yield {
                "width": self.width,
                "restart": restart,
                **_measured(model, inputs),
                "off_direction": theory.off_direction(model),
                "kinks": int(theory.kinks(model, inputs).sum()),
            }

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        s = self.settings
        return 2.5e-4 * s.restarts * s.minimisation_steps * 4.0 ** ((s.length - 6) / 2)


@dataclass(frozen=True)
class DyckTransfer(_DyckRun):
    """How often the smallest head fitted on n samples errs downstream: counted exactly and simulated."""

    def rows(self, store: Store, report: Report) -> Iterator[dict[str, Any]]:
        """Count and simulate for solution (1) at some lengths, and for the kinked one."""
        s = self.settings
        lengths = sorted({6, 8, s.length})
        cases = [
            ("solution (1)", length, theory.transferable_solution(length, s.width)) for length in lengths
        ]
        cases.append(("kinked solution", s.length, theory.kinked_solution(s.length, "token")))
        for name, length, model in cases:
            inputs, generator = theory.downstream_inputs(length), s.generator(f"transfer {name} {length}")
            exact = theory.failure_probability(model, inputs, list(s.samples))
            for samples, probability in zip(s.samples, exact, strict=True):
                losses = theory.fitted_losses(model, inputs, samples, s.repetitions, generator)
                failures = int((losses > theory.RIGHT).sum())
                interval = binomtest(failures, s.repetitions).proportion_ci(method="exact")
                yield {
                    "solution": name,
                    "length": length,
                    "samples": samples,
                    "printed": 0.5**samples,
                    "exact": probability,
                    "simulated": failures / s.repetitions,
                    "low": interval.low,
                    "high": interval.high,
                    "repetitions": s.repetitions,
                }


@dataclass(frozen=True)
class DyckFeatures(_DyckRun):
    """Random features, solution (2), by width: the best head, and the head of the paper's proof."""

    def rows(self, store: Store, report: Report) -> Iterator[dict[str, Any]]:
        """Draw features for every width and seed; errors are of the best head and of heads on few samples."""
        s, inputs = self.settings, theory.pretraining_inputs(self.settings.length)
        downstream = theory.downstream_inputs(s.length)
        for at, width in enumerate(s.feature_widths):
            generator = s.generator(f"features {width}")
            for seed in range(s.feature_seeds):
                best = theory.random_feature_solution(inputs, width, generator)
                proofs = best._replace(head=theory.constructed_head(best))
                yield {
                    "width": width,
                    "seed": seed,
                    "loss": (measured := _measured(best, inputs)).pop("loss"),
                    "norm": float(best.head.square().sum()),
                    "least_norm": theory.least_norm(theory.run(best, inputs).features),
                    **measured,
                    "cancellation": theory.cancellation(best, inputs),
                    "error_own": float(theory.run(best, downstream).loss),
                    "error_few": _error_after(best, downstream, s.few, generator),
                    "constructed_loss": float(theory.run(proofs, inputs).loss),
                    "constructed_norm": float(proofs.head.square().sum()),
                }
            report((at + 1) / len(s.feature_widths), f"width {width}")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.2 * self.settings.feature_seeds


@dataclass(frozen=True)
class DyckTraining(_DyckRun):
    """Trace and downstream error along SGD with and without label noise, from random parameters."""

    def rows(self, store: Store, report: Report) -> Iterator[dict[str, Any]]:
        """Train all seeds of all noises at once, V ~ N(0, T) and u ~ N(0, 1) as in solution (2)."""
        s, inputs = self.settings, theory.pretraining_inputs(self.settings.length)
        downstream = theory.downstream_inputs(s.length)
        names = list(product(s.noises, range(s.seeds)))
        noise = torch.tensor([noise for noise, _ in names], dtype=torch.float64)
        spread = (s.length**0.5, 1.0)
        start = theory.random_start(s.length, s.width, s.seeds, s.generator("start"), s.rank, spread)
        start = Transformer(*(torch.cat([tensor] * len(s.noises)) for tensor in start))
        generator = s.generator("training")
        for step, models in theory.label_noise_sgd(
            start, inputs, noise, lr=s.lr, batch=s.batch, checkpoints=s.checkpoints, generator=generator
        ):
            few = s.generator("few samples")
            for at, (noise_of, seed) in enumerate(names):
                row = {"noise": noise_of, "seed": seed, "step": step}
                yield row | trained(models.model(at), inputs, downstream, s.few, few)
            report(step / s.training_steps, f"step {step}")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        s = self.settings
        return s.training_steps * (3e-4 + 1.6e-5 * s.seeds * len(s.noises))


def trained(
    model: Transformer, inputs: Inputs, downstream: Inputs, few: int, generator: torch.Generator
) -> dict[str, float]:
    """Return a trained model's loss, 2 E‖∇f‖², also by Q and K alone, and downstream errors of its heads."""
    parts, below = theory.trace_parts(model, inputs), theory.run(model, downstream)
    refitted = theory.smallest_head(below.features, downstream.target)
    measured = _measured(model, inputs)
    return {
        "loss": measured["loss"],
        "trace": measured["trace"],
        "attention": float(parts["query"] + parts["key"]),
        "ratio": measured["ratio"],
        "error_all": float(theory.head_loss(below.features, refitted, downstream.target)),
        "error_few": _error_after(model, downstream, few, generator),
        "error_own": float(below.loss),
        "off_direction": theory.off_direction(model),
    }


@dataclass(frozen=True)
class DyckChecks(_DyckRun):
    """The checks of Theorems 5.1 and F.6 and of the lemmas, see `statements`."""

    minimisations: tuple[DyckMinimisation, ...]
    transfer: DyckTransfer
    features: DyckFeatures

    def parents(self) -> list[Run]:
        """Return the runs this one reads."""
        return [*self.minimisations, self.transfer, self.features]

    def rows(self, store: Store, report: Report) -> list[dict[str, Any]]:
        """Compute every check of this section."""
        s, found = self.settings, pd.concat(map(store.get, self.minimisations))
        tables = found, store.get(self.transfer), store.get(self.features)
        return all_checks(s.length, s.width, *tables, s.generator("checks")).to_dict("records")
