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
# # II.5 Growing a trained model
#
# **The claim** (Chapter 5 of [Karp, 2024](bibliography.md), after [Karp et al., 2024](bibliography.md)): when a trained transformer is made deeper, the
# loss immediately after growing does not predict which growth operator ends best (Spearman −0.418 over 30 operators), but the loss a
# little later does (0.986). So instead of choosing an operator that preserves the loss, one should try all for a few steps and continue
# with the best: *landscape-aware growing*, LAG.
#
# **The questions**: does depth help on our language at all? How early can the final loss be predicted? Does LAG choose well, and what do its trials cost?
#
# **What you will see**: shallow models of a language with known entropy, grown by operators of the thesis' design space and by two
# that preserve the function exactly, all trained on the same batches. The thesis has one trial per operator. Here every number is over several
# shallow models, and choices made on one half of the held-out sentences are evaluated on the other. The next page,
# [II.5b Stacking](ii5_stacking.ipynb), grows in several stages.
#
# By default three shallow models are grown by six operators and trained briefly. The recorded run beside it, `-p preset laptop-long`, grows six layers
# to ten, on a language with sentences twice as long, by thirty operators: eighteen of the thesis' design space and twelve that preserve the function.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, gpu, paper
seeds: int = None  # shallow models; None: the preset's
base_steps: int = None  # before growing; None: the preset's
steps: int = None  # after growing; None: the preset's
lag: int = None  # steps after which LAG chooses, its k; None: the preset's
lr: float = None  # learning rate before growing; None: the preset's
batch: int = None  # sentences a step; None: the preset's
label_noise: float = None  # of the labels: 0 exact, 1 sampled as in the thesis; None: the preset's
state: str = None  # of the optimiser: mapped, reset or stale; None: mapped
tolerance: float = None  # relative, of all verdicts; None: each claim's own
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% [markdown]
# ## The experiment
#
# Shallow models are trained at a constant rate after a warm-up, and grown by every operator. In the long run there are thirty
# operators: the eighteen of the thesis' design space, and twelve that preserve the function. With 1,024 held-out sentences (seeds 20 to 22) their halves
# ranked the operators alike at 0.31 only; by the Spearman-Brown formula sixteen times as many reach 0.88, above what claims about an order
# require. There are fewer evaluations instead.

# %% tags=["experiment"]
from itertools import product

from sameloss.models.encoder import EncoderShape
from sameloss.runs.sampling import HeldOutConditionals
from sameloss.studies.growing.experiment import LAPTOP_LANGUAGE, LONG_LANGUAGE, Growth, preserving

LAPTOP = {
    "language": LAPTOP_LANGUAGE, "shape": EncoderShape(32, 4, 2, 128), "seeds": 3, "first_seed": 10,
    "base_steps": 600, "batch": 32, "lr": 2e-3, "warmup": 0.03,  # a fraction of the steps
    "added": 2, "steps": 350, "lag": 70, "label_noise": 0.0, "state": "mapped",
    "stride": 1,  # between the indices of the operators
    "preserving": preserving((0, 2)),  # beside the thesis' operators
    "at_once": 16,  # candidates that are trained together; bounds memory
    "sentences": 1024, "evaluations": 8,  # held out; after growing, about geometrically spaced
    "train": 400, "test": 1000,  # sentences of a probe
    "ages": (), "aged": None,  # steps of other shallow models, and how they grow
}  # fmt: skip
AGED = Growth(
    shape=LAPTOP["shape"], seeds=(20, 21, 22), added=2, steps=800, lag=160, evaluations=12,
    preserving=preserving((0, 1), (0, 2)), held_out=HeldOutConditionals(LAPTOP_LANGUAGE, 2048, 0),
)  # fmt: skip
LONG = LAPTOP | {
    "language": LONG_LANGUAGE, "shape": EncoderShape(32, 4, 6, 128), "first_seed": 40, "base_steps": 2000, "batch": 64,
    "added": 4, "steps": 800, "lag": 160, "preserving": preserving(*product(range(3), (1, 4))), "at_once": 15,
    "sentences": 16_384, "train": 1000, "test": 4000, "ages": (250, 1000, 4000, 16_000), "aged": AGED,
}  # fmt: skip

# %% [markdown]
# `paper` has the thesis' thirty operators on BERT-BASE's shape, on the paper's grammar; `gpu` takes less than an hour of an H200 by estimate. Neither
# was run.

# %% tags=["experiment", "hide-input"]
from sameloss.languages import HierarchySpec
from sameloss.languages.paper import PAPER_LANGUAGE
from sameloss.studies.growing.experiment import Operator

SMOKE = LAPTOP | {
    "language": HierarchySpec(levels=2, symbols=3, rules=2, smoothing=0.05), "shape": EncoderShape(4, 2, 2, 8), "seeds": 2,
    "first_seed": 0, "base_steps": 15, "lr": 1e-2, "added": 1, "steps": 10, "lag": 3,
    "preserving": (Operator(0, 1, "silent"), Operator(1, 1, "muted")), "sentences": 64, "evaluations": 5, "train": 30, "test": 60,
}  # fmt: skip
PAPER = LAPTOP | {
    "language": PAPER_LANGUAGE, "shape": EncoderShape(768, 12, 12, 3072), "first_seed": 0, "base_steps": 30_000,
    "batch": 4096, "lr": 1e-4, "label_noise": 1.0, "added": 4, "steps": 6000, "lag": 200, "stride": 2, "preserving": (),
    "at_once": 1, "sentences": 4000, "evaluations": 24, "train": 2000, "test": 4000,
}  # fmt: skip
GPU = PAPER | {
    "shape": EncoderShape(128, 4, 12, 512), "base_steps": 10_000, "batch": 256, "lr": 5e-4, "steps": 2000,
    "preserving": preserving((0, 1), (4, 2), (8, 4)), "at_once": 12,
}  # fmt: skip

# %% tags=["experiment", "hide-input"]
from typing import get_args

from sameloss.book.cells import begin
from sameloss.studies.growing.claims import TOPICS
from sameloss.studies.parameters import choose
from sameloss.training.ensembles import Carried

PRESETS = {"smoke": SMOKE, "laptop": LAPTOP, "laptop-long": LONG, "gpu": GPU, "paper": PAPER}
BOUNDS = {"seeds": (1, 300), "label_noise": (0, 2**31)}
page = begin(globals(), "ii5_growing", PRESETS, BOUNDS, topics=TOPICS, record="laptop-long")
growth = Growth(
    shape=page.shape, seeds=tuple(range(page.first_seed, page.first_seed + page.seeds)), added=page.added,
    steps=page.steps, lag=page.lag, evaluations=page.evaluations, stride=page.stride, preserving=page.preserving,
    held_out=HeldOutConditionals(page.language, page.sentences, 0), state=choose("state", page.state, get_args(Carried)),
)  # fmt: skip

# %% [markdown]
# A shallow model is grown by every operator, and continued without growing. From scratch, a deep model is trained for at most the FLOPs of a
# shallow one and one grown from it. All candidates of a shallow model see the same batches.

# %% tags=["experiment"]
from sameloss.studies.growing.claims import FROM_SCRATCH, UNTRAINED
from sameloss.studies.growing.experiment import NOT_GROWN, base_training
from sameloss.training.loop import Optimisation

training = Optimisation(page.base_steps, page.batch, page.lr, page.warmup, schedule="constant")


def base(seed, shape, steps):
    """The training from which a model grows, or continues."""
    return base_training(page.language, shape, training.lasting(steps), seed, page.label_noise)


def candidates(seed, part):
    """The run that grows a shallow model by some operators; or continues it, or a deep one."""
    shallow, deep = base(seed, page.shape, page.base_steps), growth.deep
    if part != FROM_SCRATCH:
        return growth.candidates(shallow, parts[part])
    steps = max(1, int(shallow.flops / shallow.flops_of_step(deep)))
    return growth.candidates(base(seed, deep, steps), ())


firsts = range(0, len(growth.operators), page.at_once)
parts = {first: growth.operators[first : first + page.at_once] for first in firsts} | {NOT_GROWN: ()}
trained = page.sweep(candidates, product(growth.seeds, (*parts, FROM_SCRATCH)))

# %% [markdown]
# All models are probed at their end, and an untrained deep one.

# %% tags=["experiment"]
from sameloss.measures.downstream import OptimalProbe
from sameloss.runs.measurements import Probing
from sameloss.runs.sampling import Downstream, LabelledSampling
from sameloss.studies.growing.experiment import Member

tasks = page.language.build().tasks
labelled = Downstream(tasks, "posterior", page.train, page.test, probe_seeds=1, seed=0)
about = LabelledSampling(page.language, labelled), OptimalProbe()


def probings(seed):
    """The probes of all models of a seed, by name."""
    ends = {part: candidates(seed, part) for part in (*parts, FROM_SCRATCH)}
    names = {part: [FROM_SCRATCH] if part == FROM_SCRATCH else run.names for part, run in ends.items()}
    members = {name: Member(ends[part], at) for part in ends for at, name in enumerate(names[part])}
    probed = {name: Probing(member, (page.steps,), *about) for name, member in members.items()}
    return probed | {UNTRAINED: Probing(ends[FROM_SCRATCH].root, (0,), *about)}


probed = {(seed, name): run for seed in growth.seeds for name, run in probings(seed).items()}
accuracies = page.compute(*probed.values())

# %% [markdown]
# The long run also has shallow models of several ages, of the shape and language of the default.

# %% tags=["experiment"]
import pandas as pd


def aged(age, seed, operators):
    """The run that grows a shallow model after so many steps."""
    training = Optimisation(age, page.batch, page.lr, min(1.0, 30 / age), schedule="constant")
    shallow = base_training(page.aged.held_out.language, page.aged.shape, training, seed, label_noise=0.0)
    return page.aged.candidates(shallow, operators)


ages = pd.DataFrame({"age": []})
if page.ages:
    operators = {"all": page.aged.operators, NOT_GROWN: ()}
    ages = page.sweep(aged, age=page.ages, seed=page.aged.seeds, operators=operators)

# %% tags=["comparison"]
from sameloss.studies.growing.claims import grown_from


def accuracy(seed, name, found):
    """Accuracies (%) of the probes of one model."""
    return pd.DataFrame(
        {"task": tasks, "accuracy": 100 * found.mean((0, 1, 2)), "seed": seed, "operator": name}
    )


tables = page.tables  # of the recorded run, which is older than the record of runs
if not tables:
    named = trained.operator.mask(trained.part == FROM_SCRATCH, FROM_SCRATCH)
    downstream = [accuracy(*of, found) for of, found in zip(probed, accuracies, strict=True)]
    tables = {"candidates": trained.assign(operator=named), "downstream": pd.concat(downstream), "ages": ages}
grown = page.results = grown_from(growth, tables, page.aged)
tables["candidates"].tail(3)

# %% [markdown]
# ## Growth operators
#
# An operator takes $k$ consecutive layers out of $L$, starting at layer $i$, in blocks of $b$, and inserts new layers after each block.
# The new layers are copies of the block (*duplicate*) or random (*random*): the thesis' design space. Two more operators preserve the function:
# random layers with zero output matrices (*silent*), and copies with zero output matrices (*muted*). The moments of AdamW are copied
# with the parameters; new parameters start without moments, at step 0.

# %%
from sameloss.book.chapter import show_source
from sameloss.models.enlarge import repeated

show_source(repeated)

# %% [markdown]
# **By hand.** The thesis' example has six layers, $k = 3$ and $i = 2$ counted from 1: with $b = 1$ it writes 1 2 2 3 3 4 4 5 6, with $b = 3$
# it writes 1 2 3 4 2 3 4 5 6. Counted from 0, with new layers in brackets:

# %%
print(repeated(6, 3, index=1, block=1), repeated(6, 3, index=1, block=3), sep="\n")

# %% [markdown]
# **In plain PyTorch.** Copies of both layers of a small model, one after each, muted: their parameters are those of the library's
# operator, and the function is that of the model before.

# %%
from copy import deepcopy

import torch

from sameloss.models.encoder import Encoder
from sameloss.models.enlarge import PRESERVING, grow

model = Encoder(EncoderShape(8, 2, 2, 16), words=5, max_length=6, seed=0).double()
plain = deepcopy(model)
plain.blocks = torch.nn.ModuleList(deepcopy(model.blocks[layer]) for layer in (0, 0, 1, 1))
for added in (plain.blocks[1], plain.blocks[3]):
    for matrix in (added.attention.out, added.mlp_out):
        torch.nn.init.zeros_(matrix.weight), torch.nn.init.zeros_(matrix.bias)

library = grow(model, repeated(2, 2, index=0, block=1), "muted")
pairs = zip(plain.parameters(), library.parameters(), strict=True)
print("the library's parameters:", all(torch.equal(*pair) for pair in pairs))
tokens, positions = torch.tensor([[1, 2, 0, 3, 4, 5]]), torch.tensor([2])
print("the same function:", torch.allclose(plain(tokens, positions), model(tokens, positions)))

# %% [markdown]
# ## Does depth help?
#
# Operators can differ in a meaningful way only where a deeper model is better. So the headroom comes first: by how much the best grown model reduces
# the final KL relative to a shallow model that continues unchanged, on the same batches and at the same rates.

# %%
from sameloss.book.chapter import finding, render, say
from sameloss.studies.growing.claims import gain

thirty = page.recorded("laptop-long")
here, there = (f"{gain(run.headroom()):.0f} %" for run in (grown, thirty))
say(
    f"The headroom is {here}; in the recorded run it is {there}, with 95 % intervals. Where the interval contains zero, no "
    "gain from depth is detected, and claims that require one are not testable. "
    + page.record_in_words("laptop-long")
)

# %% mystnb={"figure": {"caption": "KL after growing, mean over the shallow models, one line per operator. At step 0 copies have disrupted the function; the others have preserved it, exactly or nearly.", "name": "fig-after-growing"}, "image": {"alt": "KL against steps after growing on logarithmic axes; copies begin above the others and fall fastest."}}
from sameloss.studies import drawing

kl, kept = grown.kl.mean(0), grown.not_grown.mean(0)  # by step and operator; by step
begin, *_, end = kl[:, grown.of("duplicate")].mean(1) - kept
finding(f"Relative to the model not grown, duplicates begin at {begin:+.2g} nats and end at {end:+.2g}.")
(ax,) = drawing.panels(1, width=6)
fillings = list(dict.fromkeys(operator.filling for operator in grown.operators))
for at, filling in enumerate(fillings):
    style = {"color": f"C{at}", "marker": drawing.MARKERS[at], "ms": 3, "lw": 1}
    lines = ax.plot(grown.steps, kl[:, grown.of(filling)], **style)
    lines[0].set_label(filling)
ax.plot(grown.steps, kept, color="0.35", ls="--", label="not grown")
ax.set_xscale("symlog", linthresh=1)
ax.set(yscale="log", xlabel="steps after growing", ylabel=drawing.KL_LABEL)
drawing.plain_log_axis(ax.yaxis, kl)
drawing.label_ends(ax)

# %%
import numpy as np

finals = grown.final.mean(0)
say(
    f"All other operators begin near the model that is not grown. At the end the means of all {len(finals)} operators span "
    f"{finals.max() - finals.min():.4f} nats; those of shallow models span {np.ptp(grown.final.mean(1)):.4f} nats."
)

# %% [markdown]
# ## The initial, the early and the final loss (Figure 5.2)
#
# The thesis predicts that the KL right after growing orders the operators badly, and the KL after about 5 % of the steps well (at the nearest evaluation). Correlations are computed
# within each shallow model and averaged.

# %% mystnb={"figure": {"caption": "Figure 5.2: the final KL of every operator against the KL right after growing (left) and after about 5 % of the steps (right), each over the mean of its shallow model's candidates.", "name": "fig-early-final"}, "image": {"alt": "Two scatter plots of the final KL, coloured by how new layers begin."}}
from sameloss.statistics.prediction import mean_correlation

evaluations = {"right after growing": 0, f"after {grown.steps[grown.early]} steps": grown.early}
initial, early = (mean_correlation(grown.correlations(at)) for at in evaluations.values())
finding(
    f"The rank correlation with the final KL is {initial:.2f} right after growing and {early:.2f} after "
    f"{grown.steps[grown.early]} steps."
)
final = grown.final / grown.final.mean(1, keepdims=True)
for (title, at), ax in zip(evaluations.items(), drawing.panels(2, width=4.5), strict=True):
    seen = grown.chosen_by[:, at] / grown.chosen_by[:, at].mean(1, keepdims=True)
    for filling, marker in zip(fillings, drawing.MARKERS, strict=False):
        points = seen[:, grown.of(filling)].ravel(), final[:, grown.of(filling)].ravel()
        ax.plot(*points, marker, ms=5, alpha=0.7, label=filling)
    ax.set(xlabel=f"KL {title}, over its mean", ylabel="final KL, over its mean")
drawing.legend(ax)

# %%
from sameloss.studies.growing.claims import PREDICTIVE

say(
    "The thesis has -0.418 and 0.986. At the end of training the two halves of the held-out sentences order the operators with a "
    f"rank correlation of {grown.ceiling():.2f}, which limits all earlier evaluations; below {PREDICTIVE}, no claim about an order is testable."
)

# %% [markdown]
# If the correlation over all operators differs from that within one initialisation, it reflects the initialisations and not the loss. The recorded
# run, with nine layer maps for each initialisation of the thesis, can tell:

# %%
runs = {f"preset {page.preset}": grown, "recorded, thirty operators": thirty}
rows = []
for name, run in runs.items():
    copies, random = run.of("duplicate"), run.of("random")
    groups = {
        "all": None,
        "copies": copies,
        "random": random,
        "the thesis' (copies and random)": copies | random,
    }
    for group, operators in groups.items():
        for when, at in (("right after growing", 0), (f"after {run.steps[run.early]} steps", run.early)):
            interval = mean_correlation(run.correlations(at, operators))
            rows.append({"runs": name, "operators": group, "KL": when, **interval._asdict()})
render(pd.DataFrame(rows).dropna(subset="value"))

# %% [markdown]
# ## How early? (Figure 5.3)

# %% tags=["hide-input"]
import seaborn as sns

from sameloss.statistics.prediction import transition


def how_early(run):
    """Draw Figure 5.3; return its curves, and the step that best separates early rankings from late ones."""
    left, middle, right = drawing.panels(3)
    curve, alike = run.correlation_curve(), run.mean_self_correlation()
    for ax, name, least in ((left, "correlation", -1), (right, "regret", 0)):
        low, high = curve[f"{name}_low"].clip(least, 1), curve[f"{name}_high"].clip(least, 1)
        ax.fill_between(curve.step, low, high, alpha=0.15, lw=0)
        ax.plot(curve.step, curve[f"{name}_value"], "o-", ms=4)
        ax.set_xscale("symlog", linthresh=1)
        ax.set(xlabel="steps after growing", ylim=(least - 0.05, 1.05))
    left.axhline(0, color="0.5", lw=1)
    left.set_ylabel("Spearman with the final KL")
    at_random = run.relative_regret(run.final.mean(1)).mean()
    right.axhline(at_random, color="0.35", ls="--")
    right.axvline(run.growth.lag, color="C1", ls=":")
    right.set_ylabel("relative regret")
    style = {"vmin": -1, "vmax": 1, "cmap": "vlag", "square": True, "cbar_kws": {"label": "Spearman"}}
    sns.heatmap(pd.DataFrame(alike, run.steps, run.steps), ax=middle, **style)
    separating, _ = transition(alike)
    middle.axvline(separating, color="0.2", lw=1)
    middle.axhline(separating, color="0.2", lw=1)
    middle.set(xlabel="steps after growing", ylabel="steps after growing")
    middle.invert_yaxis()
    return curve, run.steps[separating]


# %% mystnb={"figure": {"caption": "Figure 5.3: by step after growing (0 stands at the left end), the rank correlation with the final KL (left); the correlation between any two evaluations, and the step that best separates early from late ones (lines; middle); and the relative regret of choosing then (right; dashed: a choice at random, dotted: LAG's k). Bands: 95 % over shallow models.", "name": "fig-how-early"}, "image": {"alt": "Three panels against the steps after growing: correlation, a map of correlations between evaluations, and relative regret."}}
correlations = grown.correlation_curve().correlation_value
finding(
    f"With {len(grown.operators)} operators, the rank correlation with the final KL is at most "
    f"{correlations.iloc[:-1].max():.2f} before the end."
)
curve, separating = how_early(grown)

# %%
say(
    f"Early and late rankings are best separated at step {separating} ({100 * separating / grown.growth.steps:.1f} % of the steps). "
    "When LAG chooses, the best operator is among its first three for "
    f"{100 * curve['recall@3'][grown.nearest(grown.growth.lag)]:.0f} % of the shallow models (recall@3). "
    f"Bands over {len(grown.final)} shallow models are wide, and a choice at any step may be no better than one at random."
)

# %% mystnb={"figure": {"caption": "Figure 5.3 with thirty operators, recorded: correlation, self-correlation and regret as above.", "name": "fig-thirty"}, "image": {"alt": "Three panels against the steps after growing, for thirty operators."}}
correlations = thirty.correlation_curve().correlation_value
finding(
    f"With {len(thirty.operators)} operators, the rank correlation with the final KL is at most "
    f"{correlations.iloc[:-1].max():.2f} before the end."
)
curve_of_thirty, separating = how_early(thirty)

# %%
say(
    f"Early and late rankings are best separated at step {separating} ({100 * separating / thirty.growth.steps:.1f} % of the steps). "
    f"The recall@3 of LAG is {100 * curve_of_thirty['recall@3'][thirty.nearest(thirty.growth.lag)]:.0f} %. At the end the two halves "
    f"of the sentences order the operators with a rank correlation of {thirty.ceiling():.2f}. Move the step to see which operator one would choose then:"
)

# %%
from sameloss.book.movable import movable_growth

movable_growth(runs)

# %% [markdown]
# ## What LAG chooses, and what it costs (Tables 5.1 and 5.2)
#
# LAG@$k$ trains all candidates for $k$ steps and continues with the best. The table has the final KL of each choice above that of the best operator
# for the same shallow model, with 95 % intervals over shallow models, and the relative regret, which is 0 for the best operator and 1
# for the worst (above 1 if worse than all). *LAG@0* chooses by the KL right after growing; *from scratch* is a deep model trained from
# initialisation:

# %%
from sameloss.statistics.intervals import seed_interval
from sameloss.studies.growing.claims import FROM_SCRATCH, chosen

rows = []
for name, run in runs.items():
    finals = {rule: chosen(run.final, choice) for rule, choice in run.choices.items() if rule != "oracle"}
    finals |= {"at random": run.final.mean(1), "not grown": run.not_grown[:, -1]}
    finals["from scratch, equal FLOPs"] = run.scratch[:, -1]
    for choice, final in finals.items():
        above, low, high = seed_interval(final - run.final.min(1))
        interval = {"KL above the best": above, "low": low, "high": high}
        regret = run.relative_regret(final).mean()
        rows.append({"runs": name, "choice": choice, **interval, "relative regret": regret})
render(pd.DataFrame(rows), decimals=4)

# %% [markdown]
# The thesis' numbers, one trial per operator (losses in nats per token of natural text; *oracle* is the best operator):
#
# | choice | BERT loss | relative regret | UL2 loss | relative regret |
# | --- | --- | --- | --- | --- |
# | oracle | 1.7461 | 0 | 2.1254 | 0 |
# | LAG@200, LAG@2000 | 1.7461 | 0 | 2.1268 | 0.0895 |
# | LAG@0 | 1.7875 | 0.7986 | 2.1398 | 0.9202 |
# | last layers repeated on top | 1.7747 | 0.5517 | 2.1357 | 0.6582 |
# | random layers on top | 1.7875 | 0.7986 | 2.1398 | 0.9202 |
#
# Trials have a cost, which the thesis does not count: with its 30 operators, LAG@200 takes 5.8 % of the 100,000 steps that follow, LAG@2000
# takes 58 %.
#
# ## Downstream performance of the grown models (Table C.1)
#
# Converged linear probes predict the hidden symbols of the grammar from all token representations: accuracies in per cent, mean over the
# shallow models. An untrained deep model is the control. The thesis' table has three one-shot tasks and one trial: 28.18, 25.23, 21.82, 21.59
# and 21.82 % on TyDi QA for oracle, LAG, LAG@0, last and random on top.

# %%
rows = []
for name, run in runs.items():
    models = {rule: run.named(choice) for rule, choice in run.choices.items()}
    models |= {control: [control] * len(run.final) for control in ("not grown", FROM_SCRATCH, UNTRAINED)}
    for rule, of_each_seed in models.items():
        rows.append({"runs": name, "model": rule, **run.accuracies(of_each_seed).mean()})
parts = {"root": "whole sentence"} | {f"span{words}": f"first {words} words" for words in (2, 4, 8)}
render(pd.DataFrame(rows).rename(columns=parts))

# %% [markdown]
# ## The age of the shallow model
#
# The thesis grows after 83 % and 75 % of the pre-training. In the recorded run other shallow models of this page's shape, on its language, are grown at
# several ages, up to near saturation.

# %% mystnb={"figure": {"caption": "Recorded: the gain from depth and the final spread of operators by the age of the shallow models, with 95 % intervals (left), and the rank correlation with the final KL by step, one line per age (right).", "name": "fig-ages"}, "image": {"alt": "Two panels: spread and gain against the age of the shallow model; correlation with the final KL by step, one line per age."}}
aged = dict(sorted(thirty.aged.items()))
(young, *_, old), (youngest, *_, oldest) = aged.values(), aged
finding(
    f"From {youngest:,} to {oldest:,} steps before growing, the gain from depth goes from {gain(young.headroom()):.0f} to "
    f"{gain(old.headroom()):.0f} %, the operators' spread from {100 * young.spread().mean():.0f} to {100 * old.spread().mean():.0f} %."
)
left, right = drawing.panels(2, width=4.5)
spreads = [seed_interval(run.spread()) for run in aged.values()]
drawing.interval_line(left, list(aged), 100 * np.array(spreads), 0, "spread of operators")
gains = [gain(run.headroom()) for run in aged.values()]
drawing.interval_line(left, list(aged), gains, 1, "gain from depth")
for (age, run), marker in zip(aged.items(), drawing.MARKERS, strict=False):
    mean = [mean_correlation(run.correlations(at)).value for at in range(len(run.steps))]
    right.plot(run.steps, mean, marker=marker, ms=4, label=f"grown at {age:,}")
left.set(xscale="log", xlabel="steps before growing", ylabel="of the final KL (%)")
left.set_xticks(list(aged), [f"{age:,}" for age in aged])
left.minorticks_off()
right.set_xscale("symlog", linthresh=1)
right.set(xlabel="steps after growing", ylabel="Spearman with the final KL", ylim=(-1.05, 1.05))
for ax in (left, right):
    ax.axhline(0, color="0.5", lw=1)
    drawing.label_ends(ax)

# %%
ranks = "; ".join(
    f"{age:,} steps: {gain(run.headroom()):.0f} % and {mean_correlation(run.correlations(0)):.2f}"
    for age, run in aged.items()
)
say(
    "The gain from depth, and the rank correlation of the initial with the final KL, by the age of the shallow model: "
    f"{ranks}. Where the gain's interval contains zero, the order of the operators may be chance."
)

# %% [markdown]
# ## What this page found

# %%
from sameloss.book.chapter import beside_the_paper, verdict_sentences

of = verdict_sentences(page)
say(
    f"Operators can be compared only where depth helps. Here the headroom is {here}; in the recorded run it is {there}. "
    f"Verdicts: on the early loss as a predictor, {of['grow-early']}; on LAG against a choice by the initial loss, {of['grow-lag-initial']}. "
    f"All intervals are over {len(grown.final)} shallow models here and {len(thirty.final)} in the recorded run, too few for small effects."
)

# %% [markdown]
# ## Comparison with the thesis

# %%
verdicts = beside_the_paper(page)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
for filling in PRESERVING:
    deeper = grow(model, repeated(2, 2, 0, 1), filling, torch.Generator().manual_seed(0))
    moved = (deeper(tokens, positions) - model(tokens, positions)).abs().max()
    print(f"{filling} layers preserve the function:", bool(moved < 1e-12))

# %% [markdown]
# ## Deviations
#
# - Random hierarchies of [Cagnetta et al., 2024](bibliography.md) instead of natural text, and models of a few layers. On the default language of Part I depth
#   does not help, so nothing about growing can be tested there.
# - Exact labels at the laptop's presets: with sampled ones, models fluctuate by more than operators differ. `-p label_noise 1` samples them.
# - A pilot with five other shallow models determined how many layers are added, from the headroom, and LAG's $k$, by eye as in the thesis, "some
#   margin" after rankings begin to agree. It used the same measurements; this page's models are new.
# - After growing the rate decays linearly to zero. The thesis keeps it constant for BERT, and uses a cosine for UL2.
# - The thesis does not say how it initialises the moments of new layers. `-p state reset` resets all of them, `-p state stale` keeps the
#   old number of steps with zero moments.
# - The thesis counts layers from 1 in its text and from 0 in its experiments; here they count from 0.
# - Table C.1 is about questions in natural language; here linear probes predict a grammar's hidden symbols.
# - A candidate that diverges is ranked last, with the largest KL of its shallow model's candidates.
#
# ## Exercises
#
# 1. Does the picture survive sampled labels? `-p label_noise 1`.
# 2. How much of the order is due to chance? `-p seeds 8`.
# 3. What if the optimiser state is reset? `-p state reset`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, curve)
