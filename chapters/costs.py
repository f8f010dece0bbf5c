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
# # Costs
#
# What the runs behind each chapter cost on the machine that computed them, from the manifests of the run store; and the sizes of the
# models.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, gpu, paper
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.book.pages import STUDY

page = begin(globals(), STUDY, "costs")

# %% [markdown]
# ## Cost of each preset
#
# All comparisons of Part I. *Estimated*: memory and time of the training runs alone, in sequence, with sentences counted at full length. The
# reference core does 9e10 operations per second in matrix products and takes 2 ms to dispatch a block; `gpu` and `paper` are estimated for an
# NVIDIA H200 from its data sheet (989 TFLOP/s in bfloat16, 67 in float32 for LSTMs, 4.8 TB/s), assuming 40 % of what arithmetic and memory
# allow, and half a millisecond per block. *Measured*: hours of everything, training and measurements, summed over single-threaded
# processes, where it was run. No page has numbers from a GPU yet, so the estimates for one are unchecked.

# %%
from sameloss.book.chapter import render
from sameloss.book.costs import preset_costs

render(preset_costs(page.store))

# %% [markdown]
# ## Estimates compared with measurements
#
# One pre-training run per size. Before it computes, every chapter prints this estimate, and refuses above `max_hours`, whatever the
# load of the machine. *Tokens per second* excludes padding; *utilisation* is relative to this device's measured speed in matrix products of
# that width (%).

# %%
from sameloss.book.costs import estimated_and_measured

from sameloss.studies.same_loss.pages import PRESETS

render(estimated_and_measured(page.store, PRESETS.get(page.config.name, PRESETS["laptop"])))

# %% [markdown]
# ## Time and memory by chapter
#
# *Core seconds* are summed over runs, each on one thread (corpora on all cores); two cores take about half as long. A run shared by two
# chapters is counted in both but computed once. *Peak* is the largest process, which may have computed other runs before.

# %%
from sameloss.book.costs import by_page, totals

stages = by_page(page.pages)
render(totals(stages), decimals=1)

# %% mystnb={"code_prompt_show": "Stage by stage"} tags=["hide-cell"]
render(stages.drop(columns="device"), decimals=1)

# %% [markdown]
# ## Recorded runs
#
# Tables of longer presets, computed by `make record` and kept in `results/`; chapters show them beside their own numbers. A record is
# computed part by part; `make record PRESET=workstation FLAGS=--dry-run` lists what is left.

# %%
from sameloss.studies.recorded import record_in_words, records

print(*map(record_in_words, records()), sep="\n")

# %% [markdown]
# Parts in the order of computation: all runs and finished ones, core-hours estimated (`told`) and measured (`took`) for those, and estimated for the
# rest (`left`). Runs shared with an earlier part are not counted again.

# %%
from sameloss.book.costs import recorded_parts

render(recorded_parts())

# %% [markdown]
# ## Reliability
#
# A training run that is killed resumes from its last saved state, finished runs are kept, and a damaged result is recomputed. `make campaign` tests
# this at random, and every trial compares the final result with that of undisturbed runs, byte by byte: kills at random moments and before chosen
# file changes, damaged files, full disks, files of other users, several processes at once, and whole commands that are interrupted.
# Recorded:

# %%
from sameloss.book.costs import recorded_campaign

campaign, campaign_record = recorded_campaign()
render(campaign)

# %%
print(campaign_record)

# %% [markdown]
# ## Pre-training compared with HuggingFace
#
# Recorded by `benchmarks/pretrain.py` in one run on one thread, after checking that the losses for the same batches and initial weights agree: one
# step (forward, backward, AdamW), compared with `BertForMaskedLM`, which gets its batch padded to the longest sentence, as its own trainer would do.
# Ours computes the last block and the head at the masked position only, and no padding. Compilation takes about half a minute per shape,
# so the laptop's short training runs do without.

# %%
from sameloss.book.costs import recorded_benchmark

training_benchmark, training_record = recorded_benchmark("pretrain")
render(training_benchmark)

# %%
print(training_record)

# %% [markdown]
# ## Languages compared with peers
#
# Recorded by `benchmarks/languages.py` in one run on one thread (corpora: two), after checking that all results agree: conditionals of the
# paper's grammar at all positions of sentences of 15 tokens, compared with a dense chart (all symbols in one group) and torch-struct; state
# posteriors and conditionals of the paper's HMM, compared with hmmlearn; sampling, compared with NLTK's productions drawn one by one (NLTK has no
# sampler; the second row prepares their cumulative weights). Ratios are of the best repetitions, and larger is better for ours; a goal was set before,
# and is met if the medians meet it. Memory is the peak of computing conditionals beyond the result itself: a multiple of the constant that
# bounds a chunk, nearly independent of the number of sentences.

# %%
benchmark, record = recorded_benchmark("languages")
render(benchmark)

# %%
print(record)

# %% [markdown]
# ## The trace compared with peers
#
# Recorded by `benchmarks/trace.py` in one run on one thread, after checking that all results agree: squared gradient norms of the same sentences and
# sampled labels (milliseconds per label), compared with a loop over sentences, `vmap(grad)`, Opacus' ghost norms and BackPACK; the time to a trace
# with a standard error of 2 %, compared with Hessian-vector products with random directions as in PyHessian, curvlinops and the released code; and
# peak memory. Opacus and BackPACK do not support every layer: the table names the model used for each.

# %%
trace_benchmark, trace_record = recorded_benchmark("trace")
render(trace_benchmark)

# %%
print(trace_record)

# %% [markdown]
# Each label costs a backward pass without weight gradients: with $K$ labels per sentence, $(1 + K)/K$ forward passes' worth of operations, where
# `vmap(grad)` and the loop need 3. So counting operations predicts a ratio of 1.5 for one label, and of 3 for many. It is lower for the Grams of
# equation {eq}`eq-gram`, whose small matrix products run below the speed of large ones (which a profile shows where a goal is missed), and higher
# because gradients are never written to memory and sentences of similar length are computed together (peers pad them, the loop does not).
#
# ## Sizes
#
# The paper's names count BERT's embedding of 30,522 rows, of which its languages use about two hundred. The table has the exact number of
# parameters of the models in this book.

# %%
from sameloss.book.costs import size_table

render(size_table())

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
table = size_table()
print("the paper's 235M has", table.set_index("size").parameters["235M"], "parameters here")

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page)
