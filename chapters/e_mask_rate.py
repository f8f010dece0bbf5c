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
# # E Masking 15 % of the tokens
#
# **The claim** (Appendix E, Figure 11 of [Liu et al., 2023](bibliography.md)): masking 15 % of the tokens, as BERT does, instead of one per
# sentence changes neither the loss nor downstream accuracy by much. So what is found with one mask holds for usual pre-training.
#
# **Idea.** Train one size both ways, from the same weights on the same sentences, and measure both with one mask. With several masks the model predicts
# each masked token from those that are left. The paper notes that such conditionals take exponentially many terms. For a grammar or a hidden Markov model they do not: a masked
# token is summed out inside the dynamic programme ([A.2 Conditionals](a2_conditionals.ipynb)), so the targets are as exact as with one mask.
#
# **By hand.** Each of $T$ tokens is masked with probability $r$, and one if none would be: $rT + (1-r)^T$ masks on average. With $r = 0.15$ these are $0.6 + 0.85^4 = 1.12$ in a sentence of
# four tokens, the longest of our grammar, and $1.2 + 0.85^8 = 1.47$ in one of eight, as our hidden Markov model's are.
#
# **Prediction.** Nearly the same KL after equally many steps; at equal KL the same trace, and the same accuracy up to two points, a margin declared in the [Protocol](protocol.md).

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

# %% mystnb={"code_prompt_show": "Both trainings at equal KL, from the record"} tags=["hide-input"]
import numpy as np

from sameloss.book.part_one import recorded_answers, recorded_measurements
from sameloss.statistics.intervals import Interval, seed_interval
from sameloss.studies.same_loss.claims import ACCURACY, FLATNESS, KL, Measurements, Model
from sameloss.studies.same_loss.experiment import OTHER

record = dict(list(recorded_measurements().groupby("language")))
judged = recorded_answers().query("question == 'mask rate' and row == 'main'").set_index("language")
measured = {name: Measurements(record[name]) for name in judged.index}


def both(m):
    """AdamW with one mask, and with 15 % of masks."""
    masked = m.table[m.table.algorithm == "mask-rate"].iloc[0]
    return Model(masked.model, lr=m.lr), Model(masked.model, OTHER, masked.variant)


def change(m, of):
    """What 15 % of masks change at equal KL, by draw: points of accuracy, or minus the log trace."""
    pairs = m.at_equal_kl(both(m), of)
    return pairs["second"] - pairs["first"]


def ratio(logs):
    """A ratio with its interval, from logarithms by draw."""
    return Interval(*np.exp(seed_interval(logs)))


# %% mystnb={"code_prompt_show": "Their differences"} tags=["hide-input"]
gain = {name: seed_interval(change(m, ACCURACY)) for name, m in measured.items()}
corrected = {name: Interval(row["mean"], row.low, row.high) for name, row in judged.iterrows()}
trace = {name: ratio(-change(m, FLATNESS)) for name, m in measured.items()}
one, many = (np.log(measured["grammar"].values(model, KL)) for model in both(measured["grammar"]))
kl = ratio((many - one).iloc[:, -1])


# %% mystnb={"code_prompt_show": "How both are drawn"} tags=["hide-input"]
from sameloss.studies import drawing
from sameloss.studies.same_loss import figures
from sameloss.studies.same_loss.claims import LITTLE_ACCURACY
from sameloss.studies.same_loss.tables import language_name

drawing.use_style()
COLOURS = ("0.35", "C0")


def draw_courses(m, ax):
    """Accuracy against KL for both, means over draws, and their difference at the common KL."""
    for model, name, colour, marker in zip(
        both(m), ("one mask", "15 %"), COLOURS, drawing.MARKERS, strict=False
    ):
        logs, accuracy = np.log(m.values(model, KL)).mean(), m.values(model, ACCURACY).mean()
        ax.plot(np.exp(logs), accuracy, label=name, color=colour, marker=marker, ms=5, lw=1.3)
    pairs, effect = m.at_equal_kl(both(m), ACCURACY), np.array(seed_interval(change(m, ACCURACY)))
    at, (_, low, high) = np.exp(np.log(pairs.kl).mean()), pairs["first"].mean() + effect
    ax.axvline(at, color="0.7", lw=1, zorder=0)
    ax.vlines(at, low, high, color=COLOURS[1], lw=2.5)
    ax.set(xscale="log", xlabel="KL (nats per masked token)", ylabel=figures.ACCURACY)
    drawing.plain_log_axis(ax.xaxis, m.values(both(m)[0], KL).stack())
    ax.invert_xaxis()


# %% mystnb={"code_prompt_show": "How differences are drawn"} tags=["hide-input"]
def draw_intervals(ax, effects, wide=None):
    """A row for each language: its interval, and a thin one beside it."""
    for y, name in enumerate(effects):
        value, low, high = effects[name]
        if wide:
            ax.hlines(-y, *wide[name][1:], color=COLOURS[1], lw=1)
        ax.hlines(-y, low, high, color=COLOURS[1], lw=3)
        ax.plot(value, -y, "o", color=COLOURS[1], ms=6)
    ax.set_yticks(
        -np.arange(len(effects)), [language_name(name).replace(" Markov", "\nMarkov") for name in effects]
    )
    ax.set_ylim(0.5 - len(effects), 0.5)
    ax.grid(axis="y", visible=False)


# %% mystnb={"figure": {"caption": "Training with one mask and with 15 % of masks, in the record. Left: accuracy against KL on the grammar, one point per length of training, means over eight draws; vertical: the KL at which they are compared, with the 95 % interval of the difference. Middle: the difference at equal KL, 15 % minus one mask, with 95 % intervals over draws (thin: corrected for all questions of the protocol); grey: the margin of two points. Right: the ratio of their traces at equal KL.", "name": "fig-mask-rate"}, "image": {"alt": "Accuracies of both trainings run together along the whole range of KL. The differences at equal KL lie near zero, less than a point on either language, but their corrected intervals reach beyond two points. The ratio of traces on the grammar is one, with a narrow interval."}}
from sameloss.book.chapter import finding, say

finding(
    f"At equal KL, 15 % of masks change accuracy on the grammar by {gain['grammar'].value:+.1f} points "
    f"({gain['grammar'].low:.1f} to {gain['grammar'].high:.1f}), and multiply the trace by {trace['grammar'].value:.2f}."
)
left, middle, right = drawing.panels(3)
draw_courses(measured["grammar"], left)
left.set_title("grammar")
left.legend(loc="lower right", fontsize="small")
middle.axvspan(-LITTLE_ACCURACY, LITTLE_ACCURACY, color="0.9", zorder=0)
draw_intervals(middle, gain, corrected)
middle.set(xlabel="15 % minus one mask (points)", title="accuracy")
draw_intervals(right, trace)
right.tick_params(labelleft=False)
right.set(xscale="log", xlabel="15 % over one mask", title="trace")
drawing.plain_log_axis(right.xaxis, np.array([0.5, 1.5]))
for ax, nothing in ((middle, 0), (right, 1)):
    ax.axvline(nothing, color="0.35", lw=1, ls="--", zorder=0)

# %%
from sameloss.studies.same_loss.tables import remark
from sameloss.studies.verdict import Direction

WITHIN = {
    Direction.SUPPORTED: "so the claim is *supported*: the difference is less than two points",
    Direction.AGAINST: "so the claim does not hold: the difference is more than two points",
}
grammar, hmm = (judged.loc[name] for name in ("grammar", "hmm"))
say(f"""
**What we find.** On the grammar 15 % of masks change accuracy at equal KL by {gain["grammar"].value:+.1f} points ({gain["grammar"].low:.1f} to {gain["grammar"].high:.1f}). Corrected for all questions of the protocol the interval is
{grammar.low:.1f} to {grammar.high:.1f}, {WITHIN.get(grammar.direction, f"so the claim is *{grammar.direction}*: {remark(grammar)}")}. The *trace* is {trace["grammar"]:.2f} times that with one mask;
after the longest training the *loss* is {kl:.2f} times as far from its lowest value. On the hidden Markov model, with {hmm.replicates} draws, accuracy changes by {gain["hmm"].value:+.1f} points ({gain["hmm"].low:.1f} to {gain["hmm"].high:.1f}; corrected {hmm.low:.1f} to {hmm.high:.1f}),
and the verdict is *{hmm.direction}*.
""")

# %%
RATE = 0.15


def one_mask(length):
    """Probability that a sentence has one mask."""
    return (1 - RATE) ** length + length * RATE * (1 - RATE) ** (length - 1)


say(f"""
**What limits this.** Both trainings are nearly the same on such short sentences: with 15 % of masks, {100 * one_mask(4):.0f} % of sentences of four tokens and {100 * one_mask(8):.0f} % of those of eight have one mask. In the paper's, of up to 32 tokens,
{100 * one_mask(32):.0f} % have. Only one size is trained both ways, so whether *differences between sizes* stay the same is not asked. And {grammar.replicates} draws are too few for this margin: the corrected interval is {grammar.high - grammar.low:.1f} points wide, the margin {2 * LITTLE_ACCURACY:.0f}.
""")

# %% [markdown]
# ## The experiment
#
# Complete trainings of several lengths, so that both can be compared at equal KL; flatness is measured in all ways at the end of the longest. By default one draw of the grammar is trained for less time;
# `workstation` is the recorded experiment.

# %% mystnb={"code_prompt_show": "Presets"} tags=["experiment", "hide-input"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import ADAMW, tabled
from sameloss.studies.same_loss.experiment import PRESETS as EXPERIMENTS
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, of_one_size, preset_of

PRESETS = {
    name: {"experiment": e, "algorithms": () if name == "pretrained" else (("mask-rate", 0.15),)}
    for name, e in EXPERIMENTS.items()
}

# %% mystnb={"code_prompt_show": "Start of this page"} tags=["experiment", "hide-cell"]
page = begin(globals(), "e_mask_rate", PRESETS, BOUNDS, auto=preset_of)
experiment = of_one_size(chosen(page.values), "e_mask_rate")
page.about, model = experiment.about, experiment.size


# %% tags=["experiment"]
def measured_on(replicate):
    """One mask and 15 % of masks, by length, and the flatness of the longest."""
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

found = page.results = Comparison(tabled(measurements, numbers), PAGES["e_mask_rate"])

# %% [markdown]
# ## How it is computed
#
# Masks are drawn for each sentence, and a sentence with $k$ masks counts as $k$ examples:

# %%
from sameloss.book.chapter import show_source
from sameloss.languages.masking import mask_share

show_source(mask_share)

# %% [markdown]
# The mean number of masks by hand, 1.47 in sentences of eight tokens, beside 200,000 sentences:

# %%
import torch

from sameloss.languages import Sentences

drawn = Sentences(torch.ones(200_000, 8).long(), torch.full((200_000,), 8))
round(len(mask_share(drawn, RATE, np.random.default_rng(0)).targets) / 200_000, 2)

# %% [markdown]
# Both trainings are interpolated in log KL, within each draw, to the smallest KL that both reach, and subtracted. "Not by much" is an equivalence: it is *supported* if the whole interval lies
# within the margin, and there is no verdict if the interval is wider than the margin ([Verdicts](verdicts.ipynb)). All numbers; their traces here are those of one mask over those of 15 %:

# %%
from sameloss.book.chapter import render
from sameloss.studies.same_loss.tables import control_table

render(control_table(recorded_answers(), "mask rate"), decimals=4)

# %% [markdown]
# **A small run, on this machine.** The same comparison from the runs of this page:

# %%
render(control_table(found.answers, "mask rate"), decimals=4)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
masked = found.table[(found.table.algorithm == "mask-rate") & (found.table.quantity == "kl")]
print(
    "the KL falls as trainings with 15 % of masks get longer:",
    bool(masked.groupby("steps").value.mean().is_monotonic_decreasing),
)

# %% [markdown]
# ## Deviations
#
# - Every masked token is replaced by [MASK]; the released code keeps or replaces a fifth of them.
# - At least one token per sentence is masked. A sentence with $k$ masks counts as $k$ examples, so a step sees more targets
#   than with one mask.
#
# ## Exercises
#
# 1. On the hidden Markov model, whose sentences are longer? `-p language hmm`.
# 2. How many draws would make the corrected interval narrower than the margin, if its width falls as $1/\sqrt n$?

# %% tags=["hide-input"]
from sameloss.book.chapter import close
from sameloss.book.part_one import records_in_words

say(records_in_words())
close(page, found.table)
