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
# (costs)=
# # Costs
#
# What the runs behind each chapter took on the machine that made them, read from the manifests of
# the run store; and what the sizes are.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, gpu, paper
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one a core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.book.pages import STUDY

page = begin(globals(), STUDY, "costs")

# %% [markdown]
# ## What each preset takes
#
# All comparisons of the book. *Estimated* are memory and time of the training alone, one run after the
# other, sentences counted at full length: on a reference core, which does 9e10 operations a second in matrix products
# and hands out a block's operations in 2 ms; for `gpu` and `paper` on an NVIDIA H200 from
# its data sheet (989 TFLOP/s in bfloat16, 67 in float32 for LSTMs, 4.8 TB/s), assuming that training reaches 40 % of what
# arithmetic and memory allow, and half a millisecond a block. *Measured* are the hours of everything,
# trainings and measurements, added up over processes of one thread each, where it was run. No GPU was
# at hand when this book was made: nothing in it was computed on one, and the estimates for one are
# unchecked.

# %%
from sameloss.book.chapter import render
from sameloss.book.costs import preset_costs

render(preset_costs(page.store))

# %% [markdown]
# ## Estimated beside measured
#
# One pre-training of each size. Before it computes, every chapter says the estimate and refuses what is
# above `max_hours`, whatever else this machine does. *Tokens a second* counts tokens of sentences, not padding, and *utilisation* is the
# share of the speed of this device's matrix products of that width (%) that they amount to.

# %%
from sameloss.book.costs import estimated_and_measured

from sameloss.studies.same_loss.pages import PRESETS

render(estimated_and_measured(page.store, PRESETS.get(page.config.name, PRESETS["laptop"])))

# %% [markdown]
# ## Time and memory by chapter
#
# *Core seconds* are the sum over runs, each on one thread (corpora on all cores); with two cores the wait is about
# half of it. A run that two chapters share is counted in both, but computed once. *Peak* is the largest
# process, which may have run others before.

# %%
from sameloss.book.costs import by_page, totals

stages = by_page(page.pages)
render(totals(stages), decimals=1)

# %% mystnb={"code_prompt_show": "Stage by stage"} tags=["hide-cell"]
render(stages.drop(columns="device"), decimals=1)

# %% [markdown]
# ## Recorded runs
#
# Tables of longer presets, computed by `make record` and kept in `results/`; chapters show them beside their own
# numbers. A record grows part by part; `make record PRESET=workstation FLAGS=--dry-run` says what is left of it here.

# %%
from sameloss.studies.recorded import record_in_words, records

print(*map(record_in_words, records()), sep="\n")

# %% [markdown]
# Part by part, in the order in which they are computed: all runs and those that are finished, core-hours that were
# told for these and that they took, and what is told for the others. What an earlier part has is not counted again.

# %%
from sameloss.book.costs import recorded_parts

render(recorded_parts())

# %% [markdown]
# ## What a fault costs
#
# A training that is killed goes on from its last saved state, and what is finished is kept; a result that is
# damaged is computed again. `make campaign` tries that at random, and every trial compares what is left, after all has been run
# to its end, with what undisturbed runs leave, byte by byte: kills at random moments and before chosen changes of a
# file, damaged files, full disks, other users' files, several processes at once, and whole commands that are
# interrupted. Recorded:

# %%
from sameloss.book.costs import recorded_campaign

campaign, campaign_record = recorded_campaign()
render(campaign)

# %%
print(campaign_record)

# %% [markdown]
# ## Pre-training: ours beside HuggingFace
#
# Recorded by `benchmarks/pretrain.py` in one run on one thread, after checking that the losses of the same
# batches from the same weights stay together: a step (forward, backward, AdamW) beside `BertForMaskedLM`,
# which gets its batch padded to its longest sentence, as its own trainer would hand it over. Ours computes
# the last block and the head at the masked position only, and no padding. Compiling takes about half a
# minute for each shape, so the laptop's short trainings do without.

# %%
from sameloss.book.costs import recorded_benchmark

training_benchmark, training_record = recorded_benchmark("pretrain")
render(training_benchmark)

# %%
print(training_record)

# %% [markdown]
# ## Languages: ours beside peers
#
# Recorded by `benchmarks/languages.py` in one run on one thread (corpora: two), after checking that all
# answers agree: conditionals of the paper's grammar at all positions of sentences of 15 tokens, beside a dense
# chart (all symbols in one group) and torch-struct; state posteriors and conditionals of the paper's
# HMM, beside hmmlearn; sampling, beside NLTK's productions drawn one by one (NLTK has no sampler; the
# second row prepares their cumulative weights). The ratio is of the best repetitions, and larger is
# better for ours; a goal was set before, and is met where the medians meet it. Memory is the peak of the
# conditionals beyond the result itself: a multiple of the constant that bounds a chunk, nearly
# independent of the number of sentences.

# %%
benchmark, record = recorded_benchmark("languages")
render(benchmark)

# %%
print(record)

# %% [markdown]
# ## The trace: ours beside peers
#
# Recorded by `benchmarks/trace.py` in one run on one thread, after checking that all answers agree:
# squared gradient norms of the same sentences and sampled labels (milliseconds a label), beside a loop
# over sentences, `vmap(grad)`, Opacus' ghost norms and BackPACK; the time to a trace with a standard error
# of 2 %, beside Hessian-vector products with random directions as in PyHessian, curvlinops and the
# released code; and the peak of memory. Opacus and BackPACK do not support every layer: the model each
# is compared on is named.

# %%
trace_benchmark, trace_record = recorded_benchmark("trace")
render(trace_benchmark)

# %%
print(trace_record)

# %% [markdown]
# A label costs us a backward pass without weight gradients: with $K$ labels a sentence $(1 + K)/K$ forward
# passes' worth of operations, where `vmap(grad)` and the loop need 3 for each. So with one label a ratio
# of 1.5 is what counting predicts, and with many 3; less than that for the Grams of equation {eq}`eq-gram`,
# whose small matrix products run below the speed of large ones, which is what a profile shows where a goal
# is missed; more for gradients that are never written to memory, and for sentences of similar length
# computed together (peers get them padded, the loop unpadded).
#
# ## Sizes
#
# The paper's names count BERT's embedding of 30,522 rows, of which its languages use about two
# hundred. The true count is what this book builds.

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
