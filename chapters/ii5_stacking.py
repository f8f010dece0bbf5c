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
# **Question.** A deep model can be trained in stages, each of which adds layers to the model before. Does this pay, compared with training the deep model from scratch? And does it pay to choose at every
# stage which layers to repeat? The second question is that of [Karp, 2024](bibliography.md) (Chapter 5, Appendix C).
#
# **Idea.** Early stages take little compute, because their models are shallow. Usually the last layers are repeated on top (*gradual stacking*, [Reddi et al., 2023](bibliography.md)). *Adaptive
# stacking* tries all layers: at every stage it trains one candidate for each of them for a few steps, and continues with the best ([landscape-aware growing](ii5_growing.ipynb)).
#
# **By hand.** Stages of one, two and three layers with 160, 160 and 320 steps take 160·1 + 160·2 + 320·3 = 1,440 layer-steps, as many as 480 steps with three layers from the beginning. In the last
# stage either of two layers can be repeated. To try both for 16 steps takes 16·3 = 48 layer-steps more, which is 3 %.
#
# **Prediction.** Adaptive stacking ends lower than stacking the last layers. The thesis has 1.5301 against 1.5432 nats, for 24 layers in six stages, one trial each.

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

# %% mystnb={"code_prompt_show": "Imports and the record"} tags=["hide-input"]
import pandas as pd

from sameloss.book.chapter import finding, render, say
from sameloss.book.pages import open_page
from sameloss.statistics.intervals import seed_interval
from sameloss.studies import drawing
from sameloss.studies.growing.claims import FROM_SCRATCH, NEARLY, STACKING_TOPICS, gain
from sameloss.studies.growing.experiment import NOT_GROWN
from sameloss.studies.verdict import NARROW, Direction, Size, effects_of, verdict_table

drawing.use_style()
record = open_page("ii5_stacking").of_record("laptop-long")
recorded = record.results
STACKED = {
    "adaptive": "adaptive (LAG at every stage)",
    "last": "last layers on top",
    "middle": "middle layers repeated",
    "random": "random layers on top",
    NOT_GROWN: "not grown in the last stage",
    FROM_SCRATCH: "from scratch, equal FLOPs",
}
MODELS = 5  # the fewest first stages whose interval is drawn


# %% mystnb={"code_prompt_show": "How the first figure is drawn"} tags=["hide-input"]
def draw_last_stage(ax, run):
    """KL in the last stage against the FLOPs since initialisation, mean over first stages."""
    deepest = run.stages[run.stages.layers == run.stages.groupby("way").layers.transform("max")]
    mean = deepest.groupby(["way", "step"])[["flops", "kl"]].mean()
    for (way, label), marker in zip(STACKED.items(), drawing.MARKERS, strict=False):
        look = {"color": "0.35", "ls": "--"} if way in (NOT_GROWN, FROM_SCRATCH) else {}
        ax.plot(mean.flops[way], mean.kl[way], marker=marker, ms=5, label=label.partition(" (")[0], **look)
    ax.set(yscale="log", xlabel="FLOPs since initialisation", ylabel="KL (nats per masked token)")
    drawing.plain_log_axis(ax.yaxis, mean.kl)
    drawing.label_ends(ax)


def draw_differences(ax, run):
    """What each stack ends above that which repeats the last layers; mean, and interval if there are enough."""
    for at, way in enumerate(("adaptive", "middle", "random")):
        above = run.final(way) - run.final("last")
        ax.plot(above, [-at] * len(above), "o", color="0.7", ms=4)
        mean, low, high = seed_interval(above)
        if len(above) >= MODELS:
            ax.hlines(-at, low, high, color="black", lw=1.5)
        ax.plot(mean, -at, "|", color="black", ms=14, mew=2)
    ax.axvspan(-NEARLY, NEARLY, color="C2", alpha=0.2, lw=0)
    ax.axvline(0, color="0.5", lw=1)
    ax.set_yticks([0, -1, -2], ["adaptive", "middle", "random"])
    ax.set(ylim=(-2.5, 0.5), xlabel="final KL minus that of\nthe last layers on top (nats)")


# %% mystnb={"code_prompt_show": "What the verdicts say"} tags=["hide-input"]
judged = verdict_table(STACKING_TOPICS, recorded).set_index("id")
effects = effects_of(judged)
narrow = recorded.below("adaptive", "last", NARROW)
OPEN = "; which is lower is open"
CHOOSING = {
    Direction.SUPPORTED: ", as the thesis says",
    Direction.OPEN: OPEN,
    Direction.AGAINST: ", against the thesis",
}
choosing = CHOOSING[judged.direction["stack-adaptive"]]
if judged["size"]["stack-adaptive"] == Size.NEGLIGIBLE:
    choosing = ": the difference is negligible"
scratch, headroom = (
    OPEN if judged.direction[f"stack-{id}"] == Direction.OPEN else "" for id in ("scratch", "headroom")
)


def lower(effect, unit="nats"):
    """By how much something is lower, or higher, with the interval."""
    value, low, high = abs(effect)
    word = "lower" if effect.value >= 0 else "higher"
    return f"{value:.2g} {unit} {word} ({low:.2g} to {high:.2g})"


# %% mystnb={"figure": {"caption": "Recorded runs. Left: KL in the last stage against the FLOPs of all stages so far, mean over first stages; dashed: the two controls. Right: final KL of each stack minus that of the stack on the same first stage that repeats the last layers; bars: mean, with its 95 % interval where there are five first stages or more; green: negligible.", "name": "fig-stacks"}, "image": {"alt": "Left, KL on a logarithmic axis against FLOPs, one line per way to stack, dashed for the controls. Right, one dot per stack for adaptive stacking, middle layers and random layers, with their means and a band around zero."}}
finding(
    f"Adaptive stacking ends {lower(effects['stack-adaptive'])} than stacking the last layers, which ends "
    f"{lower(effects['stack-scratch'])} than a model trained from scratch with equal FLOPs."
)
left, right = drawing.panels(2, width=4.4)
draw_last_stage(left, recorded)
draw_differences(right, recorded)

# %%
trials = 100 * (recorded.ends("adaptive").flops / recorded.ends("last").flops).mean() - 100
say(f"""
**What we find.** *Choosing.* Adaptive stacking ends {lower(effects["stack-adaptive"])} than stacking the last layers{choosing}. The 90 % interval of this is {narrow.low:.2g} to {narrow.high:.2g} nats, positive
where adaptive stacking is lower, and the trials take {trials:.0f} % more FLOPs. *Stacking.* At equal FLOPs, stacking the last layers ends {lower(effects["stack-scratch"])} than training from scratch{scratch}. *Depth.* A model that grows in
the last stage ends {lower(gain(effects["stack-headroom"]), "%")} than one that does not{headroom}.
""")

# %% [markdown]
# **What limits this.** One language, one width, and models of a few layers; the thesis stacks 24. The learning rate does not decay before the last stage, so that all ways share the same steps and rates, and a model
# from scratch has as many FLOPs but fewer steps.
#
# ## Ways to stack
#
# Beside *adaptive* and *last* there are two more: the *middle* layers are repeated, as in [Saunshi et al., 2024](bibliography.md), who found that such models reason better at equal loss, or *random* layers are added on top.
# Two controls do not grow in the last stage, or train the full depth from scratch for the FLOPs of stacking without trials. When three layers become four, adaptive stacking tries (new layers in brackets):

# %%
from sameloss.models.enlarge import grid, repeated

for index, block in grid(3, 1, 1):
    print(repeated(3, 1, index, block))

# %% [markdown]
# All ways share the first stage, the batches and the learning rates. The rate is constant until the last stage, where it decays to zero. The adaptive way continues with the candidate that has the smallest KL
# on one half of the held-out sentences; all KLs shown are those on the other half.

# %%
deep = recorded.stages.layers.max()
say(
    f"In the record {recorded.stages.seed.nunique()} first stages of one layer grow to {deep} layers in {deep} stages of {record.stage_steps} steps, the last of {record.last_steps}; a stage's layers are chosen after {record.stage_lag} steps. "
    f"{record.record_in_words('laptop-long')} The rules by which it is judged stand in the [protocol](protocol_second.md): among them that a difference whose 90 % interval lies within {NEARLY} nats, "
    f"about 5 % of the final KL, is *negligible*. The end of every way (*above last*: within each first stage, with 95 % intervals over these):"
)


# %%
def ends_of(run):
    """By way: final KL, how much it is above that of the last layers on top, and FLOPs relative to it."""
    rows = []
    for way, label in STACKED.items():
        end, last = run.ends(way), run.ends("last")
        above = "" if way == "last" else f"{run.below('last', way):+.4f}"
        flops = f"{100 * (end.flops / last.flops).mean():.0f}"
        rows.append({"way": label, "KL": end.kl.mean(), "above last": above, "FLOPs (%)": flops})
    return rows


render(pd.DataFrame(ends_of(recorded)).sort_values("KL"), decimals=4)

# %% [markdown]
# ## A small run, on this machine
#
# By default the following cells open three stacks of three layers that are trained briefly, which are recorded; with other parameters they compute. `laptop-long` is the record above, `paper` has the six stages of the
# thesis' BERT-LARGE, and `gpu` takes less than an hour of an H200 by estimate; these two were not run.

# %% mystnb={"code_prompt_show": "Presets"} tags=["experiment", "hide-input"]
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
    "language": LONG_LANGUAGE, "stacks": 12, "first_seed": 33, "strides": (1, 1, 1, 1, 1), "stage_steps": 400, "last_steps": 800,
    "stage_lag": 40, "batch": 64, "warmup": 60, "evaluations": 4,
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

# %% mystnb={"code_prompt_show": "Parameters and preset of this page"} tags=["experiment", "hide-input"]
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

# %% mystnb={"code_prompt_show": "Operators that a way tries"} tags=["experiment", "hide-input"]
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


# %% mystnb={"code_prompt_show": "Stages"} tags=["experiment", "hide-input"]
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


# %% mystnb={"code_prompt_show": "Controls, and all stacks"} tags=["experiment", "hide-cell"]
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

# %% mystnb={"code_prompt_show": "Comparison"} tags=["comparison", "hide-input"]
import pandas as pd

from sameloss.studies.growing.claims import Stacks


def evaluations(seed, way, stage):
    """The evaluations in one stage."""
    return page.store.get(stage).table.assign(seed=seed, way=way, layers=stage.shape.layers)


found = [evaluations(*of, stage) for of, own in stacked.items() for stage in own]
stacks_ = page.results = Stacks(pd.concat(found, ignore_index=True))

# %%
render(pd.DataFrame(ends_of(stacks_)).sort_values("KL"), decimals=4)

# %% [markdown]
# ## Comparison with the thesis

# %%
from sameloss.book.chapter import beside_the_paper

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
# - Models of a few layers on a random hierarchy, exact labels at the laptop's presets, and a rate that decays in the last stage, as in [II.5 Growing](ii5_growing.ipynb).
# - The thesis' stages add four layers each, and try 3, 15, 27, 21 and 27 operators; its batches, masks and validation sentences are different, and it does not say how the moments of new layers are initialised. Here
#   new layers start without moments.
# - The middle layers, the random layers and both controls are not in the thesis.
#
# ## Exercises
#
# 1. Why is a model from scratch trained for fewer steps than the stack?
# 2. Choose immediately: `-p stage_lag 0`. Which layers are chosen, and what do the trials cost?
# 3. Why are differences taken within first stages?
#
# ```{admonition} Answers
# :class: dropdown
#
# 1. It has all layers from its first step, and a step takes FLOPs in proportion to the layers. With the 640 steps of the stack by hand above it would take 1,920 layer-steps, a third more.
# 2. Those whose copies disrupt the function least. No step is trained for candidates that are rejected, so the FLOPs are those of stacking the last layers.
# 3. First stages and batches differ in how low a KL they lead to. Stacks on the same first stage share both, and in their difference this cancels.
# ```

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, stacks_.stages)
