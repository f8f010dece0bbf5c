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
# (mask-rate)=
# # E Masking 15 % of the tokens
#
# **The claim** (Appendix E, Figure 11 of {cite}`liu2023same`): training with the usual mask rate of
# 15 % instead of one mask a sentence changes neither the loss (measured with one mask) nor downstream
# accuracy much, and what was said of size and flatness still holds.
#
# **What you will see**: the two smallest sizes trained both ways for the same number of steps, measured
# in the same way, and the difference with its interval beside what was declared to be "little" beforehand.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, gpu, paper
task: str = "all"  # all, or one downstream task to show: root, span4, span2
steps: int = None  # pre-training steps; None: the preset's
seeds: int = None  # pre-training seeds; None: the preset's
saturated_share: float = None  # share of what context tells that a saturated model may miss; None: 0.03
tolerance: float = None  # relative, of all verdicts; None: each claim's own
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one a core
processes: int = None  # that share one training, each on a core or GPU of its own; None: one
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.studies.same_loss.pages import STUDY

page = begin(globals(), STUDY, "e_mask_rate")

# %%
from sameloss.studies.same_loss.groups import MASK_RATE, ONE_MASK

tasks = page.tasks

# %% [markdown]
# ## The idea
#
# With several masks the model has to predict the marginal of each, given what is left. The paper says
# that such conditionals cost exponentially many terms. For a grammar or a hidden Markov model they do
# not: a masked leaf is summed out inside the dynamic programme (see {ref}`conditionals`), so the
# targets are as exact as with one mask. What is more demanding is the task: the model must be right
# about sentences with one, two or more masks, with the same parameters.

# %%
from sameloss.book.chapter import show_source
from sameloss.languages.masking import mask_share

show_source(mask_share)

# %% [markdown]
# **By hand.** In sentences of $T$ tokens each masked with probability $r$, and one masked where none
# would be, the expected number of masks is $rT + (1-r)^T$: for $T = 8$ and $r = 0.15$,
# $1.2 + 0.85^8 = 1.4725$.

# %%
import numpy as np
import torch

from sameloss.languages import Sentences

drawn = Sentences(torch.ones(200_000, 8).long(), torch.full((200_000,), 8))
round(len(mask_share(drawn, 0.15, np.random.default_rng(0)).targets) / 200_000, 2)

# %% [markdown]
# ## The same loss, the same accuracy?

# %%
from sameloss.book.chapter import render
from sameloss.studies.same_loss.results import final

tables = {"one mask": page.of(ONE_MASK), "15 % masks": page.of(MASK_RATE)}
columns = {"kl_mean": "KL", "trace": "trace", **dict.fromkeys(tasks)}
rows = [final(results).assign(training=name) for name, results in tables.items()]
import pandas as pd

both = pd.concat(rows).groupby(["size", "training"], sort=False)[list(columns)].mean()
render(both.reset_index().rename(columns={"kl_mean": "KL"}), decimals=3)

# %% mystnb={"figure": {"caption": "Accuracy against KL (evaluated with one mask) of models trained with 15 % masks: one line a pre-training, one point a checkpoint, the last outlined. Figure 11, left.", "name": "fig-mask-rate"}, "image": {"alt": "Probe accuracy against KL for models trained with 15 % masking, one colour a size."}}
from sameloss.studies import drawing
from sameloss.studies.same_loss.figures import models as figures

results = page.of(MASK_RATE)
axes = drawing.panels(len(tasks))
for name, ax in zip(tasks, axes, strict=True):
    baselines = results.baseline_table(name)
    figures.accuracy_against_kl(results.checkpoints, name, baselines, results.saturated_kl, ax)
drawing.legend(axes[0])

# %% mystnb={"figure": {"caption": "Accuracy against trace of the last checkpoints trained with 15 % masks. Figure 11, right.", "name": "fig-mask-trace"}, "image": {"alt": "Probe accuracy against Fisher trace for models trained with 15 % masking."}}
axes = drawing.panels(len(tasks))
for name, ax in zip(tasks, axes, strict=True):
    figures.accuracy_against_trace(final(results), name, ax)
drawing.legend(axes[0])

# %% [markdown]
# ## Paper beside ours
#
# "Does not change much" is judged as an equivalence: the effect is the margin declared beforehand
# minus the size of the difference, so it is positive only where the whole interval of the difference
# lies within the margin.

# %%
from sameloss.book.chapter import beside_the_paper

verdicts = beside_the_paper(page)

# %% [markdown]
# - Does accuracy change little? {glue:}`verdict-mask15`. Does the KL stay small? {glue:}`verdict-mask15-kl`.
# - Are larger models more accurate with 15 % masks, net of untrained ones? {glue:}`verdict-mask15-size`; flatter ones
#   (it takes three sizes, of which this page has two)?
#   {glue:}`verdict-mask15-r2`.

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print("KL with 15 % masks ends below 0.1 nats:", bool((final(results).kl_mean < 0.1).all()))

# %% [markdown]
# ## Deviations
#
# - Every masked token is replaced by [MASK]; the released code leaves or swaps a fifth of them.
# - At least one token a sentence is masked. A sentence of $k$ masks is $k$ examples, so a step sees
#   half as many more targets as with one mask.
#
# ## Exercises
#
# 1. Mask a third: `papermill chapters/02_existence.ipynb out.ipynb -p algorithm mask-rate -p strength 0.33`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, pd.concat(rows, ignore_index=True))
