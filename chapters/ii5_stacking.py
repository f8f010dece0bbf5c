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
# # II.5b Growing in stages
#
# **The claim** (Chapter 5 and Appendix C of [Karp, 2024](bibliography.md)): a deep model can be trained in stages, each of which adds layers to the
# previous one. The usual method repeats the last layers on top (*gradual stacking*, [Reddi et al., 2023](bibliography.md)); choosing at every stage by
# landscape-aware growing, *adaptive stacking*, ends better: 1.5301 against 1.5432 nats, 24 layers in six stages (Table C.2, one trial each).
#
# **The questions**: does adaptive stacking end better, and what do its trials cost? Is stacking worthwhile compared with training the deep
# model from scratch with the same compute?
#
# **What you will see**: models of one layer that grow by one per stage, on a language with known entropy, in four ways on the same batches.
#
# By default three stacks of three layers are trained briefly; the recorded run, `-p preset laptop-long`, has six layers and longer stages.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, gpu, paper
stacks: int = None  # first stages; None: the preset's
stage_steps: int = None  # of each stage but the last; None: the preset's
last_steps: int = None  # of the last stage; None: the preset's
stage_lag: int = None  # steps after which a stage's operator is chosen; None: the preset's
lr: float = None  # learning rate; None: the preset's
batch: int = None  # sentences a step; None: the preset's
label_noise: float = None  # of the labels: 0 exact, 1 sampled as in the thesis; None: the preset's
state: str = None  # of the optimiser: mapped, reset or stale; None: mapped
tolerance: float = None  # relative, of all verdicts; None: each claim's own
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% [markdown]
# ## Ways to stack
#
# - *adaptive*: LAG chooses which layers to repeat, at every stage;
# - *last*: the last layers are repeated on top;
# - *middle*: the middle layers are repeated, as in [Saunshi et al., 2024](bibliography.md), who found that such models reason better at equal loss;
# - *random*: random layers on top.
#
# The thesis' stages add four layers each, and try 3, 15, 27, 21 and 27 operators.
#
# All methods share the first stage, the batches and the learning rates; the rate is constant until the last stage, where it decays to zero. The
# adaptive method trains all candidates of a stage for a few steps and continues with the one with the smallest KL. There are
# two controls: a model that does not grow in the last stage, and one of full depth trained from scratch with the same compute.
#
# ## The experiment

# %% tags=["experiment"]
from sameloss.languages import HierarchySpec
from sameloss.languages.paper import PAPER_LANGUAGE
from sameloss.models.encoder import EncoderShape
from sameloss.studies.growing.experiment import LAPTOP_LANGUAGE, LONG_LANGUAGE

LAPTOP = {
    "language": LAPTOP_LANGUAGE, "shape": EncoderShape(32, 4, 1, 128), "stacks": 3, "first_seed": 30,  # of the first stage
    "strides": (1, 1),  # of later stages: between the indices that the adaptive way tries
    "stage_steps": 160, "last_steps": 320, "stage_lag": 16, "batch": 32, "lr": 2e-3, "warmup": 18,  # steps
    "label_noise": 0.0, "state": "mapped", "sentences": 1024, "evaluations": 3,  # held out; in the last stage
}  # fmt: skip
LONG = LAPTOP | {
    "language": LONG_LANGUAGE, "strides": (1, 1, 1, 1, 1), "stage_steps": 400, "last_steps": 800, "stage_lag": 40, "batch": 64,
    "warmup": 60, "evaluations": 4,
}  # fmt: skip
SMOKE = LAPTOP | {
    "language": HierarchySpec(levels=2, symbols=3, rules=2, smoothing=0.05), "shape": EncoderShape(4, 2, 1, 8), "stacks": 2,
    "first_seed": 0, "stage_steps": 8, "last_steps": 16, "stage_lag": 2, "lr": 1e-2, "warmup": 0.03 * 15, "sentences": 64, "evaluations": 2,
}  # fmt: skip
PAPER = LAPTOP | {  # the six stages of the thesis' BERT-LARGE, with 93 operators
    "language": PAPER_LANGUAGE, "shape": EncoderShape(768, 12, 4, 3072), "first_seed": 0, "strides": (1, 1, 1, 2, 2),
    "stage_steps": 10_000, "last_steps": 12_500, "stage_lag": 200, "batch": 4096, "lr": 1e-4, "warmup": 900, "label_noise": 1.0,
    "sentences": 4000, "evaluations": 4,
}  # fmt: skip
GPU = PAPER | {  # less than an hour of an H200 by estimate
    "shape": EncoderShape(128, 4, 4, 512), "stage_steps": 1000, "last_steps": 1500, "stage_lag": 100, "batch": 256, "lr": 5e-4, "warmup": 300
}  # fmt: skip

# %% tags=["experiment"]
from typing import get_args

from sameloss.book.cells import begin
from sameloss.studies.growing.claims import FROM_SCRATCH, STACKING_TOPICS
from sameloss.studies.growing.experiment import NOT_GROWN
from sameloss.studies.parameters import choose
from sameloss.training.ensembles import Carried

PRESETS = {"smoke": SMOKE, "laptop": LAPTOP, "laptop-long": LONG, "gpu": GPU, "paper": PAPER}
BOUNDS = {"stacks": (1, 300), "stage_lag": (0, 2**31), "label_noise": (0, 2**31)}
page = begin(globals(), "ii5_stacking", PRESETS, BOUNDS, topics=STACKING_TOPICS, record="laptop-long")
carried = choose("state", page.state, get_args(Carried))

WAYS = {
    "adaptive": "adaptive (LAG at every stage)",
    "last": "last layers on top",
    "middle": "middle layers repeated",
    "random": "random layers on top",
}
CONTROLS = {NOT_GROWN: "not grown in the last stage", FROM_SCRATCH: "from scratch, equal FLOPs"}

# %% [markdown]
# The operators that a way tries in one stage:

# %% tags=["experiment"]
from sameloss.models.enlarge import grid
from sameloss.studies.growing.experiment import Operator


def tried(way, layers, added, stride):
    """The operators that a way to stack tries on a model with so many layers."""
    if way == "adaptive":
        return tuple(Operator(index, block, "duplicate") for index, block in grid(layers, added, stride))
    top = layers - added
    index = top // 2 if way == "middle" else top
    return (Operator(index, added, "random" if way == "random" else "duplicate"),)


def evaluated(steps, count):
    """Steps of the last stage at which the model is stored and evaluated."""
    return tuple(sorted({max(1, round(steps * number / count)) for number in range(1, count + 1)}))


# %% tags=["experiment"]
from sameloss.runs.sampling import HeldOutConditionals
from sameloss.studies.growing.experiment import Stage, base_training
from sameloss.training.loop import Optimisation


def base(seed, shape, steps):
    """A training from random weights at a constant rate."""
    training = Optimisation(steps, page.batch, page.lr, min(1.0, page.warmup / steps), schedule="constant")
    return base_training(page.language, shape, training, seed, page.label_noise)


def stages(seed, way):
    """The stages of a way to stack, after the first."""
    held_out, added = HeldOutConditionals(page.language, page.sentences, 0), page.shape.layers
    before, made = base(seed, page.shape, page.stage_steps), []
    for number, stride in enumerate(page.strides, 1):
        operators, ends = tried(way, before.shape.layers, added, stride), number == len(page.strides)
        steps, looks = page.stage_steps, (page.stage_steps,)
        if ends:
            steps, looks = page.last_steps, evaluated(page.last_steps, page.evaluations)
        lag = page.stage_lag if len(operators) > 1 else 0
        before = Stage(before, operators, added, steps, looks, carried, held_out, lag, ends)
        made.append(before)
    return made


# %% [markdown]
# Training from scratch takes at most the FLOPs of stacking without trials.

# %% tags=["experiment"]
from dataclasses import replace


def control(seed, way):
    """The last stage of a control."""
    last = stages(seed, "last")[-1]
    steps = max(1, int(last.flops / last.root.flops_of_step(last.shape)) - last.steps)
    start = last.base if way == NOT_GROWN else base(seed, last.shape, steps)
    return replace(last, base=start, operators=())


names, seeds = WAYS | CONTROLS, range(page.first_seed, page.first_seed + page.stacks)
stacked = {
    (seed, way): [control(seed, way)] if way in CONTROLS else stages(seed, way)
    for seed in seeds
    for way in names
}
_ = page.compute(*(own[-1] for own in stacked.values()))

# %% tags=["comparison"]
import pandas as pd

from sameloss.studies.growing.claims import Stacks


def evaluations(seed, way, stage):
    """The evaluations in one stage."""
    return page.store.get(stage).table.assign(seed=seed, way=way, layers=stage.shape.layers)


tables = page.tables  # of the recorded run, which is older than the record of runs
if not tables:
    found = [evaluations(*of, stage) for of, own in stacked.items() for stage in own]
    tables = {"stages": pd.concat(found, ignore_index=True)}
stacks_ = page.results = Stacks(tables["stages"])
stacks_.stages.tail(3)

# %% [markdown]
# ## How each method ends (Table C.2)

# %% mystnb={"figure": {"caption": "KL in the last stage against the FLOPs of all stages so far, mean over first stages. Dashed: the two controls.", "name": "fig-stacks"}, "image": {"alt": "KL on a logarithmic axis against FLOPs, one line per method, dashed for the controls."}}
from sameloss.book.chapter import finding, render, say
from sameloss.studies import drawing

adaptive, scratch = (stacks_.below("last", way) for way in ("adaptive", FROM_SCRATCH))
finding(
    f"Relative to stacking the last layers, adaptive stacking ends at {adaptive:+.4f} nats, training from scratch with "
    f"equal FLOPs at {scratch:+.4f}."
)
deepest = stacks_.stages[stacks_.stages.layers == stacks_.stages.groupby("way").layers.transform("max")]
mean = deepest.groupby(["way", "step"])[["flops", "kl"]].mean()
(ax,) = drawing.panels(1, width=6.5)
for (way, label), marker in zip(names.items(), drawing.MARKERS, strict=False):
    style = {"color": "0.35", "ls": "--"} if way in CONTROLS else {}
    ax.plot(mean.flops[way], mean.kl[way], marker=marker, ms=5, label=label, **style)
ax.set(yscale="log", xlabel="FLOPs since initialisation", ylabel="KL (nats per masked token)")
drawing.plain_log_axis(ax.yaxis, mean.kl)
drawing.label_ends(ax)

# %%
from sameloss.studies.growing.claims import gain

deeper = page.recorded("laptop-long")
say(
    f"The headroom, by how much growing in the last stage reduces the final KL, is {gain(stacks_.headroom()):.0f} %; in the recorded "
    f"run, of six layers, it is {gain(deeper.headroom()):.0f} %. Where the interval contains zero, no gain is detected, and claims that "
    f"require one are not testable. All differences are computed within each first stage, with 95 % intervals over these. "
    f"{page.record_in_words('laptop-long')}"
)

# %%
rows = []
for name, run in {f"preset {page.preset}": stacks_, "recorded, six layers": deeper}.items():
    last = run.ends("last")
    for way, label in names.items():
        end, (above, low, high) = run.ends(way), run.below("last", way)
        interval = {"KL": end.kl.mean(), "above last": above, "low": low, "high": high}
        flops = f"{100 * (end.flops / last.flops).mean():.1f}"
        rows.append({"runs": name, "way": label, **interval, "FLOPs (%)": flops})
render(pd.DataFrame(rows).sort_values(["runs", "KL"]), decimals=4)

# %% [markdown]
# ## What this page found

# %%
from sameloss.book.chapter import beside_the_paper, verdict_sentences

verdict = verdict_sentences(page)
say(
    f"Relative to stacking the last layers, adaptive stacking ends at {adaptive:+.4f} nats, and at {deeper.below('last', 'adaptive'):+.4f} in "
    f"the recorded run of six layers; training from scratch with equal FLOPs ends at {scratch:+.4f} and {deeper.below('last', FROM_SCRATCH):+.4f}. "
    f"The verdict on choosing at every stage: {verdict['stack-adaptive']}; on stacking against training from scratch: {verdict['stack-scratch']}. "
    "Both require that growing in the last stage reduces the KL. "
    f"All intervals are over {stacks_.stages.seed.nunique()} first stages here and {deeper.stages.seed.nunique()} in the recorded run, too few for small effects."
)

# %% [markdown]
# ## Comparison with the thesis

# %%
verdicts = beside_the_paper(page)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
stages = {4: 1, 8: 1, 12: 1, 16: 2, 20: 2}  # layers before growing: at every so many-th index
counts = {layers: len(grid(layers, 4, every)) for layers, every in stages.items()}
print("The thesis' stages try", *counts.values(), "operators:", sum(counts.values()), "in all.")
steps = 200 * sum(count * (layers + 4) for layers, count in counts.items())
whole = 160_000 * (4 + 8 + 12 + 16 + 20) + 200_000 * 24
print(f"Their trials take {100 * steps / whole:.2f} % of all layer-steps, winners' own steps among them.")

# %% [markdown]
# ## Deviations
#
# - Models of a few layers on a random hierarchy, exact labels at the laptop's presets, and a rate that decays in the last stage, as on the previous
#   page: [II.5 Growing](ii5_growing.ipynb).
# - The thesis' batches, masks and validation sentences are different, and it does not say how the moments of new layers are initialised. Here new
#   layers start without moments.
# - The middle layers, the random layers and both controls are not in the thesis.
#
# ## Exercises
#
# 1. Choose immediately: `-p stage_lag 0` is stacking by the initial loss.
# 2. Does the order of the methods change with more first stages? `-p stacks 8`.
# 3. Longer stages come closer to saturation: `-p stage_steps 1600 -p last_steps 3200`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, stacks_.stages)
