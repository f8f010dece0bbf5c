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
# (practice)=
# # D Practical implications
#
# **The claim** (Appendix D of {cite}`liu2023same`): if flatness is what transfers, then explicit
# regularisers of flatness (SAM, say) should help pre-training, and a measure of flatness should tell
# which of several models of equal loss is the better one. The paper leaves both untested.
#
# **What you will see**: pre-training with SAM and with an explicit penalty on the trace, beside other
# regularisers; which measure predicts accuracy across all models of this book; and what later papers
# found, beside our own numbers.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, gpu, paper
size: str = "all"  # all, or one: 10K, 40K, 155K; 2.8K to 615K; 2M to 730M (the paper's); LSTMs: L4K, 67M
task: str = "all"  # all, or one downstream task to show: root, span4, span2
steps: int = None  # pre-training steps; None: the preset's
seeds: int = None  # pre-training seeds; None: the preset's
saturated_share: float = None  # share of what context tells that a saturated model may miss; None: 0.03
tolerance: float = None  # relative, of all verdicts; None: each claim's own
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one a core
processes: int = None  # that share one training, each on a core or GPU of its own; None: one
micro_batch: int = None  # sentences that go through the model at once; None: the preset's
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.studies.same_loss.pages import STUDY

page = begin(globals(), STUDY, "d_practice")

# %%
from sameloss.studies.same_loss.groups import ADAMW, PENALTY, REGULARISED, SAM

regularised = page.present([ADAMW, SAM, PENALTY, *REGULARISED])
tasks = page.tasks

# %% [markdown]
# ## Explicit regularisers of flatness: SAM and a trace penalty
#
# SAM takes the gradient not where the parameters are but at a distance $\rho$ uphill,
# $\nabla L\bigl(\theta + \rho\,\nabla L/\lVert\nabla L\rVert\bigr)$, at twice the price. The penalty adds
# $\mu\,\mathrm{Tr}F$ itself. Its unbiased estimate costs one more backward pass: with random signs
# $\epsilon$ and $v = \sqrt f\odot\epsilon - f\,(\sqrt f\cdot\epsilon)$,
#
# $$ \mathrm{Tr}\,F = \mathbb E_\epsilon \bigl\lVert J^\top v\bigr\rVert^2, \qquad
#    J = \frac{\partial z}{\partial\theta},\; f = \mathrm{softmax}(z), $$ (eq-penalty)
#
# and because $v$ is a function of $\theta$, its gradient is that of the trace.

# %%
from sameloss.book.chapter import show_source
from sameloss.training.objectives import fisher_trace_along

show_source(fisher_trace_along)

# %% [markdown]
# **By hand.** For $f = \mathrm{softmax}(b)$ with two words and $f = (0.8, 0.2)$, the trace is
# $1 - 0.64 - 0.04 = 0.32$. Signs $(+,+)$ give $v = \sqrt f - f\,(\sqrt{0.8}+\sqrt{0.2})$, signs $(+,-)$ have
# the difference instead; the mean of the two squared norms is 0.32.

# %%
import torch


class TwoWords(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor([0.8, 0.2]).log())


model = TwoWords()
signs = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
draws = [fisher_trace_along(model, model.bias[None] + 0, row[None]) for row in signs]
round(float(sum(draw.detach() for draw in draws)) / 2, 4)

# %%
from sameloss.book.chapter import render
from sameloss.studies.same_loss.tables.comparison import arm_table, unsaturated

render(arm_table(page, regularised, tasks), decimals=3)

# %%
from IPython.display import Markdown

Markdown(unsaturated(page, regularised))

# %% mystnb={"figure": {"caption": "Each regulariser minus plain AdamW at exactly equal KL: the trace (relative) and the accuracies (points), 95 % intervals; of the recorded run where the preset leaves regularisers out.", "name": "fig-regularisers"}, "image": {"alt": "Differences in trace and accuracy of SAM, trace penalty, dropout and weight decay from AdamW."}}
from sameloss.studies import drawing
from sameloss.studies.same_loss.figures import models as figures
from sameloss.studies.same_loss.tables.comparison import differences_or_recorded, wide

differences, origin = differences_or_recorded(page, [SAM, PENALTY, *REGULARISED], tasks)
_ = figures.differences_at_equal_kl(differences)

# %%
print(origin)
render(wide(differences))

# %% [markdown]
# The laptop's preset leaves these regularisers to the recorded run; their place among all algorithms is in
# {numref}`fig-algorithms-recorded`.

# %% [markdown]
# ## Which measure predicts accuracy?
#
# Appendix D asks for a better metric than the loss. Below, the last checkpoints of this page and of
# {ref}`algorithms` (one size; all algorithms that end saturated in every seed): signed $r^2$ between the
# accuracy of each task and candidate predictors, positive where *less* of the measure goes with *more*
# accuracy. KL is the loss itself.

# %%
from sameloss.studies.same_loss.tables.comparison import predictor_table

predictors = predictor_table(page, page.arms, tasks)
render(predictors)

# %% mystnb={"figure": {"caption": "Accuracy against trace across algorithms: all saturated last checkpoints of one size. If flatness alone decided, the points would fall on one line.", "name": "fig-predictors"}, "image": {"alt": "Scatter of accuracy against Fisher trace, coloured by algorithm."}}
import pandas as pd

from sameloss.studies.same_loss.results import final
from sameloss.studies.same_loss.tables.comparison import arm_checkpoints

along = arm_checkpoints(page, page.arms)
last = pd.concat(final(page.of(arm)).assign(algorithm=arm.label) for arm in page.arms).query("saturated")
axes = drawing.panels(len(tasks))
for name, ax in zip(tasks, axes, strict=True):
    figures.accuracy_against_trace(last, name, ax, by="algorithm")
drawing.legend(axes[0])

# %% [markdown]
# ## What later papers found
#
# | paper | finding | here |
# |---|---|---|
# | Du et al. 2024 {cite}`du2024understanding` | models of equal pre-training loss perform alike downstream, whatever their size | {ref}`existence`: size at exactly equal KL |
# | Springer et al. 2025 {cite}`springer2025overtrained` | more pre-training can harm fine-tuning | {ref}`existence`: steps at equal KL, and fine-tuning beside probes |
# | Andriushchenko et al. 2023 {cite}`andriushchenko2023modern` | sharpness, adaptive or not, often does not go with generalisation | the table of predictors above |
#
# Natural text has no known conditionals, so there "equal loss" holds within an unknown distance from
# the optimum; here it holds exactly, in a language of a few words. Neither settles the other.
#
# ## Paper beside ours

# %%
from sameloss.book.chapter import beside_the_paper

verdicts = beside_the_paper(page)

# %% [markdown]
# - Does SAM find flatter models? {glue:}`verdict-sam-trace`.
# - Are they more accurate? {glue:}`verdict-sam-accuracy`.

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
traces = differences.query("quantity == 'trace' and compared == 'at equal KL'").set_index("algorithm")
print("SAM lowers the trace at equal KL:", bool(traces.high[SAM.label] < 0))

# %% [markdown]
# ## Deviations
#
# - The paper has no experiment here, so there is no number to reproduce: effects are ours, and what it suggests is
#   a direction.
# - One strength of each regulariser, chosen by the loss alone: each leaves the models saturated.
#
# ## Exercises
#
# 1. A stronger SAM: `papermill chapters/02_existence.ipynb out.ipynb -p algorithm sam -p strength 0.5`.
# 2. A stronger penalty: `-p algorithm trace-penalty -p strength 0.001`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, along)
