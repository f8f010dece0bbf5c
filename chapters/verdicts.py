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
# (verdicts)=
# # Verdicts
#
# Everything the paper publishes, beside what this book computed, with a verdict that follows from
# an interval and a tolerance fixed in `sameloss.paper` before the runs. Effects are oriented so
# that the paper's claim is a positive number.
#
# | verdict | meaning |
# |---|---|
# | reproduced | the 95 % interval is above zero, and the published number lies in it, widened by the tolerance (where the paper states a direction only: above zero) |
# | direction only | above zero, but of another size |
# | not seen | zero lies in the interval |
# | contradicted | the interval is below zero |
# | not testable here | it cannot be computed from these runs, for example because models are not saturated |
# | not yet | this book does not compute it so far |

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, gpu or paper; auto follows the size
size: str = "all"  # all, or one size of the preset: 7K, 27K, 106K; 2M to 730M as in the paper
seeds: int = None  # pre-training seeds; None: the preset's
saturated_kl: float = None  # KL (nats) from which a checkpoint counts as saturated; None: 0.02
tolerance: float = None  # relative, of all verdicts; None: each claim's own
max_hours: float = None  # refuse to train for longer than this; None: the preset's limit
workers: int = None  # processes; None: one a core
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.chapter import begin_study

study = begin_study(globals(), "verdicts")

# %%
from sameloss.chapter import render_verdicts
from sameloss.claims import verdict_table

verdicts = verdict_table(study)
render_verdicts(verdicts)

# %%
verdicts.groupby("verdict", sort=False).id.agg(["size", ", ".join])

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
from sameloss.claims import CLAIMS

computed = verdicts[verdicts.verdict != "not yet"]
print("claims computed so far:", len(computed), "of", len(verdicts))
print("each claim this book computes has a verdict:", set(computed.id) == set(CLAIMS))

# %% [markdown]
# A verdict at the laptop preset is about the laptop's small language and models. It says whether
# the phenomenon shows there, not whether the paper's numbers are right.

# %% tags=["hide-input"]
from sameloss import figures
from sameloss.chapter import provenance

print(provenance(study.setting, study.runs()))
figures.download(verdicts, "verdicts")
