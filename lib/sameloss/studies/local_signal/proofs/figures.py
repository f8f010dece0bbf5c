"""Figures of the chapter on the proofs: what was found in, Axes out."""

from math import log

import numpy as np
from matplotlib.axes import Axes

from sameloss.studies.drawing import MARKERS
from sameloss.studies.local_signal.proofs.bounds import moments, noise_share, thresholded_share
from sameloss.studies.local_signal.proofs.lemmas import small_signal_gradient
from sameloss.studies.local_signal.proofs.statements import Proofs


def truncated_means(ax: Axes) -> Axes:
    """Draw (B.1) as printed and as it is, by b."""
    biases = np.linspace(-2, 2, 81)
    ax.plot(biases, [moments(b, 1.0).mean for b in biases], label="true")
    ax.plot(biases, [moments(-abs(b), 1.0).mean for b in biases], "--", label="printed, α = |b|/s")
    ax.set(xlabel="b/s", ylabel="E[Z | Z ≥ -b]/s", ylim=(0, None))
    ax.legend()
    return ax


def noise_parts(found: Proofs, ax: Axes) -> Axes:
    """Draw the noise's part of the gradient at every state with b ≤ 0, under both bounds."""
    below = found.states[(found.states.b <= 0) & (found.states.alpha < 5)]
    alphas = np.linspace(0, 5, 101)
    ax.plot(alphas, [noise_share(alpha) for alpha in alphas], "--", color="C1", label="the proof's bound")
    ax.plot(alphas, [thresholded_share(alpha) for alpha in alphas], color="C0", label="Φᶜ(α)/2")
    ax.plot(below.alpha, below.noise, ".", color="0.3", label="states, b ≤ 0")
    ax.set(xlabel="α", ylabel="noise's part over |c| log²k")
    ax.legend()
    return ax


def thresholds(found: Proofs, ax: Axes) -> Axes:
    """Draw α at an error of 1 % along k, with Lemma B.5's limit and the α at which the signal is lost."""
    rows = found.rows
    ax.plot(rows.k, rows.alpha, marker=MARKERS[0], ms=4, label="error of 1 %")
    ax.plot(rows.k, rows.limit, "--", marker=MARKERS[1], ms=4, label="2√log k")
    ks = np.geomspace(rows.k.min(), rows.k.max(), 200)
    lost = np.sqrt(ks) / np.log(ks)
    ax.plot(ks[lost < 12], lost[lost < 12], color="0.5", label="1/σ: no signal above")
    ax.set(xscale="log", xlabel="rows of noise, k", ylabel="α", ylim=(0, 12))
    ax.legend()
    return ax


def bias_gradients(found: Proofs, ax: Axes) -> Axes:
    """Draw ∇_b at an error of 1 % along k; dotted: its form for small c."""
    rows = found.rows
    for at, (name, c) in enumerate((("by_b_1", 1.0), ("by_b_0.3", 0.3), ("by_b_0.03", 0.03))):
        ax.plot(rows.k, rows[name], marker=MARKERS[at], ms=4, color=f"C{at}", label=f"c = {c:g}")
        ks = rows.k[rows.k >= 5000]
        ax.plot(ks, [small_signal_gradient(log(k), c) for k in ks], ":", color=f"C{at}")
    ax.plot(rows.k, rows.by_b_lowest, marker=MARKERS[3], ms=4, color="C3", label="c = 1/log⁴k")
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xscale="log", xlabel="rows of noise, k", ylabel="∇_b at an error of 1 %")
    ax.set_yscale("symlog", linthresh=1)
    ax.legend()
    return ax
