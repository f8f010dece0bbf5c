# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # II.3a Local signal adaptivity
#
# **The claim** (Chapter 3 of [Karp, 2024](bibliography.md), first published as [Karp et al., 2021](bibliography.md)): one of the $k + 1$ rows of an image, $y w^*$,
# determines its label, and all others are noise. A convolutional network with *one* filter learns to respond to the signal and to
# threshold the noise to zero. Its tangent kernel cannot move the threshold, and fails. So for the same data and architecture,
# gradient descent finds one function if it trains the network, and another if it trains its kernel.
#
# **What you will see**: why a linear model fails; a threshold by hand; the accuracy of one filter over the *whole* distribution,
# exactly, for any $k$; Figure 3.3 as an exact flow, with stochastic descent beside it; how many rows are needed before any filter
# can succeed, and how long training takes; which noise can be learnt; initialisations that never learn; and the smallest error of
# the tangent kernel.
#
# By default there are three stochastic descents of 3,000 steps, and tangent kernels from 40 initialisations; `-p preset laptop-long` has ten of
# 10,000, and 400.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, gpu, paper
noise: int = None  # rows of noise, k; None: the preset's
multiplier: float = None  # σ over log k/√k; None: 1
lr: float = None  # learning rate of w; None: the preset's
batch: int = None  # fresh images a step; None: the preset's
steps: int = None  # of stochastic descent; None: the preset's
seeds: int = None  # of stochastic descent; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% [markdown]
# ## The experiment
#
# The exact flow at the settings of Figure 3.3 and for other numbers of rows and strengths of the noise, stochastic descent beside it, and tangent kernels.

# %% tags=["experiment"]
from sameloss.book.cells import begin
from sameloss.studies.local_signal.statements import TRAINING, training_checks

FIGURE = {
    "noise": 1000, "multiplier": 1.0, "lr": 0.1, "batch": 500, "steps": 3000, "seeds": 3, "length": 1e-6, "d": 10, "horizon": 1e7,
    "phase": (100, 200, 500, 1000, 2000, 5000, 10_000, 100_000),  # k of the phase diagram
    "multipliers": (0.5, 0.75, 1.0, 1.25, 1.5), "filters": (1, 2, 4, 8, 16, 32), "starts": 40, "held": 10, "images": 400,
}  # fmt: skip
LONG = FIGURE | {
    "steps": 10_000,
    "seeds": 10,
    "starts": 400,
    "held": 50,
    "images": 2000,
}  # nothing here needs a GPU
SMOKE = FIGURE | {
    "noise": 100, "batch": 50, "steps": 60, "seeds": 2, "horizon": 1e4, "phase": (100, 1000), "multipliers": (0.5, 1.0),
    "filters": (1, 4, 16), "starts": 6, "held": 2, "images": 100,
}  # fmt: skip
PRESETS = {"smoke": SMOKE, "laptop": FIGURE, "laptop-long": LONG, "gpu": LONG, "paper": LONG | {"seeds": 20}}
BOUNDS = {
    "noise": (2, 10_000_000), "multiplier": (1e-300, 100), "batch": (1, 100_000), "steps": (51, 1_000_000), "seeds": (2, 300)
}  # fmt: skip
page = begin(globals(), "ii3_local_signal", PRESETS, BOUNDS, exact=TRAINING, check=training_checks)

# %% tags=["experiment"]
from sameloss.studies.local_signal.experiment import (
    FilterDescent,
    TangentStarts,
    signal_flows,
    signal_sgd,
    tangent_rows,
)
from sameloss.studies.local_signal.tangent import PATCHES
from sameloss.studies.local_signal.theory import Patches

FIRST_SEED = 100  # the pilot's were 0 and 1
patches, descent = Patches(page.noise, page.multiplier), FilterDescent(page.lr, page.length)
of_flow, of_phase, of_kernels = page.compute(
    signal_flows((page.noise,), (page.multiplier,), descent, page.horizon),
    signal_flows(page.phase, page.multipliers, descent, page.horizon),
    tangent_rows(PATCHES, TangentStarts(page.filters, page.starts, page.held, page.images), FIRST_SEED),
)
of_sgd = page.sweep(
    lambda seed: signal_sgd(patches, descent, page.d, page.batch, page.steps, seed),
    seed=range(FIRST_SEED, FIRST_SEED + page.seeds),
)

# %% tags=["comparison"]
from sameloss.studies.local_signal.statements import TrainingResults

found = page.results = TrainingResults(patches, descent, page.phase, of_flow, of_phase, of_sgd, of_kernels)
found.sgd.tail(3)

# %% [markdown]
# ## One image
#
# In $k$ rows there is noise of standard deviation $\sigma = \log k / \sqrt k$ in every direction, and one row is the signal. The sum of
# the noise along $w^*$ has standard deviation $\sigma\sqrt k = \log k$, while the signal is 1. So a model that sums over rows has accuracy
# $\Phi(1/\log k)$, hardly above one half. A single row of noise is small, however, and a soft threshold
#
# $$\phi_b(x) = \mathrm{ReLU}(x + b) - \mathrm{ReLU}(-x + b), \qquad b < 0,$$
#
# sets most of them to zero. It also reduces the signal by $|b|$, so $|b|$ must not be too large.

# %%
from sameloss.book.chapter import show_source
from sameloss.studies.local_signal.theory import soft_threshold

show_source(soft_threshold)

# %% [markdown]
# **By hand.** Two rows of noise, -0.4 and 0.3, and the signal with label +1. Without a threshold the sum is 0.9; with $b = -0.5$ only the
# signal remains:

# %%
[round(float(sum(soft_threshold(x, b) for x in (-0.4, 0.3, 1.0))), 9) for b in (0.0, -0.5)]

# %% [markdown]
# ## Exact, for any k
#
# Only three numbers of a filter $w$ matter: $c = \langle w, w^*\rangle$, the length $v$ of its orthogonal part, and $b$. The output for an image
# with label $y$ is $y\,\phi_b(c)$ plus a sum of $k$ independent terms, whose characteristic function is $\psi(u)^k$ with $\psi$ in closed form.
# The logistic function is a distribution function too, with characteristic function $\pi u / \sinh \pi u$. So loss, accuracy and all
# gradients are integrals of smooth functions. They are computed to eleven digits in a millisecond, for a hundred rows or a hundred
# million.

# %% [markdown]
# **In plain PyTorch.** The same loss and its gradients by sampling images and by automatic differentiation, at a filter of
# $c = 0.8$, $v = 0.3$, $b = -0.4$, with errors of the order of $1/\sqrt{\text{images}}$:

# %%
import torch

from sameloss.studies.local_signal.theory import Filter, Patches, population

k, images, rng = 100, 20_000, torch.Generator().manual_seed(0)
w, b = torch.tensor([0.8, 0.3], requires_grad=True), torch.tensor(-0.4, requires_grad=True)
noise_rows = Patches(k).sigma * torch.randn(images, k, 2, generator=rng)  # along w*, and across it
signal_row = torch.tensor([1.0, 0.0]).expand(images, 1, 2)  # with label y = 1
along_w = torch.cat([noise_rows, signal_row], 1) @ w
output = (torch.relu(along_w + b) - torch.relu(-along_w + b)).sum(1)
loss = torch.nn.functional.softplus(-output).mean()
by_w, by_b = torch.autograd.grad(loss, (w, b))
print("sampled", [round(value.item(), 3) for value in (loss, *by_w, by_b)])
print("exact  ", [round(value, 3) for value in population(Patches(k), Filter(0.8, 0.3, -0.4))])

# %% mystnb={"figure": {"caption": "Accuracy of a filter along the signal against its threshold; the best threshold for each k is marked.", "name": "fig-signal-thresholds"}, "image": {"alt": "Curves that rise with the threshold and fall steeply as it reaches the signal; the larger k the higher."}}
import numpy as np
import pandas as pd

from sameloss.book.chapter import finding
from sameloss.studies import drawing
from sameloss.studies.local_signal import theory

rows_of_noise, ratios = (100, 300, 1000, 3000), np.linspace(0, 0.995, 80)
curves = {k: [theory.accuracy(Patches(k), Filter(1, 0, -ratio)) for ratio in ratios] for k in rows_of_noise}
curves = pd.DataFrame(curves, ratios)
linear, best = 100 * curves.loc[0], 100 * curves.max()
finding(
    f"The best threshold raises accuracy from {linear[100]:.1f} to {best[100]:.1f} % at k = 100 "
    f"and from {linear[1000]:.1f} to {best[1000]:.1f} % at k = 1,000."
)
(ax,) = drawing.panels(1, width=6)
for k, marker in zip(curves, drawing.MARKERS, strict=False):
    (line,) = ax.plot(curves[k], label=f"k = {k:,}")
    ax.plot(curves[k].idxmax(), curves[k].max(), marker, color=line.get_color())
ax.set(xlabel="threshold |b|/c", ylabel="accuracy")
drawing.label_ends(ax)

# %% [markdown]
# At $|b| = 0$ the filter is a linear model. With few rows even the best threshold helps little: the noise of a single row,
# $\log k/\sqrt k$, is then not small beside the signal.
# The best threshold shows what a filter can reach, not what training finds.
#
# ## Training (Figure 3.3)
#
# **Prediction**: $c$ increases, $b$ decreases, and $|b|/c$ and the accuracy increase. The settings of the figure are $k = 1000$, rows of 10
# entries, batches of 500 fresh images, $\eta_w = 0.1$ and $\eta_b = \eta_w/k$, for 10,000 steps. Its caption says σ = 1, at which no filter exceeds
# 51.4 % accuracy; here σ is $\log k/\sqrt k$, as in the text. The flow is exact. Stochastic descent draws only the rows that
# pass the threshold, since all others add zero; this does not change its distribution.

# %% mystnb={"figure": {"caption": "Training one filter: the exact flow (thick) and stochastic gradient descent from several starts (thin).", "name": "fig-signal-training"}, "image": {"alt": "Three panels: c rises and b falls; their ratio rises; accuracy rises to 78 per cent."}}
from sameloss.studies.local_signal.experiment import FIGURE_STEPS

flow, sgd = (table.assign(**{"|b|/c": abs(table.b / table.c)}) for table in (found.flow, found.sgd))
end = flow[np.isclose(flow.step, FIGURE_STEPS)].iloc[0]
finding(
    f"After {FIGURE_STEPS:,} steps of the exact flow c is {end.c:.2f} and b is {end.b:.2f}; "
    f"accuracy is {100 * end.accuracy:.1f} %."
)
flow = flow[flow.step < 1.01 * max(FIGURE_STEPS, sgd.step.max())]
seeds = sgd.pivot(index="step", columns="seed")
left, middle, right = drawing.panels(3, width=3.6)
for at, (name, ax) in enumerate({"c": left, "b": left, "|b|/c": middle, "accuracy": right}.items()):
    ax.plot(seeds[name], color=f"C{at}", lw=0.7, alpha=0.5)
    ax.plot(flow.step, flow[name], color=f"C{at}", lw=2, label=name)
    ax.set(xlabel="step", ylabel=name)
left.set(ylabel="c and b")
middle.set(ylim=(0, None))
right.set(ylim=(0.5, 1))
drawing.label_ends(left)

# %% [markdown]
# Stochastic descent follows the exact flow; the checks at the end compare them.
#
# ## How many rows, how many steps
#
# **Prediction** (Theorem 3.1): from some $k_0$ on, training reaches 99 %. The theorem gives no number for $k_0$ or for the steps; the
# exact computation gives both.

# %% mystnb={"figure": {"caption": "Accuracy along the exact flow, one line per k; dashed: 99 %, dotted: where Figure 3.3 ends.", "name": "fig-signal-rows"}, "image": {"alt": "Rising curves, earlier for larger k; some stay below the dashed line."}}
import seaborn as sns

from sameloss.studies.local_signal.proofs import least_rows
from sameloss.studies.local_signal.statements import accuracy_after

flows = found.phase.query("multiplier == 1 and step > 0")
thousand = flows[flows.noise == 1000]
early, late = (100 * accuracy_after(thousand, steps) for steps in (FIGURE_STEPS, page.horizon))
finding(
    f"Below k = {least_rows()} no filter reaches 99 % accuracy; at k = 1,000 training has {early:.1f} % "
    f"after {FIGURE_STEPS:,} steps and {late:.1f} % after {page.horizon:,.0f}."
)
(ax,) = drawing.panels(1, width=6)
colors = sns.color_palette("viridis", flows.noise.nunique())
for color, (k, flow) in zip(colors, flows.groupby("noise"), strict=True):
    ax.plot(flow.step, flow.accuracy, color=color, label=f"k = {k:,}")
ax.axhline(0.99, color="0.4", ls="--", lw=1)
ax.axvline(FIGURE_STEPS, color="0.4", ls=":", lw=1)
ax.set(xscale="log", xlabel="step", ylabel="accuracy")
drawing.label_ends(ax)

# %% [markdown]
# None of this contradicts the theorem, which is about large $k$.
#
# ## Which noise can be learnt
#
# The theorem fixes σ at $\log k/\sqrt k$. We vary the strength of the noise and the number of rows, and compute the accuracy of
# the best filter, and that of training where Figure 3.3 ends and much later.

# %% mystnb={"figure": {"caption": "Accuracy (%) of the best filter, and of the exact flow after some steps.", "name": "fig-signal-phase"}, "image": {"alt": "Tables of colours: the best filter's is bright except at upper left; those of training become as bright with the steps."}}
flows = found.phase.groupby(["multiplier", "noise"])[["step", "accuracy"]]
best = pd.Series({(m, k): theory.best_threshold(Patches(k, m))[1] for m, k in flows.groups})
tables = {"best filter": best}
for steps in (FIGURE_STEPS, page.horizon):
    tables[f"after {steps:,.0f} steps"] = flows.apply(accuracy_after, steps)
counts = ", ".join(f"{(table >= 0.9).sum()} ({name})" for name, table in tables.items())
finding(f"Of {len(best)} settings, accuracy reaches 90 % in {counts}.")
for (name, table), ax in zip(tables.items(), drawing.panels(len(tables), width=4.2), strict=True):
    percent = 100 * table.unstack()
    style = {"vmin": 50, "vmax": 100, "cmap": "viridis", "cbar": False, "annot_kws": {"size": "small"}}
    sns.heatmap(percent[::-1], annot=True, fmt=".0f", ax=ax, **style)
    ax.set(title=name, xlabel="rows of noise, k", ylabel="σ over log k/√k")
    ax.tick_params("x", labelrotation=45)
    ax.tick_params("y", labelrotation=0)

# %% [markdown]
# The first table shows what a filter can express, the others what training finds.

# %% [markdown]
# ## Several features
#
# The thesis remarks that its result extends to several orthogonal features, as many as the dimension $d$ of a row. Let an image contain one of $r$ features, at
# random. One filter that responds to all of them has $1/\sqrt r$ of its length along each, as if the noise were $\sqrt r$ times as strong: for $r = d = 1/\sigma^2$ this
# is $\sigma = 1$, which cannot be learnt. With one filter per feature, there are $r$ times as many rows of noise, which a threshold removes. So the
# remark holds with a filter for each feature; the table of checks at the end has both accuracies at $k = 10^6$. Whether gradient descent finds
# one filter per feature is not computed here.
#
# ## Initialisations that never learn
#
# If $c$ starts below zero, $b$ decreases from the first step, and once $|b|$ exceeds $|c|$ the signal is below the threshold: it has no
# gradient, and the noise shrinks what is left. On its way up, $c$ moves by about $\eta_w/2$ per step and must not land between $-|b|$ and $|b|$, with
# $|b| \approx |c^0|/k$ by then. With $\eta_w < 4|c^0|/k$ it always does, and at larger rates by chance, the less often the larger the rate. The thesis'
# Lemma B.3 takes the initialisation so small relative to the rate that this hardly happens.
#
# Exact descent at $k = 100$ from twenty initialisations around each $c^0$: per cent that end without a gradient, by $\eta_w$ in units of
# $|c^0|/k$:

# %%
from sameloss.book.chapter import render

starts, rates = (-0.5, -0.1, 0.5), (2, 3, 5, 8, 16, 32)
shares = {str(rate): [100 * theory.dead_share(c, rate) for c in starts] for rate in rates}
render(pd.DataFrame({"c at the start": map(str, starts)} | shares), decimals=0)

# %% [markdown]
# ## What the tangent kernel can do
#
# **Prediction** (Theorem 3.2): with few filters its error is above 0.1, whatever its weights. A kernel is linear in its weights, so the *best*
# ones can be computed without training: by linear discriminant analysis, from exact moments of the features ([II.3b Proofs](ii3_proofs.ipynb)). At the
# thesis' initialisation, $b = 0$, it is the linear model. So we also try thresholds that are better placed: at the signal, or some of
# them just above it.

# %% mystnb={"figure": {"caption": "Error of the best weights of tangent kernels at k = 1,000 by the number of filters, means over initialisations with 95 % intervals, by where thresholds are, and with gradients by b as further features; held out: on sampled images. Dotted: the linear model; dashed: the theorem's 0.1; dash-dotted: the best single filter of the network.", "name": "fig-signal-kernel"}, "image": {"alt": "Errors that fall slowly with the number of filters, except at b = 0, where they stay at the linear model's; the trained filter's is near zero."}}
from sameloss.statistics.intervals import seed_interval
from sameloss.studies.local_signal import tangent

by_kind = found.tangent.groupby(["kind", "filters"]).error
least = 100 * by_kind.mean().drop(tangent.HELD_OUT).groupby("filters").min()
single = 1 - theory.best_threshold(tangent.PATCHES)[1]
finding(
    f"The best kernel's mean error is {least[1]:.0f} % with one filter and {least.iloc[-1]:.0f} % with "
    f"{least.index[-1]}; the network's best single filter has {100 * single:.1f} %."
)
(ax,) = drawing.panels(1, width=7)
for at, kind in enumerate(tangent.KINDS):
    means = by_kind.apply(seed_interval)[kind]
    line = "" if kind == tangent.HELD_OUT else "-"
    drawing.interval_line(ax, means.index, means.to_list(), at, kind, ms=4, ls=line)
for error, line in ((tangent.linear_error(tangent.PATCHES), ":"), (tangent.ERROR, "--"), (single, "-.")):
    ax.axhline(error, color="0.4", ls=line, lw=1)
ax.set(xscale="log", xlabel="filters, m", ylabel="error of the best W", ylim=(0, 0.5))
drawing.plain_log_axis(ax.xaxis, found.tangent.filters)
drawing.label_ends(ax)

# %% [markdown]
# The theorem is about a fixed number of filters and large k, so a small error of many filters at k = 1,000 does not contradict it. At
# $b = 0$ the kernel is the linear model, however many filters there are. It leaves out the gradient by $b$; with it the error is a
# little lower. For several filters, thresholds at the signal are not the best ones: a gate with a threshold just above
# the signal blocks the signal and lets nearly the same noise through, so that the kernel can subtract this noise.
#
# ## What the page found
#
# **Found.** A threshold lets one filter classify what no linear model can, and gradient descent finds it, but slowly: Figure 3.3 ends long before
# 99 %.
#
# **Not found.** For small $k$ no filter reaches 99 %, so $k_0$ of Theorem 3.1 cannot be small. Whether gradient descent finds a filter for each of
# several features was not computed.
#
# **How sure.** Flows and best filters are exact; only stochastic descents and the initialisations of tangent kernels are samples. All
# of this is about the thesis' data distribution; [II.3c](ii3_images.ipynb) has images.
#
# ## Comparison with the thesis

# %%
render(page.statements()[["place", "statement", "verdict", "correction"]])

# %%
render(page.checks[["text", "value", "target", "tolerance", "passed"]], decimals=4)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
from sameloss.studies.local_signal.theory import Patches, best_threshold

print("best accuracy of one filter at k = 1,000:", f"{best_threshold(Patches(1000))[1]:.4f}")

# %% [markdown]
# ## Deviations
#
# - The thesis' figure has one run of 10,000 steps; here there are several of fewer steps, and the exact flow up to ten million (`-p preset
#   laptop-long` has the 10,000).
# - The released code has $k - 1$ rows of noise, initialises $b$ at random around zero, and counts an output of exactly zero as correct, which
#   would give 100 % to a network that outputs nothing. Here there are $k$ rows, $b$ starts at zero, and a zero output is wrong, as in the text.
# - σ is $\log k/\sqrt k$ where the caption of Figure 3.3 says 1.
#
# ## Exercises
#
# 1. What does Figure 3.3 look like with `-p noise 3000`?
# 2. And with half of the noise, `-p multiplier 0.5`?
# 3. Does the batch size change the path, or only its noise? `-p batch 50`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, found.flow)
