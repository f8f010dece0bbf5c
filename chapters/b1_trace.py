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
# **Question.** A language model has millions of parameters, so its Hessian is never computed. How does one measure its trace, and at what cost? [Liu et al., 2023](bibliography.md) (Appendix B) take the
# expected squared norm of gradients, estimated with 50 labels for each of 10,000 masked sentences.
#
# **Idea.** At the lowest loss, the trace of the Hessian *is* that expected norm, with labels drawn from the model itself. A squared norm needs no Hessian, and not even the gradient: inner
# products of what layers receive and pass on suffice.
#
# **By hand.** One parameter $\theta = 1$, the logit $z = \theta^2$ and two words: the model gives the first the probability $f = 0.73$. The derivative of $z$ is 2, its second derivative too. If the language gives
# that word the probability $q = 0.5$, the squared gradient is 4 · 0.73 · 0.27 = 0.79 on average over labels of the model, 4 · (0.5 · 0.27² + 0.5 · 0.73²) = 1.21 over labels of the language, and the second
# derivative of the loss is 0.79 + 2 · (0.73 − 0.5) = 1.25: three different numbers. If $q = f$, all three are 0.79.
#
# **Prediction.** As a model approaches the lowest loss, the three become one. And labels of one sentence share that sentence, so many labels of few sentences should tell less for their cost than one label
# of each of many.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, pretrained, gpu-hour, gpu, paper
size: str = None  # all, or one: d24 to d96 (the width); lstm16 to lstm64 on hmm; 2M to 730M: the paper's
steps: int = None  # steps of the longest descent; None: the preset's
lr: float = None  # peak learning rate; None: the preset's
layers: int = None  # of every model; None: as many as its size has
grammar: str = None  # file with a grammar of yours, NLTK's notation or lines `LHS RHS... p`
length_limit: int = None  # longest sentence (tokens) of it; a recursive grammar needs it
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
processes: int = None  # that share one training, each on a core or GPU of its own
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% mystnb={"code_prompt_show": "Runs of this page"} tags=["experiment", "hide-cell"]
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

# %% mystnb={"code_prompt_show": "Imports and results"} tags=["hide-input"]
import numpy as np
import pandas as pd
import seaborn as sns
import torch

from sameloss.book.chapter import finding, render, say, show_source
from sameloss.studies import drawing
from sameloss.studies.same_loss.figures import PAPER

BUDGET = 10.0  # seconds
traces = identity[["fisher", "true_labels", "hessian"]]
spread = traces.max(axis=1) / traces.min(axis=1)
estimators, known = compared.iloc[1:].reset_index(drop=True), compared["mean"].iloc[0]
estimators["label"] = [estimation.ESTIMATORS[name].label for name in estimators.estimator]
estimators["known"] = known
estimators["off"] = (estimators["mean"] - known) / estimators.standard_error
estimators["error_percent"] = 100 * estimators.standard_error / known
estimators["error_at_budget"] = estimators.error_percent * (estimators.seconds / BUDGET) ** 0.5
errors = estimators.set_index("estimator").error_at_budget
single, papers, released = errors[["sampled-1", "sampled-50", "hutchinson-released"]]


# %% mystnb={"code_prompt_show": "How the left panel is drawn"} tags=["hide-input"]
def draw_traces(ax):
    """Three exact traces against KL, along the training of the tiny model."""
    names = {
        "fisher": "labels from the model",
        "true_labels": "labels from the language",
        "hessian": "Hessian",
    }
    for at, (column, name) in enumerate(names.items()):
        ax.plot(identity.kl, identity[column], marker=drawing.MARKERS[at], ms=6 - at, label=name)
    ax.set(xscale="log", xlabel=drawing.KL_LABEL, ylabel="trace", title="a tiny model")
    drawing.plain_log_axis(ax.xaxis, identity.kl)
    ax.invert_xaxis()
    ax.legend()


# %% mystnb={"code_prompt_show": "How the right panel is drawn"} tags=["hide-input"]
GROUPS = {
    "Random directions in parameter space": "hutch",
    "Gradients of mini-batches": "minibatch",
    "Gradients of single sentences": "exact|sampled|signs",
}


def draw_errors(ax):
    """The error of each estimator after the same time, in groups with headings, the best of each on top."""
    names, table = [], estimators.sort_values("error_at_budget", ascending=False)
    beside = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "fontsize": "small"}
    for heading, pattern in GROUPS.items():
        for row in table[table.estimator.str.match(pattern)].itertuples():
            of_paper = row.estimator in ("sampled-50", "hutchinson-released")
            at = row.error_at_budget, len(names)
            ax.plot(*at, "o", color=PAPER if of_paper else "C0")
            ax.annotate(f"{at[0]:.2g}", at, **beside)
            names.append(row.label.replace(" (", "\n(").replace("Gaussian, ", "Gaussian,\n"))
        names.append(heading)
    ax.set_yticks(range(len(names)), names, fontsize="small")
    for tick in ax.get_yticklabels():
        tick.set_fontweight("bold" if tick.get_text() in GROUPS else "normal")
    ax.set(xscale="log", xlim=(0.12, 6), title="a model of middle size")
    ax.set_xlabel(f"error after {BUDGET:g} s (%)")
    ax.grid(visible=False, axis="y")
    drawing.plain_log_axis(ax.xaxis, errors)


# %% mystnb={"figure": {"caption": "Left: exact traces of a tiny model along its training, longer to the right: mean squared gradient norms with labels from the model and from the language, and the trace of its dense Hessian. Right: standard error of estimators of one known trace, in per cent of it, extrapolated to ten seconds on the machine that ran them; smaller is better. Violet: the paper's method, and its released code.", "name": "fig-identity"}, "image": {"alt": "Left, the Hessian's trace starts at twice the two others; as KL falls, all three meet. Right, one label of each sentence is among the most precise estimators, the paper's 50 labels are three times and the released code's random directions thirteen times less precise."}}
finding(
    f"Three traces that differ by a factor of {spread.iloc[0]:.1f} before training agree to {100 * (spread.iloc[-1] - 1):.1g} % near the lowest loss; with one label per sentence "
    f"the trace is known to {single:.2g} % in ten seconds, with the released code to {released:.2g} %."
)
left, right = drawing.panels(2, width=4.4)
left.figure.set_figheight(4.4)
draw_traces(left)
draw_errors(right)

# %%
first, last = identity.iloc[0], identity.iloc[-1]
say(f"""
**What we find.** *The identity holds where it should.* Before training the Hessian's trace is {first.hessian:.0f} and the squared norms are {first.fisher:.0f} and {first.true_labels:.0f}; at a KL of {last.kl:.4f}
nats all three are {last.hessian:.0f}, although the trace rises to {traces.hessian.max():.0f} on the way. *One label is enough.* At equal cost the paper's 50 labels per sentence have
{papers / single:.1f} times the error of one label. *The released code does something else*: it sends random directions through the Hessian, which mix the curvature in all parameters, and its
error is {released / single:.0f} times that of one label.
""")

# %% [markdown]
# **What limits this.** The three traces are exact, but those of one tiny model; [4 Flatness](04_flatness.ipynb) estimates their gap for larger ones. Errors are those of one checkpoint and seconds those of one
# machine, so only large differences count. And the trace itself depends on more than the function that a model computes, as the last section shows.
#
# ## The identity, and where it holds
#
# With logits $z$, predictions $f$ and true conditionals $q$, the Hessian of the loss is
#
# $$ \nabla^2 L = \mathbb E\,J^\top(\mathrm{diag} f - ff^\top)J + \mathbb E\sum_y (f_y - q_y)\,\nabla^2 z_y . $$
#
# The first term is the Fisher information, whose trace is an expected squared gradient norm with labels drawn **from the model**, $\hat y\sim f$; the second vanishes at $f = q$. The example by hand, in plain PyTorch:


# %%
def three_traces(theta, q):
    """Squared gradients with labels of the model and of the language, and the second derivative."""

    def log_f(theta):
        return torch.stack([theta**2, 0 * theta]).log_softmax(0)

    def loss(theta):
        return -(truth * log_f(theta)).sum()

    truth, squares = torch.stack([q, 1 - q]), torch.func.jacrev(log_f)(theta).square()
    expected = [(labels * squares).sum() for labels in (log_f(theta).exp(), truth)]
    return [round(float(trace), 2) for trace in (*expected, torch.func.hessian(loss)(theta))]


theta = torch.tensor(1.0)
three_traces(theta, torch.tensor(0.5)), three_traces(theta, theta.sigmoid())

# %% [markdown]
# The tiny model of the figure has width eight. It learns a language of three words and sentences of four tokens from its exact conditionals; all masked sentences of the language are its population, so nothing is
# sampled.
#
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
from sameloss.measures.flatness.gradient_norms import Recording

show_source(Recording._squared_norm)

# %% [markdown]
# **By hand.** Two tokens, two features: $g_1 = (1, 0)$, $g_2 = (1, 1)$, $a_1 = (1, 2)$, $a_2 = (0, 1)$. The
# gradient is $\begin{pmatrix}1&3\\0&1\end{pmatrix}$ with squared norm 11; the inner products give
# $1\cdot5 + 2\cdot(1\cdot2) + 2\cdot1 = 11$.

# %%
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

# %% mystnb={"code_prompt_show": "Families of models"} tags=["hide-cell"]
from sameloss.store.location import results_folder

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
# For the right panel we take one checkpoint and a population of masked sentences, over which its trace is summed exactly. Labels come from the model itself, so that the Hessian is the Fisher information and
# every estimator has the same target:
#
# - per-example gradients with all labels, with sampled labels, or with random signs in the space of the logits;
# - gradients of mini-batches with sampled labels, $B\lVert\hat g\rVert^2$ ([Liu et al., 2024](bibliography.md));
# - random directions in the space of the parameters, $z^\top H z$, by Hessian-vector products: random signs or Gaussians
#   ([Hutchinson, 1989](bibliography.md)), and Hutch++ ([Meyer et al., 2021](bibliography.md)). The released code uses
#   Gaussian directions and true labels.

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
# `count` is the number of independent draws: sentences, mini-batches, or batches with a random direction; `off` is the distance from the exact trace.
#
# **How many labels per sentence?** Sentences differ from each other, and so do the labels of one sentence. With $K$ labels for each of $n$ sentences the squared error is
# $V_\text{between}/n + V_\text{within}/(nK)$ and the time $n(c_\text{forward} + K\,c_\text{backward})$. Their product is the time to a given error, least at
# $K = \sqrt{V_\text{within}\,c_\text{forward} / (V_\text{between}\,c_\text{backward})}$, or at one if this is smaller.


# %%
from typing import NamedTuple


class LabelError(NamedTuple):
    """Parts of the squared error of sampled labels, relative to the trace, and seconds per sentence."""

    between: float
    within: float
    forward: float
    backward: float

    def squared(self, labels):
        return self.between + self.within / labels

    def cost(self, labels):
        return self.squared(labels) * (self.forward + labels * self.backward)

    def best(self):
        return max(1.0, (self.within / self.between * max(0.0, self.forward) / self.backward) ** 0.5)


# %%
def label_error(table):
    """The parts, from all labels, one and 50, whose rows have the known trace in `known`."""
    exact, one, many = (
        table.set_index("estimator").loc[name] for name in ("exact", "sampled-1", "sampled-50")
    )
    between, total = ((row.standard_error / row.known) ** 2 * row["count"] for row in (exact, one))
    seconds = [row.seconds / row["count"] for row in (one, many)]
    backward = (seconds[1] - seconds[0]) / (estimation.PAPERS_LABELS - 1)
    return LabelError(between, total - between, seconds[0] - backward, backward)


# %% mystnb={"figure": {"caption": "Time to a given error with K sampled labels per sentence, beside that with one: the formula above (line), whose four constants come from all labels, one and 50, and measured times and errors (points). Dotted: the paper's 50 labels.", "name": "fig-labels"}, "image": {"alt": "The time is least near one label and rises in proportion to their number; at 50 labels it is about ten times as long."}}
error = label_error(estimators)
dearer = error.cost(estimation.PAPERS_LABELS) / error.cost(1)
finding(
    f"For the same error the paper's {estimation.PAPERS_LABELS} labels per sentence take {dearer:.0f} times as long as one."
)
(ax,) = drawing.panels(1, width=5)
counts = 2.0 ** (torch.arange(0, 61) / 10)
ax.plot(counts, error.cost(counts) / error.cost(1), color="0.35", lw=1.2)
measured_at = estimators.set_index("estimator").loc[["sampled-1", "sampled-4", "sampled-50"]]
costs = measured_at.error_at_budget**2
ax.plot([1, 4, 50], costs / costs.iloc[0], "o", color="C0")
ax.axvline(estimation.PAPERS_LABELS, color=PAPER, ls=":", lw=1.5)
ax.set(xscale="log", yscale="log", xlabel="labels per sentence K", ylabel="time to the same error")
for axis, values in ((ax.xaxis, pd.Series([1.0, 64.0])), (ax.yaxis, pd.Series([1.0, 20.0]))):
    drawing.plain_log_axis(axis, values)

# %%
paper_error = 100 * (error.squared(estimation.PAPERS_LABELS) / 10_000) ** 0.5
say(rf"""
Here $V_\text{{between}} = {error.between:.2g}$ and $V_\text{{within}} = {error.within:.2g}$, relative to the squared trace, and the best number of labels is {error.best():.1f}. The paper's 50 labels for each of
10,000 sentences have a standard error of {paper_error:.2g} %; one label for each of more sentences reaches it in {100 / dearer:.0f} % of the time. This book draws one label per sentence.
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

# %% mystnb={"figure": {"caption": "Measures of flatness of one checkpoint after its parameters were changed without changing its function, relative to their values as trained (red: sharper). A measure of the function alone would have 1.00 in all rows.", "name": "fig-reparametrisation"}, "image": {"alt": "Map of ratios: the trace and the top eigenvalue change with almost every rescaling, adaptive and relative measures with fewer, none with none."}}
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
logs, style = np.log2(ratios), {"cmap": "vlag", "vmin": -2, "vmax": 2, "cbar": False}
sns.heatmap(logs, annot=ratios, fmt=".2f", annot_kws={"fontsize": "small"}, ax=ax, **style)
ax.set(xlabel="", ylabel="")
ax.tick_params(axis="x", labelrotation=30)
_ = [label.set_ha("right") for label in ax.get_xticklabels()]

# %%
say(
    f"Of the {len(changes)} changes of the parameters, {changed['trace']} change the trace by more than 10 %, "
    f"{changed['adaptive trace']} the adaptive trace, and {changed['relative trace']} the relative trace. Adaptive "
    "measures are invariant when one tensor is scaled against the next, but not when the width is replicated. The "
    "relative trace is invariant under replication, but not under every scaling. No predicted probability moved by more than "
    f"{measured.moved.max():.0e}, so all rows describe one function. Adaptive sharpness and the learning coefficient are sampled: "
    "their ratios scatter by a few standard errors even where the measure is invariant."
)

# %% [markdown]
# ## Errata
#
# - **The distribution of labels.** Appendix B's formula takes $x_t$ from the language; its method draws it from the model.
#   Away from saturation these are two numbers, and neither is the trace of the Hessian, as the first figure of this page
#   shows.

# %%
few = 100 * (error.squared(estimation.PAPERS_LABELS) / 50) ** 0.5
say(
    "- **The released code** does not do what Appendix B says: it estimates the trace of the full Hessian with Gaussian "
    "directions and true labels. This is unbiased at every checkpoint, but less precise, as the first figure shows.\n"
    "- **The error bar** of Figure 3 is said to come from five times 50 examples. Here the trace of 50 sentences with 50 "
    f"labels has a standard error of {few:.2g} %, the mean of five of them one of {few / 5**0.5:.2g} %; Table 2 prints 9 % and 5 %."
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
# NBVAL_CHECK_OUTPUT
print("the tiny model's traces coincide at the end:", abs(last.fisher / last.hessian - 1) < 0.05)
print("estimates lie within five standard errors:", bool((estimators.off.abs() < 5).all()))
print("one label beats 50 at equal cost:", bool(dearer > 1))
print("permuting neurons changes no trace:", abs(ratios.trace["neurons permuted"] - 1) < 1e-3)
print("scaling queries changes the trace:", abs(ratios.trace["queries × 2"] - 1) > 1e-3)
print("replication changes the trace:", abs(ratios.trace["width × 2, as the paper"] - 1) > 0.1)
print("and not the relative trace:", abs(ratios["relative trace"]["width × 2, as the paper"] - 1) < 1e-3)

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, estimators)
