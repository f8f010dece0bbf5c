"""The configuration of this study and its stored runs: searches, trainings and simulations."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from scipy.stats import binomtest

from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Run, Store
from sameloss.studies.config import Config, param
from sameloss.studies.dyck import search
from sameloss.studies.dyck.search import label_noise_sgd, minimise_trace, random_start
from sameloss.studies.dyck.statements import all_checks
from sameloss.studies.dyck.theory import (
    Inputs,
    Transformer,
    check_length,
    check_width,
    downstream_inputs,
    downstream_loss,
    error_after,
    failure_probability,
    hessian_trace,
    kinked_solution,
    kinks,
    lower_bound,
    off_direction,
    pretraining_inputs,
    pretraining_loss,
    simulated_failures,
    smallest_head,
    trace_parts,
    transferable_solution,
)
from sameloss.studies.parameters import PRESETS as PRESET_NAMES

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
        """Refuse what Theorem 5.1 is not about."""
        super().__post_init__()
        check_length(self.length)
        check_width(self.width)

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the widths at which the trace is minimised."""
        return tuple(sorted({2, 4, self.width}))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the lengths of which the probability of success is shown."""
        return tuple(sorted({6, 8, self.length}))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Return the steps of training that are measured: every twelfth of it."""
        return tuple(round(self.training_steps * share / 12) for share in range(13))

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


@dataclass(frozen=True)
class DyckMinimisation(_DyckRun):
    """Solutions of the smallest trace that a search from random points finds, at one width."""

    width: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Search, then measure each restart."""
        s = self.settings
        generator = s.generator(f"minimisation {self.width}")
        found = minimise_trace(s.length, self.width, s.restarts, s.minimisation_steps, generator)
        inputs = pretraining_inputs(s.length)
        models = [found.model(restart) for restart in range(s.restarts)]
        rows = [{"width": self.width, "restart": at, **_found(m, inputs)} for at, m in enumerate(models)]
        pd.DataFrame(rows).to_csv(folder / TABLE, index=False)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        s = self.settings
        return 2.5e-4 * s.restarts * s.minimisation_steps * 4.0 ** ((s.length - 6) / 2)


def _found(model: Transformer, inputs: Inputs) -> dict[str, float]:
    trace = float(hessian_trace(model, inputs))
    return {
        "loss": float(pretraining_loss(model, inputs)),
        "trace": trace,
        "ratio": trace / lower_bound(inputs.length, model.width),
        "off_direction": off_direction(model),
        "kinks": int(kinks(model, inputs).sum()),
    }


@dataclass(frozen=True)
class DyckTransfer(_DyckRun):
    """How often the smallest head fitted on n samples errs downstream: counted exactly and simulated."""

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Count and simulate for solution (1) at some lengths, and for the kinked one."""
        s = self.settings
        cases = [("solution (1)", length, transferable_solution(length, s.width)) for length in s.lengths]
        cases.append(("kinked solution", s.length, kinked_solution(s.length, "token")))
        rows = [row for name, length, model in cases for row in self._rows(name, length, model)]
        pd.DataFrame(rows).to_csv(folder / TABLE, index=False)

    def _rows(self, name: str, length: int, model: Transformer) -> Iterator[dict]:
        s, inputs = self.settings, downstream_inputs(length)
        generator = s.generator(f"transfer {name} {length}")
        exact = failure_probability(model, inputs, list(s.samples))
        for samples, probability in zip(s.samples, exact, strict=True):
            failures = simulated_failures(model, inputs, samples, s.repetitions, generator)
            interval = binomtest(failures, s.repetitions).proportion_ci(method="exact")
            simulated = {"simulated": failures / s.repetitions, "low": interval.low, "high": interval.high}
            row = {"solution": name, "length": length, "samples": samples, "printed": 0.5**samples}
            yield {**row, "exact": probability, **simulated, "repetitions": s.repetitions}


@dataclass(frozen=True)
class DyckFeatures(_DyckRun):
    """Random features, solution (2), by width: the best head, and the head of the paper's proof."""

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw features for every width and seed."""
        s = self.settings
        inputs, downstream = pretraining_inputs(s.length), downstream_inputs(s.length)
        rows = []
        for width in s.feature_widths:
            generator = s.generator(f"features {width}")
            for seed in range(s.feature_seeds):
                measured = search.measured(inputs, downstream, width, s.few, generator)
                rows.append({"width": width, "seed": seed, **measured})
            report(len(rows) / (len(s.feature_widths) * s.feature_seeds), f"width {width}")
        pd.DataFrame(rows).to_csv(folder / TABLE, index=False)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.2 * self.settings.feature_seeds


@dataclass(frozen=True)
class DyckTraining(_DyckRun):
    """Trace and downstream error along SGD with and without label noise, from random parameters."""

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train all seeds of all noises at once, V ~ N(0, T) and u ~ N(0, 1) as in solution (2)."""
        s, inputs = self.settings, pretraining_inputs(self.settings.length)
        noise = torch.tensor(s.noises, dtype=torch.float64).repeat_interleave(s.seeds)
        spread = (s.length**0.5, 1.0)
        start = random_start(s.length, s.width, s.seeds, s.generator("start"), s.rank, spread)
        start = Transformer(*(torch.cat([tensor] * len(s.noises)) for tensor in start))
        rows, generator = [], s.generator("training")
        training = label_noise_sgd(
            start, inputs, noise, lr=s.lr, batch=s.batch, checkpoints=s.checkpoints, generator=generator
        )
        for step, model in training:
            rows += self._measured(model, step)
            report(step / s.training_steps, f"step {step}")
        pd.DataFrame(rows).to_csv(folder / TABLE, index=False)

    def _measured(self, models: Transformer, step: int) -> list[dict]:
        s, inputs = self.settings, pretraining_inputs(self.settings.length)
        downstream, generator = downstream_inputs(s.length), s.generator("few samples")
        names = [(noise, seed) for noise in s.noises for seed in range(s.seeds)]
        return [
            {"noise": noise, "seed": seed, "step": step}
            | trained(models.model(at), inputs, downstream, s.few, generator)
            for at, (noise, seed) in enumerate(names)
        ]

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        s = self.settings
        return s.training_steps * (3e-4 + 1.6e-5 * s.seeds * len(s.noises))


def trained(
    model: Transformer, inputs: Inputs, downstream: Inputs, few: int, generator: torch.Generator
) -> dict[str, float]:
    """Return a trained model's loss, 2 E‖∇f‖² in its parts, and downstream errors of refitted heads."""
    parts = {name: float(part) for name, part in trace_parts(model, inputs).items()}
    head = smallest_head(model, downstream)
    return {
        "loss": float(pretraining_loss(model, inputs)),
        "trace": sum(parts.values()),
        "attention": parts["query"] + parts["key"],
        "ratio": sum(parts.values()) / lower_bound(inputs.length, model.width),
        "error_all": float(downstream_loss(model, head, downstream)),
        "error_few": error_after(model, downstream, few, generator),
        "error_own": float(downstream_loss(model, model.head, downstream)),
        "off_direction": off_direction(model),
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

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Compute every check of this section."""
        found = pd.concat([store.get(minimisation) for minimisation in self.minimisations])
        s = self.settings
        tables = found, store.get(self.transfer), store.get(self.features)
        checks = all_checks(s.length, s.width, *tables, s.generator("checks"))
        checks.to_csv(folder / TABLE, index=False)
