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
# an interval and a tolerance fixed in `sameloss.studies.same_loss.paper` before the runs. Effects are oriented so
# that the paper's claim is a positive number.
#
# | verdict | meaning |
# |---|---|
# | reproduced | the 95 % interval is above zero, and the published number lies in it, widened by the tolerance (where the paper states a direction only: above zero) |
# | direction only | above zero, but of another size |
# | not seen | zero lies in the interval |
# | contradicted | the interval is below zero |
# | not testable here | it cannot be computed from these runs, for example because models are not saturated |

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, gpu or paper; auto follows the size
size: str = "all"  # all, or one size of the preset: 7K, 27K, 106K; 2M to 730M as in the paper
seeds: int = None  # pre-training seeds; None: the preset's
saturated_kl: float = None  # KL (nats) from which a checkpoint counts as saturated; None: 0.02
tolerance: float = None  # relative, of all verdicts; None: each claim's own
max_hours: float = None  # refuse to train for longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one a core
processes: int = None  # that share one training, each on a core or GPU of its own; None: one
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin_study

study = begin_study(globals(), "verdicts")

# %%
from sameloss.book.chapter import render_verdicts
from sameloss.studies.same_loss.claims import verdict_table

verdicts = verdict_table(study)
render_verdicts(verdicts)

# %% [markdown]
# The same claims in runs too long to wait for, recorded once (what they took: {ref}`costs`):

# %%
from sameloss.book.chapter import render
from sameloss.studies.same_loss.record import across_presets

across = across_presets(verdicts, study.setting.preset.name)
render(across)

# %%
counts = across.iloc[:, 2:].apply(lambda column: column.str.partition(":")[0].value_counts())
render(counts.rename_axis("verdict").reset_index(), decimals=0)

# %% [markdown]
# ## Lemmas and theorems
#
# Each statement of {ref}`implicit-bias` and {ref}`dyck` is judged by checks of what is printed and of its
# correction: it *holds* where all pass, *holds as corrected* where a computed number refutes what is printed
# and the correction passes all of its checks; otherwise the book shows a counter-example.

# %%
from sameloss.book.verdicts import theory_runs, theory_table

theory = theory_table(study.setting)
render(theory.drop(columns="section"))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
from sameloss.studies.same_loss.paper import PUBLISHED

print("every published claim has a verdict:", set(verdicts.id) == set(PUBLISHED))
print("statements without a counter-example:", set(theory.verdict) <= {"holds", "holds as corrected"})

# %% [markdown]
# A verdict at the laptop preset is about the laptop's small language and models. It says whether
# the phenomenon shows there, not whether the paper's numbers are right. Where the default's three seeds
# leave an effect open, the recorded run's five often decide it.

# %% tags=["hide-input"]
from sameloss.book.chapter import provenance
from sameloss.studies import drawing

print(provenance(study.setting, [*study.runs(), *theory_runs(study.setting)]))
drawing.download(verdicts, "verdicts")
