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
# **The claim** (Appendix E, Figure 11 of [Liu et al., 2023](bibliography.md)): training with the usual mask rate of 15 % instead of one mask
# per sentence changes neither the loss (measured with one mask) nor downstream accuracy by much, and the results on size
# and flatness still hold.
#
# **What you will see**: one size trained both ways and evaluated in the same way, and the difference at equal KL with its
# interval, compared with the margin that was declared beforehand.

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
# One size is trained with one mask per sentence and with 15 % of masks, from the same weights, with complete trainings of several lengths;
# flatness is measured in all ways at the end of the longest.

# %% tags=["experiment", "hide-input"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import ADAMW, tabled
from sameloss.studies.same_loss.experiment import PRESETS as EXPERIMENTS
from sameloss.studies.same_loss.parameters import BOUNDS, chosen, of_one_size, preset_of

PRESETS = {
    name: {"experiment": e, "algorithms": () if name == "pretrained" else (("mask-rate", 0.15),)}
    for name, e in EXPERIMENTS.items()
}
page = begin(globals(), "e_mask_rate", PRESETS, BOUNDS, auto=preset_of)
experiment = of_one_size(chosen(page.values), "e_mask_rate")
page.about, model = experiment.about, experiment.size


# %% tags=["experiment"]
def measured_on(replicate):
    """One mask and 15 % of masks, by number of steps, and the flatness of the longest trainings."""
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

found = page.results = Comparison(tabled(measurements, numbers), PAGES["e_mask_rate"])

# %% [markdown]
# ## The idea
#
# With several masks the model has to predict the marginal of each masked token, given the rest. The paper notes that such
# conditionals take exponentially many terms. For a grammar or a hidden Markov model they do not: a masked leaf is summed
# out inside the dynamic programme (see [A.2 Conditionals](a2_conditionals.ipynb)), so the targets are as exact as with one
# mask. The task is harder: the same parameters have to predict the words of sentences with one, two or more masks.

# %%
from sameloss.book.chapter import show_source
from sameloss.languages.masking import mask_share

show_source(mask_share)

# %% [markdown]
# **By hand.** In a sentence of $T$ tokens, each masked with probability $r$, and one masked if none would be, the expected
# number of masks is $rT + (1-r)^T$: for $T = 8$ and $r = 0.15$, $1.2 + 0.85^8 = 1.4725$.

# %%
import numpy as np
import torch

from sameloss.languages import Sentences

drawn = Sentences(torch.ones(200_000, 8).long(), torch.full((200_000,), 8))
round(len(mask_share(drawn, 0.15, np.random.default_rng(0)).targets) / 200_000, 2)

# %% [markdown]
# ## The same loss, the same accuracy?
#
# The paper predicts that both kinds of training end at nearly the same loss, with nearly the same accuracy. After the
# longest training, with the KL measured on one mask (KL in nats per masked token, Fisher trace, mean probe accuracy in per
# cent), the runs of this page have:

# %%
from sameloss.book.chapter import finding, render, say
from sameloss.studies import drawing
from sameloss.studies.same_loss import figures, tables

render(tables.algorithm_table(found.table), decimals=3)

# %% mystnb={"figure": {"caption": "Accuracy (left) and Fisher trace (right) against KL, of models trained with one mask (AdamW) and with 15 % (random masks), as in Figure 11: one point per complete training, means over replicates. Runs of this page.", "name": "fig-mask-rate"}, "image": {"alt": "Probe accuracy and Fisher trace against KL for both kinds of training."}}
finding(
    tables.algorithm_finding(found.answers, "mask rate", "models trained with 15 % masks", "those with one")
)
first = found.table[found.table.language == found.table.language.iloc[0]]
left, right = drawing.panels(2, width=4.5)
figures.by_algorithm(first, "accuracy", left)
figures.by_algorithm(first, "trace", right)
drawing.label_ends(right)

# %% [markdown]
# "Does not change much" is judged as an equivalence: it is *supported* if the whole interval of the difference at equal KL
# lies within two points, a margin declared beforehand.

# %%
from sameloss.book.part_one import shown

_, answers, source, provenance = shown(page)
say(f"{source} {tables.answer_in_words(answers, 'mask rate')}")

# %% [markdown]
# The same training runs give the ratio of the traces, one mask over 15 %:

# %%
render(tables.control_table(answers, "mask rate"), decimals=4)

# %% [markdown]
# ## What this page found
#
# The main comparison ([Verdicts](verdicts.ipynb) says what the words mean):

# %%
render(tables.answer_table(answers, PAGES["e_mask_rate"]))

# %% tags=["remove-input"]
say(provenance)

# %% [markdown]
# From the runs of this page alone:

# %%
render(tables.answer_table(found.answers))

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

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, found.table)
