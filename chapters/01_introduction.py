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
# **This page** says what was found, then goes through the four steps with four figures, drawn from the very runs
# of the other chapters.

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
from sameloss.studies.same_loss.pages import STUDY

page = begin(globals(), STUDY, "01_introduction")

# %% [markdown]
# ## What was found
#
# The strongest evidence that this book has on each question: recorded runs before the default's, more seeds before
# fewer. Each line leads to its claim.
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
# whose KL is almost zero is *saturated*: nothing is left to learn about masked words.
#
# ## The same loss, another accuracy

# %% mystnb={"figure": {"caption": "Accuracy of linear probes against KL. One line a pre-training, going from left to right, one point a checkpoint; in the shaded region models are saturated. The lookup table (dashed) represents each token by its true conditional: its loss is perfect.", "name": "fig-argument-loss"}, "image": {"alt": "Probe accuracy on task B against KL by model size, with baselines."}}
from sameloss.studies import drawing
from sameloss.studies.same_loss.figures import models as figures
from sameloss.studies.same_loss.groups import ADAMW, ADVERSARIAL, HMM, MAIN, NOISE, OPT
from sameloss.studies.same_loss.results import final

results = page.of(MAIN)
name = page.tasks[:2][-1]
(ax,) = drawing.panels(1, width=6)
baselines = results.baseline_table(name)
figures.accuracy_against_kl(results.checkpoints, name, baselines, results.saturated_kl, ax)
drawing.legend(ax)

# %% tags=["remove-cell"]
from sameloss.book.chapter import glue_verdicts

glue_verdicts(page, page.verdicts())
# %% tags=["remove-cell"]
from myst_nb import glue

from sameloss.studies.same_loss.groups import readings
from sameloss.studies.same_loss.results import by_protocol
from sameloss.studies.same_loss.tables.comparison import control_in_words, control_table

names = readings(results.group)
control = control_table(results, by_protocol(results, names), [name])
for at, reading in enumerate(names):
    glue(f"control-{at}", control_in_words(control, reading, name), display=False)
glue("control-task", name, display=False)

# %% [markdown]
# **Move the line.** All runs are compared where the dashed line is: drag it, or use the slider, and read in the table
# what models of exactly that loss reach. Points tell their run, step and trace when the pointer rests on them.

# %% tags=["hide-input"]
from sameloss.book.movable_accuracy import Panel, movable_accuracy
from sameloss.studies.same_loss.tables.comparison import arm_checkpoints

panels = {arm.of(page.config.shown).language: page.of(arm) for arm in (MAIN, HMM, OPT)}
panels = {f"{name}, by size": Panel(own.checkpoints, own.group.tasks) for name, own in panels.items()}
trained = arm_checkpoints(page, page.present([ADAMW, *ADVERSARIAL]))
movable_accuracy(panels | {"by algorithm": Panel(trained, page.tasks, by="algorithm")})

# %% [markdown]
# - Does a lookup table, with a perfect loss, probe worse than trained models? On task A
#   {glue:}`verdict-tab1-lookup-A`; on task B {glue:}`verdict-tab1-lookup-B`.
# - Are larger models better after the same steps, net of untrained ones? {glue:}`verdict-fig2`; at exactly equal
#   KL: {glue:}`verdict-size-matched`. Details: {ref}`existence`.
# - On {glue:text}`control-task` the largest saturated size over the smallest is, read by a probe that is solved to
#   its optimum, {glue:text}`control-0`; with features projected to equal capacity, {glue:text}`control-1`; by the
#   paper's probe, {glue:text}`control-2`. Only what is beyond the untrained control is an effect of pre-training.
#
# ## Flatness

# %% mystnb={"figure": {"caption": "Accuracy against the trace of the Hessian (its Fisher form, native parameters) of saturated checkpoints, on the three languages. The paper's claim: points fall to the right.", "name": "fig-argument-trace"}, "image": {"alt": "Accuracy against trace on the PCFG, the HMM and the stand-in, by size."}}
axes = drawing.panels(3)
for arm, ax in zip((MAIN, HMM, OPT), axes, strict=True):
    other = page.of(arm)
    figures.accuracy_against_trace(final(other), other.group.tasks[:2][-1], ax)
drawing.legend(axes[0])

# %% [markdown]
# - Is the flatter model the more accurate one across sizes, of which it takes three? PCFG {glue:}`verdict-fig5-r2`, HMM
#   {glue:}`verdict-fig5-hmm`, stand-in {glue:}`verdict-fig5-opt`.
# - Are larger models flatter, over their own parameters? {glue:}`verdict-fig5-trace`. How sizes are
#   made comparable decides this: {ref}`enlargement`. Details: {ref}`flatness`.
#
# ## The noise flattens

# %% mystnb={"figure": {"caption": "From one saturated point, SGD with the noise of its labels switched off (s = 0) and left alone (s = 1): the trace and the accuracy on task A.", "name": "fig-argument-noise"}, "image": {"alt": "Trace and accuracy along SGD with and without label noise."}}
noisy, probed = arm_checkpoints(page, page.present(NOISE)), page.tasks[0]
left, right = drawing.panels(2, width=4.5)
figures.along_training(noisy, "trace", figures.TRACE_LABEL, left, log=True, by="algorithm")
figures.along_training(noisy, probed, figures.accuracy_label(probed), right, log=False, by="algorithm")
drawing.legend(left)

# %% [markdown]
# Noise also lifts the loss, so every model is cooled down to one KL before it is compared:
#
# - Does label noise lower the trace? {glue:}`verdict-noise-trace`.
# - Does it raise accuracy thereby? {glue:}`verdict-noise-accuracy`; does sharpening lower it?
#   {glue:}`verdict-sharpened-accuracy`. Over all treatments, task A: {glue:}`verdict-dose-A`; task B:
#   {glue:}`verdict-dose-B`. Details: {ref}`algorithms`.
#
# ## The algorithm matters

# %% mystnb={"figure": {"caption": "Recorded: adversarial pre-training of three strengths beside AdamW, accuracy against KL. At the same KL the loss is the same.", "name": "fig-argument-adversary"}, "image": {"alt": "Accuracy against KL for AdamW and an adversary."}}
from sameloss.studies.same_loss.recorded import rows, strongest_record

names, tasks = [arm.label for arm in (ADAMW, *ADVERSARIAL)], page.tasks[:2]
record = strongest_record("checkpoints", algorithm=names[-1])
(attacked,) = rows(record, "checkpoints", algorithm=names[-1])["size"].unique()
along = rows(record, "checkpoints", language="PCFG", size=attacked).query("algorithm in @names")
axes = drawing.panels(len(tasks), width=4.5)
for task, ax in zip(tasks, axes, strict=True):
    figures.accuracy_against_kl(along, task, baselines.iloc[:0], results.saturated_kl, ax, by="algorithm")
drawing.legend(axes[0])

# %% [markdown]
# - Are an adversary's models worse at exactly equal KL? Task A
#   {glue:}`verdict-tab1-adversarial-A-matched`, task B {glue:}`verdict-tab1-adversarial-B-matched`.
# - And sharper? {glue:}`verdict-tab2-trace-matched`. Details: {ref}`algorithms`.
#
# Everything published, with its verdict: {ref}`verdicts`.

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
last = final(results)
print("every model ends with KL below 0.1 nats:", bool((last.kl_mean < 0.1).all()))

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page)
