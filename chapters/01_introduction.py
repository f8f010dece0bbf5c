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
# (introduction)=
# # 1 The argument in one page
#
# **The paper** {cite}`liu2023same` asks what a language model's pre-training loss does *not* say. Its
# answer in four steps: (1) models with the same, best possible loss differ downstream; (2) what
# differs is the flatness of the minimum that training found; (3) the noise of stochastic gradients
# drives training to flat minima; (4) so the training algorithm matters beyond the loss it reaches.
#
# **This page** says what was found, then goes through the four steps with figures of the recorded runs.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, gpu, paper
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one a core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.studies.same_loss.pages import STUDY

page = begin(globals(), STUDY, "01_introduction")

# %% [markdown]
# ## What was found
#
# The main comparison of each question on each language, from recorded runs, with 95 % intervals. Each line leads to its
# chapter.
#
# ```{glue:} findings
# :doc: verdicts.ipynb
# ```
#
# ## Why this can be decided at all
#
# For natural text nobody knows the best possible loss. For a language that a grammar generates, the
# conditional $\Pr(x_t\mid x_{-t})$ of a masked word is computed exactly, so the loss splits into the
# language's entropy, which no model can beat, and the model's KL divergence from the truth. A model
# whose KL is almost zero is *saturated*: nothing is left to learn about masked words. Models are compared where
# they have the *same* KL, trained at the same learning rate ({ref}`protocol`).
#
# ## The same loss, another accuracy?

# %% mystnb={"figure": {"caption": "Accuracy of linear probes against KL: one line a size, one point a complete training, means over replicates. Features are brought to one number for all models. Horizontal lines: bare tokens, and the lookup table of true conditionals, whose loss is perfect. Recorded runs.", "name": "fig-argument-loss"}, "image": {"alt": "Probe accuracy against KL, one line a size, with horizontal lines for bare tokens and the lookup table."}}
from sameloss.studies import drawing
from sameloss.studies.same_loss import figures, tables
from sameloss.studies.same_loss.pages import recorded_answers, recorded_measurements

record, answers = recorded_measurements(), recorded_answers()
languages = dict(list(record.groupby("language", sort=False)))
axes = drawing.panels(len(languages), width=5)
for (name, own), ax in zip(languages.items(), axes, strict=True):
    figures.accuracy_against_kl(own, ax).set_title(tables.LANGUAGES[name])
drawing.legend(axes[0])

# %% [markdown]
# **Move the line.** All trainings are compared where the dashed line is: drag it, or use the slider, and read in the table
# what models of exactly that loss reach. Hover over a point to see its replicate, steps and trace.

# %% tags=["hide-input"]
from sameloss.book.movable import Panel, movable_accuracy

panels = {}
for name, own in languages.items():
    runs = tables.descents_by_task(own)
    panels[tables.LANGUAGES[name]] = Panel(runs, [task for task in own.task.unique() if task])
movable_accuracy(panels)

# %%
from sameloss.book.chapter import render

render(tables.answer_table(answers, tables.PAGES["02_existence"]))

# %% [markdown]
# Wider models give their probe more features to read. {ref}`existence` has what is left of the difference when they do not,
# and each control.
#
# ## Flatness

# %% mystnb={"figure": {"caption": "Fisher trace against KL: one line a size and learning rate, the main rate solid. Recorded runs.", "name": "fig-argument-trace"}, "image": {"alt": "Fisher trace against KL, one line a size, solid and dotted for two learning rates."}}
axes = drawing.panels(len(languages), width=5)
for (name, own), ax in zip(languages.items(), axes, strict=True):
    figures.trace_against_kl(own, ax).set_title(tables.LANGUAGES[name])
drawing.legend(axes[0])

# %%
render(tables.answer_table(answers, tables.PAGES["04_flatness"]))

# %% [markdown]
# The learning rate moves the trace more than the size does, so sizes are compared at one rate. How parameters of
# different sizes are made comparable decides as well: {ref}`enlargement`. Details: {ref}`flatness`.
#
# ## Noise, steps, and the algorithm

# %% mystnb={"figure": {"caption": "After convergence, at a constant rate: the trace falls with the steps (left), the accuracy hardly moves (right). Sampled labels solid, exact labels dashed. Recorded runs.", "name": "fig-argument-noise"}, "image": {"alt": "Left, Fisher trace against steps at a constant rate; right, probe accuracy."}}
left, right = drawing.panels(2, width=4.5)
figures.along_plateau(languages["grammar"], "trace", figures.TRACE, left)
figures.along_plateau(languages["grammar"], "accuracy", figures.ACCURACY, right)
drawing.legend(left)

# %%
render(tables.answer_table(answers, tables.PAGES["a4_algorithms"]))

# %% [markdown]
# The last table asks what decides the argument: one saturated model, made flatter or sharper in several ways and brought
# back to one loss ({ref}`algorithms`).
#
# Everything published, with its verdict: {ref}`verdicts`.

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print(
    "every question has a page:", set(answers.question) <= {q for own in tables.PAGES.values() for q in own}
)

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, record)
