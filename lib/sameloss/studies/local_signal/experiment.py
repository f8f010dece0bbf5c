"""Stored runs: flows, stochastic descent, tangent kernels, proofs."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from sameloss.runs.stage import stage
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.store import Report
from sameloss.studies.local_signal import tangent, theory
from sameloss.studies.local_signal.proofs import PARTS
from sameloss.studies.local_signal.theory import Filter, Patches

STEPS_PER_DECADE = 12
"""Evaluations of flows on a logarithmic scale."""

EARLY = 50
"""Steps of stochastic descent that are all evaluated, as they decide the sign of b."""

FIGURE_STEPS = 10_000
"""Steps of Figure 3.3."""


@dataclass(frozen=True)
class FilterDescent:
    """Hyperparameters of Algorithm 3.1."""

    lr: float  # η_w; η_b = η_w/k
    length: float  # of w⁰, σ₀√d


def log_steps(last: float) -> Float[np.ndarray, " step"]:
    """0, and steps from 1 to `last` that are equally spaced on a logarithmic scale.

    >>> log_steps(10.0)[[0, 1, -1]]
    array([ 0.,  1., 10.])
    """
    return np.append(0.0, np.geomspace(1, last, round(STEPS_PER_DECADE * np.log10(last)) + 1))


@stage("SignalFlows", work=lambda run: len(run.rows_of_noise) * len(run.multipliers))
def signal_flows(
    rows_of_noise: tuple[int, ...], multipliers: tuple[float, ...], descent: FilterDescent, steps: float,
    report: Report,
) -> pd.DataFrame:  # fmt: skip
    """Follow the exact flow from a small start, by number of noise rows k and multiplier of σ."""
    tables, cases = [], list(product(rows_of_noise, multipliers))
    start = Filter(descent.length, descent.length, 0.0)
    for done, (noise, multiplier) in enumerate(cases, 1):
        flow = theory.flow(Patches(noise, multiplier), start, descent.lr, log_steps(steps))
        tables.append(flow.assign(noise=noise, multiplier=multiplier))
        report(done / len(cases), f"k = {noise}")
    return pd.concat(tables, ignore_index=True)


def eval_steps(steps: int) -> Int[np.ndarray, " step"]:
    """Steps after which SGD is evaluated: each of the first, then geometrically spaced ones."""
    later = np.geomspace(EARLY, max(steps, EARLY), 40).astype(int)
    return np.unique(np.minimum(np.append(np.arange(1, EARLY), later), steps))


@stage("SignalSGD", work=lambda run: run.steps * run.batch * run.patches.noise)
def signal_sgd(
    patches: Patches, descent: FilterDescent, d: int, batch: int, steps: int, seed: int, report: Report
) -> pd.DataFrame:
    """Train on fresh batches from a random start; the table is that of `theory.flow`, with c⁰ as `start`."""
    random = np.random.default_rng(stream_seed("local signal", seed))
    w = random.normal(size=d)
    w = descent.length * w / np.linalg.norm(w)
    start, b, states, evaluate = w[0], 0.0, [], set(eval_steps(steps).tolist())
    for step in range(1, steps + 1):
        by_w, by_b = theory.gradient(patches, w, b, batch, random)
        w, b = w - descent.lr * by_w, b - descent.lr / patches.noise * by_b
        if step in evaluate:
            report(step / steps, f"step {step}")
            states.append((step, theory.in_population(w, b)))
    return theory.evaluated(patches, states).assign(start=start)


# Tangent kernels over random starts: the sampled part of Theorem 3.2.


@dataclass(frozen=True)
class TangentStarts:
    """Numbers of filters, starts and images."""

    filters: tuple[int, ...]  # m
    starts: int  # whose best error is computed from moments
    held: int  # of these, also evaluated on sampled images and at b = 0
    images: int  # for each of them


@stage("TangentRows", work=lambda run: run.tried.images * run.tried.held * sum(run.tried.filters))
def tangent_rows(patches: Patches, tried: TangentStarts, seed: int, report: Report) -> pd.DataFrame:
    """Compute the best errors of tangent kernels.

    One row per kernel: `filters`, `start`, `kind`, `error`, `standard_error` and `closed` (gates).
    """
    rows: list[tuple] = []
    for done, m in enumerate(tried.filters, 1):
        for start in range(tried.starts):
            filters = tangent.initial_filters(patches, m, generator_for("tangent filters", seed, m, start))
            kernels = tangent.kernels_of(patches, filters, start < tried.held)
            for kind, kernel in kernels.items():
                closed = int(m - kernel.sees_signal.sum())
                rows.append((m, start, kind, tangent.best_error(kernel), 0.0, closed))
            if start < tried.held:
                rng = generator_for("tangent images", seed, m, start)
                error = tangent.held_out_error(kernels[tangent.AT_SIGNAL], tried.images, rng)
                rows.append((m, start, tangent.HELD_OUT, error.mean, error.standard_error, 0))
        report(done / len(tried.filters), f"m = {m}")
    return pd.DataFrame(rows, columns=["filters", "start", "kind", "error", "standard_error", "closed"])


@stage("ProofTable")
def proof_table(part: str) -> pd.DataFrame:
    """Compute one of `PARTS`, all of which are exact."""
    return PARTS[part]()
