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
# # 4b Does flatness carry the effect of size?
#
# **The claim** (Section 4, Figure 5 of [Liu et al., 2023](bibliography.md)): models of the same loss differ downstream *because* they differ in flatness. Across the paper's sizes, accuracy
# rises by 12.8 points for each factor *e* by which the trace falls.
#
# **The test**: sizes differ in much besides flatness. So we make *one* size, *d* = 48, flatter or sharper in four ways: a quarter of the learning rate, SAM, a penalty on the trace, and dropout. If
# flatness carries accuracy, it does so whatever has flattened the model.
#
# **By hand.** A model whose trace is two thirds as large is flatter by $\ln 1.5 = 0.41$ factors *e*. At 12.8 points for each it would be 5.2 points more accurate at the same loss.
#
# **Prediction.** The share of the effect of size that flatness carries,
#
# $$ \text{share carried} = \underbrace{\frac{\text{points gained}}{\text{factors } e \text{ flatter}}}_{\text{slope, within one size}} \times
#    \frac{\text{log ratio of the sizes' traces}}{\text{lead of the larger size}} , $$
#
# is near one for every intervention if the paper is right, and below one half if something else matters more.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, workstation
size: str = None  # d8 to d96: the width of all models
interventions: list[str] = None  # some of a quarter of the learning rate, SAM, trace penalty and dropout
seeds: int = None  # draws of the grammar, the first of eight
steps: list[int] = None  # lengths, twice these at a quarter of the rate; None: the preset's
lr: float = None  # peak learning rate
batch: int = None  # sentences
layers: int = None  # of all models; None: those of their size
probe_seeds: int = None  # sets of labelled sentences, each with a probe of its own
trace_sentences: int = None  # masked sentences an estimate of the trace uses
estimator: str = None  # of the trace: sampled, exact or rademacher; None: sampled
trace_labels: int = None  # that the estimator draws for a sentence; None: one
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% [markdown]
# ## What was found

# %% mystnb={"code_prompt_show": "Imports"} tags=["hide-input"]
import numpy as np
import pandas as pd
from myst_nb import glue

from sameloss.book.chapter import finding, render, say, with_minus
from sameloss.book.pages import open_page
from sameloss.book.part_one import recorded_answers
from sameloss.statistics.intervals import Interval, seed_interval
from sameloss.studies import drawing
from sameloss.studies.same_loss.saturated import (
    LARGE,
    OWN,
    PUBLISHED_SLOPE,
    SMALL,
    TRACES,
    Arm,
    carried,
    leads,
    line,
)
from sameloss.studies.verdict import Direction

# %% mystnb={"code_prompt_show": "What is compared"} tags=["hide-input"]
drawing.use_style()
recorded, arms = open_page("04_interventions").recorded("workstation")
native, relative = ({name: line(recorded, arm, len(arms), of) for name, arm in arms.items()} for of in TRACES)
sizes = {of: seed_interval(leads(recorded, SMALL, LARGE, of).lead) for of in (OWN, "log trace")}
between = sizes["log trace"]
of_size, lead = -between.value, sizes[OWN].value
able = {name: found for name, found in native.items() if found.leverage}
slopes = [found.slope[0] for found in able.values()]
points = {
    name.replace(" of ", " of\n"): (found.flatter, found.gained, f"C{at}")
    for at, (name, found) in enumerate(native.items())
}
points["d = 24 to 96"] = ((-between.value, -between.high, -between.low), sizes[OWN], "black")


# %% mystnb={"code_prompt_show": "What the verdict says"} tags=["hide-input"]
control = recorded_answers().query("question == 'adversary' and language == 'grammar' and row == 'main'")
lost = Interval(*control[["mean", "low", "high"]].iloc[0])
direction = carried(native, relative, lost)

WORDS = {
    Direction.SUPPORTED: "Flatness carries the effect of size",
    Direction.AGAINST: "Flatness does not carry the effect of size",
    Direction.OPEN: "Whether flatness carries the effect of size is open",
}


def percent(share):
    """A share with its interval."""
    value, low, high = (f"{100 * end:z.0f}" if np.isfinite(end) else "unbounded" for end in share)
    return f"{value} % ({low} to {high})"


# %% mystnb={"figure": {"caption": "Points gained on own features against how many times smaller the Fisher trace is, both at 3 % of the bag of words' KL, with 95 % intervals. Colours: interventions on d = 48, compared with AdamW on the same eight grammars; to the left of 1 the model is sharper. Black: d = 96 compared with d = 24 on sixteen grammars. Dotted: the slope between the paper's sizes.", "name": "fig-carried"}, "image": {"alt": "Points gained against flatness: the size effect lies far above the interventions."}}
finding(
    f"Within one size a factor e of flatness goes with {min(slopes):.1f} to {max(slopes):.1f} points; between d = 24 and 96, with {lead / of_size:.0f}."
)
ax = drawing.panels(1, width=6.5)[0]
beside = {"textcoords": "offset points"}
for at, (name, (x, y, color)) in enumerate(points.items()):
    ends = [[[of[0] - of[1]], [of[2] - of[0]]] for of in (x, y)]
    marker = drawing.MARKERS[at]
    ax.errorbar(x[0], y[0], yerr=ends[1], xerr=ends[0], fmt=marker, color=color, capsize=3)
    end, shift, side = (x[1], -5, "right") if color == "black" else (x[2], 5, "left")
    ax.annotate(name, (end, y[0]), (shift, 4), **beside, ha=side, color=drawing.readable(color))
top = 1.3 * lead
ax.plot([0, top / PUBLISHED_SLOPE], [0, top], color="0.35", ls=":", lw=1)
ax.annotate("the paper's slope across sizes", (top / PUBLISHED_SLOPE, top), (5, -8), **beside)
ax.axhline(0, color="0.35", ls="--", lw=1)
factors = {"1/4": 0.25, "1/2": 0.5, "1": 1, "2": 2, "4": 4, "8": 8}
ax.set_xticks(np.log(list(factors.values())), list(factors))
ax.set(
    xlabel="Fisher trace smaller by a factor of",
    ylabel="accuracy gained at equal loss (points)",
    xlim=np.log([0.2, 16]),
)
told = "Points gained against flatness: size gains far more than any of four interventions that move flatness further."
glue("slopes", drawing.picture(ax.figure, told), display=False)

# %% tags=["hide-input"]
shares = [100 * np.array(found.share) for found in able.values()]
at_published, most = PUBLISHED_SLOPE * of_size, max(share[2] for share in shares)
loosest = 100 * max(relative[name].share[2] for name in able)
answer = (
    f"{WORDS[direction]}: at the slopes of {len(able)} interventions that move the trace of *d* = 48, the sizes' difference in flatness would carry "
    f"{min(share[0] for share in shares):z.0f} to {max(share[0] for share in shares):z.0f} % of the larger size's lead of {lead:.1f} points"
    f"{f'; no interval reaches beyond {most:.0f} %, or {loosest:.0f} % by the relative trace' if np.isfinite([most, loosest]).all() else ''}."
)
if at_published < lead / 2:
    answer = (
        f"At 3 % of the bag of words' KL the sizes differ too little in flatness for the published slope to carry the effect: it would carry {at_published:.1f} of {lead:.1f} points. "
        + answer
    )
say(answer)

# %% tags=["remove-cell"]
glue("carried", with_minus(answer.replace("*", "")), display=False)

# %% [markdown]
# The rule was fixed before the first of these runs ([Protocol](protocol_second.md)). The answer is *no* if some intervention moves the log trace by more than 0.3, its share lies below one half and its slope below half of the published one (intervals corrected for four
# interventions), its share by relative trace is not shown to exceed one half, and the positive control, an adversary, shows a loss.

# %%
rows = [
    (
        name,
        f"{found.gained:+.1f}",
        f"{found.flatter:+.2f}",
        "{:.1f} ({:.1f} to {:.1f})".format(*found.slope),
        percent(found.share),
        percent(relative[name].share),
        "yes" if found.leverage else "no",
    )
    for name, found in native.items()
]
heads = [
    "intervention",
    "gained (points)",
    "flatter (factors e)",
    "slope (points per factor e)",
    "share carried",
]
render(pd.DataFrame(rows, columns=[*heads, "share by relative trace", "moves the trace"]))

# %% [markdown]
# *Relative trace*: each tensor's trace times its squared norm, which rescaling does not change. Only the intervals of slopes and shares are corrected.

# %% mystnb={"figure": {"caption": "Points gained by each intervention on d = 48 at 3 % of the bag of words' KL, one point for each of eight draws of the grammar; bars are means with 95 % intervals. The last row is the lead of d = 96 over d = 24 on the same draws.", "name": "fig-gained-by-draw"}, "image": {"alt": "Strip plot of points gained by draw for four interventions and for size."}}
gains = {name: leads(recorded, Arm(arm.model), arm, OWN).lead for name, arm in arms.items()}
draws = next(iter(gains.values())).index
gains["size (d = 24 to 96)"] = leads(recorded, SMALL, LARGE, OWN).lead.reindex(draws)
best = max(arms, key=lambda name: native[name].gained.value)
finding(
    f"The most that an intervention gains is {native[best].gained.value:.1f} points ({best}); size gains {gains['size (d = 24 to 96)'].mean():.1f} on the same draws."
)
ax = drawing.panels(1, width=6)[0]
drawing.strips(ax, gains, [*(f"C{at}" for at in range(len(arms))), "black"])
_ = ax.set(xlabel="gained at equal KL (points)")

# %% [markdown]
# Each point is a difference within one draw. At equal length an intervention and AdamW share initial weights and batches; two sizes share neither.
#
# ## What limits it
#
# **Steps.** At one KL and rate the larger model has taken fewer steps, and more steps might cost accuracy. At a lower rate one size takes more steps to the same KL, which shows what rate and steps do together.

# %%
slow = native["a quarter of the learning rate"]
quarter = lead / 4
worse = -slow.gained.high, -slow.gained.low
confounded = (
    "so the effect of size is *confounded with steps*"
    if worse[0] > quarter
    else "so by it the effect of size is not confounded with steps"
    if worse[1] < quarter
    else "so how much of the effect of size is one of steps stays open"
)
taken = leads(
    recorded, Arm(arms["a quarter of the learning rate"].model), arms["a quarter of the learning rate"], OWN
)
say(
    f"At a quarter of the learning rate *d* = 48 takes {taken['second steps'].mean():,.0f} steps to this KL instead of {taken['first steps'].mean():,.0f}, and its accuracy changes by {slow.gained:+.1f} points. "
    f"The rule's bound is a loss of a quarter of the lead, {quarter:.1f} points: {confounded}."
)

# %%
say(f"""
**Could the comparison have seen a loss?** On the first edition's draws the positive control, a model trained against an adversary, is {lost:.0f} points less accurate than one trained without
at equal KL ([A.4 Algorithms](a4_algorithms.ipynb)).

**One size, eight draws, one training of each length.** What moves the trace of *d* = 48 need not be what moves it between sizes, so the slopes may differ. The claim, though, needs them to agree: that flatness as such brings accuracy.
""")

# %% [markdown]
# ## The experiment
#
# The grammar, its draws, and how models are measured are those of [2 Same loss, better downstream?](02_confirmation.ipynb), whose sizes stand beside. An intervention is another peak rate, another
# objective, or dropout:

# %% tags=["experiment"]
ARMS = {  # what each changes
    "AdamW": {},
    "a quarter of the learning rate": {"rate": 0.25, "longer": 2},  # multiples of rate and steps
    "SAM": {"sam_radius": 0.05},
    "trace penalty": {"penalty": 1e-4},
    "dropout": {"dropout": 0.1},
}
UNCHANGED = {"rate": 1, "longer": 1, "sam_radius": 0.0, "penalty": None, "dropout": 0.0, "weight_decay": 0.0}
ADDED = {  # lengths, by the rules on KL
    **{(draw, "a quarter of the learning rate"): (7071,) for draw in (16, 19)},
    **{(draw, "trace penalty"): (1768,) for draw in (16, 18, 19)},
    (19, "AdamW"): (3536,), (19, "dropout"): (3536,), (26, "trace penalty"): (3536,),
}  # fmt: skip

# %% tags=["experiment", "hide-input"]
from sameloss.book.cells import begin
from sameloss.studies.same_loss.experiment import GRAMMAR, Measures
from sameloss.studies.same_loss.parameters import BOUNDS

OTHERS = tuple(ARMS)[1:]
WORKSTATION = {
    "size": "d48", "interventions": ("a quarter of the learning rate", "SAM", "trace penalty", "dropout"), "seeds": 8,
    "draws": (16, 17, 18, 19, 21, 24, 25, 26), "lengths": (1250, 2500, 5000), "added": ADDED, "steps": None,
    "lr": 0.005, "batch": 256, "held_out": 4000, "test": 20_000, "measures": Measures(capacities=True),
    "layers": None, "probe_seeds": 3, "trace_sentences": 8000, "estimator": "sampled", "trace_labels": 1,
}  # fmt: skip
LAPTOP = WORKSTATION | {"seeds": 1, "interventions": ("dropout",), "lengths": (1250, 2500), "added": {}}
SMOKE = LAPTOP | {
    "size": "d8", "interventions": ("SAM", "dropout"), "lengths": (10, 40), "batch": 64, "held_out": 100, "test": 300,
    "measures": Measures(capacities=True, train=100, many_labels=256), "trace_sentences": 100,
}  # fmt: skip
PRESETS = {"smoke": SMOKE, "laptop": LAPTOP, "workstation": WORKSTATION}
page = begin(globals(), "04_interventions", PRESETS, BOUNDS | {"seeds": (1, 8)}, record="workstation")

# %% tags=["experiment"]
from dataclasses import replace

from sameloss.measures.flatness.trace import ESTIMATORS
from sameloss.models.sizes import SIZES
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling, Downstream, HeldOutConditionals, LabelledSampling
from sameloss.seeds import stream_seed
from sameloss.studies.parameters import choose
from sameloss.studies.same_loss.experiment import language_baselines, model_measurement
from sameloss.training.loop import Optimisation
from sameloss.training.objectives import EXACT, TracePenalty

shapes = {name: shape for name, shape in SIZES["laptop"].items() if name not in ("d24", "d96")}  # compared
shape = shapes[choose("size", page.size, shapes)]
shape = replace(shape, layers=page.layers or shape.layers)
measures = replace(page.measures, probe_sets=page.probe_seeds)
of_trace = {
    "trace_sentences": page.trace_sentences,
    "estimator": choose("estimator", page.estimator, ESTIMATORS),
    "trace_labels": page.trace_labels,
}

# %% [markdown]
# Trainings of one draw and as many steps share initial weights and batches, whatever the intervention, so that their differences are the intervention's.


# %% tags=["experiment"]
def sentences_of(draw):
    """Labelled sentences for probes, and sentences on which KL is measured."""
    language, train = GRAMMAR.drawn(draw), max(measures.many_labels, measures.train * measures.probe_sets)
    tasks = Downstream(("root", "span2"), "posterior", train, page.test, probe_seeds=1, seed=draw)
    return LabelledSampling(language, tasks), HeldOutConditionals(language, page.held_out, draw)


def measured(draw, name, steps):
    """The run that trains one model on one draw and measures it."""
    arm = UNCHANGED | ARMS[name]
    penalty = TracePenalty(arm["penalty"]) if arm["penalty"] else None
    decay, radius = arm["weight_decay"], arm["sam_radius"]
    trained = Pretraining(
        CorpusSampling(GRAMMAR.drawn(draw), None, draw), shape,
        Optimisation(steps, page.batch, arm["rate"] * page.lr, weight_decay=decay, sam_radius=radius),
        seed=stream_seed("training", draw, shape.d_model, steps, 0), checkpoints=(steps,),
        micro_batch=page.batch, resume_every=1000, objective=replace(EXACT, trace_penalty=penalty),
        dropout=arm["dropout"],
    )  # fmt: skip
    own = replace(measures, **of_trace)
    return model_measurement(trained, steps, *sentences_of(draw), own, controls=False)


def baselines_of(draw):
    """The run that measures what needs no model, the bag of words among it."""
    return language_baselines(*sentences_of(draw), replace(measures, capacities=False))


# %% tags=["experiment"]
for name in page.interventions:
    choose("interventions", name, OTHERS)
points = [
    (draw, name, steps)
    for draw in page.draws[: page.seeds]
    for name in ("AdamW", *page.interventions)
    for steps in [(UNCHANGED | ARMS[name])["longer"] * steps for steps in page.steps or page.lengths]
    + [*page.added.get((draw, name), ())]
]
baselines = page.sweep(baselines_of, draw=page.draws[: page.seeds])
table = page.sweep(measured, points)

# %% [markdown]
# **The comparison.** Within each draw an intervention and AdamW are interpolated to 3 % of the bag of words' KL; the sizes are those of the confirmation's record.

# %% tags=["comparison"]
import pandas as pd

from sameloss.book.pages import open_page
from sameloss.studies.same_loss.saturated import Arm, cells

arms = {
    name: Arm(page.size, page.lr * changed.get("rate", 1), "descent" if name == "AdamW" else name)
    for name, changed in ARMS.items()
}
trained = table.rename(columns={"draw": "replicate"}).assign(model=page.size)
of_rows = [arms[name] for name in table["name"]]
trained["stage"], trained["lr"] = [arm.stage for arm in of_rows], [arm.lr for arm in of_rows]
bag_of_words = baselines[baselines.quantity == "bag-of-words kl"].set_index("draw").value.to_dict()
of_sizes, _ = open_page("02_confirmation").recorded("workstation")
asked = {name: arms[name] for name in page.interventions}
page.results = pd.concat([of_sizes, cells(trained, bag_of_words)]), asked

# %% [markdown]
# ## How a model is made flatter
#
# **SAM** (sharpness-aware minimisation) takes the gradient not at the weights but at a fixed distance uphill, where the loss of a narrow minimum is much larger; the step itself is AdamW's, from the old weights. The
# gradient is computed inside this context:

# %%
from sameloss.book.chapter import show_source
from sameloss.training.loop import sam_ascent

show_source(sam_ascent)

# %% [markdown]
# **The penalty** adds 0.0001 times an estimate of the Fisher trace to the loss. The estimate takes one backward pass for a whole batch, and its gradient goes through that pass:

# %%
from sameloss.training.objectives import fisher_trace_along

show_source(fisher_trace_along)

# %% [markdown]
# A lower **learning rate** and **dropout** change the noise of training, and with it where training comes to rest.
#
# ## A small run, on this machine
#
# By default the cells above read recorded runs: dropout on one draw, at the two lengths that enclose 3 %. With other parameters they compute. The
# comparison is at 3 %, or else at the smallest KL that both reach:

# %%
mine, mine_arms = page.results
base, draws = Arm(page.size, page.lr), page.draws[: page.seeds]
rows = []
for name, arm in mine_arms.items():
    gained, flatter = (leads(mine, base, arm, of) for of in (OWN, "log trace"))
    rows += [(name, draw, gained.lead[draw], -flatter.lead[draw], gained.kl[draw]) for draw in gained.index]
    for draw in sorted({*draws} - {*gained.index}):
        say(f"On draw {draw} the lengths with AdamW and with {name} pass no common KL; see below.")
heads = ["intervention", "draw", "gained (points)", "flatter (factors e)", "at KL (%)"]
render(pd.DataFrame(rows, columns=heads), decimals=2)

# %% [markdown]
# Each training: its KL in per cent of the bag of words', the accuracy on its own features in per cent, and its trace.

# %% tags=["hide-input"]
each = mine.query("model == @page.size and replicate in @draws").reset_index()
each["trace"] = np.exp(each["log trace"])
each["lr"] = each["lr"].map("{:g}".format)
render(each[["replicate", "stage", "lr", "steps", "kl", OWN, "trace"]].rename(columns={"replicate": "draw"}))

# %% [markdown]
# **In plain NumPy.** The gains in the first of these tables, from the KL and accuracy of each length, with straight lines in log KL between them:


# %%
def accuracy_at(draw, arm, kl):
    """Accuracy on own features where a straight line between lengths of training passes the KL."""
    curve = mine.xs((draw, arm.stage, arm.model), level=("replicate", "stage", "model"))
    curve = curve[np.isclose(curve.index.get_level_values("lr"), arm.lr)].sort_values("kl")
    return np.interp(np.log(kl), np.log(curve.kl), curve[OWN])


errors = []
for name, arm in mine_arms.items():
    for draw, library in leads(mine, base, arm, OWN).iterrows():
        plain = accuracy_at(draw, arm, library.kl) - accuracy_at(draw, base, library.kl)
        print(f"{name}, draw {draw}: plain {plain:.3f}, library {library.lead:.3f} points")
        errors.append(abs(plain - library.lead))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print("the library's gains are those of straight lines:", max(errors, default=0) < 1e-6)

# %% [markdown]
# ## Deviations
#
# - The paper has no such interventions: it compares sizes, lengths of training and an adversary, which change more than flatness.
# - One training of each length on each draw; averages are over draws alone.
# - SAM has a radius of 0.05, dropout a rate of 0.1, the penalty a weight of 0.0001 on the Fisher trace; all were fixed beforehand, and none was tuned.
#
# ## Exercises
#
# 1. Another size: `-p size d32`. Does the same intervention flatten it as much?
# 2. A higher rate instead: `-p lr 0.01 -p interventions SAM`. Does SAM or the doubled rate flatten more?
# 3. Add an intervention: the line `"weight decay": {"weight_decay": 0.1},` in `ARMS`, and `"interventions": ("weight decay",)` in `LAPTOP`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, mine.reset_index())
