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
# # 1 The argument on one page
#
# [Liu et al., 2023](bibliography.md) ask what the pre-training loss of a language model does *not* tell us. Their argument
# has four steps: (1) models with the same, optimal loss differ downstream; (2) they differ in the flatness of the
# minimum that training found; (3) the noise of stochastic gradients drives training towards flat minima; (4) so flatness,
# which training prefers by itself, is why some models do better. One picture for each.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, pretrained, gpu-hour, gpu, paper
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% mystnb={"code_prompt_show": "Start of this page"} tags=["experiment", "hide-input"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import PRESETS

page = begin(globals(), "01_introduction", {name: {} for name in PRESETS})

# %% mystnb={"code_prompt_show": "What is compared"} tags=["hide-input"]
import numpy as np
import pandas as pd

from sameloss.book.chapter import finding, say
from sameloss.book.pages import open_page
from sameloss.book.part_one import recorded_answers, recorded_measurements
from sameloss.statistics.intervals import seed_interval
from sameloss.studies import drawing
from sameloss.studies.same_loss import figures, tables
from sameloss.studies.same_loss.saturated import (
    CAPACITY,
    LARGE,
    OWN,
    SMALL,
    TUNED,
    curve_of,
    leads,
    values_at,
)

record, answers = recorded_measurements(), recorded_answers()
confirmed, _ = open_page("02_confirmation").recorded("workstation")
SIZES = {"d = 24": SMALL, "d = 96": LARGE}


def lead(of, sign=1):
    """The larger model's mean lead at equal loss, with its interval."""
    return seed_interval(sign * leads(confirmed, SMALL, LARGE, of).lead.to_numpy())


# %% [markdown]
# ## Same loss, different accuracy?
#
# The loss of a language model is the entropy of the language, which no model can beat, plus the model's KL divergence from
# the truth. For a random grammar both can be computed, so "the same loss" means equal KL. If the loss were all
# that counts, both lines of each grammar would lie on one curve.

# %% mystnb={"figure": {"caption": "Accuracy of linear probes that read hidden symbols of the grammar off the models' own features, against KL in per cent of that of a bag of words: one line per grammar and size (width d), one point per complete training. Large points: means at 3 %. Sixteen grammars.", "name": "fig-argument-loss"}, "image": {"alt": "At every KL the models of width 96 are more accurate than those of width 24."}}
own = lead(OWN)
finding(
    f"At equal loss the larger model is {own.value:.1f} points more accurate ({own.low:.1f} to {own.high:.1f})."
)
(ax,) = drawing.panels(1, width=6.5)
for at, (name, arm) in enumerate(SIZES.items()):
    style = {"color": f"C{at}", "marker": drawing.MARKERS[at]}
    for draw in confirmed.index.unique("replicate"):
        curve = curve_of(confirmed, draw, arm, OWN)
        trained = curve[curve.index > 0]
        ax.plot(trained.kl, trained[OWN], ms=3, lw=0.8, alpha=0.4, **style)
    ax.plot(
        3, values_at(confirmed, arm, OWN).mean(), ms=11, ls="", mec="white", label=name, zorder=5, **style
    )
ax.axvline(3, color="0.35", ls="--", lw=1)
ax.set(xscale="log", xlabel="KL (% of the bag of words')", ylabel="probe accuracy (%)")
drawing.plain_log_axis(ax.xaxis, pd.Series([0.5, 50.0]))
ax.invert_xaxis()
drawing.legend(ax)

# %%
equal, tuned = lead(CAPACITY), lead(TUNED)
say(
    f"Part of the lead is due to the probe, which has more features to read in a wider model: with equally many the lead is {equal.value:.1f} points ({equal.low:.1f} to {equal.high:.1f}), and "
    f"{tuned.value:.1f} ({tuned.low:.1f} to {tuned.high:.1f}) when whole models are fine-tuned ([2](02_confirmation.ipynb)). **Move the line** to compare at another loss:"
)

# %% tags=["hide-input"]
from sameloss.book.movable import movable_accuracy

movable_accuracy(
    confirmed, SIZES, {"own features": OWN, "equally many features": CAPACITY, "fine-tuning": TUNED}
)

# %% [markdown]
# ## Is the larger model flatter?
#
# A minimum is flat if the trace of the Hessian of the loss is small there. At the lowest loss it equals the trace of the Fisher information, an expected squared
# norm of gradients with labels $\hat y$ drawn from the model:
#
# $$ \mathrm{Tr}\,\nabla^2 L(\theta) = \mathbb E_{x,t}\;\mathbb E_{\hat y\sim f_\theta(x_{-t})}
#    \bigl\lVert\nabla_\theta \log\,[f_\theta(x_{-t})]_{\hat y}\bigr\rVert^2 . $$

# %% mystnb={"figure": {"caption": "Accuracy against the trace at 3 % of the bag of words' KL: both sizes of each grammar, joined. To the left is flatter.", "name": "fig-argument-trace"}, "image": {"alt": "In each grammar the point of the larger model lies above and a little to the left of that of the smaller one."}}
flatter = np.exp(lead("log trace", -1))
finding(
    f"At equal loss the smaller model's trace is {flatter[0]:.2f} times the larger one's ({flatter[1]:.2f} to {flatter[2]:.2f})."
)
(ax,) = drawing.panels(1, width=6)
x = {name: np.exp(values_at(confirmed, arm, "log trace")) for name, arm in SIZES.items()}
y = {name: values_at(confirmed, arm, OWN) for name, arm in SIZES.items()}
for draw in y["d = 24"].index:
    ax.plot([x[name][draw] for name in SIZES], [y[name][draw] for name in SIZES], color="0.7", lw=1, zorder=1)
for at, name in enumerate(SIZES):
    ax.plot(x[name], y[name], drawing.MARKERS[at], color=f"C{at}", label=name)
ax.set(xscale="log", xlabel="trace", ylabel="probe accuracy (%)")
drawing.plain_log_axis(ax.xaxis, pd.concat(x.values()))
drawing.legend(ax)

# %% [markdown]
# So the larger model is flatter at one learning rate. The rate moves the trace as well: at one size and loss, a quarter of the rate makes the trace four times as large ([4](04_flatness.ipynb)).
#
# ## Does noise flatten?
#
# The noise of sampled labels drives SGD along the minimisers towards a smaller trace (the paper proves it, and [3](03_implicit_bias.ipynb) tests it). So a model that
# trains on after its loss has converged should become flatter and, if flatness is what counts, more accurate.

# %% mystnb={"figure": {"caption": "Continued training at a constant learning rate: Fisher trace (left) and probe accuracy (right) against the number of steps, means over eight grammars. Solid: sampled labels; dashed: exact labels, which have no noise.", "name": "fig-argument-noise"}, "image": {"alt": "On sampled labels the trace falls for every size, while accuracy stays level."}}
grammar = record[record.language == "grammar"]
flatter, better = (tables.main_answer(answers, question) for question in ("flatness by steps", "steps"))
steps = grammar[grammar.stage == "plateau"].steps
finding(
    f"From step {steps.min():,} to step {steps.max():,} the trace falls {flatter['mean']:.2f}-fold "
    f"({flatter.low:.2f} to {flatter.high:.2f}), and accuracy changes by {better['mean']:+z.1f} points "
    f"({better.low:z.1f} to {better.high:z.1f})."
)
left, right = drawing.panels(2, width=4.5)
figures.along_plateau(grammar, "trace", figures.TRACE, left)
figures.along_plateau(grammar, "accuracy", figures.ACCURACY, right)
drawing.label_ends(right)

# %% [markdown]
# The models, trained with AdamW here, become flatter; that they become more accurate is not shown.
#
# ## Is flatness the reason?
#
# Sizes differ in more than flatness. So trained models of two sizes are made flatter or sharper in several ways, and all versions of a model are brought back to one loss. If flatness carried
# the advantage of size, their accuracies would follow the dotted line, the slope between the paper's sizes.

# %% mystnb={"figure": {"caption": "Gain in accuracy against the trace, both relative to the untreated model, at equal KL, with 95 % intervals over eight grammars. Dotted: the slope between the sizes of the paper's Figure 5.", "name": "fig-argument-cause"}, "image": {"alt": "Traces differ up to twofold and accuracies do not; all points lie far from the dotted line."}}
from sameloss.studies.same_loss.claims import FLATTER
from sameloss.studies.same_loss.saturated import PUBLISHED_SLOPE

treated = answers[answers.language == "grammar"]
cause = tables.main_answer(treated, "flatness as a cause")
most = np.exp(np.log(treated[treated.row == FLATTER]["mean"]).abs().max())
finding(
    f"Treatments change the trace up to {most:.1f}-fold; for each factor e by which it falls, accuracy changes by "
    f"{cause['mean']:z.1f} points ({cause.low:z.1f} to {cause.high:z.1f})."
)
(ax,) = drawing.panels(1, width=6)
figures.treatments(treated, ax)
reach, height = np.array(ax.get_xlim()), np.array(ax.get_ylim())
ax.plot(reach, -PUBLISHED_SLOPE * np.log(reach), color="0.35", ls=":", lw=1.5)
ax.set(xlim=reach, ylim=2 * height)
drawing.legend(ax)

# %% [markdown]
# Treatments of a trained model stay in its neighbourhood. [4b](04_interventions.ipynb) trains one size to be flatter, or sharper, *from scratch* in four ways, and judges what share of the lead flatness could carry.
#
# What the book found for every question, language and theorem: [Verdicts](verdicts.ipynb).

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print(
    "every question has a page:", set(answers.question) <= {q for own in tables.PAGES.values() for q in own}
)

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, record)
