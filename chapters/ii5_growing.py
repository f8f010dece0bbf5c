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
# (growing)=
# # II.5 Growing a trained model
#
# **The claim** (Chapter 5 of {cite}`karp2024thesis`, after {cite}`karp2024landscape`): when a trained transformer is made
# deeper, the loss right after growing does not say which way of growing ends best (Spearman −0.418 over 30
# operators), and the loss a little later does (0.986). So one should not choose the operator that preserves the loss, but try
# all for a few steps and go on with the best: *landscape-aware growing*, LAG.
#
# **What you will see**: shallow models of a language whose entropy is known, grown by every operator of the thesis'
# design space and by two that preserve the function exactly, all trained on the same batches; whether depth gains
# anything there at all; how early the end can be told; what LAG chooses and what it costs; and whether measures of
# the landscape tell as much. The next page, {ref}`stacking`, grows in several stages.
#
# By default three shallow models are grown by six operators and trained for few steps, which may be too few for the gate below and
# all that depends on it; the recorded run, `-p preset laptop-long`, has thirty operators and is longer.
#
# The thesis has one trial an operator. Here every number is over several shallow models, and what is
# chosen by one half of the held-out sentences is judged by the other.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, gpu, paper
seeds: int = None  # shallow models; None: the preset's
base_steps: int = None  # before growing; None: the preset's
steps: int = None  # after growing; None: the preset's
lag: int = None  # steps after which LAG chooses, its k; None: the preset's
label_noise: float = None  # of the labels: 0 exact, 1 sampled as in the thesis; None: the preset's
state: str = None  # of the optimiser: mapped, reset or stale; None: mapped
tolerance: float = None  # relative, of all verdicts; None: each claim's own
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one a core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.studies.growing.pages import STUDY

page = begin(globals(), STUDY, "ii5_growing")

# %% [markdown]
# ## Growth operators
#
# An operator takes $k$ consecutive layers of $L$, from layer $i$ on, in blocks of $b$; behind each block
# stand its new layers. They are copies of the block (*duplicate*), or drawn anew (*random*). That is
# the thesis' design space. Beside it stand two that preserve the function: layers drawn anew
# whose output matrices are zero (*silent*), and copies with output matrices of zero (*muted*).
# The moments of AdamW go where the parameters go; what is new begins without any, at step 0.

# %%
from sameloss.book.chapter import show_source
from sameloss.models.enlarge import repeated

show_source(repeated)

# %% [markdown]
# **By hand.** The thesis' example has six layers, $k = 3$ and $i = 2$ counted from 1: with $b = 1$ it writes 1 2 2 3 3 4 4 5 6,
# with $b = 3$ it writes 1 2 3 4 2 3 4 5 6. Counted from 0, new ones in brackets:

# %%
print(repeated(6, 3, index=1, block=1), repeated(6, 3, index=1, block=3), sep="\n")

# %% mystnb={"figure": {"caption": "The maps of this page: which layer of the shallow model stands at each place of the grown one, or is repeated there (blue: new).", "name": "fig-maps"}, "image": {"alt": "One row a map, with the numbers of the shallow model's layers in the order of the grown one."}}
from sameloss.studies import drawing
from sameloss.studies.growing import show

grown = page.results
show.layer_maps(grown, drawing.panels(1, width=6)[0])

# %% [markdown]
# ## Is there depth to gain?
#
# Operators can only differ in what is worth having where a deeper model is better. Two checks come first. How much
# of what a sentence tells about a masked word lies beyond its neighbours, which one layer can read:

# %%
from sameloss.book.chapter import render

locality = page.store.get(page.locality).rename(
    columns={"window": "words beyond a distance of", "mean": "nats"}
)
render(locality, decimals=4)

# %% [markdown]
# And the gate: the share of the KL by which the best grown model ends below the shallow one that goes on as it is, on
# the same batches and at the same rates, is {glue:text}`headroom`.

# %% tags=["remove-cell"]
from myst_nb import glue

glue("headroom", show.headroom_in_words(grown.headroom()), display=False)
glue("ceiling", show.ceiling_in_words(grown), display=False)
glue("transition", show.transition_in_words(grown), display=False)
glue("lag", str(page.config.lag), display=False)
glue("steps", str(page.config.steps), display=False)

# %% mystnb={"figure": {"caption": "KL after growing, mean over the shallow models, one line an operator. At step 0 copies have disrupted the function; the others have preserved it, exactly or nearly.", "name": "fig-after-growing"}, "image": {"alt": "KL against steps after growing on logarithmic axes; copies begin above the others and fall fastest."}}
(ax,) = drawing.panels(1, width=6)
show.after_growing(grown, ax)
drawing.legend(ax)

# %%
render(show.operator_table(grown), decimals=4)

# %% [markdown]
# ## The first loss, the early loss, the last (Figure 5.2)

# %% mystnb={"figure": {"caption": "Figure 5.2: the final KL of every operator against the KL right after growing (left) and after 5 % of the steps (right), each over the mean of its shallow model's candidates.", "name": "fig-early-final"}, "image": {"alt": "Two scatter plots of the final KL, coloured by how new layers begin."}}
axes = drawing.panels(2, width=4.5)
show.early_against_final(grown, 0, "right after growing", axes[0])
show.early_against_final(grown, grown.early, f"after {grown.steps[grown.early]} steps", axes[1])
drawing.legend(axes[0])

# %% [markdown]
# Correlations are taken within each shallow model and averaged over them. Where all operators together
# are ordered one way and those that begin alike another way, the pooled number is about the ways and not about the loss:

# %%
render(show.correlation_table(grown))

# %% [markdown]
# ## How early? (Figure 5.3)
#
# {glue:text}`transition`.

# %% mystnb={"figure": {"caption": "Figure 5.3: by step after growing (0 stands at the left end), the rank correlation with the final KL; the correlation between any two looks, and where later ones begin to agree (lines); how often the best operator is among the first; and the relative regret of choosing then. Bands: 95 % over shallow models.", "name": "fig-how-early"}, "image": {"alt": "Four panels against the steps after growing: correlation, a map of correlations between looks, recall, and relative regret."}}
curve = show.how_early(grown, drawing.panels(4, width=4.5))

# %% [markdown]
# {glue:text}`ceiling`. Move the step to see what one would choose then:

# %%
from sameloss.book.movable import movable_growth
from sameloss.studies.recorded import record_in_words, recorded

thirty = page.recorded("laptop-long")
movable_growth({f"preset {page.config.name}": grown, "recorded, thirty operators": thirty})

# %% [markdown]
# ## What LAG chooses, and what it costs (Tables 5.1 and 5.2)
#
# LAG trains all candidates for {glue:text}`lag` of {glue:text}`steps` steps, and goes on with the best. What each way to choose ends
# with, over what the best operator of the same shallow model ends with (95 % intervals over shallow models):

# %%
render(show.choice_table(grown), decimals=4)

# %% [markdown]
# The thesis' numbers, from one trial an operator (losses in nats a token of natural text):

# %%
render(show.PUBLISHED_CHOICES, decimals=4)

# %% [markdown]
# Trying has a price, which the thesis does not count: with its 30 operators LAG@200 takes 5.8 % of the 100,000 steps that
# follow, LAG@2000 takes 58 %.
#
# The thesis sets $k$ by eye, some steps after looks begin to agree. Two rules need no eye: *halving* {cite}`jamieson2016best` drops the worse half
# at a first step, at twice that, and so on; *when settled* waits until the same candidate has been best for half of the
# steps taken.

# %% mystnb={"figure": {"caption": "Relative regret of each way to choose, with 95 % intervals over shallow models, against what trying the others costs.", "name": "fig-regret-by-cost"}, "image": {"alt": "Regret against cost on a logarithmic axis: a curve for LAG by its step, points for halving and for waiting."}}
selection = show.selection_table(grown)
(ax,) = drawing.panels(1, width=6.5)
show.regret_by_cost(selection, grown.random_choice_regret().mean(), ax)
drawing.legend(ax)

# %%
render(selection, decimals=2)

# %% [markdown]
# ## What the grown models know (Table C.1)
#
# Linear probes, solved to their optimum, read the hidden symbols of the grammar off all token representations: accuracies in per
# cent, mean over the shallow models. An untrained deep model is the control. The thesis' table has three tasks in one shot, and
# one trial: 28.18, 25.23, 21.82, 21.59 and 21.82 % on TyDi QA for oracle, LAG, LAG@0, last and random on top.

# %%
render(show.downstream_table(grown, page.tables()["downstream"]), decimals=2)

# %% [markdown]
# ## Does the landscape tell as much?
#
# Measured where each operator puts the model, before any step: rank correlations with the final KL. Positive: the
# flatter ends better.

# %%
render(show.landscape_table(grown))

# %% [markdown]
# ## Thirty operators, and how the picture fades
#
# {glue:text}`record`
#
# The recorded run grows six layers to ten, on a language of sentences twice as long, by the thirty operators of eighteen maps
# and fillings of the thesis' and twelve that preserve the function. Depth gains {glue:text}`headroom-thirty`.
# {glue:text}`ceiling-thirty`.

# %% mystnb={"figure": {"caption": "Figure 5.3 with thirty operators, recorded: correlation, self-correlation, recall and regret as above.", "name": "fig-thirty"}, "image": {"alt": "Four panels against the steps after growing, for thirty operators."}}
_ = show.how_early(thirty, drawing.panels(4, width=4.5))

# %%
render(show.choice_table(thirty), decimals=4)

# %% [markdown]
# With nine maps a way, correlations within each way to begin say more than with two; and again the landscape, and what the models
# know:

# %%
render(show.correlation_table(thirty))

# %%
render(show.landscape_table(thirty))

# %%
render(show.downstream_table(thirty, recorded("downstream", "laptop-long", "ii5_growing")), decimals=2)

# %% tags=["remove-cell"]
glue("record", record_in_words("laptop-long", "ii5_growing"), display=False)
glue("ceiling-thirty", show.ceiling_in_words(thirty), display=False)
glue("headroom-thirty", show.headroom_in_words(thirty.headroom()), display=False)

# %% [markdown]
# The thesis grows after 83 % and 75 % of the pre-training. Here other shallow models of this page's shape, and on its language, are grown at several ages,
# up to sixteen times as long: towards saturation, where a model has learnt what it can hold.

# %% mystnb={"figure": {"caption": "Recorded: by the steps of the shallow models, what depth gains and how much operators differ at the end (left), and when the end can be told (right).", "name": "fig-ages"}, "image": {"alt": "Two panels: spread and gain against the age of the shallow model; correlation with the final KL by step, one line an age."}}
left, right = drawing.panels(2, width=4.5)
show.spread_by_age(thirty, left)
left.legend(fontsize="small")
show.correlation_by_age(thirty, right)
_ = right.legend(title="before growing", fontsize="small")

# %%
render(show.age_table(thirty), decimals=3)

# %% [markdown]
# ## Thesis beside ours

# %%
from sameloss.book.chapter import beside_the_paper

verdicts = beside_the_paper(page)

# %% [markdown]
# **What it shows.** Does the initial loss mislead? {glue:}`verdict-grow-initial`; among copies alone?
# {glue:}`verdict-grow-initial-copies`. Does the early loss tell the end? {glue:}`verdict-grow-early`. Is LAG better than
# choosing by the initial loss? {glue:}`verdict-grow-lag-initial`; than a lot? {glue:}`verdict-grow-lag-lot`. Is the best
# operator the same for every shallow model? {glue:}`verdict-grow-shared`. Is growing worth more than training from
# nothing? {glue:}`verdict-grow-scratch`. Does LAG's choice know more than that by the initial loss?
# {glue:}`verdict-grow-knows-initial`. Do operators differ less the longer the shallow model was trained?
# {glue:}`verdict-grow-age-spread`.

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
import torch

from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import PRESERVING, grow

model = Encoder(EncoderShape(8, 2, 2, 16), words=5, max_length=6, seed=0).double()
tokens, positions = torch.tensor([[1, 2, 0, 3, 4, 5]]), torch.tensor([2])
for filling in PRESERVING:
    deeper = grow(model, repeated(2, 2, 0, 1), filling, torch.Generator().manual_seed(0))
    moved = (deeper(tokens, positions) - model(tokens, positions)).abs().max()
    print(f"{filling} layers preserve the function:", bool(moved < 1e-12))

# %% [markdown]
# ## Deviations
#
# - Random hierarchies of {cite}`cagnetta2024how` instead of natural text, and models of a few layers. On the default
#   language of Part I depth gains nothing, so nothing about growing can be tested there.
# - Exact labels at the laptop's presets: with sampled ones the models go up and down by more than operators differ. `-p
#   label_noise 1` has them.
# - A pilot with five other shallow models chose from the gate how many layers are grown, and LAG's k as the thesis does, by eye, "some
#   margin" after looks begin to agree. It saw what this page shows; this page's models are new.
# - After growing the rate falls linearly to zero. The thesis keeps it constant for BERT, and has a cosine for UL2.
# - What becomes of the moments of new layers the thesis does not say. `-p state reset` forgets all, `-p state stale` keeps
#   the old number of steps with moments of zero.
# - The thesis counts layers from 1 in its text and from 0 in its experiments; here they count from 0.
# - Table C.1 is about questions in natural language; here a grammar's hidden symbols are read by linear probes.
# - A candidate that diverges is ranked last, with the largest KL of its shallow model's, and named where it happens.
#
# ## Exercises
#
# 1. Does the picture survive sampled labels? `-p label_noise 1`.
# 2. How much of the order is chance? `-p seeds 8`.
# 3. What if the optimiser forgets? `-p state reset`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, curve)
