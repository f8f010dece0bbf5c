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
# **The claim** (Appendix D of [Liu et al., 2023](bibliography.md)): if flatness is what transfers, then explicit regularisers of flatness
# such as SAM should help pre-training, and a measure of flatness should predict which of several models with equal loss is
# better. The paper leaves both untested.
#
# **What you will see**: pre-training with SAM and with an explicit penalty on the trace, beside other regularisers; which
# measure predicts accuracy across algorithms; and the findings of later papers beside ours.

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

# %% [markdown]
# ## The experiment
#
# One size is trained with AdamW and with each regulariser, from the same weights, on the same sentences, with complete trainings of several
# lengths; flatness is measured in all ways at the end of the longest.

# %% tags=["experiment", "hide-input"]
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
page = begin(globals(), "d_practice", PRESETS, BOUNDS, auto=preset_of)
experiment = of_one_size(chosen(page.values), "d_practice")
page.about, model = experiment.about, experiment.size


# %% tags=["experiment"]
def measured_on(replicate):
    """AdamW and the regularisers, by number of steps, and the flatness of their longest trainings."""
    yield replicate.baselines()
    yield replicate.untrained(model)
    for algorithm in (ADAMW, *page.algorithms):
        yield from (replicate.trained(model, steps, algorithm=algorithm) for steps in experiment.lengths)
        if page.algorithms:
            yield replicate.flatness(model, algorithm)


replicates = list(experiment.replicates())
measurements = [measurement for replicate in replicates for measurement in measured_on(replicate)]
numbers = page.stack([measurement.run for measurement in measurements])

# %% tags=["comparison"]
from sameloss.studies.same_loss.claims import Comparison
from sameloss.studies.same_loss.tables import PAGES

found = page.results = Comparison(tabled(measurements, numbers), PAGES["d_practice"])

# %% [markdown]
# ## Explicit regularisers of flatness: SAM and a trace penalty
#
# SAM evaluates the gradient at a distance $\rho$ uphill from the parameters,
# $\nabla L\bigl(\theta + \rho\,\nabla L/\lVert\nabla L\rVert\bigr)$, at twice the cost. The penalty adds $\mu\,\mathrm{Tr}F$ to
# the loss. Its unbiased estimate takes one more backward pass: with random signs $\epsilon$ and
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
# **By hand.** For $f = \mathrm{softmax}(b)$ with two words and $f = (0.8, 0.2)$, the trace is
# $1 - 0.64 - 0.04 = 0.32$. Signs $(+,+)$ give $v = \sqrt f - f\,(\sqrt{0.8}+\sqrt{0.2})$, signs $(+,-)$ have
# the difference instead; the mean of the two squared norms is 0.32.

# %%
import torch


class TwoWords(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor([0.8, 0.2]).log())


model = TwoWords()
signs = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
draws = [fisher_trace_along(model, model.bias[None] + 0, row[None]) for row in signs]
round(float(sum(draw.detach() for draw in draws)) / 2, 4)

# %% [markdown]
# One size is trained with SAM and, in recorded runs, with the penalty, dropout and weight decay. If flatness is what
# transfers, SAM and the penalty should lower the trace and raise the accuracy. The runs of this page after the longest
# training (KL in nats per masked token, Fisher trace, mean probe accuracy in per cent):

# %%
from sameloss.book.chapter import finding, render, say
from sameloss.studies.same_loss import figures, tables

render(tables.algorithm_table(found.table), decimals=3)

# %%
from sameloss.book.part_one import shown

measured, answers, source, provenance = shown(page)
asked = "flatness by regularisers"
say(source)

# %% mystnb={"figure": {"caption": "AdamW's trace over that of a regularised model, at equal KL, with 95 % intervals over replicates: above one, the regulariser flattens.", "name": "fig-regularisers"}, "image": {"alt": "Intervals of the ratio of traces, one row per regulariser."}}
finding(tables.flatter_finding(answers))
rows = answers[answers.question == asked]
figures.effects_by_language(rows)

# %%
say(tables.answer_in_words(answers, asked))

# %% [markdown]
# The accuracy that each regulariser gains over AdamW, at equal KL:

# %%
render(tables.control_table(answers, "accuracy by regularisers"), decimals=4)

# %% [markdown]
# ## Which measure predicts accuracy?
#
# Appendix D asks for a better predictor than the loss. For one size trained by several algorithms, the table shows the rank
# correlation across algorithms between accuracy and candidate predictors, averaged over replicates, with 95 % intervals. It
# is positive if *smaller* values go with *higher* accuracy. KL is the loss itself; [B Trace](b1_trace.ipynb) defines the measures.
# The models are those at the end of training, so their KLs differ. On the hidden Markov model three replicates that happen to
# have the same correlation give an interval without width.

# %%
render(tables.predictor_table(measured))

# %%
say(tables.predictors_in_words(measured))

# %% [markdown]
# ## What later papers found
#
# | paper | finding | here |
# |---|---|---|
# | [Du et al., 2024](bibliography.md) | models of equal pre-training loss perform alike downstream, whatever their size | [2b Existence](02_existence.ipynb): size at exactly equal KL |
# | [Springer et al., 2025](bibliography.md) | more pre-training can harm fine-tuning | [2b Existence](02_existence.ipynb): steps at equal KL, and fine-tuning beside probes |
# | [Andriushchenko et al., 2023](bibliography.md) | sharpness, adaptive or not, often does not correlate with generalisation | the table of predictors above |
#
# The conditionals of natural text are unknown, so its models are compared at an equal loss whose distance from the optimum
# is unknown. Here the distance is known, but the language has a few dozen words. Neither result settles the other.
#
# ## What this page found
#
# The main comparisons ([Verdicts](verdicts.ipynb) says what the words mean):

# %%
render(tables.answer_table(answers, PAGES["d_practice"]))

# %%
from sameloss.studies.verdict import chance_in_words

say(chance_in_words(answers[answers.question.isin(PAGES["d_practice"])]))

# %% tags=["remove-input"]
say(provenance)

# %% [markdown]
# From the runs of this page alone:

# %%
render(tables.answer_table(found.answers))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print("SAM is compared:", bool((found.answers.row == "main").any()))

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

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, found.table)
