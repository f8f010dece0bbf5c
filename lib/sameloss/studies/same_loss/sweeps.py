"""The runs of the protocol's second edition: models of the grammar, trained several times on each draw.

`chapters/protocol_second.md` fixes what is compared, and why.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from sameloss.runs.pretraining import Pretraining
from sameloss.seeds import stream_seed
from sameloss.store.store import Run, Store
from sameloss.studies.same_loss.experiment import (
    ADAMW,
    COLUMNS,
    WORKSTATION,
    Algorithm,
    Measures,
    Replicate,
    model_measurement,
)
from sameloss.training.objectives import label

GRAMMAR_SETUP = WORKSTATION.setups[0]

DRAWS = (16, 17, 18, 19, 21, 24, 25, 26, 30, 31, 33, 35, 36, 37, 39, 40)
"""The first sixteen draws from seed 16 on that the protocol accepts."""

READ = Measures(capacities=True)
"""How models are read: their own features, as many for all sizes, and as few."""

TUNED = replace(READ, finetuning_lrs=(1e-3, 3e-3))
"""The same, and fine-tuned."""


class Cell(NamedTuple):
    """Trainings that differ in their initial weights and batches alone; comparisons average over them."""

    draw: int
    model: str
    lr: float  # the peak
    steps: int  # of complete trainings: warm-up and the whole decay; 0: untrained
    algorithm: Algorithm = ADAMW
    trainings: int = 2
    measures: Measures = READ

    @property
    def arm(self) -> str:
        """How it is trained, but for the number of steps."""
        name = f"{self.model}, rate {self.lr:g}"
        return name if self.algorithm == ADAMW else f"{name}, {label(*self.algorithm)}"

    @property
    def replicate(self) -> Replicate:
        """The draw of the grammar, with its sentences."""
        return Replicate(WORKSTATION, GRAMMAR_SETUP, self.draw)

    def training(self, number: int) -> Pretraining:
        """A training of the cell; no other one at its rate has its initial weights or its batches."""
        run = self.replicate.descent(self.model, self.lr, max(1, self.steps), self.algorithm)
        seed = stream_seed("training", self.draw, run.shape.d_model, self.steps, number)
        return replace(run, seed=seed)

    def measurements(self) -> list[Run]:
        """The measurement of each training."""
        r = self.replicate
        return [
            model_measurement(self.training(n), self.steps, r.labelled, r.held_out, self.measures, False)
            for n in range(self.trainings)
        ]

    def table(self, store: Store) -> pd.DataFrame:
        """The measurements of all trainings, see `COLUMNS`, with the number of the training."""
        language, shape = self.replicate.language, GRAMMAR_SETUP.models[self.model]
        variant = "" if self.algorithm == ADAMW else label(*self.algorithm)
        about = {
            "language": "grammar", "replicate": self.draw, "model": self.model, "lr": self.lr,
            "steps": self.steps, "stage": (variant or "descent") if self.steps else "untrained",
            "algorithm": self.algorithm[0], "variant": variant,
            "parameters": shape.parameter_count(language.words, language.max_length),
        }  # fmt: skip
        tables = [store.get(run).assign(training=n, **about) for n, run in enumerate(self.measurements())]
        return pd.concat(tables, ignore_index=True)[[*COLUMNS, "training"]]


LENGTHS = {"d24": (0, 1250, 2500, 5000, 10_000), "d96": (0, 312, 625, 1250, 1750, 2500)}
"""Steps of the trainings of each size, on both sides of the KL at which sizes are compared."""

RATE = 0.005


def confirmation(draws: Iterable[int] = DRAWS) -> Iterator[Cell]:
    """Yield the cells of the confirmation, draw by draw."""
    for draw in draws:
        for model, lengths in LENGTHS.items():
            for steps in lengths:
                yield Cell(draw, model, RATE, steps, measures=TUNED)


LINES: dict[str, tuple[float, Algorithm, tuple[int, ...]]] = {
    "AdamW": (RATE, ADAMW, (1250, 2500, 5000)),
    "a quarter of the rate": (RATE / 4, ADAMW, (2500, 5000, 10_000)),
    "SAM": (RATE, ("sam", 0.05), (1250, 2500, 5000)),
    "trace penalty": (RATE, ("trace-penalty", 1e-4), (1250, 2500, 5000)),
    "dropout": (RATE, ("dropout", 0.1), (1250, 2500, 5000)),
}
"""Peak rate, algorithm and lengths of what moves the trace within one size, d = 48."""


def interventions(draws: Iterable[int] = DRAWS[:8]) -> Iterator[Cell]:
    """Yield the cells that tell whether flatness carries accuracy, one training each."""
    for draw in draws:
        for rate, algorithm, lengths in LINES.values():
            for steps in lengths:
                yield Cell(draw, "d48", rate, steps, algorithm, trainings=1)


def other_rates(draws: Iterable[int] = DRAWS[:4]) -> Iterator[Cell]:
    """Yield the confirmation's cells at other peak rates: twice as high for d24, half as high for d96."""
    for cell in confirmation(draws):
        if cell.steps:
            lr = {"d24": 2 * RATE, "d96": RATE / 2}[cell.model]
            yield cell._replace(lr=lr, measures=READ)


def baselines(draw: int) -> Run:
    """What needs no model on a draw of the grammar, see `language_baselines`."""
    return Cell(draw, "d24", RATE, 1).replicate.baselines().run


ADDED: dict[tuple[int, str], tuple[int, ...]] = {
    **{(draw, "d96, rate 0.005"): (884,) for draw in (17, 18, 24, 25, 35, 37, 39)},
    (19, "d96, rate 0.005"): (1479,),
}
"""Lengths that `too_short` has added, by draw and arm."""

SWEEPS = {"confirmation": confirmation, "interventions": interventions, "other-rates": other_rates}
"""The sweeps by name, in the order in which they are made."""


def sweep(name: str) -> list[Cell]:
    """Return the cells of a sweep, with the lengths that were added."""
    planned = list(SWEEPS[name]())
    arms = {(cell.draw, cell.arm): cell for cell in planned}
    added = [arms[arm]._replace(steps=n) for arm, lengths in ADDED.items() if arm in arms for n in lengths]
    return [*planned, *added]


def sweep_runs(name: str) -> dict[int, list[Run]]:
    """Return the runs of a sweep by draw, with the draw's baselines."""
    runs: dict[int, list[Run]] = {}
    for cell in sweep(name):
        runs.setdefault(cell.draw, [baselines(cell.draw)]).extend(cell.measurements())
    return runs


# Rules that look at KL alone.

PLACE = 3.0
"""Where sizes are compared, in percent of the bag of words' KL."""

WIDEST = 4.0
"""Largest factor between the two KLs that enclose it."""


def kls(store: Store, cells: Iterable[Cell]) -> pd.Series:
    """Geometric means of the cells' KLs, in percent of the bag of words', by draw, arm and steps.

    Nothing else is read. Only trained cells whose runs are finished, and those of their draw, are in it.
    """
    shares = {}
    for cell in cells:
        if cell.steps and all(map(store.has, [*cell.measurements(), baselines(cell.draw)])):
            table, words = cell.table(store), store.get(baselines(cell.draw)).set_index("quantity").value
            mean = np.exp(np.log(table[table.quantity == "kl"].value).mean())
            shares[cell.draw, cell.arm, cell.steps] = 100 * mean / words["bag-of-words kl"]
    index = pd.MultiIndex.from_tuples(shares, names=["draw", "arm", "steps"])
    return pd.Series(list(shares.values()), index, dtype=float)


def too_short(shares: pd.Series, planned: Iterable[Cell]) -> dict[tuple[int, str], int]:
    """Name the length that each arm of a draw still needs, by the protocol's rules.

    Twice the longest training where it ends above `PLACE`; the geometric mean of two neighbours that enclose
    it where they are more than `WIDEST` apart. Each is done once: a length that was added calls for no other.

    Args:
        shares: what `kls` returns.
        planned: the cells without any that were added.

    """
    lengths = {(cell.draw, cell.arm, cell.steps) for cell in planned}
    needed = {}
    for (draw, arm), curve in shares.groupby(["draw", "arm"]):
        kl = curve.droplevel(["draw", "arm"]).sort_index()
        below = np.flatnonzero(kl <= PLACE)
        ends = kl.index[-1:] if not len(below) else kl.index[max(0, below[0] - 1) : below[0] + 1]
        if all((draw, arm, steps) in lengths for steps in ends):
            if not len(below):
                needed[draw, arm] = 2 * int(ends[0])
            elif kl[ends[0]] > WIDEST * kl[ends[-1]]:
                needed[draw, arm] = round(float(np.sqrt(ends[0] * ends[-1])))
    return needed
