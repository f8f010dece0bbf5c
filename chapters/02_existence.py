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
# # 2b More sizes, other languages, more steps
#
# **The claim** (Section 2.3, Figures 1, 2 and 9, Table 1 of [Liu et al., 2023](bibliography.md)): masked language models with the *same*
# pre-training loss differ downstream. Larger models are better; more steps help after the loss has converged; and a
# lookup table of the true conditionals, whose loss is optimal, is worse than trained models.
#
# **What you will see**: the comparisons of the [first edition of the protocol](protocol.md): five sizes and three languages at the smallest KL that sizes
# have in common, which is larger than in [2 Same loss, better downstream?](02_confirmation.ipynb); how much of their difference remains when all probes read equally many features;
# and what more steps do at equal KL.

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
# ## The experiment
#
# The models are those of [4 Flatness](04_flatness.ipynb), where the experiment stands: every size untrained and at the ends of
# complete trainings of several lengths, and what follows the longest one. Here they are asked other questions.

# %% tags=["experiment"]
from sameloss.book.cells import begin, opened
from sameloss.studies.same_loss.experiment import PRESETS
from sameloss.studies.same_loss.parameters import BOUNDS, preset_of

presets = {name: {"experiment": experiment} for name, experiment in PRESETS.items()}
page = begin(globals(), "02_existence", presets, BOUNDS, auto=preset_of)
flatness = opened("04_flatness", page.given, page.store)
page.about = flatness.about
page.prepare(flatness.runs())

# %% tags=["comparison"]
from sameloss.studies.same_loss.claims import Comparison
from sameloss.studies.same_loss.tables import PAGES

found = page.results = Comparison(flatness.results.table, PAGES["02_existence"])

# %% [markdown]
# All measurements of all models are in one table, one number per row:

# %%
from sameloss.book.chapter import finding, render, say
from sameloss.studies.same_loss import figures, tables

table = found.table
first = table[table.quantity == "kl"].head(4)
render(first.drop(columns=["language", "replicate", "task", "reading"]), decimals=4)

# %%
from sameloss.book.part_one import shown

measured, answers, source, provenance = shown(page)
say(source)

# %%
render(tables.model_table(measured), decimals=1).format("{:.4f}", subset=["KL"])

# %% [markdown]
# Means over replicates after the longest training. KL is in nats per masked token; *unlearnt* is the same as a percentage of the KL
# of a bag of words (a softmax regression on the counts of the other words) or, on the generated text, of all that context tells.
# Accuracies are those of linear probes of a model's own features and of equally many for all models, averaged over the tasks,
# which ask for hidden symbols: the start symbol (task A), one of eight, and the symbol above the first half of the sentence (task B); on the
# hidden Markov model, its states at two positions (`-p language hmm` trains on it here). The label is the most probable symbol given the
# sentence, so a perfect probe scores 100 %. *Room* is 100 %
# minus the best accuracy with equally many features in any task and draw.

# %% [markdown]
# ## Are larger models better? (Figures 2 and 9)
#
# For each size there are several complete trainings, with different numbers of steps, which gives accuracies over a range of
# KLs. Two sizes are compared at the smallest KL that both reach. If the loss alone mattered, all lines of the figure would coincide; the paper predicts
# that larger models lie above smaller ones.

# %% mystnb={"figure": {"caption": "Probe accuracy against KL: one line per size, one point per complete training run, means over replicates; training is longer to the right. The features of all models are expanded with random ReLU features to the same number. Horizontal lines: one-hot tokens, and the lookup table of true log conditionals, whose KL is zero.", "name": "fig-existence-sizes"}, "image": {"alt": "Probe accuracy against KL, one line per size, with horizontal lines for one-hot tokens and the lookup table."}}
from sameloss.studies import drawing

finding(tables.size_finding(answers))
for ax in figures.by_language(measured, figures.accuracy_against_kl):
    drawing.label_ends(ax)

# %% [markdown]
# **Is it the model or the probe?** A wider model gives its probe more features, and random combinations of a model's features can
# help as well. The main comparison therefore expands the features of all models to the same number. The figure below shows other
# probes beside it: features as they are; features projected to 96 dimensions, which are all that the smallest model has (four tokens of 24); the smallest
# model's features expanded to as many as the largest has; fewer and more labels; *unseen* test sentences, without
# those (short ones repeat) that also occur in the training set;
# fine-tuning; and untrained models. They are shown beside the main comparison; none is subtracted from it.
#
# The paper's ICML text says that projecting the features to 512 dimensions does not affect accuracies, and it compares sizes with
# features as they are.
#
# **Is it this language?** The recorded runs have two more. A hidden Markov model generates sentences of eight tokens; the probes'
# tasks are its states at two positions, which can often be read off one-hot tokens alone; LSTMs are trained on it as well. The
# other is text generated by SmolLM2-135M, a pre-trained language model ([Protocol](protocol.md)), where the task is the
# most probable next word after the sentence. There all pre-training labels are
# sampled, KL is estimated on 100 sentences, and the models stay far from the best possible loss. One-hot tokens have 1,200 features
# there, the models 768.
#
# **Is it this KL or this learning rate?** The same two sizes are also compared at larger KLs, with label noise, and at other
# learning rates (the peak rates are 0.005 and 0.00125). If the main verdict is
# *supported* or *against* and one of these contradicts it, the verdict says so.
#
# [Verdicts](verdicts.ipynb) says what the words mean. Published effects of size are per doubling of parameters. A question is *not testable* where a rule of the protocol
# forbids a verdict, for example that an interval that contains zero effect is wider than the published effect. The paper's gains are those of one task
# (for size 6.9 points on task B, in proportion to our sizes 3.4; for steps 1.6 on task C); ours are means of two. Only the intervals of
# main comparisons are widened by Holm's correction, so another row can be *supported* where the main one is not. In the
# tables, KL and *unlearnt* are those of the common KL, and steps are those that the smaller and the larger model take to it. For continued training at a
# constant rate (a *plateau*, below) KL and steps are those of the first and the last checkpoint. Models with label noise are
# compared as they are or *cooled*, that is, after further training on exact conditionals that takes the noise out of their
# loss; steps are then those of cooling.

# %% mystnb={"figure": {"caption": "Accuracy of the largest model minus that of the smallest (unless a row names other models), at equal KL, with 95 % intervals over replicates: the main comparison (whose interval is widened by Holm's correction), then all other comparisons, those of untrained models included; a row without an interval was not measured on that language. Dashed: no effect; dotted: the published effect.", "name": "fig-size-controls"}, "image": {"alt": "Intervals of the size effect, one row per comparison."}}
from sameloss.studies.same_loss.claims import EXACT_LABELS, POINTS

finding(tables.size_finding(answers, "with features as they are"))
of_size = answers[(answers.question == "size") & (answers.unit == POINTS)]
figures.effects_by_language(of_size)

# %%
OTHER_READINGS = (
    "with features as they are",
    "expanded to 384",  # the smaller model's features, with random ones beside them
    "expanded to 768",
    "projected to 96",
    "fine-tuned",
    "untrained",
)
beside = [tables.answer_in_words(answers, "size") + "\n"]
for name, rows in of_size.groupby("language", sort=False):
    other = rows[rows.row.isin(OTHER_READINGS) | rows.over.notna()]
    if len(other):
        beside.append(
            f"- Other comparisons on the {tables.LANGUAGES[name]}: {tables.effects_in_words(other)}."
        )
say("\n".join(beside))

# %%
render(tables.control_table(answers, "size"), decimals=4)

# %% [markdown]
# ## Do more steps help? (Figure 1)
#
# After the longest training, we continue with *sampled* labels at a constant learning rate (the *plateau*). Label noise
# first raises the KL; from the first checkpoint on it changes little, and where it changes by less than a fifth (for the mean over sizes, on average)
# we count it as the same loss.
# The dashed line (one size) shows the same continuation on exact labels, whose KL keeps falling, so it does not isolate the
# effect of label noise.

# %% mystnb={"figure": {"caption": "KL (left) and probe accuracy (right) during continued training at a constant rate, means over replicates. Solid: sampled labels; dashed: exact labels.", "name": "fig-steps"}, "image": {"alt": "Left, KL against steps at a constant rate, nearly level; right, probe accuracy against steps."}}
finding(tables.steps_finding(answers[answers.question == "steps"], measured))
first = measured[measured.language == measured.language.iloc[0]]
left, right = drawing.panels(2, width=4.5)
figures.along_plateau(first, "kl", "KL (nats per masked token)", left)
figures.along_plateau(first, "accuracy", figures.ACCURACY, right)
drawing.label_ends(right)

# %%
say(tables.answer_in_words(answers, "steps"))
of_one_kl = ("cooled, mean of sizes", EXACT_LABELS, f"{EXACT_LABELS}, mean of sizes")
others = answers[(answers.question == "steps") & answers.row.isin(of_one_kl)]
if len(others):
    say(
        f"Both checkpoints cooled to one KL, or trained without label noise: {tables.effects_in_words(others)}."
    )

# %%
render(tables.control_table(answers, "steps"), decimals=4)

# %% [markdown]
# ## Is an optimal loss enough? (Table 1)
#
# The *lookup table* represents each token by its true log conditionals, and a probe reads these. Nothing predicts masked
# words better, so if the loss alone determined downstream performance, no representation would do better. The paper predicts that every trained
# model does; the main comparison is with the least accurate size. A token's conditionals do not depend on the token itself, which
# a model's features contain: so part of any lead may be that the table lacks it. The paper's number is the lead of its 235M
# model, and stands beside that of our largest.

# %%
say(tables.answer_in_words(answers, "lookup"))

# %%
render(tables.control_table(answers, "lookup"), decimals=4)

# %% [markdown]
# ## What this page found
#
# The main comparison for each question:

# %%
render(tables.answer_table(answers, PAGES["02_existence"]))

# %%
from sameloss.studies.verdict import chance_in_words

say(chance_in_words(answers[answers.question.isin(PAGES["02_existence"])]))

# %% tags=["remove-input"]
say(provenance)

# %% [markdown]
# From the runs of this page alone:

# %%
render(tables.answer_table(found.answers))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
kl = table[table.quantity == "kl"].groupby("stage").value.mean()
print("descents end below the KL of untrained models:", bool(kl["descent"] < kl["untrained"]))

# %% [markdown]
# ## Deviations
#
# - The grammar, sizes and training lengths are chosen for a laptop; `-p preset gpu` and `-p preset paper` use the paper's.
# - Models are first trained on exact conditionals, so that small models come closer to saturation; label noise is added afterwards.
# - No dropout and no weight decay: both regularise explicitly, and the claim is about implicit regularisation.
# - Labels are the most probable symbols given the whole sentence. The released code labels by $\arg\max_s \Pr(x_1..x_L\mid s)$,
#   without a prior and without the rest of the sentence; on the paper's grammar this is rarely the true symbol in its tasks B
#   and C ([A.1 Datasets](a1_datasets.ipynb) has the shares). `-p labels likelihood` uses these labels.
# - Probes are trained to convergence; the paper stops AdamW after 100 epochs.
# - SST-2 (Figure 9) needs the real OPT and is not tested here.
#
# ## Exercises
#
# 1. Another hidden Markov model: `-p language hmm`. Which sizes beat one-hot tokens, and at which KL?
# 2. Does the effect of size depend on the label? `-p labels likelihood`.
# 3. Half as many steps: `-p steps 625`. At which KL are models compared now?
# 4. More draws of the grammar: `-p seeds 5`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, table)
