"""The steps of the proofs in random cases, and what happens where an assumption is dropped."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import torch

from sameloss.seeds import generator_for
from sameloss.store.store import Report
from sameloss.studies.decision_lists.attention import forward
from sameloss.studies.decision_lists.departures import (
    Matrices,
    Weighted,
    all_sequences,
    lost_again,
    matrix_flow,
)
from sameloss.studies.decision_lists.flow import LATEST, flow
from sameloss.studies.decision_lists.lemmas import (
    Case,
    assumption_excess,
    autograd_gap,
    curvature_share,
    identity_gap,
    light_mass_excess,
    nearly_ordered_case,
    proof_bounds,
    random_case,
    read_out_slope,
    seen,
)
from sameloss.studies.decision_lists.runs import ListRun
from sameloss.studies.decision_lists.settings import Departures, TaskShape
from sameloss.studies.decision_lists.task import Sets, uniform_sets
from sameloss.studies.decision_lists.theorems import curvature_bound, horizon_of_43, readout_of_44

AT_SMALL = 3e4
"""Scaled time, over n², of flows on the small task; at V = cP it is perfect after some 1,400."""


@dataclass(frozen=True)
class ListProofs(ListRun):
    """The proofs' inequalities and the assumptions' relations, one row a random case."""

    cases: int
    seed: int

    schema: ClassVar[int] = 2

    def rows(self, report: Report) -> Iterator[dict]:
        """Draw cases of each kind."""
        kinds = {
            "V = cP": lambda g: random_case(g),
            "V near cP": lambda g: random_case(g, radius=True),
            "rare, V = cP": lambda g: random_case(g, rare=True),
            "nearly ordered, V near cP": nearly_ordered_case,
        }
        for done, (kind, draw) in enumerate(kinds.items()):
            own = generator_for(f"lists proofs {kind}", self.seed)
            for _ in range(self.cases):
                yield {"kind": kind, **_measured(draw(own))}
            report((done + 1) / len(kinds), kind)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.06 * self.cases


def _measured(case: Case) -> dict[str, float]:
    of = seen(case)
    triples, sets = assumption_excess(case, of)
    exact = case.radius == 0
    own = {
        "gradient": autograd_gap(case),
        "read_out_slope": read_out_slope(case),
        "identity": identity_gap(case, of) if exact else np.nan,
        "curvature": curvature_share(case) if exact else np.nan,
        "light": light_mass_excess(case, of) if exact else np.nan,
    }
    return {**own, **proof_bounds(case, of)._asdict(), "of_triples": triples, "of_sets": sets}


PARTS = ("repeats", "start", "radius", "persistence", "theorem 4.4")


@dataclass(frozen=True)
class ListDepartures(ListRun):
    """An assumption dropped, or Theorem 4.4: exact flows over all sequences of small tasks.

    Columns: what was dropped, at which value and read-out, and a number with its name.
    """

    part: str  # one of `PARTS`
    small: TaskShape
    far: TaskShape  # of which a start off zero is followed
    how: Departures
    seed: int

    schema: ClassVar[int] = 2

    def rows(self, report: Report) -> Iterator[dict]:
        """Follow the flows of the part."""
        parts = {
            "repeats": self._repeats,
            "start": self._off_zero,
            "radius": self._off_readout,
            "persistence": self._lost_again,
            "theorem 4.4": self._theorem_44,
        }
        for value, readout, name, number in parts[self.part]():
            report(0.0, f"{value} at c = {readout:g}")
            yield {"what": self.part, "value": value, "readout": readout, "name": name, "number": number}

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        how = self.how
        radii = 4e-3 * sum(how.radius_readouts) * how.radius_seeds * len(how.radii)
        known = {"repeats": 1e-3 * sum(how.readouts), "radius": radii, "start": 0.2 * len(how.starts)}
        return known.get(self.part, 0.5)

    def _repeats(self) -> Iterator[tuple]:
        """Assumption 4.1: with repeated tokens the time to perfection falls as 1/c, not 1/c².

        Of one column: all are alike, and sequences without its token do not move it.
        """
        shape = TaskShape(9, 3, 3)
        kinds: dict[str, Sets | Weighted] = {
            "different": uniform_sets(9, 3),
            "repeated": all_sequences(9, 3),
        }
        for (tokens, sets), c in product(kinds.items(), self.how.readouts):
            kept = (sets.sequences == 0).any(1)
            own = Weighted(sets.sequences[kept], sets.probabilities[kept])
            task, horizon = shape.build(), 1e3 / c**2 if tokens == "different" else 2e3 / c
            found = matrix_flow(task, own, _start(task.read_out(c)), c, horizon, method="LSODA")
            perfect = found.perfect_of(0)
            yield tokens, c, "time", perfect
            yield tokens, c, "spread", float(np.ptp(found.at(perfect).scores[:, 0].numpy()))

    def _off_zero(self) -> Iterator[tuple]:
        """W_0 = 0: the time to perfection over the promised one, at the theorem's c, from random scores."""
        c = self.far.theorem_readout
        column, scale = self.far.column(c), c / self.far.length
        direction = torch.randn(
            self.far.rules + 1, generator=generator_for("lists start", self.seed)
        ).double()
        for spread in self.how.starts:
            found = flow(column, LATEST, spread * scale * direction.numpy())
            promised = horizon_of_43(self.far.words, self.far.rules)
            yield f"{spread:g}", c, "time over promise", found.natural(found.perfect) / promised

    def _off_readout(self) -> Iterator[tuple]:
        """V = cP: the accuracy at the end of the flow of W at a V off cP by a share of c."""
        task, sets = self.small.build(), uniform_sets(self.small.words, self.small.length)
        for c, seed in product(self.how.radius_readouts, range(self.how.radius_seeds)):
            noise, horizon = _noise(task.words, self.seed + seed), AT_SMALL / c**2
            for radius in self.how.radii:
                found = matrix_flow(task, sets, _start(task.read_out(c) + radius * c * noise), c, horizon)
                right = 1 - float(found.wrong(horizon).double().mean())
                yield f"{radius:g}", c, "accuracy", right

    def _lost_again(self) -> Iterator[tuple]:
        """From t on: a token that is perfect after one step, and lost afterwards; times in steps of 1/50λ."""
        task, sets = lost_again()
        c, occurs = 1e5, (sets.sequences == 0).any(1)
        step = 1 / (50 * curvature_bound(float(sets.probabilities[occurs].sum()), c, 3))
        found = matrix_flow(task, sets, _start(task.read_out(c)), c, 4000 * step)
        first = found.perfect_of(0)
        lost = found.first(lambda time: time > first and found.wrong_of(0, time))
        yield "perfect", c, "steps", first / step
        yield "lost", c, "steps", lost / step
        yield "at 4000 steps", c, "wrong", float(found.wrong_of(0, 4000 * step))

    def _theorem_44(self) -> Iterator[tuple]:
        """Theorem 4.4: both matrices from V within ε/2 of cP, at the least c that it allows."""
        task, sets = self.small.build(), uniform_sets(self.small.words, self.small.length)
        for radius in (1.0, 0.1):
            noise = radius / 2 * _noise(task.words, self.seed)

            def loss(c: float, noise: torch.Tensor = noise) -> float:
                start = _start(task.read_out(c) + noise)
                losses = forward(*start, sets.sequences, task.labels(sets.sequences)).losses
                return float(losses.mean(1) @ sets.probabilities)

            mass = self.small.column(1.0).set_mass
            c = readout_of_44(radius, self.small.rules, self.small.length, mass, loss)
            found = matrix_flow(task, sets, _start(task.read_out(c) + noise), c, 1e-3 * radius / 2, True)
            yield f"{radius:g}", c, "time over promise", found.perfect / (radius / 2)
            moved = found.at(found.perfect).read_out - found.read_out
            yield f"{radius:g}", c, "move over radius", float(moved.abs().max()) / (radius / 2)


def _start(read_out: torch.Tensor) -> Matrices:
    return Matrices(torch.zeros_like(read_out), read_out)


def _noise(words: int, seed: int) -> torch.Tensor:
    """Return entries that are uniform in [−1, 1]."""
    own = generator_for("lists noise", seed)
    return 2 * torch.rand(words, words, generator=own, dtype=torch.float64) - 1
