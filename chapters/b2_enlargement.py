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
# **The claim** (Appendix B.1 of [Liu et al., 2023](bibliography.md); B.4 of the ICML text): a small transformer is a
# point in the parameter space of a larger one, with the same function; so the traces of all sizes
# can be compared in one architecture, where they fall from 19.8 to 12.6 as the size grows.
#
# **What you will see**: where the construction keeps the function and where it does not; the exact law
# by which it changes the trace of each kind of parameter; and what that law alone does to the
# comparison of sizes.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, gpu, paper
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

# %%
from sameloss.book.chapter import begin
from sameloss.studies.same_loss.pages import STUDY

page = begin(globals(), STUDY, "b2_enlargement")

# %% [markdown]
# ## Replicating width
#
# Let every feature come in $k$ equal copies. A matrix between replicated features needs $k\times k$ copies of
# itself, each divided by $k$; LayerNorm sees the same mean and variance; heads and MLP units are
# copied too. The tied embedding $E$ is divided by some $s$ as the input, which the LayerNorm behind it
# undoes, and as the output matrix it sums over $k$ copies, so $s = k$, or the head's last LayerNorm takes a
# share. Here is the paper's map, and the one that divides both by $\sqrt k$:
# %%
from sameloss.book.chapter import show_source
from sameloss.models import enlarge

show_source(enlarge.divisor)

# %%
from sameloss.book.chapter import render
from sameloss.runs.sampling import held_out_masked
from sameloss.studies.same_loss import enlargement

replicate = page.replicate
model = page.store.complete.get(replicate.main(replicate.models[0])).last().double()
masked = held_out_masked(replicate.language.build(), 64, 0, "tables")
functions = enlargement.function_table(model, masked)
render(
    functions.assign(moved=functions.moved.map(lambda moved: f"{moved:.1e}" if moved else "0")), decimals=4
)

# %% [markdown]
# `moved` is the largest change of a predicted probability, `KL` is from the small model's predictions to the
# large one's, and `trace` is the exact Fisher trace relative to the small one's. (Models of the smallest size,
# in float64; post-LN ones are not trained, their parameters are those of the trained pre-LN model as far as
# they exist, so that gains and biases are trained ones.)
#
# Replication keeps the function of pre-LN and of post-LN models. **Added layers** with $O_l = 0$ and $U_l = 0$ keep
# it where the residual stream passes them by, as pre-LN does. Post-LN, which Appendix B.1 writes, applies
# another $\mathrm{LN}$ to $h$; and $\mathrm{LN}(h) = h$ fails once gains and biases are trained.
#
# Added layers change the trace even where they keep the function: their output biases have gradients.
#
# ## The law of the trace
#
# All copies of a parameter get the same gradient. Where a parameter has $n$ copies, each divided by
# $s$, every copy's gradient is $s/n$ times the small one's, so its Fisher trace is multiplied by $s^2/n$:
#
# | parameters | copies $n$ | divided by $s$ | factor (paper) | factor (balanced) |
# |---|---|---|---|---|
# | matrices of blocks and head | $k^2$ | $k$ | 1 | 1 |
# | biases, LayerNorm gains | $k$ | 1 | $1/k$ | $1/k$ |
# | tied embedding, positions | $k$ | $k$ or $\sqrt k$ | $k$ | 1 |
# | LayerNorm of the head | $k$ | 1 or $\sqrt k$ | $1/k$ | 1 |
# | output bias | 1 | 1 | 1 | 1 |

# %%
laws = enlargement.law_table(model, masked)
render(laws, decimals=4)

# %% [markdown]
# `measured` is the ratio of exact Fisher traces of the widened and the small model by kind of parameter,
# over the same sentences; `off` is the largest relative distance from the law of any single
# parameter tensor.
#
# ## What the law does to a ladder of sizes
#
# The ICML text embeds its sizes in the width 1920, their least common multiple (Table 4). Its column
# of MLP widths is that of Table 3 and cannot embed: 1920 wants $15\times 512 = 7680$ where 5120 is printed.

# %%
from sameloss.models.sizes import LADDER

ladder = enlargement.ladder_table()
render(ladder)

# %% mystnb={"figure": {"caption": "By what the paper's enlargement to width 1920 multiplies the Fisher trace of each kind of parameter, for the sizes of Table 4: the embedding's part of the smallest model grows 15 times, that of the largest not at all.", "name": "fig-inflation"}, "image": {"alt": "Factors against width: the embedding's falls from 15 to 1, that of biases and gains rises from 1/15 to 1, that of matrices is 1."}}
from sameloss.studies import drawing
from sameloss.studies.same_loss import figures

(ax,) = drawing.panels(1, width=5)
_ = figures.predicted_inflation(enlargement.inflation_table(LADDER), ax)

# %% [markdown]
# So if models of all sizes had *equal* traces, part by part, the enlarged traces would fall with size all the same
# where embeddings dominate. The comparison is tilted toward its conclusion before any model is trained.
#
# ## Figure 5 again
#
# The trace of the smallest model over that of the largest, at one KL and one learning rate, in recorded runs: of native
# parameters, of models enlarged to one width as the paper does, and of the relative trace
# $\sum_l\lVert W_l\rVert_F^2\,\mathrm{Tr} H_{ll}$, which replication does not change ([B Trace](b1_trace.ipynb)), so that it needs no
# enlargement. Above one the larger model is flatter.

# %% mystnb={"figure": {"caption": "The trace of the smallest model over that of the largest, at one KL, with 95 % intervals over replicates, by how parameters are made comparable. Recorded runs.", "name": "fig-enlarged"}, "image": {"alt": "Intervals of the ratio of traces: native, enlarged, relative."}}
from sameloss.studies.same_loss import tables
from sameloss.studies.same_loss.pages import recorded_answers

answers = recorded_answers()
ways = ("main", "relative to squared weights", "enlarged to one width")
rows = answers[(answers.question == "flatness by size") & answers.row.isin(ways)]
groups = dict(list(rows.groupby("language", sort=False)))
axes = drawing.panels(len(groups), width=5)
for (name, own), ax in zip(groups.items(), axes, strict=True):
    figures.effects(own, ax, tables.LANGUAGES[name])

# %%
render(tables.control_table(rows, "flatness by size"), decimals=4)

# %% [markdown]
# So whether larger models are flatter depends on how their parameters are compared. Where the paper's way agrees with
# the claim, compare its ratio with what the law alone gives the embedding.

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
moved = functions.set_index("change").moved
print("replication keeps a pre-LN function:", bool(moved["pre-LN, width × 2"] < 1e-6))
print("replication keeps a post-LN function:", bool(moved["post-LN, width × 2"] < 1e-6))
print("added layers keep a pre-LN function:", bool(moved["pre-LN, 2 layers added"] < 1e-9))
print("added layers keep a post-LN function:", bool(moved["post-LN, 2 layers added"] < 1e-3))
print("the law holds for every parameter:", bool(laws.off.max() < 1e-6))
print(
    "sizes of Table 4 whose printed MLP width embeds:",
    list(ladder[ladder["printed embeds"] == "yes"]["size"]),
)

# %% [markdown]
# ## Errata
#
# - **Zero added layers do not keep a post-LN function**, although Appendix B.1 is written for post-LN.
# - **Table 4's MLP widths** cannot embed as printed; four times the width can.
# - **Replication by $1/2$** multiplies the tied embedding's part of the trace by the ratio of widths, which
#   is largest for the smallest model.
# - **The base case** (B.1.1) divides first and last matrices by $\sqrt2$; B.1.2 divides the embedding by 2. The first
#   would keep the embedding's trace, if the head's LayerNorm took the other $\sqrt2$.
#
# ## Deviations
#
# - The paper compares sizes of Table 4, heads of 64 dimensions each. The laptop's sizes all have two heads, so an
#   enlarged small model has more and narrower heads than the native large one: the same matrices,
#   another partition.
# - Our head has a dense layer and a LayerNorm before the tied embedding, which B.1 does not.
# - Enlarged traces are native ones times the law, which is checked above on a model that was really
#   enlarged.
#
# ## Exercises
#
# 1. Does the law hold in a wider model? `-p size d96`.
# 2. Why does a model that is hardly trained obey it as well? `-p steps 10`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, laws)
