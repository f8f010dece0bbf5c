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
# # D Practical implications
#
# **The claim** (Appendix D of [Liu et al., 2023](bibliography.md)): if flatness is what transfers, then explicit regularisers of flatness,
# such as SAM, should help pre-training, and a measure of flatness should tell which of several models is better. The paper leaves both untested.
#
# **Idea.** Train one size with AdamW, and with a regulariser added, from the same weights on the same sentences, and compare both at equal KL. SAM evaluates the gradient at a distance $\rho$
# uphill, $\nabla L\bigl(\theta + \rho\,\nabla L/\lVert\nabla L\rVert\bigr)$, at twice the cost. A penalty adds $\mu\,\mathrm{Tr}F$ to the loss, the trace of the Fisher information. Dropout and weight decay, which do
# not aim at flatness, stand beside them.
#
# **By hand.** In a valley $L = \tfrac a2\theta^2$ SAM's gradient is $a(\theta + \rho)$ for $\theta > 0$. It does not vanish at the bottom: with $\rho = 0.05$ it is 0.05 where the curvature $a$ is 1, and 0.2 where it is 4.
# So SAM is thrown out of sharp valleys and stays in flat ones.
#
# **Prediction.** Models are the more accurate the flatter they are. Between the sizes of the paper's Figure 5, a trace 1.74 times smaller goes with 7.1 points.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, pretrained, gpu-hour, gpu, paper
language: str = None  # grammar, hmm or opt; all: every one that the preset has
size: str = None  # all, or one: d24 to d96 (the width); lstm16 to lstm64 on hmm; 2M to 730M: the paper's
seeds: int = None  # replicates, each with its own language, weights and batches; None: the preset's
steps: int = None  # steps of the longest descent; None: the preset's
probe_seeds: int = None  # sets of labelled sentences, each with a probe of its own
opt: str = None  # stand-in, or a causal model's name or folder; None: the preset's
opt_corpus: str = None  # text for token frequencies; None: WikiText-2; of a folder, none
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
processes: int = None  # that share one training, each on a core or GPU of its own
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% mystnb={"code_prompt_show": "Regularised models beside AdamW's at equal KL, from the record"} tags=["hide-input"]
import numpy as np

from sameloss.book.part_one import recorded_answers, recorded_measurements
from sameloss.statistics.intervals import Interval, seed_interval
from sameloss.studies.same_loss.claims import ACCURACY, FLATNESS, PUBLISHED, Measurements, Model
from sameloss.studies.same_loss.experiment import OTHER

REGULARISERS = {
    "trace-penalty": "trace penalty",
    "sam": "SAM",
    "dropout": "dropout",
    "weight-decay": "weight decay",
}
FLATTER, BETTER = "flatness by regularisers", "accuracy by regularisers"
answers, record = recorded_answers(), dict(list(recorded_measurements().groupby("language")))
main = answers[answers.row == "main"].set_index(["question", "language"])


def beside_adamw(m):
    """By regulariser: how many times flatter its models are than AdamW's at equal KL, and what they gain."""
    trained = m.table[(m.table.stage == OTHER) & m.table.algorithm.isin(list(REGULARISERS))]
    effects = {}
    for of in trained.drop_duplicates("algorithm").itertuples():
        pair = Model(of.model, lr=m.lr), Model(of.model, OTHER, of.variant)
        logs, points = (m.at_equal_kl(pair, quantity) for quantity in (FLATNESS, ACCURACY))
        flatter = Interval(*np.exp(seed_interval(logs["second"] - logs["first"])))
        effects[of.algorithm] = flatter, seed_interval(points["second"] - points["first"])
    return effects


# %% mystnb={"code_prompt_show": "Their effects"} tags=["hide-input"]
asked = {name: beside_adamw(Measurements(record[name])) for name in main.loc[FLATTER].index}
slope = PUBLISHED["flatness as a cause", "grammar"]  # points for each factor e of trace


# %% mystnb={"code_prompt_show": "How they are drawn"} tags=["hide-input"]
import pandas as pd

from sameloss.studies import drawing
from sameloss.studies.same_loss.figures import PAPER
from sameloss.studies.same_loss.tables import language_name

drawing.use_style()


def draw_effects(effects, corrected, ax):
    """Accuracy gained against how many times flatter; SAM's gain also with its corrected interval."""
    for at, algorithm in enumerate(REGULARISERS):
        (x, *across), (y, *up) = effects[algorithm]
        ax.hlines(y, *across, color=f"C{at}", lw=2)
        ax.vlines(x, *up, color=f"C{at}", lw=2)
        ax.plot(x, y, drawing.MARKERS[at], color=f"C{at}", ms=6, label=REGULARISERS[algorithm])
        if algorithm == "sam":
            ax.vlines(x, corrected.low, corrected.high, color=f"C{at}", lw=0.8)
    for line in (ax.axhline, ax.axvline):
        line(0 if line == ax.axhline else 1, color="0.35", lw=1, ls="--", zorder=0)
    ax.set(xscale="log", xlim=(0.5, 11), ylim=(-7, 7), xlabel="times flatter than AdamW's model")
    drawing.plain_log_axis(ax.xaxis, pd.Series([0.5, 11]))


# %% mystnb={"figure": {"caption": "Models trained with a regulariser beside AdamW's at equal KL, in the record, with 95 % intervals over draws (thin: SAM's, corrected for all questions of the protocol; on the hidden Markov model it leaves the panel). To the right, flatter; upwards, more accurate. Dotted: the slope between the sizes of the paper's Figure 5.", "name": "fig-regularisers"}, "image": {"alt": "Two panels. On the grammar the trace penalty makes models four times flatter and SAM two times, yet all gains lie between zero and two points, far below the steep line of the paper's sizes. On the hidden Markov model the two flattest have the lowest accuracies."}}
from sameloss.book.chapter import finding

penalty, sam = (asked["grammar"][name] for name in ("trace-penalty", "sam"))
finding(
    f"The penalty makes models {penalty[0].value:.1f} times flatter and SAM {sam[0].value:.1f} times; accuracy changes by "
    f"{penalty[1].value:+.1f} and {sam[1].value:+.1f} points, where the slope between the paper's sizes gives "
    f"{slope * np.log(penalty[0].value):.0f} and {slope * np.log(sam[0].value):.0f}."
)
axes = drawing.panels(len(asked), width=4.4)
for ax, (name, effects) in zip(axes, asked.items(), strict=True):
    draw_effects(effects, main.loc[BETTER, name], ax)
    ax.set_title(f"{language_name(name)}, {main.loc[BETTER, name].replicates} draws")
reached = np.array([1.0, np.exp(7 / slope)])
axes[0].plot(
    reached, slope * np.log(reached), color=PAPER, ls=":", lw=1.8, label="slope between the paper's sizes"
)
axes[0].set_ylabel("accuracy gained (points)")
drawing.legend(axes[0])

# %%
from sameloss.book.chapter import say

best = max(asked["grammar"], key=lambda name: asked["grammar"][name][1].value)
wide, hmm = main.loc[BETTER, "grammar"], asked["hmm"]


def points(effect):
    """A gain in points, with its interval."""
    return f"{effect.value:+.1f} points ({effect.low:.1f} to {effect.high:.1f})"


say(f"""
**What we find.** On the grammar both regularisers of flatness flatten: at equal KL the penalty divides the trace by {penalty[0]:.1f}, SAM by {sam[0]:.1f}. *Accuracy* is another matter: the penalty, which flattens most,
changes it by {points(penalty[1])}, SAM by {points(sam[1])}, or {wide.low:.1f} to {wide.high:.1f} corrected for all questions of the protocol, so whether it helps is *{wide.direction}*. The largest gain, {points(asked["grammar"][best][1])}, is {REGULARISERS[best]}'s, which
divides the trace by {asked["grammar"][best][0].value:.1f}. On the hidden Markov model the penalty divides it by {hmm["trace-penalty"][0].value:.1f} and SAM by {hmm["sam"][0].value:.1f}; accuracy changes by {points(hmm["trace-penalty"][1])} and
{points(hmm["sam"][1])}.
""")

# %% [markdown]
# **What limits this.** One size, one strength for each regulariser, chosen by the KL and trace of single pilot runs ([Protocol](protocol.md)), and three draws of the hidden Markov model.
# The regularised models end at larger KLs than AdamW's, and are compared there. What is shown is that flatness of this kind does not buy much here, not that a regulariser of another kind, or strength, cannot.
#
# ## Which measure predicts accuracy?
#
# Appendix D asks for a better predictor than the loss. One size is trained by ten algorithms: those above, three adversaries ([A.4](a4_algorithms.ipynb)), 15 % of masks ([E](e_mask_rate.ipynb)), post-LN ([A.3](a3_models.ipynb)), and AdamW.
# Within a draw we rank these models by accuracy and by a predictor; the correlation of the ranks is positive if *less* of the predictor goes with *more* accuracy. KL is the loss itself; [B.1](b1_trace.ipynb) defines the measures of flatness.


# %% mystnb={"code_prompt_show": "How predictors are ranked"} tags=["hide-input"]
from sameloss.runs.measurements import MEASURES
from sameloss.statistics.prediction import mean_correlation
from sameloss.studies.same_loss.tables import checkpoints, main_lr


def ends_of(table):
    """On one language, the models that all algorithms train for as many steps, AdamW at the main rate."""
    rows = checkpoints(table)
    others = rows[rows.stage == OTHER]
    adamw = (rows.stage == "descent") & (rows.lr == main_lr(table)) & rows.model.isin(others.model)
    return rows[(adamw | (rows.stage == OTHER)) & (rows.steps == others.steps.max())]


def predictors(table):
    """Rank correlations of accuracy with less of each predictor, averaged over draws, with intervals."""
    ends = ends_of(table)
    known = [name for name in ends if name in ("kl", *MEASURES.values()) and ends[name].notna().any()]
    draws = [part[[*known, "accuracy"]].corr("spearman").accuracy for _, part in ends.groupby("replicate")]
    return {name: mean_correlation(np.array([-draw[name] for draw in draws])) for name in known}


# %% mystnb={"figure": {"caption": "Rank correlation within a draw between accuracy and less of each predictor, over models of one size trained by ten algorithms, means over draws with 95 % intervals, in the record. Three draws of the hidden Markov model happen to agree on the top eigenvalue.", "name": "fig-predictors"}, "image": {"alt": "Rank correlations of eight predictors. KL is first or second on both languages. The trace lies near zero on the grammar."}}
by_language = {name: predictors(record[name]) for name in asked}
of_grammar = by_language["grammar"]
order = sorted(of_grammar, key=lambda name: of_grammar[name].value)
best = order[-1]
finding(
    f"On the grammar the best predictor is the {best.replace('kl', 'KL')} ({of_grammar[best].value:.2f}); the loss has {of_grammar['kl'].value:.2f} "
    f"and the trace {of_grammar['trace'].value:.2f}."
)
(ax,) = drawing.panels(1, width=7)
for at, (name, found) in enumerate(by_language.items()):
    y = np.arange(len(order)) + 0.14 * (1 - 2 * at)
    value, low, high = np.transpose([found[of] for of in order])
    ax.hlines(y, low, high, color=f"C{at}", lw=2)
    ax.plot(value, y, drawing.MARKERS[at], color=f"C{at}", label=language_name(name))
ax.set_yticks(range(len(order)), [name.replace("kl", "KL (the loss)") for name in order])
ax.axvline(0, color="0.35", lw=1, ls="--", zorder=0)
ax.set(xlabel="rank correlation of accuracy with less of it")
drawing.legend(ax)

# %%
ends = ends_of(record["grammar"])
hostile = ends[ends.variant.str.startswith("adversarial")].accuracy.mean()
others = ends[~ends.variant.str.startswith("adversarial")].accuracy.mean()
trace, better = of_grammar["trace"], order[order.index("kl") + 1 :][::-1]
say(f"""
The trace of the Fisher information, the paper's measure, ranks the models of the grammar with a correlation of {trace:.2f}. The measures of flatness that do better than the loss are: {", ".join(better) or "none"}. All models
are those at the end of training, so their losses differ, and a measure can be good because it tells them apart; and three of the ten are adversaries', which read {others - hostile:.0f} points less than the others on average.
""")

# %% [markdown]
# ## The experiment
#
# Complete trainings of several lengths, so that all can be compared at equal KL; flatness is measured in all ways at the end of the longest. By default one draw of the grammar is trained with SAM alone, for
# less time; `workstation` is the recorded experiment.

# %% mystnb={"code_prompt_show": "Presets"} tags=["experiment", "hide-input"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import ADAMW, tabled
from sameloss.studies.same_loss.experiment import PRESETS as EXPERIMENTS
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, of_one_size, preset_of

ALGORITHMS = {
    "workstation": (("sam", 0.05), ("trace-penalty", 1e-4), ("dropout", 0.1), ("weight-decay", 0.1)),
    "pretrained": (),
}
SAM = (("sam", 0.05),)
PRESETS = {
    name: {"experiment": e, "algorithms": ALGORITHMS.get(name, SAM)} for name, e in EXPERIMENTS.items()
}

# %% mystnb={"code_prompt_show": "Start of this page"} tags=["experiment", "hide-cell"]
page = begin(globals(), "d_practice", PRESETS, BOUNDS, auto=preset_of)
experiment = of_one_size(chosen(page.values), "d_practice")
page.about, model = experiment.about, experiment.size


# %% tags=["experiment"]
def measured_on(replicate):
    """AdamW and the regularisers, by length, and the flatness of the longest."""
    yield replicate.baselines()
    yield replicate.untrained(model)
    for algorithm in (ADAMW, *page.algorithms):
        for steps in experiment.lengths:
            yield replicate.trained(model, steps, algorithm=algorithm)
        if page.algorithms:
            yield replicate.flatness(model, algorithm)


# %% mystnb={"code_prompt_show": "Runs of this page"} tags=["experiment", "hide-cell"]
replicates = list(experiment.replicates())
measurements = [measurement for replicate in replicates for measurement in measured_on(replicate)]
numbers = page.stack([measurement.run for measurement in measurements])

# %% tags=["comparison"]
from sameloss.studies.same_loss.claims import Comparison
from sameloss.studies.same_loss.tables import PAGES

found = page.results = Comparison(tabled(measurements, numbers), PAGES["d_practice"])

# %% [markdown]
# ## How it is computed
#
# The penalty's unbiased estimate of the trace takes one more backward pass: with random signs $\epsilon$ and
# $v = \sqrt f\odot\epsilon - f\,(\sqrt f\cdot\epsilon)$,
#
# $$ \mathrm{Tr}\,F = \mathbb E_\epsilon \bigl\lVert J^\top v\bigr\rVert^2, \qquad
#    J = \frac{\partial z}{\partial\theta},\; f = \mathrm{softmax}(z), $$
#
# and because $v$ is differentiated as a function of $\theta$, the gradient of the estimate is that of the trace.

# %%
from sameloss.book.chapter import show_source
from sameloss.training.objectives import fisher_trace_along

show_source(fisher_trace_along)

# %% [markdown]
# By hand: for $f = \mathrm{softmax}(b)$ with two words and $f = (0.8, 0.2)$, the trace is
# $1 - 0.64 - 0.04 = 0.32$. Signs $(+,+)$ give $v = \sqrt f - f\,(\sqrt{0.8}+\sqrt{0.2})$, signs $(+,-)$ have
# the difference instead; the mean of the two squared norms is 0.32.

# %%
import torch


class TwoWords(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor([0.8, 0.2]).log())


two_words = TwoWords()
signs = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
draws = [fisher_trace_along(two_words, two_words.bias[None] + 0, row[None]) for row in signs]
round(float(sum(draw.detach() for draw in draws)) / 2, 4)

# %% [markdown]
# Models are interpolated in log KL, within each draw, to the smallest KL that both reach. All numbers, first of flatness, then of accuracy ([Verdicts](verdicts.ipynb) says what the words mean):

# %%
from sameloss.book.chapter import render
from sameloss.studies.same_loss.tables import control_table

render(control_table(answers, FLATTER), decimals=4)

# %%
render(control_table(answers, BETTER), decimals=4)

# %% [markdown]
# **A small run, on this machine.** SAM beside AdamW in the runs of this page:

# %%
from sameloss.studies.same_loss.tables import answer_table

render(answer_table(page.results.answers))

# %% [markdown]
# ## What later papers found
#
# | paper | finding | here |
# |---|---|---|
# | [Du et al., 2024](bibliography.md) | models of equal pre-training loss perform alike downstream, whatever their size | [2](02_confirmation.ipynb): size near the lowest loss |
# | [Springer et al., 2025](bibliography.md) | more pre-training can harm fine-tuning | [2b](02_existence.ipynb): more steps at equal KL |
# | [Andriushchenko et al., 2023](bibliography.md) | sharpness, adaptive or not, often does not correlate with generalisation | the predictors above |
#
# The conditionals of natural text are unknown, so its models are compared at an equal loss whose distance from the optimum
# is unknown. Here the distance is known, but the language has a few dozen words. Neither result settles the other.

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print("SAM is compared:", bool((page.results.answers.row == "main").any()))

# %% [markdown]
# ## Deviations
#
# - The paper has no experiment on this, so there is no number to reproduce: the effects are ours, and the paper suggests only
#   a direction.
# - One strength per regulariser, chosen by the KL and trace of single pilot runs ([Protocol](protocol.md)).
#
# ## Exercises
#
# 1. Is it the same for a larger model? `-p size d96`.
# 2. On the hidden Markov model? `-p language hmm`.
# 3. How far does SAM flatten with a radius ten times as large, and what does its KL do? Change `SAM` in the cell of presets.

# %% tags=["hide-input"]
from sameloss.book.chapter import close
from sameloss.book.part_one import records_in_words

say(records_in_words())
close(page, page.results.table)
