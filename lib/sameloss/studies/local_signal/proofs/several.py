"""Both sides of Lemma B.12: with several filters, too, a row of noise is often heard as loudly as the signal.

g(x) = Σ_j ⟨W_j, x⟩ 1{gate j is open at x} is what a row adds to the tangent kernel. Where noise opens the
same gates as the signal, |g| is a Gaussian's; so P[|g(ε)| ≥ Cσ|g(w*)|] ≥ q/2, with q the probability of those
gates and P[|N(0, 1)| ≤ C] = q/2. Neither depends on W.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.stats import norm

from sameloss.seeds import generator_for
from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.tangent.rows import (
    TangentKernel,
    best_weights,
    initial_filters,
    threshold_at_signal,
)

FILTERS = (1, 2, 4)

STARTS = 4
"""Of each number of filters."""

DRAWN = 5000
"""Rows of noise over which probabilities are shares."""

PATCHES = Patches(1000)

Rows = Float[np.ndarray, "row r"]


def several_filters(first_seed: int = 100) -> pd.DataFrame:
    """Return both sides for some starts, every set of gates that are open to the signal, and two W.

    Thresholds are at the signal or just above it, for which q is least.

    Returns:
        Columns `filters`, `start`, `open` (gates), `weights`, `same` (q), `strength` (C) and `heard`, P[A].

    """
    rows = []
    for m, start in product(FILTERS, range(STARTS)):
        rng = generator_for("several filters", first_seed + start, m)
        kernel = threshold_at_signal(PATCHES, initial_filters(PATCHES, m, rng))
        x = torch.randn(DRAWN, kernel.filters.shape[1], generator=rng, dtype=torch.float64).numpy()
        for gates in list(product((0.0, 1.0), repeat=m))[1:]:  # with none open the signal is not heard
            own = replace(kernel, sees_signal=np.array(gates))
            drawn = torch.randn(kernel.filters.shape, generator=rng, dtype=torch.float64).numpy()
            best = best_weights(own).reshape(drawn.shape)
            about = {"filters": m, "start": start, "open": int(sum(gates))}
            rows += [
                {**about, "weights": name, **both_sides(own, weights, x)}
                for name, weights in (("best", best), ("drawn", drawn))
            ]
    return pd.DataFrame(rows)


def both_sides(kernel: TangentKernel, weights: Float[np.ndarray, "m r"], x: Rows) -> dict[str, float]:
    """Return q, C and P[|g(ε)| ≥ Cσ|g(w*)|] as shares of rows of noise, which are in units of σ."""
    seen = open_gates(kernel, x)
    same = float((seen == kernel.sees_signal.astype(bool)).all(1).mean())
    strength = float(norm.ppf((1 + same / 2) / 2))
    heard = abs(((x @ weights.T) * seen).sum(1))
    signal = abs(weights[:, 0] @ kernel.sees_signal)  # of w*, which is the first axis and 1/σ long here
    return {"same": same, "strength": strength, "heard": float((heard >= strength * signal).mean())}


def open_gates(kernel: TangentKernel, x: Rows) -> Bool[np.ndarray, "row m"]:
    """Return which gates rows of noise open."""
    return abs(x @ kernel.filters.T) >= kernel.thresholds
