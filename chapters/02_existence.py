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
# # 2b A ladder of sizes, other languages, more steps
#
# **Question.** [Section 2](02_confirmation.ipynb) compares two sizes near the lowest loss. Does accuracy at equal KL rise from size to size, at larger KLs, and on other languages? And do more steps help once
# the loss has converged? [Liu et al., 2023](bibliography.md) say so (Section 2.3, Figures 1, 2 and 9, Table 1).
#
# **Idea.** The [first edition of the protocol](protocol.md) has a ladder of five transformers, *d* = 24 to 96, on eight grammars and three hidden Markov models, three LSTMs on the latter, and three transformers on text that a pre-trained language
# model generates. Complete trainings of several lengths give each size accuracies over a range of KLs, and two sizes are compared at a KL that both reach, mostly the smallest. Probes read equally many features of all models: random ones are added.
#
# **By hand.** The paper's gain on its grammar is 6.9 points over eight doublings of the parameters in use. From *d* = 24 to 32 parameters grow from 23,336 to 40,576, 0.8 doublings, so this step should gain 0.7 points.
# From *d* = 24 to 96 there are 3.9 doublings, and 3.4 points.
#
# **Prediction.** Every step of the ladder, at any common KL and on every language, gains what the violet marks of the figure show.

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

# %% mystnb={"code_prompt_show": "Comparisons, from the record"} tags=["hide-input"]
import numpy as np

from sameloss.book.part_one import recorded_answers, recorded_measurements
from sameloss.statistics.intervals import Interval, seed_interval
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.claims import ACCURACY, KL, Measurements, Model

answers, table = recorded_answers(), recorded_measurements()
measured = {name: Measurements(part) for name, part in table.groupby("language", sort=False)}
of_size = answers[answers.question == "size"].set_index(["language", "row"])
main = answers[answers.row == "main"].set_index(["question", "language"])


def ends_at(name):
    """The ends of a language's ladder at their smallest common KL, by draw."""
    return measured[name].at_equal_kl(measured[name].ends(measured[name].family), ACCURACY)


def gain_of(pairs):
    """The larger size's lead, with its interval as it is, without correction."""
    return seed_interval(pairs["second"] - pairs["first"])


# %% mystnb={"code_prompt_show": "Lines of the figure"} tags=["hide-input"]
import seaborn as sns

from sameloss.studies import drawing
from sameloss.studies.same_loss.figures import ACCURACY as PROBE
from sameloss.studies.same_loss.figures import PAPER


def line_of(label, row, plain=None, published=None):
    """A line of the figure: its interval, the corrected one, the published effect, whether it is not judged."""
    own = Interval(row["mean"], row.low, row.high)
    published = row.published if published is None else published
    return label, plain or own, own if plain else None, published, "tokens" in row.reason


def neighbours(name):
    """Neighbouring sizes, smallest first."""
    rows = of_size.loc[(name, "neighbouring sizes"), :]
    return [
        (f"{row.over[1:]} to {row.model[1:]}, at {row.unlearnt:.0f} %", row) for _, row in rows.iterrows()
    ]


# %% mystnb={"code_prompt_show": "Groups of comparisons"} tags=["hide-input"]
PLACES = ("at the largest common KL", "halfway to the largest common KL", "main")
NAMES = {"hmm": "hidden Markov model", "pretrained": "generated text"}
plain = {name: gain_of(ends_at(name)) for name in measured}
first = main.loc["size", "grammar"]
at_kls = [of_size.loc["grammar", place].squeeze() for place in PLACES]
groups = {
    "grammar: 24 to 96": [
        line_of(
            f"at {row.unlearnt:.0f} % of KL", row, plain["grammar"] if row.primary else None, first.published
        )
        for row in at_kls
    ],
    "grammar: neighbours": [line_of(*named) for named in neighbours("grammar")],
    "others: smallest to largest": [
        line_of(f"{text}, at {row.unlearnt:.0f} %", row, plain[name])
        for name, text in NAMES.items()
        for row in [main.loc["size", name]]
    ],
}
lstms = of_size.loc["hmm", "LSTMs"].squeeze()
groups["others: smallest to largest"].insert(1, line_of(f"its LSTMs, at {lstms.unlearnt:.0f} %", lstms))

# %% mystnb={"code_prompt_show": "How they are drawn"} tags=["hide-input"]
drawing.use_style()


def draw_ladder(m, ax):
    """Accuracy against KL, a line a size, means over draws; at the common KL the larger end's lead."""
    colours = sns.color_palette("viridis", len(m.family) + 1)
    for name, colour, marker in zip(m.family, colours, drawing.MARKERS, strict=False):
        model = Model(name, lr=m.lr)
        kl = 100 * np.exp(np.log(m.values(model, KL)).mean()) / m.baseline_kl
        ax.plot(
            kl,
            m.values(model, ACCURACY).mean(),
            label=display_name(name),
            color=colour,
            marker=marker,
            ms=5,
            lw=1.3,
        )
    pairs = ends_at("grammar")
    at, effect = 100 * pairs.kl.mean() / m.baseline_kl, pairs["first"].mean() + np.array(gain_of(pairs))
    ax.axvline(at, color="0.7", lw=1, zorder=0)
    ax.vlines(at, effect[1], effect[2], color=colours[len(m.family) - 1], lw=3)
    ax.set(xscale="log", xlabel="KL (% of the bag of words')", ylabel=PROBE, title="grammar")
    drawing.plain_log_axis(ax.xaxis, kl)
    ax.invert_xaxis()


# %% mystnb={"code_prompt_show": "How intervals are drawn"} tags=["hide-input"]
def draw_lines(groups, ax):
    """Intervals under headings: thick as they are, thin corrected, violet the published effect."""
    rows = [row for heading, lines in groups.items() for row in (heading, *lines)]
    for y, row in enumerate(rows):
        if isinstance(row, tuple):
            _, own, corrected, published, idle = row
            colour = "0.65" if idle else "C0"
            ax.hlines(y, own.low, own.high, color=colour, lw=3)
            ax.plot(own.value, y, "o", color=colour, ms=5)
            if corrected:
                ax.hlines(y, corrected.low, corrected.high, color=colour, lw=1)
            ax.plot(published, y, "|", color=PAPER, ms=11, mew=2)
    ax.set_yticks(range(len(rows)), [row[0] if isinstance(row, tuple) else row for row in rows])
    for tick, row in zip(ax.get_yticklabels(), rows, strict=True):
        tick.set_weight("normal" if isinstance(row, tuple) else "bold")
    ax.axvline(0, color="0.35", lw=1, ls="--", zorder=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)


# %% mystnb={"figure": {"caption": "Left: accuracy of probes that read 768 features against KL on the grammar, one line per size, one point per length of training, means over eight draws. Vertical: the smallest KL that the ladder's ends have in common, with the 95 % interval of the lead of d = 96 over d = 24. Right: leads of the larger size at equal KL, in per cent of the bag of words' KL (on the generated text, of what context tells), with 95 % intervals over draws; thin: corrected for all questions of the protocol, leaving the panel. Violet: the paper's gain in proportion to doublings of parameters. Grey: not judged.", "name": "fig-existence-sizes"}, "image": {"alt": "On the grammar the five lines of accuracy against KL lie close together, and the largest size goes on to smaller KLs. The lead of the largest over the smallest grows from minus one and a half points to plus one and a half as the KL falls; all four intervals of neighbouring sizes contain zero."}}
from sameloss.book.chapter import finding

steps_up = [row for _, row in neighbours("grammar")]
above = sum(row.low > 0 for row in steps_up)
finding(
    f"At equal KL {above or 'none'} of the {len(steps_up)} steps of the ladder on the grammar is shown to gain; its ends differ by "
    f"{at_kls[0]['mean']:+.1f} points at {at_kls[0].unlearnt:.0f} % of the bag of words' KL and by {at_kls[-1]['mean']:+.1f} at {at_kls[-1].unlearnt:.0f} %."
)
left, right = drawing.panels(2, width=4.4)
draw_ladder(measured["grammar"], left)
drawing.label_ends(left)
draw_lines(groups, right)
right.set(xlim=(-4, 7), xlabel="lead of the larger size (points)")
right.figure.set_figheight(4)

# %%
from sameloss.book.chapter import say


def points(effect):
    """A lead in points, with its interval."""
    return f"{effect.value:+.1f} points ({effect.low:.1f} to {effect.high:.1f})"


def interval_of(row):
    """The interval that the verdict rests on."""
    return Interval(row["mean"], row.low, row.high)


longer, lookup, hmm = main.loc["steps", "grammar"], main.loc["lookup", "grammar"], main.loc["size", "hmm"]
on_text = main.loc["size", "pretrained"]
say(f"""
**What we find.** *The ladder* has no steps that its eight draws could show: from one size to the next accuracy changes by {", ".join(f"{row['mean']:+.1f}" for row in steps_up)} points. *Its ends* depend on the KL: at {at_kls[0].unlearnt:.0f} % of the bag of
words' KL *d* = 96 differs from *d* = 24 by {points(interval_of(at_kls[0]))}, at {at_kls[1].unlearnt:.0f} % by {points(interval_of(at_kls[1]))}, at {at_kls[2].unlearnt:.0f} %, the smallest that *d* = 24 reaches here, by {points(plain["grammar"])}, corrected {first.low:.1f} to {first.high:.1f}. So a comparison
at a larger KL says little about one near the lowest loss, which [Section 2](02_confirmation.ipynb) makes at 3 %. *Other languages*: on the hidden Markov model transformers gain {points(plain["hmm"])}, LSTMs {points(interval_of(lstms))}, with {hmm.replicates} draws each
(transformers corrected {hmm.low:.1f} to {hmm.high:.1f}); on the generated text the question is *{on_text.direction}*: {on_text.reason}. *More steps* at constant KL gain {points(interval_of(longer))}, where the paper has {longer.published:.1f}.
""")

# %% [markdown]
# **What limits this.** *d* = 24 reaches 9 % of the bag of words' KL on the grammar and 38 % on the hidden Markov model: these are not models of lowest loss. At one KL the larger model has taken fewer steps. On the hidden Markov
# model and the text there are three draws, so corrected intervals are wider than any published effect. The text's conditionals are estimated, on 100 sentences, and its models stay far from the lowest loss.
#
# ## Is it the probe, or the rate?
#
# A wider model gives its probe more features. The same lead on the grammar, read in other ways, and at another learning rate:

# %%
read = {name: interval_of(of_size.loc["grammar", name].squeeze()) for name in (
    "with features as they are", "expanded to 384", "projected to 96", "fine-tuned", "untrained", "at the other learning rate", "with a learning rate that falls as 1/d",
)}  # fmt: skip
say(f"""
On own features the lead of *d* = 96 is {points(read["with features as they are"])}. Give *d* = 24 random features until it has as many as *d* = 96, 384, and the lead is {points(read["expanded to 384"])}; project both to 96 dimensions, all that *d* = 24 has, and it is
{points(read["projected to 96"])}; fine-tuned, {points(read["fine-tuned"])}. So {100 - 100 * read["expanded to 384"].value / read["with features as they are"].value:.0f} % of the lead on own features goes with their number. Untrained, it is {points(read["untrained"])}. With a learning rate that falls as 1/*d* the lead is {points(read["with a learning rate that falls as 1/d"])}, and at a quarter
of the rate for both sizes, at a larger common KL, {points(read["at the other learning rate"])}.
""")

# %%
from sameloss.book.chapter import render
from sameloss.studies.same_loss import tables

render(tables.control_table(answers, "size"), decimals=4)

# %% [markdown]
# ## Do more steps help? (Figure 1)
#
# After the longest training we go on with *sampled* labels at a constant learning rate. Label noise first raises the KL; from the first checkpoint on it changes little, and where it changes by less than a fifth (for the mean over sizes, on average)
# we count it as the same loss. Both checkpoints are also *cooled* to one KL: trained further on exact conditionals, which takes the noise out of their loss.

# %% mystnb={"code_prompt_show": "Groups of these comparisons"} tags=["hide-input"]
of_steps = answers[(answers.question == "steps") & (answers.language == "grammar")].set_index("row")


def by_model(stage, mean, published):
    """Each size's change in accuracy, then their mean."""
    sizes_of = [
        line_of(display_name(row.model), row, published=published)
        for _, row in of_steps.loc[[stage]].iterrows()
    ]
    return [*sizes_of, line_of("mean", of_steps.loc[mean], published=published)]


of_longer = {
    "as they are": by_model("plateau", "main", longer.published),
    "cooled to one KL": by_model("cooled", "cooled, mean of sizes", longer.published),
}

# %% mystnb={"figure": {"caption": "Left: KL on the grammar during continued training on sampled labels at a constant learning rate, means over eight draws; dashed, on exact labels. Right: accuracy at the last checkpoint minus that at the first, with 95 % intervals over draws (the first mean: corrected). Violet: the paper's gain, 1.6 points.", "name": "fig-steps"}, "image": {"alt": "The KL of all sizes is nearly level on sampled labels, and falls on exact ones. All changes in accuracy lie between zero and half a point, far below the paper's 1.6."}}
from sameloss.studies.same_loss import figures

finding(
    f"Between steps {measured['grammar'].plateau[0]:,} and {measured['grammar'].plateau[-1]:,} at a constant rate accuracy changes by {points(interval_of(longer))}; cooled to one KL, by "
    f"{points(interval_of(of_steps.loc['cooled, mean of sizes']))}."
)
left, right = drawing.panels(2, width=4.4)
figures.along_plateau(measured["grammar"].table, "kl", "KL (nats per masked token)", left)
drawing.label_ends(left)
draw_lines(of_longer, right)
right.set(xlabel="accuracy gained (points)")
right.figure.set_figheight(4)

# %%
of_hmm = main.loc["steps", "hmm"]
say(f"""
The verdict is *{longer.direction}, {longer["size"]}*. On the hidden Markov model the question is *{of_hmm.direction}*: {of_hmm.reason}. The dashed line shows why labels are sampled: on exact ones
the KL keeps falling, and one does not compare at equal loss.
""")

# %%
render(tables.control_table(answers, "steps"), decimals=4)

# %% [markdown]
# ## Is an optimal loss enough? (Table 1)
#
# The *lookup table* represents each token by its true log conditionals, and a probe reads these. Nothing predicts masked
# words better, so if the loss alone determined downstream performance, no representation would do better. The paper predicts that every trained
# model does. A token's conditionals do not depend on the token itself, which
# a model's features contain: part of any lead may be that the table lacks it.

# %%
each = answers[(answers.question == "lookup") & (answers.row == "each model")].set_index(
    ["language", "model"]
)["mean"]
largest = answers[(answers.question == "lookup") & answers.published.notna()].iloc[0]
say(f"""
On the grammar every size beats the table after its longest training, *d* = 24 by {each["grammar", "d24"]:.1f} points, *d* = 96 by {each["grammar", "d96"]:.1f} (the paper's 235M by {largest.published:.1f}). For the least accurate size the interval is {lookup.low:.1f} to {lookup.high:.1f}: *{lookup.direction}*. On
the hidden Markov model, whose states one-hot tokens nearly give away, {"all trail" if each["hmm"].max() < 0 else "not all lead"}: *d* = 24 by {abs(each["hmm", "d24"]):.1f} points, *d* = 96 by {abs(each["hmm", "d96"]):.1f}.
""")

# %%
render(tables.control_table(answers, "lookup"), decimals=4)

# %% [markdown]
# ## The experiment
#
# The models are those of [4 Flatness](04_flatness.ipynb), where the experiment stands: every size untrained and at the ends of
# complete trainings of several lengths, and what follows the longest one. Here they are asked other questions. By default two sizes are trained on two draws of the grammar, for less time; `workstation` is the recorded experiment.

# %% mystnb={"code_prompt_show": "Runs of this page"} tags=["experiment", "hide-cell"]
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
# ## How it is computed
#
# All measurements of all models are in one table, one number per row:

# %%
kls = found.table[found.table.quantity == "kl"]
render(
    kls.head(4)[["model", "parameters", "stage", "lr", "steps", "quantity", "value", "standard_error"]],
    decimals=4,
)

# %% [markdown]
# A size's complete trainings are points of KL and accuracy. Within a draw both sizes are interpolated, linearly in log KL, to the smallest KL that both reach, between the two trainings that enclose it, and subtracted. By hand, from the record's first draw of the
# grammar:

# %%
of_draw = {}
for name in ("d24", "d96"):
    trained = Model(name, lr=measured["grammar"].lr)
    kl, accuracy = (measured["grammar"].values(trained, of).iloc[0] for of in (KL, ACCURACY))
    of_draw[name] = np.log(kl[::-1]), accuracy[::-1]  # smallest KL first
target = max(logs.min() for logs, _ in of_draw.values())
by_hand = np.interp(target, *of_draw["d96"]) - np.interp(target, *of_draw["d24"])
pairs = ends_at("grammar")
library = (pairs["second"] - pairs["first"]).iloc[0]
print(f"by hand {by_hand:+.6f}, library {library:+.6f} points")

# %% [markdown]
# Labels are the most probable hidden symbol given the sentence, so a perfect probe scores 100 %: on the grammar the start symbol (task A) and the symbol above the first half of the sentence (task B), on the hidden Markov model its states at
# two positions, on the text the most probable next word. Accuracy is the mean of the tasks. A bag of words is a softmax regression on the counts of the other words. [Verdicts](verdicts.ipynb) says what *not testable* and the other words mean.
#
# **A small run, on this machine.** The trainings of this page and what they answer:

# %%
own = tables.checkpoints(found.table).query("stage == 'descent'")
own = (
    own.groupby(["language", "model", "lr", "steps"], sort=False)[["kl", "trace", "accuracy"]]
    .mean()
    .reset_index()
)
render(own.rename(columns={"kl": "KL"}), decimals=3)

# %%
render(tables.answer_table(found.answers))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
means = kls.groupby("stage").value.mean()
print("descents end below the KL of untrained models:", bool(means["descent"] < means["untrained"]))
print("by hand as the library:", bool(abs(by_hand - library) < 1e-6))

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
# 1. Another hidden Markov model: `-p language hmm`. Does its larger size lead, and at which KL?
# 2. Does the effect of size depend on the label? `-p labels likelihood`.
# 3. Half as many steps: `-p steps 625`. At which KL are models compared now?
# 4. More draws of the grammar: `-p seeds 5`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close
from sameloss.book.part_one import records_in_words

say(records_in_words())
close(page, found.table)
