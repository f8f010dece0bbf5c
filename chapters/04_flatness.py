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
# # 4 Flatness and downstream performance
#
# **The claim** (Section 4, Figures 3 and 5 of [Liu et al., 2023](bibliography.md)): among models of the same pre-training loss, the trace
# of the Hessian of that loss decreases with size and with the number of steps, and flatter models are more accurate
# downstream ($r^2 = 0.92$ across sizes on the PCFG).
#
# **The idea.** At saturation the Hessian of the loss is the Fisher information (Lemma 3.2), whose trace is an expected squared norm
# of gradients, with labels $\hat y$ drawn from the model (Appendix B):
#
# $$ \mathrm{Tr}\,\nabla^2 L(\theta) = \mathbb E_{t,\,x_{-t}}\;\mathbb E_{\hat y\sim f_\theta(x_{-t})}
#    \bigl\lVert\nabla_\theta \log\,[f_\theta(x_{-t})]_{\hat y}\bigr\rVert^2 . $$
#
# **By hand.** A model that ignores its input and has one parameter per word, $f = \mathrm{softmax}(b)$, has the Hessian
# $\mathrm{diag}(f) - f f^\top$, whose trace is $1 - \sum_y f_y^2$. For $f = (0.5, 0.3, 0.2)$ this is $1 - 0.38 = 0.62$.
#
# **Prediction.** The trace of the paper's smallest model is 1.74 times that of its largest; in proportion, that of *d* = 24 should be 1.31 times that of *d* = 96.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, pretrained, gpu-hour, gpu, paper
language: str = None  # grammar, hmm or opt; all: every one that the preset has
size: str = None  # all, or one: d24 to d96 (the width); lstm16 to lstm64 on hmm; 2M to 730M: the paper's
seeds: int = None  # replicates, each with its own language, weights and batches; None: the preset's
steps: int = None  # steps of the longest descent; None: the preset's
lr: list[float] = None  # peak rates, that of the main comparison first; None: the preset's
layers: int = None  # of every model; None: as many as its size has
batch: int = None  # sentences of a training step; None: the preset's
labels: str = None  # posterior, or likelihood as in the released code
probe_seeds: int = None  # sets of labelled sentences, each with a probe of its own
trace_sentences: int = None  # masked sentences an estimate of the trace uses
estimator: str = None  # of the trace: sampled, exact or rademacher; None: sampled
trace_labels: int = None  # that the estimator draws for a sentence; None: one
grammar: str = None  # file with a grammar of yours, NLTK's notation or lines `LHS RHS... p`
length_limit: int = None  # longest sentence (tokens) of it; a recursive grammar needs it
opt: str = None  # stand-in, or a causal model's name or folder; None: the preset's
opt_corpus: str = None  # text for token frequencies; None: WikiText-2; of a folder, none
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
processes: int = None  # that share one training, each on a core or GPU of its own
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% [markdown]
# ## Is the larger model flatter near the lowest loss?
#
# On the sixteen grammars of [2 Same loss, better downstream?](02_confirmation.ipynb), at equal KL and learning rate:

# %% mystnb={"code_prompt_show": "What is compared"} tags=["hide-input"]
import numpy as np
import pandas as pd

from sameloss.book.chapter import finding, render, say
from sameloss.book.pages import open_page
from sameloss.statistics.intervals import Interval, seed_interval
from sameloss.studies import drawing
from sameloss.studies.same_loss.saturated import (
    LARGE,
    OWN,
    PUBLISHED_SLOPE,
    SMALL,
    TRACES,
    by_rate,
    leads,
)
from sameloss.studies.verdict import Direction, judge

drawing.use_style()
confirmed, _ = open_page("02_confirmation").recorded("workstation")
PUBLISHED_RATIO = (2.68 / 1.54) ** (3.90 / 8.0)


def flatter(kl, of):
    """How many times larger the small model's trace is at a KL, over the draws in which both sizes reach it."""
    found = leads(confirmed, SMALL, LARGE, of, kl)
    return Interval(*np.exp(seed_interval(-found.lead[np.isclose(found.kl, kl)])))


# %% mystnb={"figure": {"caption": "Trace of d = 24 divided by that of d = 96 at equal KL, geometric means over sixteen draws (fewer at 2 %) with 95 % intervals: the Fisher trace, and the trace relative to squared weights, which does not change when a tensor is rescaled. Above one the larger model is flatter; dotted: the published ratio in proportion to our sizes.", "name": "fig-trace-saturated"}, "image": {"alt": "Ratio of traces against KL with intervals, native and relative."}}
KLS = (12.0, 6.0, 4.0, 3.0, 2.0)
from_to = [flatter(kl, "log trace").value for kl in (KLS[0], KLS[-1])]
finding(
    f"At equal KL the smaller model's trace is {from_to[0]:.1f} times the larger one's at {KLS[0]:.0f} % of the bag of words' and {from_to[1]:.1f} times at {KLS[-1]:.0f} %."
)
ax = drawing.panels(1, width=5.5)[0]
for at, (of, name) in enumerate(zip(TRACES, ("trace", "relative trace"), strict=True)):
    drawing.interval_line(ax, np.array(KLS) * 1.03**at, [flatter(kl, of) for kl in KLS], at, name)
ax.axhline(1, color="0.35", ls="--", lw=1)
ax.axhline(PUBLISHED_RATIO, color="0.35", ls=":", lw=1)
ax.set(
    xscale="log",
    xlabel="KL (% of the bag of words')",
    ylabel="trace of d = 24 / trace of d = 96",
)
drawing.plain_log_axis(ax.xaxis, pd.Series(KLS))
ax.invert_xaxis()
drawing.label_ends(ax)

# %%
native, relative = (flatter(3.0, of) for of in TRACES)
lead = leads(confirmed, SMALL, LARGE, OWN).lead.mean()
carried = PUBLISHED_SLOPE * np.log(native.value)
direction, of_relative = (judge(Interval(*np.log(ratio))).direction for ratio in (native, relative))
verdict = {
    Direction.SUPPORTED: "is flatter",
    Direction.AGAINST: "is sharper",
    Direction.OPEN: "is not shown to be flatter",
}[direction]
_, *others = (float(np.exp(-rows.lead.mean())) for rows in by_rate(confirmed, "log trace").values())
spread = f"ratios of {min(others):.2f} to {max(others):.2f}, on four draws"
rates = f"also where its rate is a half or a quarter of the other's ({spread})"
if min(others) <= 1:
    leads_there = [rows.lead.mean() for rows in by_rate(confirmed, OWN).values()][1:]
    rates = (
        f"at the same learning rate. Where its rate is a half or a quarter of the smaller one's, it is {'sharper' if max(others) < 1 else 'not always flatter'} "
        f"({spread}), and leads by {min(leads_there):.1f} to {max(leads_there):.1f} points all the same"
    )
answer = (
    f"At 3 % of the bag of words' KL the trace of *d* = 24 is {native:.2f} times that of *d* = 96: the larger model {verdict} {rates}. "
    f"At the same rate, the ratio relative to squared weights is {relative:.2f}{'' if of_relative == direction else ', which does not say the same'}. "
    f"The larger model's lead there is {lead:.1f} points. At the slope between the paper's sizes, {PUBLISHED_SLOPE:.1f} points for each factor *e* by which the trace falls, "
    f"this difference in flatness corresponds to {carried:.1f} points"
)
little = "the sizes differ too little in flatness at this KL for the published slope to carry the effect"
answer += f": {little}." if carried < lead / 2 else "."
say(answer)

# %% tags=["remove-cell"]
from myst_nb import glue

glue("flatness-answer", answer.replace("*", ""), display=False)

# %% [markdown]
# ## The experiment
#
# Amounts, such as the number of sentences, are those of all chapters of Part I (`same_loss/experiment.py`); the presets of this
# page add at which other peak rates sizes are trained, which of them continue at a constant rate, and whether
# the smallest and the largest transformer are read by all probes and fine-tuned.

# %% tags=["experiment", "hide-input"]
from itertools import product

from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import PRESETS as EXPERIMENTS
from sameloss.studies.same_loss.experiment import tabled
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, preset_of
from sameloss.training.objectives import EXACT

ALL = {"other_rates": (0.005, 0.00125), "continued": "all", "controls": True}
MEASURED = {
    "smoke": {"continued": ("d8",), "controls": True},
    "laptop": {"continued": ("d24",)},
    "workstation": ALL,
    "pretrained": ALL | {"other_rates": ()},
}
ENDS = {"other_rates": (), "continued": (), "controls": False}  # the ends of descents alone
PRESETS = {name: {"experiment": e, **ENDS, **MEASURED.get(name, {})} for name, e in EXPERIMENTS.items()}

page = begin(globals(), "04_flatness", PRESETS, BOUNDS, auto=preset_of)
experiment = chosen(page.values)
page.about = experiment.about


# %% [markdown]
# A *replicate* is one draw of a language, with everything that is trained on it. On each, every size is measured untrained and at the ends of
# complete trainings of several lengths:


# %% tags=["experiment"]
def descents(replicate):
    """Every size, untrained and by peak rate and number of steps."""
    main, ends = replicate.setup.lr, (*replicate.transformers[:1], *replicate.transformers[-1:])
    rates = page.lr or (main, *(rate for rate in page.other_rates if rate != main))
    for size in replicate.models:
        yield replicate.untrained(size)
        for rate, steps in product(rates, experiment.lengths):
            controls = page.controls and rate == main and size in ends
            yield replicate.trained(size, steps, rate, controls=controls)


# %% [markdown]
# After the longest training some sizes continue at a constant rate with sampled labels (the *plateau*). Two checkpoints of it are *cooled*, that is,
# trained on exact labels to one KL; and one size continues on exact labels throughout:


# %% tags=["experiment"]
def continued(replicate):
    """What follows the longest descent at the main rate."""
    steps, exact, sizes = experiment.plateau_steps, replicate.setup.exact, replicate.transformers
    for size in replicate.models:
        if page.continued == "all" or size in page.continued:
            plateau = replicate.plateau(size)
            yield from (replicate.measured(size, "plateau", at, plateau) for at in steps)
            for at in (steps[0], steps[-1]) if exact else ():
                cooled = replicate.cooled(plateau, at, size)
                yield replicate.measured(size, "cooled", at, cooled, experiment.cooling_steps)
    if page.continued == "all" and exact and sizes:
        middle = sizes[len(sizes) // 2]
        plateau = replicate.plateau(middle, EXACT)
        yield from (replicate.measured(middle, "plateau, exact labels", at, plateau) for at in steps)


# %% tags=["experiment"]
replicates = list(experiment.replicates())
measurements = [m for r in replicates for m in (r.baselines(), *descents(r), *continued(r))]
numbers = page.stack([measurement.run for measurement in measurements])

# %% tags=["comparison"]
from sameloss.studies.same_loss.claims import Comparison
from sameloss.studies.same_loss.tables import PAGES

found = page.results = Comparison(tabled(measurements, numbers), PAGES["04_flatness"])

# %% [markdown]
# ## What else moves the trace
#
# For the [first edition of the protocol](protocol.md) we trained five sizes at two learning rates on eight grammars, and continued at a constant rate. At equal size and KL, a lower rate
# makes the trace larger, by a greater factor than lies between any two sizes:

# %% tags=["hide-input"]
from sameloss.book.part_one import shown

measured, answers, source, provenance = shown(page)

# %% mystnb={"figure": {"caption": "Fisher trace against KL: one line per size and peak learning rate, one point per complete training run. Geometric means over draws. Solid: the main rate; dotted: the other one.", "name": "fig-trace-kl"}, "image": {"alt": "Fisher trace against KL, one line per size: at a quarter of the learning rate all lines lie higher."}}
from sameloss.studies.same_loss import figures, tables


def trace_against_kl(table, ax):
    """Draw the trace against KL, geometric means: one line per model and peak rate, the main rate solid."""
    rows, styles, main = tables.checkpoints(table), figures.model_styles(table), tables.main_lr(table)
    descents = rows[rows.stage == "descent"]
    for (model, lr), part in descents.groupby(["model", "lr"], sort=False):
        mean = np.exp(np.log(part.set_index("steps")[["kl", "trace"]]).groupby("steps").mean())
        rate = f"/ {main / lr:g}" if lr < main else f"× {lr / main:g}"
        other = {} if lr == main else {"ls": ":", "label": f"{styles[model]['label']}, rate {rate}"}
        ax.plot(mean.kl, mean.trace, **styles[model] | other)
    figures.kl_axis(ax, descents.kl, yscale="log", ylabel=figures.TRACE)
    drawing.plain_log_axis(ax.yaxis, descents.trace)
    return ax


by_rate = tables.main_answer(answers, "flatness by rate")
if by_rate is not None:
    rates = measured[(measured.language == by_rate.language) & (measured.stage == "descent")].lr
    times = rates.max() / rates.min()
    finding(
        f"At equal size and KL, dividing the learning rate by {times:g} multiplies "
        f"the trace by {times ** -by_rate['mean']:.1f}."
    )
else:
    finding("These runs have one learning rate.")
for ax in figures.by_language(measured, trace_against_kl):
    drawing.label_ends(ax)

# %% [markdown]
# So sizes are compared at one rate here. If the rate falls with the width, as is common practice, its effect opposes that of size, and a wider model
# can look sharper because of its rate alone.
#
# **Longer training** (Figure 3). Along the plateau the noise of sampled labels should lower the trace; exact labels, on which
# one size continues, have no noise but let the KL keep falling.

# %% mystnb={"figure": {"caption": "Fisher trace and KL during continued training at a constant rate, means over draws. Solid: sampled labels; dashed: exact labels.", "name": "fig-plateau-trace"}, "image": {"alt": "With sampled labels the trace falls along the plateau while the KL stays, one line per size."}}
first = measured[measured.language == measured.language.iloc[0]]
by_steps = tables.main_answer(answers, "flatness by steps")
if by_steps is not None:
    steps = measured[(measured.language == by_steps.language) & (measured.stage == "plateau")].steps
    finding(
        f"The trace at step {steps.min():,} is {tables.effect_in_words(by_steps)} that at step {steps.max():,}."
    )
else:
    finding("These runs have no plateau.")
left, right = drawing.panels(2, width=4.5)
figures.along_plateau(first, "trace", figures.TRACE, left)
figures.along_plateau(first, "kl", "KL (nats per masked token)", right)
drawing.label_ends(right)

# %% [markdown]
# **Accuracy across sizes** (Figure 5). Anything that grows with size correlates with anything else that does, so this correlation is shown and not
# judged; the models differ in size and KL as well as in flatness. [4b](04_interventions.ipynb) asks whether a
# model of one size that is trained flatter is more accurate.


# %% mystnb={"figure": {"caption": "Probe accuracy (all probes read equally many features) against Fisher trace after the longest training at one rate, one point per size and draw.", "name": "fig-trace-accuracy"}, "image": {"alt": "Across sizes, flatter models are more accurate: scatter plot, one colour per size."}}
def accuracy_against_trace(table, ax):
    """Draw accuracy against trace of the longest descents at the main rate, one point per replicate."""
    rows = tables.checkpoints(table)
    descents = rows[(rows.stage == "descent") & (rows.lr == tables.main_lr(table))]
    ends = descents[descents.steps == descents.steps.max()]
    for model, part in ends.groupby("model", sort=False):
        ax.plot(part.trace, part.accuracy, ls="none", **figures.model_styles(table)[model])
    ax.set(xscale="log", xlabel=figures.TRACE, ylabel=figures.ACCURACY)
    drawing.plain_log_axis(ax.xaxis, ends.trace)
    return ax


across = answers[(answers.question == "flatness as a cause") & answers["mean"].notna()]
across = across.drop_duplicates("row").set_index("row")  # on the first language
if "between sizes" in across.index:
    slope, fit = across.loc["between sizes"], across.loc["between sizes, r²"]
    finding(
        f"Across sizes, accuracy changes by {tables.effect_in_words(slope)}; "
        f"the mean r² within a draw is {fit['mean']:.2f}, the paper's 0.92."
    )
else:
    finding("These runs have too few sizes for a correlation.")
drawing.legend(figures.by_language(measured, accuracy_against_trace)[0])

# %% [markdown]
# **Five sizes, other languages.** All comparisons of the first edition, at the smallest KL that both models reach unless a row says otherwise; the paper predicts ratios above one.

# %% mystnb={"figure": {"caption": "Trace of the smallest model divided by that of the largest, at equal KL (except cooled models, whose KLs differ), with 95 % intervals over draws (that of the main comparison is widened by Holm's correction). Above one, the larger model is flatter; a row without an interval was not measured on that language. Green: supports the paper; red: against it; grey: open.", "name": "fig-trace-size"}, "image": {"alt": "Ratios of traces with intervals: most comparisons at one learning rate lie above one."}}
from sameloss.studies.same_loss.claims import MAIN, RATIO

ratios = answers[(answers.question == "flatness by size") & (answers.unit == RATIO)]
AT = {MAIN: "at one learning rate", "with a learning rate that falls as 1/d": "with a rate that falls as 1/d"}
compared = ratios[ratios.row.isin(AT) & ratios["mean"].notna()].drop_duplicates("row")  # first language
if len(compared):
    times = " and ".join(f"{row['mean']:.2f} {AT[row.row]}" for _, row in compared.iterrows())
    finding(f"At equal KL, the smallest model's trace divided by the largest's is {times}.")
else:
    finding("Nothing can be compared here: these runs have no pair of models at one KL.")
figures.effects_by_language(ratios)

# %%
of_size = answers[(answers.question == "flatness by size") & answers.over.notna()]
if len(of_size):
    nearest = of_size.sort_values("unlearnt").iloc[:2]
    flatter = int(nearest.direction.eq("supported").sum())
    say(
        f"Of the two pairs of neighbouring sizes nearest to the lowest loss (common KLs {nearest.unlearnt.min():.0f} and "
        f"{nearest.unlearnt.max():.0f} % of a bag of words'), {flatter or 'neither'} show{'s' * (flatter < 2)} that the larger "
        "model is flatter."
    )

# %%
render(tables.answer_table(answers, PAGES["04_flatness"]))

# %% mystnb={"code_prompt_show": "All rows: by size, by learning rate, by steps"} tags=["hide-cell"]
from IPython.display import display

from sameloss.studies.verdict import chance_in_words

for question in ("flatness by size", "flatness by rate", "flatness by steps"):
    display(render(tables.control_table(answers, question), decimals=4))
say(chance_in_words(answers[answers.question.isin(PAGES["04_flatness"])]))
say(f"{source} {provenance}")
say("The same questions, from the runs of this page alone:")
render(tables.answer_table(found.answers))

# %% [markdown]
# *Relative to squared weights* is $\sum_l\lVert W_l\rVert_F^2\,\mathrm{Tr} H_{ll}$, which does not change when a tensor is rescaled. *Enlarged to one width* embeds all
# sizes in the widest model, as the paper's Appendix B.1 does (our [B.1](b2_enlargement.ipynb) shows what this map alone does). *Cooled*: both checkpoints of the plateau, trained without label noise to
# one KL. On text generated by a pre-trained model ours are far from saturation, so that their Fisher trace is not the Hessian's.

# %% [markdown]
# ## The trace in plain PyTorch
#
# The expectation over $\hat y$ can be summed exactly or sampled. Each label costs one backward pass, and for a given number of
# passes one label for each of many sentences gives a smaller error than many labels for a few:
# [B Trace](b1_trace.ipynb) compares all estimators. The library never materialises per-example gradients: their squared norms
# follow from inner products of each layer's inputs and back-propagated output gradients. In plain PyTorch the trace is two
# loops:

# %%
import torch

from sameloss.measures.flatness.trace import fisher_trace


def plain_trace(model, masked):
    """One backward pass for each label of each masked sentence: slow, and exact."""
    parameters, traces = list(model.parameters()), []
    for row in range(len(masked.targets)):
        one = masked.rows(slice(row, row + 1))
        log_f = model(one.masked, one.positions, one.lengths).log_softmax(-1)[0]
        for y in range(len(log_f)):
            gradients = torch.autograd.grad(log_f[y], parameters, retain_graph=True)
            squared_norm = sum(gradient.square().sum() for gradient in gradients)
            traces.append(log_f[y].exp().detach() * squared_norm)
    return sum(traces) / len(masked.targets)


# %% [markdown]
# For the model of one parameter per word, whose trace is 0.62:

# %%
from sameloss.languages.masking import Batch


class Unigram(torch.nn.Module):
    def __init__(self, probabilities):
        super().__init__()
        self.head_bias = torch.nn.Parameter(torch.tensor(probabilities).log())

    def forward(self, masked, positions, lengths=None):
        return torch.zeros(len(masked), len(self.head_bias)) + self.head_bias


zeros = torch.zeros(2).long()  # what the two sentences are does not matter
anything = Batch(masked=zeros[:, None], positions=zeros, targets=zeros, lengths=None)
unigram = Unigram([0.5, 0.3, 0.2])
exact = fisher_trace(unigram, anything, estimator="exact").total.mean
print(f"plain {plain_trace(unigram, anything):.6f}, library {exact:.6f}")

# %% [markdown]
# ## From a language to a trace
#
# The trace of one model, for one replicate. It is over
# the model's own parameters, not over those of an enlarged model as in Appendix B.1:

# %%
from sameloss.runs.sampling import held_out_masked

replicate = replicates[0]
smallest = replicate.models[0]
model = page.with_weights(replicate.longest_descent(smallest)).last()
masked = held_out_masked(replicate.language.build(), 500, replicate.seed, "trace")
trace = fisher_trace(model, masked, generator=torch.Generator().manual_seed(0))
print(f"{smallest}: trace {trace.total.mean:.1f} ± {trace.total.standard_error:.1f}")

model, few = model.cpu(), masked.rows(slice(3))  # now with every label summed over, none sampled
plain = float(plain_trace(model, few))
exact = fisher_trace(model, few, estimator="exact").total.mean
print(f"three sentences: plain {plain:.2f}, library {exact:.2f}")

# %% [markdown]
# Which parameters contribute? Input and output embeddings are tied, so *word embedding* counts both uses; *head* is the layer
# between the last block and the output embedding, with the output bias:

# %%
parts = {name: (part.mean, part.standard_error) for name, part in trace.parts.items()}
render(pd.DataFrame.from_dict(parts, "index", columns=["trace", "error"]).rename_axis("part").reset_index())

# %% [markdown]
# ## The Fisher trace equals the Hessian's only at saturation
#
# Away from saturation the Hessian has a second term. With logits $z$, their Jacobian $J$ in the parameters, and true conditionals $q$ (Lemma 3.2),
#
# $$ \mathrm{Tr}\,\nabla^2 L = \underbrace{\mathbb E\,\mathrm{Tr}\,J^\top(\mathrm{diag} f - ff^\top)J}_{\text{Fisher}}
#    + \underbrace{\mathbb E \sum_y (f_y - q_y)\,\mathrm{Tr}\,\nabla^2 z_y}_{\text{gap}} . $$
#
# The gap is estimated directly, with random directions in parameter space; both the gap and the variance of this estimate vanish at
# saturation.

# %%
from sameloss.measures.flatness.hessian import fisher_gap
from sameloss.runs.sampling import held_out_conditionals

truth = held_out_conditionals(replicate.language.build(), 500, replicate.seed, "trace")
gap = fisher_gap(model, masked, truth, batch=50, generator=torch.Generator().manual_seed(0)).total
print(
    f"gap {gap.mean:.2f} ± {gap.standard_error:.2f}, {100 * gap.mean / trace.total.mean:.1f} % of the trace"
)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
total = sum(part.mean for part in trace.parts.values())
print("per-example gradients have the same norms:", bool(abs(plain / exact - 1) < 1e-3))
print("parts of the trace add up to it:", bool(abs(total - trace.total.mean) < 1e-4 * total))

# %% [markdown]
# ## Deviations
#
# - For Figure 3 the paper trains with SGD from the start, which does not saturate within a laptop's budget; here AdamW continues training
#   at a constant rate.
# - The paper samples 50 labels for each of 10,000 sentences; here one label for each of the preset's sentences (`-p trace_labels 50` samples 50).
# - Main traces are over native parameters; the rows *enlarged to one width* use the paper's embedding.
#
# ## Exercises
#
# 1. Does the order of the sizes depend on the noise of the estimate? `-p trace_sentences 500`.
# 2. The paper's 235M, on a GPU: `papermill chapters/04_flatness.ipynb out.ipynb -p size 235M`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, found.table)
