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
# (ladder)=
# # A ladder of sizes: the record
#
# **The claim** (Sections 2.3 and 4, Figures 1, 2, 3, 5, 9 and 10, Tables 1 and 2 of {cite}`liu2023same`): at
# the same pre-training loss larger models are better downstream, and flatter, and so are longer trainings.
# The paper has one run a point, five or six sizes, transformers on its grammar and LSTMs on its hidden Markov
# model.
#
# **What you will see**: the record of a preset that takes hours, as chapters {ref}`existence` and
# {ref}`flatness` show their own runs: more sizes, over two orders of magnitude, five seeds of each. Nothing is trained here; all is read from the tables in
# `results/`, and what is not yet recorded is left out.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, gpu, paper
tolerance: float = None  # relative, of all verdicts; None: each claim's own
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from IPython.display import Markdown

from sameloss.book.chapter import begin
from sameloss.studies.recorded import record_in_words
from sameloss.studies.same_loss.pages import STUDY

page = begin(globals(), STUDY, "ladder")
Markdown(record_in_words(page.record))

# %% [markdown]
# With `-p preset` another preset's record is shown, where there is one; here it is the strongest there is.
#
# ## The sizes, and how far each is from the best possible loss
#
# KL in nats a masked token, the mean over seeds and that of the worst; *share* is the KL over what there is to
# learn. A size is compared after all steps where its worst seed leaves no more than
# {glue:text}`ladder-share` unlearnt; other sizes take part in figures, and in no number.

# %%
import pandas as pd

from sameloss.book.chapter import render
from sameloss.studies.same_loss.record import last_of
from sameloss.studies.same_loss.tables.comparison import model_table

limit = page.config.evaluation.saturated_share
models = pd.concat(
    [model_table(last_of(page.trained(name))).assign(language=name) for name in page.languages]
)
models = models.assign(saturated=(models.worst_share <= limit).map({True: "yes", False: "no"}))
render(models[["language", *models.columns.drop(["language", "KL_error", "loss", "entropy"])]], decimals=4)

# %% tags=["remove-cell"]
from myst_nb import glue

glue("ladder-share", f"{limit:.0%}", display=False)
apart = models[models.saturated == "no"]
names = ", ".join(apart.language + " " + apart["size"]) or "none"
glue("ladder-apart", names, display=False)

# %% [markdown]
# Not saturated in every seed: {glue:text}`ladder-apart`.
#
# The learning rate is the best of three for each size of the grammar and of the hidden Markov model, chosen on
# the KL alone, by short trainings of a seed that no comparison has. `times` is the multiple of the rate that the
# width alone gives.

# %% mystnb={"code_prompt_show": "All rates that were tried"} tags=["hide-cell"]
rates = page.rows("rates")
render(rates, decimals=4) if len(rates) else None

# %% [markdown]
# ## More steps (Figure 1)

# %% mystnb={"figure": {"caption": "Recorded: KL and probe accuracy along pre-training on the grammar, mean and standard deviation over seeds.", "name": "fig-ladder-steps"}, "image": {"alt": "KL and accuracies of every size of the ladder against the pre-training step."}}
from sameloss.studies import drawing
from sameloss.studies.same_loss.figures import models as figures
from sameloss.studies.same_loss.figures import records

checkpoints, tasks = page.trained("PCFG"), page.tasks_on("PCFG")
axes = drawing.panels(1 + len(tasks))
figures.along_training(checkpoints, "kl_mean", "KL (nats a masked token)", axes[0], log=True)
for name, ax in zip(tasks, axes[1:], strict=True):
    figures.along_training(checkpoints, name, figures.accuracy_label(name), ax, log=False)
drawing.legend(axes[0])

# %% [markdown]
# ## Larger models (Figures 2 and 9, Table 1)
#
# The paper predicts that at the right end, where losses are the same, larger sizes stand higher, and all of them
# above the lookup table.

# %% mystnb={"figure": {"caption": "Recorded: accuracy against KL on the grammar. One line a pre-training, one point a checkpoint, the last outlined; the shaded region is saturated.", "name": "fig-ladder-existence"}, "image": {"alt": "Probe accuracy against KL for every size of the ladder, with horizontal lines for lookup table and one-hot tokens."}}
axes = records.against_kl(page, "PCFG")

# %% [markdown]
# ## The hidden Markov model
#
# The paper trains LSTMs here. They stand beside the transformers; their sizes begin with an L.

# %% mystnb={"figure": {"caption": "Recorded: accuracy against KL on the hidden Markov model, transformers first, then LSTMs.", "name": "fig-ladder-hmm"}, "image": {"alt": "Probe accuracy against KL on the two positions of the HMM, by size, transformers and LSTMs."}}
axes = records.against_kl(page, "HMM", "HMM-LSTM")

# %% mystnb={"code_prompt_show": "Untrained and trained models by size, under the solved probe"} tags=["hide-cell"]
solved = page.rows("accuracies", protocol="solved")
columns = {"index": ["language", "task", "size"], "columns": "models", "values": "value", "sort": False}
render(solved.pivot_table(**columns).reset_index(), decimals=2)

# %% tags=["remove-cell"]
from sameloss.studies.same_loss.tables.comparison import controls_in_words, correlations_in_words

glue("ladder-control", controls_in_words(page.rows("control"), "solved"), display=False)

# %% [markdown]
# The largest saturated size over the smallest, in points, net of untrained models:
# {glue:text}`ladder-control`.

# %% mystnb={"code_prompt_show": "Under every probe, and at equal KL"} tags=["hide-cell"]
from sameloss.book.chapter import scientific

render(scientific(page.rows("control"), "gradient").rename(columns={"value": "net"}))

# %% mystnb={"code_prompt_show": "At exactly equal KL"} tags=["hide-cell"]
matched = page.rows("matched")
render(matched.rename(columns={"value": "points"})) if len(matched) else None

# %% [markdown]
# ## The paper's own languages
#
# Its two smallest models, on a grammar and a hidden Markov model with its vocabularies, lengths and entropies
# (chapter {ref}`datasets`). The paper compares sizes after trainings that a processor cannot do; here each stands
# at the KL that it reaches, so a difference of accuracy is one of KL and of size together.

# %% mystnb={"figure": {"caption": "Recorded: accuracy against KL on the paper's own languages.", "name": "fig-ladder-paper"}, "image": {"alt": "Probe accuracy against KL on the paper's grammar and hidden Markov model, for its two smallest sizes."}}
axes = records.against_kl(page, "PCFG-paper", "HMM-paper")

# %% tags=["remove-cell"]
from sameloss.studies.same_loss.tables.comparison import learnt_in_words

of_paper = models[models.language.isin(["PCFG-paper", "HMM-paper"])]
left = (f"{row.language} {row.size} {row.share:.0%}" for row in of_paper.itertuples())
glue("ladder-paper-left", ", ".join(left) or "not recorded", display=False)
gained = solved[solved.language.isin(of_paper.language)]
glue("ladder-paper-gained", learnt_in_words(gained) if len(gained) else "not recorded", display=False)

# %% [markdown]
# Unlearnt of what there is to learn: {glue:text}`ladder-paper-left`. Above untrained models, in points, under the
# solved probe: {glue:text}`ladder-paper-gained`.

# %% [markdown]
# ## Flatness (Figure 5)
#
# The paper predicts points on a line that falls to the right, with an $r^2$ of 0.92 on its grammar and 0.94 on its
# hidden Markov model. Unlike three sizes, five can say something about that; languages of two sizes are left out,
# since two points always lie on a line.

# %% mystnb={"figure": {"caption": "Recorded: accuracy against the Fisher trace of the last checkpoints of all sizes, saturated or not.", "name": "fig-ladder-trace"}, "image": {"alt": "Accuracy against Fisher trace of last checkpoints, one panel a language and task, coloured by size."}}
ladders = [name for name in page.languages if page.trained(name)["size"].nunique() > 2]
axes = records.against_trace(page, *ladders)

# %%
correlations = page.rows("correlations", checkpoints="last")
if len(correlations):
    correlations = correlations[correlations.language.isin(ladders)]
render(correlations) if len(correlations) else None

# %% tags=["remove-cell"]
said = correlations_in_words(page.rows("correlations"), "signed r² (Fig. 5)") if len(correlations) else ""
glue("ladder-r2", said or "not recorded, or fewer than three sizes saturated", display=False)

# %% [markdown]
# Signed $r^2$ over saturated sizes, positive where flatter is better, with an interval that counts pre-trainings:
# {glue:text}`ladder-r2`.
#
# ## After the end, with SGD (Figures 3 and 10)

# %% mystnb={"figure": {"caption": "Recorded: from the end of AdamW, plain SGD at a constant rate: trace, KL and accuracy.", "name": "fig-ladder-sgd"}, "image": {"alt": "Trace, KL and accuracy of SGD runs against the step, for the grammar and the HMM."}}
from sameloss.studies.same_loss.groups import ADVERSARIAL, SGD_AFTER_ADAMW

with_sgd = page.having("checkpoints", algorithm=SGD_AFTER_ADAMW.label)
axes = records.along_training(with_sgd, SGD_AFTER_ADAMW.label)

# %% tags=["remove-cell"]
glue("ladder-sgd", record_in_words(with_sgd.record), display=False)

# %% [markdown]
# {glue:text}`ladder-sgd`
#
# ## An adversary (Table 2)
#
# All algorithms at one size, the last checkpoints: an adversary against the downstream tasks at almost the same
# loss, and what else the appendix trains with.

# %%
with_adversary = page.having("algorithms", algorithm=ADVERSARIAL[-1].label)
render(with_adversary.rows("algorithms"), decimals=3)

# %% tags=["remove-cell"]
glue("ladder-algorithms", record_in_words(with_adversary.record), display=False)

# %% [markdown]
# {glue:text}`ladder-algorithms`
#
# ## For and against
#
# What this record says of the paper's claims, judged by the rules of every other page; {ref}`verdicts` has it beside
# other records and the default.

# %%
from sameloss.book.chapter import beside_the_paper

verdicts = beside_the_paper(page)

# %% tags=["remove-cell"]
from sameloss.studies.verdict import Verdict

against = verdicts[verdicts.verdict == Verdict.CONTRADICTED].claim
glue("ladder-against", "; ".join(against) or "none", display=False)
glue("ladder-counts", verdicts.verdict.value_counts().to_string().replace("\n", "; "), display=False)

# %% [markdown]
# **Contradicted**: {glue:text}`ladder-against`.
#
# ## Where it comes from
#
# The parts of the record in the order in which they are computed: the runs of each and how many are finished,
# core-hours told beforehand and taken for these, and told for what is left.

# %%
parts = page.rows("parts")
render(parts) if len(parts) else None

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, last_of(page.rows("checkpoints")))
