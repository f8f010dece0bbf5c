"""The configuration of this study and its stored runs."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from sameloss.runs.stage import stage
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.store import Report, Run
from sameloss.studies.local_signal import tangent
from sameloss.studies.local_signal.proofs import PARTS
from sameloss.studies.local_signal.theory import (
    Filter,
    Patches,
    best_threshold,
    dies,
    first_filter,
    flow,
    sgd,
)
from sameloss.studies.parameters import MOST_SEEDS, Config, param

log = logging.getLogger(__name__)

LOOKS_A_DECADE = 12
"""Of curves over the logarithm of steps."""

FIRST = 50
"""Steps of stochastic descent every one of which is looked at: the sign of b is decided there."""

CARRIED = 4.0
"""Rates below so many |c|/k are expected not to carry c across zero before b stops it."""


@dataclass(frozen=True)
class FilterDescent:
    """Algorithm 3.1: its rate, and where it begins."""

    lr: float  # η_w; η_b is a k-th of it
    length: float  # of w⁰, σ₀√d


def log_steps(last: float) -> Float[np.ndarray, " look"]:
    """Return steps at which to look: 0, and from 1 at equal distances of their logarithm.

    >>> log_steps(10.0)[[0, 1, -1]]
    array([ 0.,  1., 10.])
    """
    return np.append(0.0, np.geomspace(1, last, round(LOOKS_A_DECADE * np.log10(last)) + 1))


@stage("SignalFlows", seconds=lambda run: 0.3 * len(run.rows_of_noise) * len(run.multipliers))
def signal_flows(
    rows_of_noise: tuple[int, ...],
    multipliers: tuple[float, ...],
    descent: FilterDescent,
    steps: float,
    report: Report,
) -> pd.DataFrame:
    """Follow the exact flow from a small start, for several numbers of rows k and strengths of noise."""
    found, cases = [], list(product(rows_of_noise, multipliers))
    start = Filter(descent.length, descent.length, 0.0)
    for done, (noise, multiplier) in enumerate(cases):
        one = flow(Patches(noise, multiplier), start, descent.lr, log_steps(steps))
        found.append(one.assign(noise=noise, multiplier=multiplier))
        report((done + 1) / len(cases), f"k = {noise}")
    return pd.concat(found, ignore_index=True)


def looks(steps: int) -> Int[np.ndarray, " look"]:
    """Return the steps after which SGD is looked at: each of the first, and ever fewer."""
    later = np.geomspace(FIRST, max(steps, FIRST), 40).astype(int)
    return np.unique(np.minimum(np.append(np.arange(1, FIRST), later), steps))


def _start(d: int, descent: FilterDescent, seed: int) -> tuple[Float[np.ndarray, " d"], np.random.Generator]:
    """Return the first filter, and what draws the batches."""
    random = np.random.default_rng(stream_seed("local signal", seed))
    return first_filter(d, descent.length, random), random


@stage("SignalSGD", seconds=lambda run: 8e-9 * run.steps * run.batch * run.patches.noise)
def signal_sgd(
    patches: Patches, descent: FilterDescent, d: int, batch: int, steps: int, seed: int, report: Report
) -> pd.DataFrame:
    """Train by stochastic gradient descent from one random start."""
    w, random = _start(d, descent, seed)
    return sgd(patches, w, descent.lr, batch, looks(steps), random, report).assign(start=w[0])


@stage("BestFilters", seconds=lambda run: 0.015 * len(run.rows_of_noise) * len(run.multipliers))
def best_filters(rows_of_noise: tuple[int, ...], multipliers: tuple[float, ...]) -> pd.DataFrame:
    """Find what the best filter reaches, by k and strength of noise, beside the linear model."""
    rows = []
    for noise, multiplier in product(rows_of_noise, multipliers):
        patches = Patches(noise, multiplier)
        rows.append((noise, multiplier, *best_threshold(patches), 1 - tangent.linear_error(patches)))
    return pd.DataFrame(rows, columns=["noise", "multiplier", "threshold", "network", "linear"])


def _dead_zone_seconds(run: Any) -> float:
    steps = sum(2 * run.patches.noise / multiple for multiple in run.multiples)
    return 4e-5 * len(run.centres) * run.count * steps


@stage("DeadZone", seconds=_dead_zone_seconds)
def dead_zone(
    patches: Patches,
    centres: tuple[float, ...],
    multiples: tuple[float, ...],
    count: int,
    spread: float = 0.1,
    across: float = 0.01,
) -> pd.DataFrame:
    """Descend exactly from larger starts: whether the signal stays above the threshold.

    Args:
        patches: the distribution.
        centres: c⁰, around which starts are spread.
        multiples: η_w, in units of |c⁰|/k.
        count: starts around each centre.
        spread: of starts, as a share of the centre.
        across: v⁰.

    """
    found = []
    for centre, multiple in product(centres, multiples):
        starts = centre * (1 + spread * np.linspace(-1, 1, count))
        dead = [dies(patches, Filter(c, across, 0.0), multiple * abs(c) / patches.noise) for c in starts]
        found.append(pd.DataFrame({"start": centre, "multiple": multiple, "dead": dead}))
    return pd.concat(found, ignore_index=True)


# Tangent kernels over starts: the sampled part of Theorem 3.2.


@dataclass(frozen=True)
class TangentStarts:
    """How many filters, starts and images."""

    filters: tuple[int, ...]  # m
    starts: int  # whose best error is computed from moments
    held: int  # of these, whose W is tried on drawn images, and which are seen at b = 0, too
    images: int  # each


def _tangent_seconds(run: Any) -> float:
    images = 1e-7 * run.tried.images * run.patches.noise * run.tried.held
    return sum(1.5e-4 * m**2 * run.tried.starts + images * m / 8 for m in run.tried.filters)


@stage("TangentRows", seconds=_tangent_seconds)
def tangent_rows(patches: Patches, tried: TangentStarts, seed: int, report: Report) -> pd.DataFrame:
    """Return best errors by the number of filters m, start and kind of kernel.

    One row a kernel: `filters`, `start`, `kind`, `error`, `standard_error` and `closed`.
    """
    rows: list[tuple] = []
    for done, m in enumerate(tried.filters):
        for start in range(tried.starts):
            filters = tangent.initial_filters(patches, m, generator_for("tangent filters", seed, m, start))
            held = start < tried.held
            kernels = tangent.kernels_of(patches, filters, held)
            for kind, kernel in kernels.items():
                closed = int(m - kernel.sees_signal.sum())
                rows.append((m, start, kind, tangent.best_error(kernel), 0.0, closed))
            if held:
                generator = generator_for("tangent images", seed, m, start)
                found = tangent.held_out_error(kernels[tangent.AT_SIGNAL], tried.images, generator)
                rows.append((m, start, tangent.HELD_OUT, found.mean, found.standard_error, 0))
        report((done + 1) / len(tried.filters), f"m = {m}")
    return pd.DataFrame(rows, columns=["filters", "start", "kind", "error", "standard_error", "closed"])


@stage("ProofTable")
def proof_table(part: str) -> pd.DataFrame:
    """Compute one of `PARTS`; all are exact, but for shares of drawn rows with several filters."""
    return PARTS[part]()


# How many rows, how noisy, and how much is trained.


@dataclass(frozen=True)
class SignalConfig(Config):
    """How many rows, how noisy, how much is trained: by default as in Figure 3.3, with fewer steps."""

    noise: int = param("rows of noise, k; None: the preset's", 1000, least=2, most=10_000_000, example="300")
    multiplier: float = param("σ over log k/√k; None: 1", 1.0, kind=float, most=100)
    lr: float = param("learning rate of w; None: the preset's", 0.1, kind=float)
    length: float = param("of the first filter, w; None: the preset's", 1e-6, kind=float)
    batch: int = param("fresh images a step; None: the preset's", 500, most=100_000)
    steps: int = param("of stochastic descent; None: the preset's", 3000, most=1_000_000)
    seeds: int = param("of stochastic descent; None: the preset's", 3, least=2, most=MOST_SEEDS)
    starts: int = param(
        "of tangent kernels, for every number of filters; None: the preset's",
        40,
        least=2,
        most=10_000,
        example="30",
    )
    d: int = 10  # entries of a row
    horizon: float = 1e7  # steps of the flow
    rows_of_noise: tuple[int, ...] = (100, 200, 300, 500, 700, 800, 1000, 2000, 3000, 10_000, 100_000)
    phase: tuple[int, ...] = (100, 200, 500, 1000, 2000, 5000, 10_000, 100_000)  # k of the phase diagram
    multipliers: tuple[float, ...] = (0.5, 0.75, 1.0, 1.25, 1.5)
    dead: Any = dead_zone(Patches(100), (-0.5, -0.1, 0.5), (2.0, 3.0, 5.0, 8.0, 16.0, 32.0), 20)
    filters: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # of tangent kernels
    held: int = 10
    images: int = 400
    first_seed: int = 100  # the pilot's were 0 and 1

    @property
    def patches(self) -> Patches:
        """The rows of an image."""
        return Patches(self.noise, self.multiplier)

    @property
    def descent(self) -> FilterDescent:
        """How a filter is trained."""
        return FilterDescent(lr=self.lr, length=self.length)

    def runs(self) -> dict[str, Run]:
        """Return all runs but the stochastic descents."""
        tried = TangentStarts(self.filters, self.starts, self.held, self.images)
        return {
            "flow": signal_flows((self.noise,), (self.multiplier,), self.descent, self.horizon),
            "phase": signal_flows(self.phase, self.multipliers, self.descent, self.horizon),
            "best": best_filters(self.rows_of_noise, self.multipliers),
            "dead": self.dead,
            "tangent": tangent_rows(tangent.PATCHES, tried, self.first_seed),
        }

    @property
    def descents(self) -> dict[int, Run]:
        """Return stochastic descent from each seed."""
        about = (self.patches, self.descent, self.d, self.batch, self.steps)
        return {
            seed: signal_sgd(*about, seed) for seed in range(self.first_seed, self.first_seed + self.seeds)
        }

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Warn of descents that begin too far below zero for their rate, and are expected to learn nothing.

        The thesis' Lemma B.3 takes η over the size of the start to be of order k, which excludes it.
        """
        config = super().resolve(values)
        least = CARRIED / config.noise  # of η over |c|
        starts = {seed: _start(config.d, config.descent, seed)[0][0] for seed in config.descents}
        if seeds := [str(seed) for seed, c in starts.items() if config.lr < -least * c]:
            log.warning(
                f"{len(seeds)} of {config.seeds} descents (seeds {', '.join(seeds)}) begin with c < 0 and a "
                f"rate below {CARRIED:g}|c|/k, and are expected to end in the dead zone, where the signal is "
                "under the threshold and has no gradient; choose an lr of "
                f"{least * config.length:.3g} or more, or a smaller length."
            )
        return config


_GPU = SignalConfig("gpu", steps=10_000, seeds=10, starts=400, held=50, images=2000)
"""The figure's own 10,000 steps; nothing here needs a GPU."""

PRESETS = {
    "smoke": SignalConfig(
        "smoke",
        noise=100,
        batch=50,
        steps=60,
        horizon=1e4,
        rows_of_noise=(100, 1000),
        phase=(100, 1000),
        multipliers=(0.5, 1.0),
        dead=dead_zone(Patches(100), (-0.5, 0.5), (3.0, 5.0, 16.0), 4),
        filters=(1, 4, 16),
        starts=6,
        held=2,
        images=100,
        seeds=2,
    ),
    "laptop": SignalConfig("laptop"),
    "laptop-long": replace(_GPU, name="laptop-long"),
    "gpu": _GPU,
    "paper": replace(_GPU, name="paper", seeds=20),
}
