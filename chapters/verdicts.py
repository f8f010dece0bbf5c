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
# (verdicts)=
# # Verdicts
#
# Everything the paper publishes, beside what this book computed, with a verdict that follows from
# an interval and a tolerance fixed in `sameloss.studies.same_loss.claims` before the runs. Effects are oriented so
# that the paper's claim is a positive number.
#
# **Counted**, by the strongest evidence that there is on each: claims: {glue:text}`claim-counts`; lemmas and theorems:
# {glue:text}`theory-counts`. What the words mean stands under {ref}`verdict-words`.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, gpu, paper
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
from sameloss.book.pages import STUDY

page = begin(globals(), STUDY, "verdicts")

# %% [markdown]
# ## Claims
#
# One line a claim, under the question that it is about, with its 95 % interval: full points are recorded runs, open
# ones those of this page, and the dashed tick is the paper's number. The name of a claim leads to its chapter.

# %%
from sameloss.book.chapter import beside_the_paper

verdicts = beside_the_paper(page, home=True)

# %% [markdown]
# How many claims have which verdict:

# %%
from sameloss.book.chapter import render
from sameloss.book.verdict_table import counts

render(counts(page.evidence(verdicts)), decimals=0)

# %% [markdown]
# ## Part II
#
# The same of the thesis whose chapters Part II reproduces.

# %%
elsewhere = [beside_the_paper(other, home=True) for other in page.part_two]

# %% [markdown]
# (verdict-words)=
# ## What the words mean
#
# | verdict | meaning |
# |---|---|
# | reproduced | the whole 95 % interval lies within the tolerance around the published number, and above zero |
# | direction confirmed | the paper states a direction only, and the whole interval is above zero |
# | smaller than published | the whole interval lies below the tolerance; it may contain zero: a precise null is a result |
# | larger than published | the whole interval lies above the tolerance |
# | not decided | the interval is too wide: it overlaps an edge of the tolerance (where there is a direction only: zero) |
# | contradicted | the whole interval is below zero |
# | not testable here | it cannot be computed from these runs, for example because models are not saturated |
#
# A wider interval never gets a stronger word. Each interval is at 95 % by itself; under the table of claims stands
# how many of them would lie above zero by chance alone.

# %% [markdown]
# ## Lemmas and theorems
#
# Each statement of {ref}`implicit-bias`, {ref}`dyck`, {ref}`stability`, {ref}`local-signal`,
# {ref}`local-signal-proofs`, {ref}`local-signal-images` and {ref}`decision-lists` is judged by checks of what is printed and of its
# correction: it *holds* where all pass, *holds as corrected* where a computed number refutes what is printed
# and the correction passes all of its checks; otherwise the book shows a counter-example.

# %%
from sameloss.book.verdicts import all_statements

theory = all_statements(page.pages)
render(theory.drop(columns="page"))

# %% tags=["remove-cell"]
from sameloss.book.chapter import glue_findings

glue_findings(page, verdicts, theory)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
from sameloss.studies.same_loss.claims import CLAIMS

print("every published claim has a verdict:", set(verdicts.id) == {claim.id for claim in CLAIMS})
print("statements without a counter-example:", set(theory.verdict) <= {"holds", "holds as corrected"})

# %% [markdown]
# A verdict at the laptop preset is about the laptop's small language and models. It says whether
# the phenomenon shows there, not whether the paper's numbers are right.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, verdicts)
