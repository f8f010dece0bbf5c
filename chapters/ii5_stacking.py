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
label_noise: float = None  # of the labels: 0 exact, 1 sampled as in the thesis; None: the preset's
state: str = None  # of the optimiser: mapped, reset or stale; None: mapped
tolerance: float = None  # relative, of all verdicts; None: each claim's own
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.studies.growing.pages import STUDY

page = begin(globals(), STUDY, "ii5_stacking")

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
# ## How each method ends (Table C.2)

# %% mystnb={"figure": {"caption": "KL in the last stage against the FLOPs of all stages so far, mean over first stages. Dashed: the two controls.", "name": "fig-stacks"}, "image": {"alt": "KL on a logarithmic axis against FLOPs, one line per method, dashed for the controls."}}
from sameloss.book.chapter import finding, render, say
from sameloss.studies import drawing
from sameloss.studies.growing.claims import FROM_SCRATCH, WAY_NAMES

stacks_ = page.results
adaptive, scratch = (stacks_.below("last", way) for way in ("adaptive", FROM_SCRATCH))
finding(
    f"Relative to stacking the last layers, adaptive stacking ends at {adaptive:+.4f} nats, training from scratch with "
    f"equal FLOPs at {scratch:+.4f}."
)
deepest = stacks_.stages[stacks_.stages.layers == stacks_.stages.groupby("way").layers.transform("max")]
mean = deepest.groupby(["way", "step"])[["flops", "kl"]].mean()
(ax,) = drawing.panels(1, width=6.5)
for (way, label), marker in zip(WAY_NAMES.items(), drawing.MARKERS, strict=False):
    style = {"color": "0.35", "ls": "--"} if way in ("not grown", FROM_SCRATCH) else {}
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
import pandas as pd

rows = []
for name, run in {f"preset {page.config.name}": stacks_, "recorded, six layers": deeper}.items():
    last = run.ends("last")
    for way, label in WAY_NAMES.items():
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
    f"All intervals are over {len(stacks_.settings.stack_seeds)} first stages here and {len(deeper.settings.stack_seeds)} in the recorded run, too few for small effects."
)

# %% [markdown]
# ## Comparison with the thesis

# %%
verdicts = beside_the_paper(page)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
from sameloss.models.enlarge import grid

stages = {4: 1, 8: 1, 12: 1, 16: 2, 20: 2}  # layers before growing: at every so many-th index
tried = {layers: len(grid(layers, 4, every)) for layers, every in stages.items()}
print("The thesis' stages try", *tried.values(), "operators:", sum(tried.values()), "in all.")
steps = 200 * sum(count * (layers + 4) for layers, count in tried.items())
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
