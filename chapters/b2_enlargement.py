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
# **The claim** (Appendix B.1 of [Liu et al., 2023](bibliography.md); B.4 of the ICML text): every small transformer can be
# embedded in the parameter space of a larger one without changing its function. The traces of all sizes can then be
# compared in one architecture, where they fall from 19.8 to 12.6 as the size grows.
#
# **What you will see**: when the embedding preserves the function and when it does not; the exact law by which it
# changes the trace of each kind of parameter; and what this law alone does to the comparison of sizes.

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

# %% tags=["experiment"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import PRESETS
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, preset_of

presets = {name: {"experiment": experiment} for name, experiment in PRESETS.items()}
page = begin(globals(), "b2_enlargement", presets, BOUNDS, auto=preset_of)
experiment = chosen(page.values)

replicate = next(experiment.replicates())
smallest = replicate.longest_descent(replicate.models[0])
page.prepare([smallest])

# %% [markdown]
# ## Replicating width
#
# Replace every feature by $k$ equal copies. A matrix between replicated features becomes $k\times k$ copies of itself,
# each divided by $k$. LayerNorm sees the same mean and variance, and heads and MLP units are copied as well. The tied
# embedding $E$ is divided by some $s$. At the input, the LayerNorm after it undoes the division. At the output, $E$ sums
# over $k$ copies, so either $s = k$, as in the paper, or the head's last LayerNorm takes a share. The *balanced* map
# divides both by $\sqrt k$.

# %%
import torch

from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder
from sameloss.models.enlarge import deepen, widen
from sameloss.runs.sampling import held_out_masked

model = page.store.complete.get(smallest).last().double()
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

# %%
import pandas as pd

from sameloss.book.chapter import render
from sameloss.runs.measurements import predictions

rows = []
for change, pair in enlarged.items():
    before, after = (predictions(one, masked) for one in pair)
    small, large = (fisher_trace(one, masked, estimator="exact").total.mean for one in pair)
    kl = (before * (before / after).log()).sum(1).mean().item()
    moved = (after - before).abs().max().item()
    rows.append({"change": change, "moved": moved, "KL": kl, "trace": large / small})
functions = pd.DataFrame(rows).set_index("change")
shown = functions.assign(moved=functions.moved.map(lambda moved: f"{moved:.1e}" if moved else "0"))
render(shown.reset_index(), decimals=4)

# %% [markdown]
# `moved` is the largest change of a predicted probability, `KL` the divergence from the small model's predictions
# to the large model's, and `trace` is the exact Fisher trace relative to the small model's. The model is the smallest
# size, in float64. The post-LN model was not trained; it takes the parameters of the trained pre-LN model, so its
# gains and biases are trained ones.
#
# Replication preserves the function of pre-LN and of post-LN models. **Added layers** whose output matrices are zero
# ($O_l = 0$ for attention, $U_l = 0$ for the MLP) preserve it if the residual stream bypasses them, as in pre-LN. Post-LN, for which Appendix B.1 is written, applies
# another $\mathrm{LN}$ to $h$, and $\mathrm{LN}(h) = h$ fails once gains and biases are trained.
#
# Added layers change the trace even if they preserve the function, because their output biases have gradients.
#
# ## The law of the trace
#
# All copies of a parameter have the same gradient. If a parameter has $n$ copies, each divided by $s$, then the gradient
# of every copy is $s/n$ times that of the small model, and the sum of the $n$ squares, the Fisher trace, is multiplied
# by $s^2/n$:
#
# | parameters | copies $n$ | divided by $s$ | factor (paper) | factor (balanced) |
# |---|---|---|---|---|
# | matrices of blocks and head (*matrix*) | $k^2$ | $k$ | 1 | 1 |
# | biases, LayerNorm gains (*vector*) | $k$ | 1 | $1/k$ | $1/k$ |
# | tied embedding, positions (*embedding*) | $k$ | $k$ or $\sqrt k$ | $k$ | 1 |
# | LayerNorm of the head (*head norm*) | $k$ | 1 or $\sqrt k$ | $1/k$ | 1 |
# | output bias (*head bias*) | 1 | 1 | 1 | 1 |
#
# Here is the paper's map on a model of a few lines, with a tied embedding, one matrix with its bias, and a LayerNorm without
# gains at either end. The Fisher trace is summed over all words as inputs and all labels.

# %%
from torch.nn.functional import layer_norm

from sameloss.models.enlarge import kind_law


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
print(f"largest change of a log probability: {(log_f(*large) - log_f(*small)).abs().max():.0e}")
ratios = traces(*large) / traces(*small)
for kind, ratio in zip(("embedding", "matrix", "vector"), ratios, strict=True):
    print(f"{kind}: trace times {ratio:.4f}, library's law {kind_law(kind, k):.4f}")

# %% [markdown]
# The same ratios for the trained model, widened model over small model, on the same sentences:

# %%
from sameloss.models.enlarge import KINDS, kind_of, trace_law


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
from sameloss.book.chapter import finding, say

off = (laws.enlarged / (laws.law * laws.native) - 1).abs().max()
say(
    "These factors follow the law, and so do single tensors: the trace of none deviates from it by more than "
    f"{off:.0e} of its value. With the paper's map at $k = 2$ the trace of the whole model is "
    f"{functions.trace['pre-LN, width × 2']:.2f} times that of the small model, although both compute the same function."
)

# %% [markdown]
# ## What the law does to a comparison of sizes
#
# The ICML text embeds its sizes in the width 1920, the least common multiple of their widths (Table 4, shown in
# [A.3 Models](a3_models.ipynb)). The MLP widths printed there are those of Table 3 and cannot be embedded: the smallest
# size needs $15\times 512 = 7680$, but 5120 is printed. Suppose that models of all sizes had *equal* traces, part by
# part. How would their traces compare after enlargement?

# %% mystnb={"figure": {"caption": "Factor by which the paper's enlargement to width 1920 multiplies the Fisher trace of each kind of parameter, for the sizes of Table 4.", "name": "fig-inflation"}, "image": {"alt": "Factors against width: the embedding's falls from 15 to 1, that of biases and gains rises from 1/15 to 1, that of matrices is 1."}}
import math

from sameloss.models.sizes import LADDER
from sameloss.studies import drawing
from sameloss.studies.same_loss import figures

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
_ = figures.predicted_inflation(inflation, ax)

# %% [markdown]
# Even with equal traces before enlargement, the enlarged traces would thus fall with size wherever the embedding
# contributes most. The comparison favours its conclusion before any model is trained. By how much depends on the
# embedding's share of the trace, which the law does not give.
#
# ## Figure 5 again
#
# We now compare the smallest and the largest model of the recorded runs, at equal KL and learning rate, in three
# ways: by the trace over native parameters, by the trace after enlargement to one width, and by the relative trace
# $\sum_l\lVert W_l\rVert_F^2\,\mathrm{Tr} H_{ll}$, which replication does not change ([B Trace](b1_trace.ipynb)) and which
# therefore needs no enlargement. A ratio above one means that the larger model is flatter. The law predicts a larger
# ratio after enlargement.

# %% mystnb={"figure": {"caption": "Trace of the smallest model divided by that of the largest, at equal KL, with 95 % intervals over replicates, for three ways of making parameters comparable. Recorded runs.", "name": "fig-enlarged"}, "image": {"alt": "Intervals of the ratio of traces: native, enlarged, relative."}}
from sameloss.studies.same_loss import tables
from sameloss.book.part_one import recorded_answers, recorded_measurements

answers = recorded_answers()
ways = ("main", "relative to squared weights", "enlarged to one width")
rows = answers[(answers.question == "flatness by size") & answers.row.isin(ways)]
by_way = rows.pivot(index="language", columns="row", values="mean")
finding(
    f"On the grammar, the smallest model's trace is {by_way['main']['grammar']:.2f} times that of the largest, "
    f"and {by_way['enlarged to one width']['grammar']:.2f} times after enlargement."
)
figures.effects_by_language(rows)

# %%
from sameloss.models.sizes import SIZES

recorded = set(recorded_measurements().model)
native_widths = [shape.d_model for name, shape in SIZES["laptop"].items() if name in recorded]
multiplied = (by_way["enlarged to one width"] / by_way["main"]).dropna()
above = rows.assign(above=rows.low > 1).groupby("language").above.sum()
by_language = [
    f"by {factor:.2f} on the {tables.LANGUAGES[name]}, where {above[name]} of {len(ways)} intervals are wholly above one"
    for name, factor in multiplied.items()
]
say(
    f"Enlargement multiplies the ratio {'; '.join(by_language)}. The law for the embedding alone gives the ratio of the "
    f"widths, {max(native_widths) / min(native_widths):.2g}. The answer thus depends on the way of comparing, not on the "
    "models alone."
)

# %%
render(tables.control_table(rows, "flatness by size"), decimals=4)

# %% [markdown]
# ## Summary

# %%
deepened = functions.moved["post-LN, 2 layers added"]
say(
    "Replication preserves the function of pre-LN and post-LN models and multiplies the trace of each kind of parameter "
    f"by $s^2/n$. Added layers of zeros change a post-LN model's probabilities by up to {deepened:.2g}, and enlarging to "
    f"the width of the ICML text multiplies the embedding's trace by up to {embedding.max():g}. The law is exact and was "
    "checked tensor by tensor on one trained model. Which of the three comparisons of sizes is the right one cannot be "
    "decided here: none of them depends on the function alone."
)

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
# - **Table 4's MLP widths** cannot be embedded as printed; four times the width can.
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
# - Enlarged traces are native traces multiplied by the law, which is checked above on models that were actually
#   enlarged.
#
# ## Exercises
#
# 1. Does the law hold in a wider model? `-p size d96`.
# 2. Why does a barely trained model obey the law as well? `-p steps 10`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, laws)
