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
# # Verdicts
#
# All published claims beside what this book computed. Each verdict follows from an interval and a tolerance fixed before the
# runs ([Protocol](protocol.md)). Effects are oriented so that the paper predicts a positive number, or a ratio above one.
#
# **Counts.** Questions of Part I: {glue:text}`claim-counts`. Lemmas and theorems: {glue:text}`theory-counts`. The words are
# defined under the words below.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, gpu, paper
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.book.pages import STUDY

page = begin(globals(), STUDY, "verdicts")

# %% [markdown]
# ## Part I
#
# The main comparison for each question and language, from recorded runs, with 95 % intervals over replicates (widened by
# Holm's procedure for their number); the chapters have the controls and all numbers.

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
print(f"{untestable} of {len(judged)} are not testable, for the reasons given.")

# %% [markdown]
# ## Part II
#
# The claims of the thesis chapters that Part II reproduces.

# %%
from sameloss.book.chapter import beside_the_paper

elsewhere = [beside_the_paper(other, home=True) for other in page.judging]

# %% [markdown]
# ## What the words mean
#
# Part I:
#
# | direction | meaning |
# |---|---|
# | supported | the whole interval is on the paper's side; for "changes little", within the margin |
# | against | the whole interval is on the other side |
# | unclear | the interval contains both |
# | not testable | these models could not have shown the effect, for the reason given |
#
# | size | the interval, compared with the published number |
# |---|---|
# | as published | within 25 % of it |
# | smaller, larger | wholly below, above that range |
# | imprecise | none of these |
#
# Part II:
#
# | verdict | meaning |
# |---|---|
# | reproduced | the whole 95 % interval is within the tolerance around the published number, and above zero |
# | direction confirmed | the paper states a direction only, and the whole interval is above zero |
# | smaller than published | the whole interval is below the tolerance; it may contain zero: a precise null is a result |
# | larger than published | the whole interval is above the tolerance |
# | not decided | the interval is too wide: it overlaps an edge of the tolerance (or zero, for a direction only) |
# | contradicted | the whole interval is below zero |
# | not testable here | these runs cannot decide it, for example because models are not saturated |
#
# A wider interval never gets a stronger verdict. Each interval has 95 % coverage on its own; the line under each table says
# how many would lie above zero by chance alone.

# %% [markdown]
# ## Lemmas and theorems
#
# Each statement of [3 Implicit bias](03_implicit_bias.ipynb), [5 Dyck](05_dyck.ipynb), [II.2 Stability](ii2_stability.ipynb), [II.3a Local signal](ii3_local_signal.ipynb), [II.3b Proofs](ii3_proofs.ipynb),
# [II.3c Images](ii3_images.ipynb) and [II.4 Decision lists](ii4_decision_lists.ipynb) is checked numerically, as printed and as corrected. It *holds* if all
# checks pass, and *holds as corrected* if a computed number refutes the printed form and the correction passes all of its
# checks; otherwise the book shows a counter-example.

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
# A verdict at the laptop preset is about small languages and models. It says whether the phenomenon appears there, not
# whether the paper's numbers are right.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, answers)
