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
# # B Estimating the trace of the Hessian
#
# **The claim** (Appendix B of [Liu et al., 2023](bibliography.md)): at saturation the trace of the Hessian is an
# expected squared gradient norm, and sampling 50 labels for each of 10,000 masked sentences
# estimates it without bias.
#
# **What you will see**: the identity tested on a model small enough to compute its whole Hessian; squared gradient
# norms computed without gradients; ten estimators compared at equal cost on a model whose trace is known; and
# which measures of flatness change when the parameters change but the function does not.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, pretrained, gpu-hour, gpu, paper
size: str = None  # all, or one: d24 to d96 (the width); lstm16 to lstm64 on hmm; 2M to 730M: the paper's
steps: int = None  # steps of the longest descent; None: the preset's
grammar: str = None  # file with a grammar of yours, NLTK's notation or lines `LHS RHS... p`
length_limit: int = None  # longest sentence (tokens) of it; a recursive grammar needs it
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
processes: int = None  # that share one training, each on a core or GPU of its own
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% [markdown]
# ## The experiment
#
# A tiny model on its way to saturation, whose traces are exact; a model of middle size, on which estimators of the trace are compared; and the
# smallest one, on which measures of flatness are.

# %% tags=["experiment"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss import estimators as estimation
from sameloss.studies.same_loss.experiment import PRESETS
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, preset_of

presets = {name: {"experiment": experiment} for name, experiment in PRESETS.items()}
page = begin(globals(), "b1_trace", presets, BOUNDS, auto=preset_of)
experiment = chosen(page.values)

replicate = next(experiment.replicates())
sizes, looks = replicate.models, (0, 30, 100, 300, 1000, 3000)
small, middle = (replicate.longest_descent(sizes[at]) for at in (0, len(sizes) // 2))
identity, compared, measured = page.compute(
    estimation.identity_measurement(estimation.TINY_LANGUAGE, estimation.TINY_SHAPE, looks, lr=1e-2, seed=0),
    estimation.estimator_measurement(middle, experiment.estimator_sentences, seed=0),
    estimation.reparametrisation_measurement(
        small, experiment.flatness_sentences, seed=0, chain_steps=experiment.chain_steps
    ),
)

# %% [markdown]
# ## The identity, and where it holds
#
# With logits $z$, predictions $f$ and true conditionals $q$, the Hessian of the loss is
#
# $$ \nabla^2 L = \mathbb E\,J^\top(\mathrm{diag} f - ff^\top)J + \mathbb E\sum_y (f_y - q_y)\,\nabla^2 z_y . $$
#
# The first term is the Fisher information, whose trace is an expected squared gradient norm with labels drawn **from
# the model**, $\hat y\sim f$; the second vanishes at $f = q$. Appendix B writes the expectation over the true $x_t$ but
# samples labels from $f$; the two agree only at saturation. So three quantities should differ away from saturation and
# coincide at saturation: the norm with labels from the model, the norm with labels from the language, and the trace of the
# Hessian.
#
# To test this, a tiny model of width eight learns a language of three words and sentences of four tokens from its exact
# conditionals. The population consists of all masked sentences of the language, so all three traces are exact.

# %% mystnb={"figure": {"caption": "Exact traces of a tiny model along its training, left to right: squared gradient norms with labels from the model and from the language, and the trace of its dense Hessian. They become one number as KL goes to zero.", "name": "fig-identity"}, "image": {"alt": "Three traces against KL; they differ at first and coincide at the end."}}
from sameloss.book.chapter import finding, say
from sameloss.studies import drawing
from sameloss.studies.same_loss import figures

traces = identity[["fisher", "true_labels", "hessian"]]
spread = traces.max(axis=1) / traces.min(axis=1)
finding(
    f"Before training the three traces differ by a factor of {spread.iloc[0]:.1f}, "
    f"at the end by {100 * (spread.iloc[-1] - 1):.1g} %."
)
(ax,) = drawing.panels(1, width=5)
_ = figures.traces_along_training(identity, ax)

# %%
first, last = identity.iloc[0], identity.iloc[-1]
say(
    f"With labels from the model, with labels from the language and from the Hessian, the trace is {first.fisher:.1f}, "
    f"{first.true_labels:.1f} and {first.hessian:.1f} at initialisation (KL {first.kl:.2f}), and {last.fisher:.1f}, "
    f"{last.true_labels:.1f} and {last.hessian:.1f} after {last.step:,.0f} steps (KL {last.kl:.4f}). They agree although "
    f"the trace itself rises to {traces.hessian.max():.0f} on the way. All numbers are free of sampling error, but they "
    "come from one tiny model; [4 Flatness](04_flatness.ipynb) estimates the gap for larger ones."
)

# %% [markdown]
# ## Squared norms without gradients
#
# A linear layer with inputs $a_t$ and output gradients $g_t$ has the gradient $\sum_t g_t a_t^\top$. Its squared norm
# needs only inner products, so the gradient of each sentence is never materialised:
#
# $$ \Bigl\lVert\sum_t g_t a_t^\top\Bigr\rVert_F^2 = \sum_{s,t} (g_s\cdot g_t)(a_s\cdot a_t) . $$
#
# An embedding is the case of one-hot $g$, and for a tied matrix the sum runs over both of its uses. One forward pass
# and one backward pass without weight gradients thus give the norms of all sentences for one label each. Every further
# label costs only another backward pass.

# %%
from sameloss.book.chapter import show_source
from sameloss.measures.flatness.gradient_norms import Recording

show_source(Recording._squared_norm)

# %% [markdown]
# **By hand.** Two tokens, two features: $g_1 = (1, 0)$, $g_2 = (1, 1)$, $a_1 = (1, 2)$, $a_2 = (0, 1)$. The
# gradient is $\begin{pmatrix}1&3\\0&1\end{pmatrix}$ with squared norm 11; the inner products give
# $1\cdot5 + 2\cdot(1\cdot2) + 2\cdot1 = 11$.

# %%
import torch

g, a = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[1.0, 2.0], [0.0, 1.0]])
(g.T @ a).square().sum().item(), ((g @ g.T) * (a @ a.T)).sum().item()

# %% [markdown]
# **Other models.** What holds for linear layers and embeddings holds for the gains of LayerNorm and RMSNorm, so the
# trace of most language models is as cheap; for a causal one the loss is that of the next token. A parameter used in
# another way, by a convolution say, is exact too, but one sentence at a time. Here is the trace of a tiny Llama with
# random weights, and that of a loop over all gradients.

# %%
from sameloss.languages import Sentences
from sameloss.languages.masking import prefix_batch
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.export import HuggingFaceModel
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
llama = HuggingFaceModel(LlamaForCausalLM(LlamaConfig(vocab_size=8, **shape)).eval())
tokens = torch.randint(8, (4, 6))
prefixes = prefix_batch(Sentences(tokens, torch.full((4,), 6)), positions=torch.arange(4))


def squared_norm(log_p):
    gradients = torch.autograd.grad(log_p, llama.parameters(), retain_graph=True)
    return sum(gradient.square().sum() for gradient in gradients)


log_p = llama(prefixes.masked, prefixes.positions, prefixes.lengths).log_softmax(-1)
loop = sum(one.exp() * squared_norm(one) for one in log_p.flatten()) / len(tokens)
fisher_trace(llama, prefixes, estimator="exact").total.mean, loop.item()

# %% [markdown]
# Every family of masked and causal language models in `transformers` was asked the same, as a small model with random
# weights, for sentences of unequal length and each parameter by itself (`python tests/trace_families.py`):

# %%
from sameloss.book.chapter import render
from sameloss.store.location import results_folder

import pandas as pd

families = pd.read_csv(results_folder() / "trace_families.csv")
answers = pd.crosstab([families.outcome, families.reason], families["head"]).reset_index()
render(answers.rename(columns={"reason": "how, or why"}))

# %%
tried = families[families.outcome != "not tried"]
right, refused = tried[tried.outcome == "right"], tried[tried.outcome == "refused"]
say(
    f"Of {len(tried)} families tried, {len(right)} have the trace of the loop, to eight digits or to four where the model "
    f"itself computes in 32 bits, {len(refused)} are refused ({', '.join(refused.family)}), and "
    f"{len(tried) - len(right) - len(refused)} are wrong."
)

# %% [markdown]
# ## Estimators at equal cost
#
# We take one checkpoint and a population of masked sentences, over which its trace is summed exactly. Labels come from
# the model itself, so the Hessian is the Fisher information and every estimator has the same target. The estimators are
#
# - per-example gradients with all labels, with sampled labels, or with random signs in the space of the logits;
# - gradients of mini-batches with sampled labels, $B\lVert\hat g\rVert^2$ ([Liu et al., 2024](bibliography.md));
# - random directions in the space of the parameters, $z^\top H z$, by Hessian-vector products: random signs or Gaussians
#   ([Hutchinson, 1989](bibliography.md)), and Hutch++ ([Meyer et al., 2021](bibliography.md)). The released code uses
#   Gaussian directions and true labels.
#
# A random direction mixes the curvature in all parameters, which adds a noise that per-example gradients do not have.

# %%
BUDGET = 10.0  # seconds
estimators, known = compared.iloc[1:].reset_index(drop=True), compared["mean"].iloc[0]
estimators["label"] = [estimation.ESTIMATORS[name].label for name in estimators.estimator]
estimators["known"] = known
estimators["off"] = (estimators["mean"] - known) / estimators.standard_error
estimators["error_percent"] = 100 * estimators.standard_error / known
estimators["error_at_budget"] = estimators.error_percent * (estimators.seconds / BUDGET) ** 0.5

# %% mystnb={"figure": {"caption": "Estimators of the trace at equal cost. Bars: 95 % intervals after ten seconds on this machine, extrapolated from shorter runs. Each dot lies as many standard errors from the exact trace (dashed) as the estimate of its run.", "name": "fig-estimators"}, "image": {"alt": "Estimates with intervals, one row per estimator, the most precise on top."}}
errors = estimators.set_index("estimator").error_at_budget
best, released = estimators.loc[estimators.error_at_budget.idxmin()], errors["hutchinson-released"]
finding(
    f"After ten seconds, {best.label} has a standard error of {best.error_at_budget:.2g} %, "
    f"the released code's estimator one of {released:.2g} %."
)
(ax,) = drawing.panels(1, width=6)
_ = figures.estimators_at_equal_cost(estimators, BUDGET, ax)

# %%
kind = errors.index.str.extract("^(minibatch|hutch)", expand=False).fillna("example").to_numpy()
least, most = errors.groupby(kind).min(), errors.groupby(kind).max()
say(
    f"Estimators from per-example gradients end between {least.example:.2f} and {most.example:.2f} %, mini-batches between "
    f"{least.minibatch:.2f} and {most.minibatch:.2f} %, and random directions in parameter space between "
    f"{least.hutch:.2f} and {most.hutch:.2f} %. The seconds are those of one machine and the errors those of one "
    "checkpoint, so that only large differences count."
)

# %%
shown = ["label", "mean", "standard_error", "count", "off", "seconds", "error_percent", "error_at_budget"]
renamed = {
    "label": "estimator",
    "off": "off (s.e.)",
    "error_percent": "error (%)",
    "error_at_budget": "error (%) after 10 s",
}
render(estimators[shown].rename(columns=renamed))

# %% [markdown]
# `count` is the number of independent draws: sentences, mini-batches, or batches with a random direction. `off` is the
# distance from the exact trace.
#
# How many labels per sentence are best? Sentences differ from each other, and so do the labels of one sentence. With
# $K$ labels for each of $n$ sentences the squared error is $V_\text{between}/n + V_\text{within}/(nK)$ and the time
# $n(c_\text{forward} + K\,c_\text{backward})$, so the best number is
# $K = \sqrt{V_\text{within}\,c_\text{forward} / (V_\text{between}\,c_\text{backward})}$, or one if this is smaller.

# %%
variance = estimation.variances(estimators)
beside = f", although one takes only {variance.one_beside_best:.2g} times as long for the same error"
say(rf"""
The table gives $V_\text{{between}} = {variance.between:.2g}$ and $V_\text{{within}} = {variance.within:.2g}$, relative to
the squared trace, and $c_\text{{forward}} = {1000 * max(0.0, variance.forward):.2g}$ ms and
$c_\text{{backward}} = {1000 * variance.backward:.2g}$ ms. The best number of labels is therefore
{variance.best_labels:.2g}{beside if variance.best_labels > 1 else ""}. The paper's 50 labels for each of 10,000 sentences
have a standard error of {variance.error_paper:.2g} %; one label for each of more sentences would reach it in
{100 / variance.times_dearer:.2g} % of the time. This book draws one label per sentence.
""")

# %% [markdown]
# ## Measures of flatness, and what they depend on
#
# The trace depends on the parameters, not only on the function they compute ([Dinh et al., 2017](bibliography.md)): it
# changes when one matrix is scaled up and the next one down. Other measures were designed to be invariant under some of
# these changes. With $H$ the Hessian of $L$ at $\theta$:
#
# | measure | definition | reference |
# |---|---|---|
# | trace | $\mathrm{Tr}\,H$ | Theorem 3.3; exact over labels here |
# | top eigenvalue | $\lambda_{\max}(H)$ | Lanczos on Hessian-vector products |
# | Tr Diag(H)^½ | $\sum_i \sqrt{H_{ii}}$ | what Adam decreases instead of the trace ([Li et al., 2025](bibliography.md)) |
# | adaptive trace | $\sum_i \theta_i^2 H_{ii}$ | second-order term of the next row, times $2/\rho^2$ |
# | adaptive sharpness | $\mathbb E_{z}\,L(\theta + \rho\,\lvert\theta\rvert \odot z) - L(\theta)$ | [Andriushchenko et al., 2023](bibliography.md) |
# | worst adaptive sharpness | $\max_{\lVert \epsilon/\lvert\theta\rvert \rVert \le \rho} L(\theta + \epsilon) - L(\theta)$ | one step of ascent ([Kwon et al., 2021](bibliography.md)) |
# | relative trace | $\sum_l \lVert W_l\rVert_F^2\,\mathrm{Tr}\,H_{ll}$ | [Tsuzuku et al., 2020; Petzka et al., 2021](bibliography.md) |
# | learning coefficient | $n\beta\,(\mathbb E_{w} L_n(w) - L_n(\theta))$ | Langevin dynamics near $\theta$ ([Lau et al., 2025](bibliography.md)) |
#
# Their values at the last checkpoint of the smallest model:

# %%
from sameloss.runs.measurements import MEASURES

trained = measured[measured.form == "as trained"].replace({"measure": MEASURES})
render(trained[["measure", "mean", "standard_error", "count"]], decimals=4)

# %% mystnb={"figure": {"caption": "Measures of flatness of one checkpoint after its parameters were changed without changing its function, relative to their values as trained (red: sharper). A measure of the function alone would have 1.00 in all rows.", "name": "fig-reparametrisation"}, "image": {"alt": "Map of ratios: the trace and the top eigenvalue change with almost every rescaling, adaptive and relative measures with fewer."}}
values = measured.pivot(index="form", columns="measure", values="mean")
values = values.loc[measured.form.unique(), list(MEASURES)].rename(columns=MEASURES)
ratios = values / values.loc["as trained"]
changes = ratios.drop("as trained")
changed = (changes - 1).abs().gt(0.1).sum()
finding(
    f"{(changed > 0).sum()} of {len(changed)} measures of flatness change by more than 10 % "
    "when the parameters change but the function does not."
)
(ax,) = drawing.panels(1, width=8)
_ = figures.ratios(ratios.reset_index(), ax)

# %%
say(
    f"Of the {len(changes)} changes of the parameters, {changed['trace']} change the trace by more than 10 %, "
    f"{changed['adaptive trace']} the adaptive trace, and {changed['relative trace']} the relative trace. Adaptive "
    "measures are invariant when one tensor is scaled against the next, but not when the width is replicated. The "
    "relative trace is invariant under replication, but not under every scaling. No predicted probability moved by more than "
    f"{measured.moved.max():.0e}, so all rows describe one function. The figure is about one checkpoint. Adaptive "
    "sharpness and the learning coefficient are sampled: their ratios scatter by a few standard errors even where the "
    "measure is invariant."
)

# %% [markdown]
# ## Summary

# %%
say(
    f"The three traces, which differ by a factor of {spread.iloc[0]:.1f} before training, coincide to "
    f"{100 * (spread.iloc[-1] - 1):.1g} % near saturation. At equal cost the error of the released code's estimator is "
    f"{released / errors['sampled-1']:.0f} times that of one sampled label per sentence, and "
    f"{(changed > 0).sum()} of {len(changed)} measures of flatness do not depend on the function alone. The traces are exact "
    "but those of a single tiny model, and the costs are those of one checkpoint on one machine: the page does not show "
    "that the estimators rank in the same order for other sizes."
)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
last = identity.iloc[-1]
print("the tiny model's traces coincide at the end:", abs(last.fisher / last.hessian - 1) < 0.05)
print("estimates lie within five standard errors:", bool((estimators.off.abs() < 5).all()))
print("one label beats 50 at equal cost:", bool(variance.times_dearer > 1))
print("permuting neurons changes no trace:", abs(ratios.trace["neurons permuted"] - 1) < 1e-3)
print("scaling queries changes the trace:", abs(ratios.trace["queries × 2"] - 1) > 1e-3)
print("replication changes the trace:", abs(ratios.trace["width × 2, as the paper"] - 1) > 0.1)
print("and not the relative trace:", abs(ratios["relative trace"]["width × 2, as the paper"] - 1) < 1e-3)

# %% [markdown]
# ## Errata
#
# - **The distribution of labels.** Appendix B's formula takes $x_t$ from the language; its method draws it from the model.
#   Away from saturation these are two numbers, and neither is the trace of the Hessian, as the first figure of this page
#   shows.

# %%
say(
    "- **The released code** does not do what Appendix B says: it estimates the trace of the full Hessian with Gaussian "
    "directions and true labels. This is unbiased at every checkpoint, but after ten seconds its error is "
    f"{released / best.error_at_budget:.0f} times that of the best estimator here.\n"
    "- **The error bar** of Figure 3 is said to come from five times 50 examples. Here the trace of 50 sentences with 50 "
    f"labels has a standard error of {variance.error_50_sentences:.2g} %, the mean of five of them one of "
    f"{variance.error_50_sentences / 5**0.5:.2g} %; Table 2 prints 9 % and 5 %."
)

# %% [markdown]
# ## Deviations
#
# - One label per sentence instead of 50, because its error at equal cost is smaller.
# - Seconds are those of the machine that made this page. They rank the estimators; [Costs](costs.ipynb) compares our
#   implementation with others.
#
# ## Exercises
#
# 1. Does the best number of labels depend on the size? `-p size d96`.
# 2. Is the order of estimators the same far from saturation? `-p steps 300`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, estimators)
