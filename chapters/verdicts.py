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
# Everything the paper publishes, beside what this book computed, with a verdict that follows from an interval and a
# tolerance fixed before the runs ({ref}`protocol`). Effects are oriented so that the paper's claim is a positive number, or a
# ratio above one.
#
# **Counted**: questions of Part I: {glue:text}`claim-counts`; lemmas and theorems: {glue:text}`theory-counts`. What the words
# mean stands under {ref}`verdict-words`.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, gpu, paper
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one a core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.book.pages import STUDY

page = begin(globals(), STUDY, "verdicts")

# %% [markdown]
# ## Part I
#
# The main comparison of each question on each language, from recorded runs, with 95 % intervals over replicates (wider
# by Holm's rule for their number); each page has the controls and every number.

# %%
from sameloss.book.chapter import render
from sameloss.studies.same_loss import tables
from sameloss.studies.same_loss.pages import recorded_answers

answers = recorded_answers()
render(tables.answer_table(answers))

# %% tags=["remove-input"]
from IPython.display import Markdown

from sameloss.studies.recorded import record_in_words

Markdown(f"{record_in_words('workstation')} {tables.chance_in_words(answers)}")

# %%
judged = answers[(answers.row == "main") & (answers.direction != "not judged")]
untestable = judged.direction.eq("not testable").sum()
print(f"{untestable} of {len(judged)} are not testable, for the reasons that stand beside them.")

# %% [markdown]
# ## Part II
#
# The same of the thesis whose chapters Part II reproduces.

# %%
from sameloss.book.chapter import beside_the_paper

elsewhere = [beside_the_paper(other, home=True) for other in page.judging]

# %% [markdown]
# (verdict-words)=
# ## What the words mean
#
# Part I:
#
# | direction | meaning |
# |---|---|
# | supported | the whole interval lies on the paper's side; of "changes little", within the margin |
# | against | the whole interval lies on the other side |
# | unclear | the interval contains both |
# | not testable | the effect could not have shown in these models, for the reason given |
#
# | size | the interval, beside a published number |
# |---|---|
# | as published | it lies within 25 % of it |
# | smaller, larger | it lies wholly below, above that |
# | imprecise | it does neither |
#
# Part II:
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
from sameloss.book.pages import all_statements

theory = all_statements(page.pages)
render(theory.drop(columns="page"))

# %% tags=["remove-cell"]
from sameloss.book.chapter import glue_findings

glue_findings(tables.findings(answers[answers.direction != "not judged"]), theory)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print(
    "every question has a page:", set(answers.question) <= {q for own in tables.PAGES.values() for q in own}
)
print("statements without a counter-example:", set(theory.verdict) <= {"holds", "holds as corrected"})

# %% [markdown]
# A verdict at the laptop preset is about the laptop's small language and models. It says whether
# the phenomenon shows there, not whether the paper's numbers are right.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, answers)
