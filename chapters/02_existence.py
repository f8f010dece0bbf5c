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
# # 2 The existence of implicit bias
#
# **The claim** (Section 2.3, Figures 1, 2 and 9, Table 1 of [Liu et al., 2023](bibliography.md)): masked language models with the *same*
# pre-training loss differ downstream. Larger models are better; more steps help after the loss has converged; and a
# lookup table of the true conditionals, whose loss is optimal, is worse than trained models.
#
# **What you will see**: models of several sizes, trained on languages whose lowest possible loss is known exactly and
# compared at equal KL and learning rate; how much of their difference remains when all probes read the same number
# of features; and what more steps do at equal KL. The comparisons, and what counts for or against the paper, were
# fixed before the runs: [Protocol](protocol.md).

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation, pretrained, gpu-hour, gpu, paper
language: str = None  # grammar, hmm or opt; all: every one that the preset has
size: str = None  # all, or one: d24 to d96 (the width); lstm16 to lstm64 on hmm; 2M to 730M: the paper's
seeds: int = None  # replicates, each with its own language, weights and batches; None: the preset's
steps: int = None  # steps of the longest descent; None: the preset's
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

# %%
from sameloss.book.chapter import begin
from sameloss.studies.same_loss.pages import STUDY

page = begin(globals(), STUDY, "02_existence")

# %% [markdown]
# ## The idea
#
# One token of a sentence $x$ of length $T$ is masked, and the model $f_\theta$ predicts it:
#
# $$ L(\theta) = \mathbb E_{x,t}\bigl[-\log\,[f_\theta(x_{-t})]_{x_t}\bigr]
#    = \underbrace{\mathbb E\, H\bigl(p\bigr)}_{\text{entropy}}
#    + \underbrace{\mathbb E\, \mathrm{KL}\bigl(p\,\|\,f_\theta(x_{-t})\bigr)}_{\text{KL}},
#    \qquad p = \Pr(\cdot\mid x_{-t}) . $$
#
# The entropy is a property of the language; only the KL depends on the model. A model is *saturated* when its KL is almost
# zero: hardly any lower loss is possible. "The same loss" therefore means equal KL.
#
# One pass of the inside algorithm and one gradient give the true conditionals: $\Pr(x)$ is linear in the emission
# probabilities at each position $t$, so its gradient gives the conditionals of all words at all positions
# ([A.2 Conditionals](a2_conditionals.ipynb)).

# %%
from sameloss.book.chapter import show_source
from sameloss.languages import PCFG

show_source(PCFG.conditionals)

# %% [markdown]
# **By hand.** The start symbol becomes $A\,B$ with probability 0.6 and $B\,A$ with 0.4; $A$ emits
# word 1 with 0.9 and word 2 with 0.1, $B$ always emits word 2. If the first word is masked and
# the second is word 2, then $\Pr(\text{word } 1) = 0.6\cdot 0.9 / (0.6 + 0.4\cdot 0.1) = 0.84375$.

# %%
import torch

from sameloss.languages import Sentences
from sameloss.languages.grammars.formats import read_grammar

tiny = PCFG(
    read_grammar("""
S -> A B [0.6] | B A [0.4]
A -> 'one' [0.9] | 'two' [0.1]
B -> 'two' [1.0]
""")
)
two_words = Sentences(torch.tensor([[1, 2]]), torch.tensor([2]))  # one sentence of length 2
tiny.conditionals(two_words)[0, 0]  # at its first position, whatever word stands there

# %% [markdown]
# ## The experiment
#
# The main language is a grammar of the paper's shape: layered, ambiguous, with early stopping. It is small enough (at
# most four tokens a sentence) that even the smallest model learns most of what the context reveals, and hard enough that no probe recovers its hidden symbols in all
# sentences. A *replicate*, or draw, has everything drawn anew, including the grammar. Here is one replicate, from the language to a probe:

# %%
from sameloss.measures.downstream import contextual_features
from sameloss.measures.saturation import divergences
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.experiment import ProbeData, Replicate

replicate: Replicate = page.replicate
language = replicate.language.build()  # a draw of the grammar
size = replicate.models[0]  # the smallest model
training = replicate.longest_descent(size)  # AdamW on the exact conditionals
model = page.store.complete.get(training).last()  # trained once, then read
sentences, conditionals = page.store.get(replicate.held_out)
kl = divergences(model, sentences, conditionals).mean()
print(f"{size}: {model.parameter_count:,} parameters, {training.optimisation.steps} steps")
print(f"KL {kl:.4f} nats per masked token")

# %% [markdown]
# In plain PyTorch, training on exact conditionals is a loop of a dozen lines: mask a random token of each sentence, and minimise
# the cross-entropy with the true distribution of the masked word. The library samples new sentences for each batch, and adds the
# learning-rate schedule and checkpoints.

# %%
from sameloss.models.encoder import EncoderShape

small = EncoderShape(d_model=24, heads=3, layers=3, d_inter=96).build(
    language.words, language.max_length, seed=0
)
optimiser = torch.optim.AdamW(small.parameters(), lr=0.005, weight_decay=0.0)
generator, losses = torch.Generator().manual_seed(0), []
for _ in range(50):
    rows = torch.randint(len(sentences.lengths), (256,), generator=generator)
    t = (torch.rand(256, generator=generator) * sentences.lengths[rows]).long()
    masked = sentences.tokens[rows].long()
    masked[torch.arange(256), t] = 0  # [MASK]
    truth = conditionals[rows, t].float()
    log_f = small(masked, t, sentences.lengths[rows]).log_softmax(-1)
    loss = -(truth * log_f).sum(1).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
print(f"loss of the first batch {losses[0]:.2f}, of the last {losses[-1]:.2f} nats per masked token")

# %% [markdown]
# The KL is two loops: over sentences, and over the position that is masked. The library computes the same in batches.


# %%
def plain_kl(model, sentences, conditionals):
    """Mean KL of the exact conditionals and the model's."""
    per_sentence = []
    for tokens, length, truth in zip(sentences.tokens.long(), sentences.lengths, conditionals, strict=True):
        kl = 0.0
        for t in range(length):
            masked = tokens[None, :length].clone()
            masked[0, t] = 0  # [MASK]
            log_f = model(masked, torch.tensor([t])).log_softmax(-1)[0]
            kl += (torch.xlogy(truth[t], truth[t]) - truth[t] * log_f).sum() / length
        per_sentence.append(kl)
    return torch.stack(per_sentence).mean()


few = sentences.rows(slice(5))
with torch.no_grad():
    plain = plain_kl(model.cpu(), few, conditionals[:5])
print(f"plain {plain:.6f}, library {divergences(model, few, conditionals[:5]).mean():.6f}")

# %% [markdown]
# A linear probe predicts hidden symbols from the features of all tokens:

# %%
data = ProbeData.of(replicate.labelled, page.store)  # sentences and labels
features = data.features(lambda sentences: contextual_features(model, sentences))
labels = page.config.measures.train
for row in data.accuracies(features, "features", labels, sets=1):
    if row["reading"] == "features":
        print(f"{display_name(row['task'])} ({row['task']}): {row['value']:.1f} % of the test sentences")

# %% [markdown]
# The same with scikit-learn, and a fixed strength of the L2 penalty instead of one chosen on held-out sentences:

# %%
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

x, x_test = (part.cpu().numpy() for part in features)
for number, task in enumerate(data.tasks):
    y, y_test = (part.labels[:, number].numpy() for part in (data.training, data.test))
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(x[:labels], y[:labels])
    print(f"{display_name(task)}: {100 * probe.score(x_test, y_test):.1f} %")

# %% [markdown]
# All measurements of all models are in one table, one number per row:

# %%
from sameloss.book.chapter import finding, render, say
from sameloss.studies.same_loss import figures, tables

table = page.table
first = table[(table.model == size) & (table.quantity == "kl")].head(4)
render(first.drop(columns=["language", "replicate", "task", "reading"]), decimals=4)

# %%
measured, answers = page.shown
say(page.source)

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

# %% mystnb={"figure": {"caption": "Probe accuracy against KL: one line per size, one point per complete training run, means over replicates; training is longer to the right. The features of all models are expanded with random ReLU features to the same number. Horizontal lines: one-hot tokens, and the lookup table of true log conditionals, whose KL is zero.", "name": "fig-existence"}, "image": {"alt": "Probe accuracy against KL, one line per size, with horizontal lines for one-hot tokens and the lookup table."}}
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
# A verdict has two parts: the direction that the interval supports (*supported*, *against*, or *unclear* if it contains zero
# effect) and, where the paper reports a number, how the size of the effect compares with it (for sizes per doubling of parameters; as
# published within 25 %, smaller, larger, or imprecise). A question is *not testable* where a rule of the protocol
# forbids a verdict, for example that an interval that contains zero effect is wider than the published effect. The paper's gains are those of one task
# (for size 6.9 points on task B, in proportion to our sizes 3.4; for steps 1.6 on task C); ours are means of two. Only the intervals of
# main comparisons are widened by Holm's correction, so another row can be *supported* where the main one is not. In the
# tables, KL and *unlearnt* are those of the common KL, and steps are those that the smaller and the larger model take to it. For continued training at a
# constant rate (a *plateau*, below) KL and steps are those of the first and the last checkpoint. Models with label noise are
# compared as they are or *cooled*, that is, after further training on exact conditionals that takes the noise out of their
# loss; steps are then those of cooling.

# %% mystnb={"figure": {"caption": "Accuracy of the largest model minus that of the smallest (unless a row names other models), at equal KL, with 95 % intervals over replicates: the main comparison (whose interval is widened by Holm's correction), then all other comparisons, those of untrained models included; a row without an interval was not measured on that language. Dashed: no effect; dotted: the published effect.", "name": "fig-size-controls"}, "image": {"alt": "Intervals of the size effect, one row per comparison."}}
from sameloss.studies.same_loss.claims import POINTS

finding(tables.size_finding(answers, "features as they are"))
of_size = answers[(answers.question == "size") & (answers.unit == POINTS)]
figures.effects_by_language(of_size)

# %%
beside = [tables.answer_in_words(answers, "size") + "\n"]
for name, rows in of_size.groupby("language", sort=False):
    beside += [f"- {words}" for words in [tables.controls_in_words(answers, name)] if words]
    other = rows[rows.row.str.match("projected to|expanded to|over ")]
    if len(other):
        beside.append(
            f"- Other comparisons on the {tables.LANGUAGES[name]}: {tables.effects_in_words(other)}."
        )
say("\n".join(beside))

# %%
render(tables.control_table(answers, "size"), decimals=4)

# %% tags=["remove-cell"]
from myst_nb import glue

from sameloss.studies.same_loss.pages import recorded_answers

of_record = recorded_answers()
grammar = of_record[
    (of_record.question == "size") & (of_record.unit == POINTS) & (of_record.language == "grammar")
]
on_front = [
    "main",
    "other learning rate",
    "at the largest common KL",
    "features as they are",
    "fine-tuned",
    "untrained",
]
front = grammar[grammar.row.isin(on_front)]
(ax,) = drawing.panels(1, width=6)
figures.effects(front, ax)
ax.set_xlabel("accuracy of the largest model minus that of the smallest (points)")
told = (
    "Difference in accuracy between the largest and the smallest model: the main comparison, and five others."
)
glue("figure-size", drawing.picture(ax.figure, told), display=False)

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
others = answers[(answers.question == "steps") & answers.row.str.contains("mean of sizes|exact labels")]
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

# %%
say(tables.conclusion(answers, tables.PAGES["02_existence"]))

# %% [markdown]
# ## Comparison with the paper
#
# The main comparison for each question:

# %%
render(tables.answer_table(answers, tables.PAGES["02_existence"]))

# %% tags=["remove-input"]
say(page.provenance)

# %% [markdown]
# From the runs of this page alone:

# %%
render(tables.answer_table(page.answers))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
kl = table[table.quantity == "kl"].groupby("stage").value.mean()
print(
    "the library's KL is that of two loops:",
    bool(abs(plain / divergences(model, few, conditionals[:5]).mean() - 1) < 1e-3),
)
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
