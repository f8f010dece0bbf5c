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
# Which of the published results does this book reproduce? This page compares published claims with what the book
# computed; [Deviations](deviations.md) lists those that it does not ask. Each verdict follows from an interval and a tolerance that were
# fixed before the runs (the [Protocol](protocol.md) lists what was changed later). Effects are oriented so that the paper predicts a positive number, or a ratio above one.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, pretrained, gpu-hour, gpu, paper
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.book.pages import STUDY

page = begin(globals(), STUDY, "verdicts")

# %%
import pandas as pd

from sameloss.book.chapter import say
from sameloss.book.pages import all_statements
from sameloss.book.verdict_table import counted
from sameloss.studies.same_loss import tables
from sameloss.studies.same_loss.pages import recorded_answers
from sameloss.studies.verdict import strongest

answers, theory = recorded_answers(), all_statements(page.pages)
judged = answers[(answers.row == "main") & (answers.direction != "not judged")]
part_two = [strongest(other.evidence(other.verdicts())).verdict for other in page.judging]
say(f"""
- **Part I**, the main comparisons, from recorded runs: {counted(judged.direction)}.
- **Part II**, each claim from the longest runs that could test it: {counted(pd.concat(part_two))}.
- **Lemmas and theorems**: {counted(theory.verdict)}.

The section *What the words mean* defines these verdicts.
""")

# %% [markdown]
# ## Part I
#
# The main comparison for each question and language, from recorded runs, with 95 % intervals over replicates (widened by
# Holm's procedure for their number). The chapters have the controls and all numbers.

# %%
from sameloss.book.chapter import render

render(tables.answer_table(answers))

# %% [markdown]
# **Like for like.** The paper reads each model by its own features. So did the first edition of our protocol in a row beside the main
# one, which gives all models equally many. Both, and fine-tuning, at the smallest KL that both sizes reach, with intervals that are
# not corrected:

# %%
from myst_nb import glue

size = answers[(answers.question == "size") & (answers.language == "grammar")].set_index("row")
own, tuned, equal = (size.loc[row] for row in ("features as they are", "fine-tuned", "main"))
like_for_like = f"""
Read as the paper reads them, by their own features, the largest models lead the smallest by {own["mean"]:.1f} points at equal KL
({own.low:.1f} to {own.high:.1f}; the paper, in proportion to our sizes: {equal.published:.1f}). Fine-tuned, they lead by
{tuned["mean"]:.1f} ({tuned.low:.1f} to {tuned.high:.1f}); read by equally many features, by {equal["mean"]:.1f}
(p = {equal.p:.2f}), so that most of the difference is one of linear readability. The smallest models had then learnt
{100 - equal.unlearnt:.0f} % of what a bag of words leaves.
""".replace("\n", " ").strip()
glue("like-for-like", like_for_like, display=False)
say(like_for_like)

# %%
say(tables.conclusion(answers))

# %% tags=["remove-input"]
from sameloss.studies.same_loss.pages import records_in_words

say(records_in_words())

# %% [markdown]
# ## Part II
#
# The claims of the thesis chapters that Part II reproduces, one table per chapter. Points show the effect with its 95 %
# interval over seeds, filled for recorded runs and open for the runs of this page's preset.

# %%
from sameloss.book.chapter import beside_the_paper

elsewhere = [
    beside_the_paper(other, home=True) for other in sorted(page.judging, key=lambda other: other.name)
]

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
# | not testable | a rule of the protocol forbids a verdict, for the reason given in the table |
#
# | size | the interval, compared with the published number |
# |---|---|
# | as published | within 25 % of it |
# | smaller, larger | wholly below or above that range |
# | imprecise | none of these |
#
# Part II:
#
# | verdict | meaning |
# |---|---|
# | reproduced | the whole 95 % interval is within the tolerance around the published number, and above zero |
# | direction confirmed | only a direction is published, and the whole interval is above zero |
# | smaller than published | the whole interval is below the tolerance; it may contain zero, since a precise null is a result |
# | larger than published | the whole interval is above the tolerance |
# | not decided | the interval is too wide: it overlaps an edge of the tolerance (or zero, for a direction only) |
# | contradicted | the whole interval is below zero |
# | not testable here | these runs cannot decide the claim, for example because the models are not saturated |
#
# A wider interval never yields a stronger verdict. In Part II each interval has 95 % coverage on its own; the sentence below each
# table says how many would lie above zero by chance alone. Where a claim has a bound ("by less than 2 points"), the effect is what is
# left to that bound.

# %% [markdown]
# ## Lemmas and theorems
#
# Each statement of [3 Implicit bias](03_implicit_bias.ipynb), [5 Dyck](05_dyck.ipynb), [II.2 Stability](ii2_stability.ipynb), [II.3a Local signal](ii3_local_signal.ipynb), [II.3b Proofs](ii3_proofs.ipynb),
# [II.3c Images](ii3_images.ipynb) and [II.4 Decision lists](ii4_decision_lists.ipynb) is checked numerically, as printed and as corrected. It *holds* if all
# checks pass, and *holds as corrected* if a computed number refutes the printed form and the correction passes all of its
# checks; otherwise the book shows a counter-example. Places are those of the paper on the first two pages, and those of the thesis on
# the pages of Part II.

# %%
columns = ["page", "place", "statement", "checks", "verdict", "correction"]
render(theory.sort_values("page", kind="stable")[columns])

# %% tags=["remove-cell"]
from sameloss.book.chapter import glue_findings

judged = answers[answers.direction != "not judged"]
glue_findings(tables.findings(judged), tables.conclusion(answers, linked=True), theory)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print(
    "every question has a page:", set(answers.question) <= {q for own in tables.PAGES.values() for q in own}
)
print("statements without a counter-example:", set(theory.verdict) <= {"holds", "holds as corrected"})

# %% [markdown]
# All verdicts from laptop runs concern small languages and small models. They say whether a phenomenon appears there, not
# whether the published numbers are right.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, answers)
