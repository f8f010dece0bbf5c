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
# # B.1 Small transformers inside large ones
#
# **Question.** Models of different sizes have different parameters. How can their traces be compared? [Liu et al., 2023](bibliography.md) (Appendix B.1; B.4 of the
# ICML text) embed every small transformer in the parameter space of the largest one. Compared there, their traces fall from 19.8 to 12.6 as the size grows. How much of that is due to the models, and how much to the
# way of comparing?
#
# **Idea.** To widen a transformer $k$ times, replace every feature by $k$ equal copies, and divide what is summed over copies. The function stays the same. But the trace is a sum of
# squared gradients, and these depend on how a parameter is written.
#
# **By hand.** Let a parameter have $n$ copies, each divided by $s$. Then each copy has $s/n$ times the gradient, and the sum of the $n$ squares is $s^2/n$ times as large. For $k = 2$: a bias has 2
# copies, not divided, and its trace is halved. A matrix has 4 copies, each divided by 2: its trace stays. The tied embedding has 2 copies, each divided by 2: its trace doubles.
#
# **Prediction.** A model that is widened 15 times, as the smallest in the paper is, has 15 times its embedding's trace. So larger models look flatter after enlargement,
# even if they are not.

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

# %% mystnb={"code_prompt_show": "Runs of this page"} tags=["experiment", "hide-cell"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import PRESETS
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, preset_of

presets = {name: {"experiment": experiment} for name, experiment in PRESETS.items()}
page = begin(globals(), "b2_enlargement", presets, BOUNDS, auto=preset_of)
experiment = chosen(page.values)

replicate = next(experiment.replicates())
smallest = replicate.longest_descent(replicate.models[0])
page.prepare([smallest])

# %% mystnb={"code_prompt_show": "Imports"} tags=["hide-input"]
import math

import pandas as pd
import torch
from matplotlib.ticker import NullFormatter
from torch.nn.functional import layer_norm

from sameloss.book.chapter import finding, render, say
from sameloss.book.part_one import recorded_answers, recorded_measurements
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder
from sameloss.models.enlarge import KINDS, deepen, kind_law, kind_of, trace_law, widen
from sameloss.models.sizes import LADDER, SIZES
from sameloss.runs.measurements import predictions
from sameloss.runs.sampling import held_out_masked
from sameloss.studies import drawing
from sameloss.studies.same_loss import figures, tables

# %% mystnb={"figure": {"caption": "Trace of the smallest model divided by that of the largest, at equal KL and learning rate, with 95 % intervals over draws of the language, in three ways: over the parameters as they are (main comparison), relative to squared weights, and after enlargement to one width. Right of 1 the larger model is flatter; green: the interval lies there. Recorded runs.", "name": "fig-enlarged"}, "image": {"alt": "Three intervals for each of three languages. In each language the one after enlargement lies far to the right of the other two, on the grammar and the generated text wholly above 2."}}
answers = recorded_answers()
ways = ("main", "relative to squared weights", "enlarged to one width")
rows = answers[(answers.question == "flatness by size") & answers.row.isin(ways)]
by_way = rows.pivot(index="language", columns="row", values="mean")
finding(
    f"On the grammar, the smallest model's trace is {by_way['main']['grammar']:.1f} times that of the largest, and after enlargement "
    f"{by_way['enlarged to one width']['grammar']:.1f} times, although no model computes anything else than before."
)
figures.effects_by_language(rows)

# %%
recorded = set(recorded_measurements().model)
native_widths = [shape.d_model for name, shape in SIZES["laptop"].items() if name in recorded]
multiplied = (by_way["enlarged to one width"] / by_way["main"]).dropna()
of_languages = [f"by {factor:.1f} on the {tables.language_name(name)}" for name, factor in multiplied.items()]
say(f"""
**What we find.** Enlargement alone multiplies the ratio of the traces: {", ".join(of_languages[:-1])} and {of_languages[-1]}. If the embedding contributed all of the trace, it would be by
{max(native_widths) / min(native_widths):.2g}, the ratio of the widths. The comparison of the paper thus favours its conclusion before any model is trained. Relative to squared weights, which no copying changes, the ratio on the grammar is
{by_way["relative to squared weights"]["grammar"]:.1f}. So how much flatter the larger model is depends on the way of comparing.
""")

# %% [markdown]
# **What limits this.** Which of the three ways is the right one cannot be decided here: none of them depends on the function alone. Enlarged traces are native ones
# multiplied by the law, which is checked below on one trained model. How large the effect is in the paper depends on the embedding's share of the trace, which it does not report.
#
# ## The law of the trace
#
# A matrix between copied features becomes $k\times k$ copies of itself, each divided by $k$. LayerNorm sees the same mean and variance, and heads and MLP units are copied
# as well. The tied embedding is divided by some $s$. At the input, the LayerNorm after it undoes the division. At the output, the embedding sums over $k$ copies, so either
# $s = k$, as in the paper, or the head's last LayerNorm takes a share. Our *balanced* map divides both by $\sqrt k$.
#
# All copies of a parameter have the same gradient, so that the argument above applies to each kind of parameter:
#
# | parameters | copies $n$ | divided by $s$ | factor $s^2/n$ (paper) | factor (balanced) |
# |---|---|---|---|---|
# | matrices of blocks and head (*matrix*) | $k^2$ | $k$ | 1 | 1 |
# | biases, LayerNorm gains (*vector*) | $k$ | 1 | $1/k$ | $1/k$ |
# | tied embedding, positions (*embedding*) | $k$ | $k$ or $\sqrt k$ | $k$ | 1 |
# | LayerNorm of the head (*head norm*) | $k$ | 1 or $\sqrt k$ | $1/k$ | 1 |
# | output bias (*head bias*) | 1 | 1 | 1 | 1 |
#
# The relative trace $\sum_l\lVert W_l\rVert_F^2\,\mathrm{Tr} H_{ll}$ ([B Trace](b1_trace.ipynb)) does not change: squared norms are multiplied by $n/s^2$.
#
# **In plain PyTorch.** The paper's map on a model of a few lines, with a tied embedding, one matrix with its bias, and a LayerNorm without gains at either end. The Fisher
# trace is summed over all words as inputs and all labels.


# %%
def log_f(embedding, matrix, vector):
    h = layer_norm(embedding, vector.shape, eps=0)  # every word is an input
    return (layer_norm(h @ matrix.T + vector, vector.shape, eps=0) @ embedding.T).log_softmax(-1)


def traces(*parameters):
    """Fisher trace of each parameter: the squared gradients of log f, weighted by f."""
    log_probabilities = log_f(*(part.requires_grad_() for part in parameters)).flatten()
    gradients = [torch.autograd.grad(one, parameters, retain_graph=True) for one in log_probabilities]
    squared = torch.tensor([[part.square().sum() for part in gradient] for gradient in gradients])
    return log_probabilities.detach().exp() @ squared.double() / len(parameters[0])


k, draw = 3, torch.Generator().manual_seed(0)
small = [torch.randn(shape, generator=draw).double() for shape in ((5, 4), (4, 4), (4,))]
large = [small[0].repeat(1, k) / k, small[1].repeat(k, k) / k, small[2].repeat(k)]
print(
    "log probabilities equal up to 1e-12:", torch.allclose(log_f(*large), log_f(*small), rtol=0, atol=1e-12)
)
ratios = traces(*large) / traces(*small)
for kind, ratio in zip(("embedding", "matrix", "vector"), ratios, strict=True):
    print(f"{kind}: trace times {ratio:.4f}, library's law {kind_law(kind, k):.4f}")

# %% [markdown]
# ## A trained model
#
# The smallest trained model, in float64, and what is done to it: copies of its features, and layers added to it. The post-LN model is not trained; it takes the parameters
# of the trained pre-LN model.

# %%
model = page.with_weights(smallest).last().double()
language = replicate.language.build()
masked = held_out_masked(language, 64, 0, "tables")
post = Encoder(model.shape, language.words, language.max_length, norm="post").double()
post.load_state_dict({name: model.state_dict()[name] for name in post.state_dict()})
deeper = model.shape.layers + 2
initial = deepen(model, deeper, filling="initial", generator=torch.Generator().manual_seed(0))
enlarged = {
    "pre-LN, width × 2": (model, widen(model, 2)),
    "pre-LN, width × 2, balanced": (model, widen(model, 2, tied="balanced")),
    "pre-LN, 2 layers added": (model, deepen(model, deeper)),
    "pre-LN, 2 layers added, initial matrices": (model, initial),
    "post-LN, width × 2": (post, widen(post, 2)),
    "post-LN, 2 layers added": (post, deepen(post, deeper)),
}

# %% [markdown]
# `moved` is the largest change of a predicted probability, `KL` the divergence from the small model's predictions to the large model's, and `trace` is the exact Fisher
# trace relative to the small model's.

# %%
measured = []
for change, pair in enlarged.items():
    before, after = (predictions(one, masked) for one in pair)
    small, large = (fisher_trace(one, masked, estimator="exact").total.mean for one in pair)
    kl = (before * (before / after).log()).sum(1).mean().item()
    moved = (after - before).abs().max().item()
    measured.append({"change": change, "moved": moved, "KL": kl, "trace": large / small})
functions = pd.DataFrame(measured).set_index("change")
shown = functions.assign(moved=functions.moved.map(lambda moved: f"{moved:.1e}" if moved else "0"))
render(shown.reset_index(), decimals=4)

# %%
say(f"""
Copying preserves the function of pre-LN and post-LN models. **Added layers** whose output matrices are zero preserve it in pre-LN, where the residual stream bypasses them. Post-LN, for which Appendix B.1
is written, applies another LayerNorm to the stream, which changes it once gains and biases are trained: probabilities move by up to {functions.moved["post-LN, 2 layers added"]:.1g}. Even where added layers preserve
the function they change the trace, because their output biases have gradients.
""")

# %% [markdown]
# The trace after widening over that before, by kind of parameter, on the same sentences:


# %%
def traces_by_tensor(model):
    draws = fisher_trace(model, masked, estimator="exact").draws
    return pd.Series({name: values.mean().item() for name, values in draws.items()})


native, parts = traces_by_tensor(model), []
for tied in ("paper", "balanced"):
    for times in (2, 3):
        table = pd.DataFrame({"native": native, "enlarged": traces_by_tensor(widen(model, times, tied=tied))})
        table["law"] = [trace_law(name, times, tied) for name in table.index]
        parts.append(table.assign(map=tied, k=times, parameters=list(map(kind_of, table.index))))
laws = pd.concat(parts).rename_axis("tensor").reset_index()
sums = laws.groupby(["map", "k", "parameters"], sort=False)[["native", "enlarged"]].sum()
factors = (sums.enlarged / sums.native).unstack().loc[["paper", "balanced"], list(KINDS)]
render(factors.reset_index(), decimals=4)

# %%
off = (laws.enlarged / (laws.law * laws.native) - 1).abs().max()
say(f"These are the factors of the law, and so are those of single tensors, up to {off:.0e} of their value.")

# %% [markdown]
# ## What the law does to the paper's sizes
#
# The ICML text embeds its sizes in the width 1920, the least common multiple of their widths (Table 4, shown in [A.3 Models](a3_models.ipynb)). Suppose that models
# of all sizes had *equal* traces, part by part. How would they compare after enlargement?

# %% mystnb={"figure": {"caption": "Factor by which the paper's enlargement to width 1920 multiplies the Fisher trace of each kind of parameter, for the sizes of Table 4.", "name": "fig-inflation"}, "image": {"alt": "Factors against width: that of the embedding falls from 15 to 1, that of biases and gains (vector) rises from 1/15 to 1, that of matrices is 1."}}
widths = [shape.d_model for shape in LADDER.values()]
inflation = pd.DataFrame(
    {"d_model": width, "parameters": kind, "factor": kind_law(kind, math.lcm(*widths) // width)}
    for kind in ("embedding", "matrix", "vector")
    for width in widths
)
embedding = inflation[inflation.parameters == "embedding"].set_index("d_model").factor
finding(
    f"The paper's enlargement multiplies the embedding's trace by {embedding[embedding.index.min()]:g} for the smallest "
    f"size and by {embedding[embedding.index.max()]:g} for the largest."
)
(ax,) = drawing.panels(1, width=5)
for i, (kind, part) in enumerate(inflation.groupby("parameters", sort=False)):
    ax.plot(part.d_model, part.factor, marker=drawing.MARKERS[i], ms=5, color=f"C{i}", label=kind)
ax.set(xscale="log", yscale="log")
ax.set(xlabel="d_model of the small model", ylabel="factor of the Fisher trace")
ax.set_xticks(inflation.d_model.unique(), inflation.d_model.unique(), fontsize="small")
ax.xaxis.set_minor_formatter(NullFormatter())
ax.yaxis.set_major_formatter("{x:g}")
_ = ax.legend()

# %% [markdown]
# Wherever the embedding contributes most, traces that are equal before would thus fall with size after enlargement.
#
# ## The comparison in numbers

# %%
render(tables.control_table(rows, "flatness by size"), decimals=4)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
moved = functions.moved
print("replication keeps a pre-LN function:", bool(moved["pre-LN, width × 2"] < 1e-6))
print("replication keeps a post-LN function:", bool(moved["post-LN, width × 2"] < 1e-6))
print("added layers keep a pre-LN function:", bool(moved["pre-LN, 2 layers added"] < 1e-9))
print("added layers keep a post-LN function:", bool(moved["post-LN, 2 layers added"] < 1e-3))
print("the law holds for the model of a few lines:", torch.allclose(ratios, ratios.new_tensor([k, 1, 1 / k])))
print("the law holds for every parameter:", bool(off < 1e-6))

# %% [markdown]
# ## Errata
#
# - **Added layers of zeros do not preserve a post-LN function**, although Appendix B.1 is written for post-LN.
# - **Table 4's MLP widths** cannot be embedded as printed, those of Table 3: the smallest size needs $15\times 512 = 7680$, but
#   5120 is printed. Four times the width can.
# - **Replication by $1/2$** multiplies the tied embedding's part of the trace by the ratio of widths, which is largest
#   for the smallest model.
# - **The base case** (B.1.1) divides the first and last matrices by $\sqrt2$, but B.1.2 divides the embedding by 2. The
#   first would preserve the embedding's trace if the head's LayerNorm took the other $\sqrt2$.
#
# ## Deviations
#
# - The paper compares the sizes of Table 4, whose heads all have 64 dimensions. The sizes of the laptop and workstation
#   presets all have two heads, so an enlarged small model has more and narrower heads than a native large one: the same
#   matrices, split differently.
# - Our head has a dense layer and a LayerNorm before the tied embedding; that of Appendix B.1 has neither.
#
# ## Exercises
#
# 1. Does the law hold in a wider model? `-p size d96`.
# 2. Why does a barely trained model obey the law as well? `-p steps 10`.
# 3. Why does the balanced map leave the embedding's trace unchanged, and which kind of parameter does it still favour in large models?
#
# ```{admonition} Answers
# :class: dropdown
#
# 1. Yes: neither the width nor anything else of the model enters it.
# 2. The law uses only that all copies of a parameter have the same gradient, which holds at any parameters.
# 3. It has k copies, each divided by √k: s²/n = 1. Biases and gains still have the factor 1/k, so that the small models, which are enlarged most, lose the most of that part
#    and look flatter.
# ```

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, laws)
