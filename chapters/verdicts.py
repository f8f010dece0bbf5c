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
# # Verdicts
#
# Which of the published results does this book reproduce? This page compares published claims with what the book
# computed; [Deviations](deviations.md) lists those that it does not ask. Each verdict follows from an interval by rules that were
# fixed before the runs (the [Protocol](protocol.md) lists what was changed later). Effects are oriented so that the paper predicts a positive number, or a ratio above one.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, workstation, pretrained, gpu-hour, gpu, paper
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %% tags=["experiment"]
from sameloss.book.cells import begin
from sameloss.book.pages import pages_at
from sameloss.studies.parameters import MAX_HOURS

page = begin(globals(), "verdicts", {name: {} for name in MAX_HOURS})
pages = pages_at(page.preset, page.store)
page.prepare([run for other in pages for run in other.runs()])

# %%
import pandas as pd

from sameloss.book.chapter import say
from sameloss.book.pages import all_statements, open_page
from sameloss.book.part_one import recorded_answers
from sameloss.book.verdict_table import counted
from sameloss.studies.same_loss import tables
from sameloss.studies.verdict import chance_in_words, strongest

answers, theory = recorded_answers(), all_statements(pages)
judged = answers[(answers.row == "main") & answers.judged]
confirmed, _ = open_page("02_confirmation").recorded("workstation")
judging = [other for other in pages if other.topics]
part_two = pd.concat([strongest(other.evidence(other.verdicts())) for other in judging])
say(f"""
- **Part I**, near the lowest loss: the table below; the main comparisons of the first edition of the protocol: {counted(judged.direction)}.
- **Part II**, each claim from the longest runs that could test it: {counted(part_two.direction)}.
- **Lemmas and theorems**: {counted(theory.verdict)}.

The section *What the words mean* defines them.
""")

# %% [markdown]
# ## Part I, near the lowest loss
#
# The questions of the [second edition of the protocol](protocol_second.md), in its order: *d* = 96 beside *d* = 24 at 3 % of the bag of words' KL, on sixteen grammars that were new to
# everybody. Intervals have 95 %, those of the second and third question with Holm's correction. The first question is the paper's comparison: it reads models by their own features.

# %% tags=["remove-input"]
import numpy as np
from IPython.display import HTML
from myst_nb import glue

from sameloss.book import verdict_table
from sameloss.book.chapter import with_minus
from sameloss.statistics.intervals import Interval, seed_interval
from sameloss.studies.same_loss import saturated
from sameloss.studies.same_loss.saturated import CAPACITY, LARGE, OWN, SMALL, TUNED
from sameloss.studies.verdict import Direction, judge

QUESTIONS = {
    OWN: "Do larger models do better at equal loss, read by their own features?",
    CAPACITY: "Read by equally many features?",
    TUNED: "Fine-tuned?",
}
rows = [
    {
        "question": QUESTIONS[answer.question],
        "page": "02_confirmation",
        "direction": answer.verdict.direction,
        "size": ", ".join(filter(None, (answer.verdict.size, *answer.remarks))),
        "effect": f"{answer.effect.value:+.1f} points ({answer.decides.low:.1f} to {answer.decides.high:.1f})",
        "published": f"{saturated.PUBLISHED:+.1f}",
    }
    for answer in saturated.downstream(confirmed)
]

# %% tags=["remove-input"]
flatter = seed_interval(-saturated.leads(confirmed, SMALL, LARGE, "log trace").lead)
ratio, low, high = np.exp(flatter)
of_rates = saturated.by_rate(confirmed, "log trace").values()
at_all = max(found.lead.mean() for found in of_rates) < 0  # their log traces are smaller
rows.append(
    {
        "question": "Are larger models flatter at equal loss?",
        "page": "04_flatness",
        "direction": judge(flatter).direction,
        "size": "at all pairs of learning rates"
        if at_all
        else "at the same learning rate, reversed at others",
        "effect": f"{ratio:.2f} times ({low:.2f} to {high:.2f})",
        "published": f"{(2.68 / 1.54) ** (3.90 / 8.0):.2f}",
    }
)

# %% tags=["remove-input"]
main = answers[(answers.row == "main") & (answers.language == "grammar")].set_index("question")
flattened, arms = open_page("04_interventions").recorded("workstation")
native, relative = (
    {name: saturated.line(flattened, arm, len(arms), of) for name, arm in arms.items()}
    for of in saturated.TRACES
)
lost_to_adversary = Interval(*main.loc["adversary", ["mean", "low", "high"]])
shares = [100 * np.array(found.share) for found in native.values() if found.leverage]
least, most = (f(share[0] for share in shares) for f in (min, max))
bound = max(share[2] for share in shares)  # no interval reaches beyond
carried = {
    "question": "Does flatness carry the lead of the larger model?",
    "page": "04_interventions",
    "direction": saturated.carried(native, relative, lost_to_adversary),
    "size": "on eight of the grammars",
    "effect": with_minus(f"{least:z.0f} to {most:z.0f} % of it, by intervention on one size"),
    "published": "–",
}
near = pd.DataFrame([*rows, carried]).assign(
    language=f"{confirmed.index.unique('replicate').size} new grammars, 3 % of KL"
)
HTML(with_minus(verdict_table.findings(near)))

# %% tags=["remove-cell"]
own, equal, tuned = saturated.downstream(confirmed)
PAPER = {"size": f"{saturated.PUBLISHED:+.1f} points", "trace": f"{(2.68 / 1.54) ** (3.90 / 8.0):.1f} times"}


def points(effect, digits=1):
    """An effect in points, with its interval."""
    mean, low, high = effect[["mean", "low", "high"]] if isinstance(effect, pd.Series) else effect
    return f"{mean:+.{digits}f} points ({low:.{digits}f} to {high:.{digits}f})".replace("-", "−")


# %% tags=["remove-cell"]
sharper = main.loc["flatness by adversary", ["mean", "low", "high"]]
sharpened = "{:.2f} times the trace ({:.2f} to {:.2f})".format(*sharper)
lost = -main.loc["adversary", ["mean", "high", "low"]].set_axis(["mean", "low", "high"])
badge = verdict_table.badge
front = [
    ("the larger model is more accurate", "02_confirmation", f"{badge(own.verdict.direction)} {points(own.effect)}", PAPER["size"]),
    (
        "… with equally many features; fine-tuned", "02_confirmation",
        f"{badge(equal.verdict.direction)} {points(equal.effect)}, as many features<br>{badge(tuned.verdict.direction)} {points(tuned.effect)}, fine-tuned", "not tested",
    ),
    (
        f"it is flatter{'' if at_all else ', at the same learning rate'}", "04_flatness",
        f"{badge(rows[-1]['direction'])} {rows[-1]['effect']} smaller trace of the Hessian", f"{PAPER['trace']} smaller",
    ),
    (
        "flatness explains its lead", "04_interventions",
        f"{badge(carried['direction'])} one size made {ratio:.2f} times flatter gains {with_minus(f'{least:z.0f} to {most:z.0f}')} % of the lead (intervals end below {bound:.0f} %)", "the claimed cause",
    ),
    (
        "longer training is more accurate", "02_existence",
        f"{badge(main.loc['steps'].direction)} {points(main.loc['steps'])}, {main.loc['steps', 'size']}", "+1.6 points",
    ),
    (
        "adversarial training hurts, and sharpens", "a4_algorithms",
        f"{badge(main.loc['adversary'].direction)} {points(lost)}<br>{badge(main.loc['flatness by adversary'].direction)} {sharpened}", "−6.9 points; 2.4 times",
    ),
]  # fmt: skip

# %% tags=["remove-cell"]
cells = "".join(
    f'<tr><th scope="row"><a href="chapters/{there}.html">{claim}</a></th><td data-label="we find">{found}</td>'
    f'<td data-label="the paper, scaled">{paper}</td></tr>'
    for claim, there, found, paper in front
)
heads = "".join(
    f'<th scope="col">{head}</th>'
    for head in ("at equal loss", "we find (95 % interval)", "the paper, scaled")
)


def said(direction, yes, no, unknown):
    """What a verdict says, in words."""
    return {Direction.SUPPORTED: yes, Direction.AGAINST: no}.get(direction, unknown)


in_short = (
    f"At equal loss the larger model {said(own.verdict.direction, 'is', 'is not', 'may be')} more accurate, and "
    f"{said(rows[-1]['direction'], 'flatter', 'not flatter', 'perhaps flatter')}{'' if at_all else ' at the same learning rate'}, "
    + said(carried["direction"], "and flatness explains its lead.", "but flatness explains less than half of its lead.", "and whether flatness explains its lead is open.")
)  # fmt: skip
glue("in-short", in_short, display=False)
glue(
    "front",
    HTML(
        f'<table class="dataframe findings front"><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table>'
    ),
    display=False,
)

# %% [markdown]
# **Open**: what the protocol asks of the older grammars; those trainings have not been run.
#
# ## Part I, first edition
#
# The main comparison for each question and language of the [first edition](protocol.md), from recorded runs, with 95 % intervals over replicates (widened by
# Holm's procedure for their number). Models are compared at the smallest KL that all sizes reach, with equally many features. The chapters have the controls and all numbers.

# %% tags=["remove-input"]
from sameloss.book.chapter import render

HTML(with_minus(verdict_table.findings(tables.findings(answers[answers.judged]))))

# %%
say(chance_in_words(answers[answers.question != "mask rate"]))  # whose claim is no effect

# %% tags=["remove-input"]
from sameloss.book.part_one import records_in_words

say(records_in_words())

# %% [markdown]
# ## Part II
#
# The claims of the thesis chapters that Part II reproduces, one table per chapter. Points show the effect with its 95 %
# interval over seeds, filled for recorded runs and open for the runs of this page's preset.

# %%
from sameloss.book.chapter import beside_the_paper

for other in sorted(judging, key=lambda other: other.name):
    beside_the_paper(other, home=True)

# %% [markdown]
# **What is open.** Claims that the recorded runs leave undecided, with the number of seeds, and core-hours of this kind of machine, at which an interval of the same spread around the same
# effect would be decided:


# %%
from sameloss.studies.verdict import verdict_table as judge_all


def closing(claim, judged, record):
    """A row of the table: what would decide a claim."""
    half = (judged.high - judged.low) / 2
    seeds = np.ceil(record["seeds"] * (half / judged.ours) ** 2)
    effect = verdict_table.effect_in_words(judged, claim.unit)
    hours = record["core_hours"] * seeds / record["seeds"]
    return {"claim": claim.text, "page": claim.page, "effect": effect, "seeds": seeds, "core-hours": hours}


undecided, no_effect = [], []
for other in judging:
    for preset, record in other.records().items():
        table = judge_all(other.topics, other.recorded(preset)).set_index("id")
        rows = [(claim, table.loc[claim.id]) for topic in other.topics for claim in topic.claims]
        still = [row for row in rows if row[1].direction == "open"]
        undecided += [closing(*row, record) for row in still if row[1]["size"] != "negligible"]
        no_effect += [claim.text for claim, judged in still if judged["size"] == "negligible"]
render(pd.DataFrame(undecided), decimals=1)

# %%
say(
    f"Of the {len(no_effect)} other open claims the effect is negligible, whatever its sign: {'; '.join(no_effect)}."
)

# %% [markdown]
# **What needs a GPU and a download of data**, and has not been computed. The command computes it:

# %%
elsewhere = [
    {
        "claim": claim.text,
        "place": claim.place,
        "published": claim.value,
        "command": f"papermill chapters/{other.name}.ipynb out.ipynb -p preset {topic.presets[0]}",
    }
    for other in judging
    for topic in other.claims
    for claim in topic.claims
    if topic not in other.topics
]
render(pd.DataFrame(elsewhere))

# %% [markdown]
# ## What the words mean
#
# A verdict has a direction, and a size where there is something to compare with. Each word holds for a whole interval, so a wider interval never yields a stronger verdict.
#
# | direction | the interval |
# |---|---|
# | supported | lies on the claim's side of no effect; where the paper gives a bound ("by less than two points"), within the bound |
# | against | lies on the other side |
# | open | contains both |
# | not reached | the question follows another one, which is open |
# | not testable | is missing, or a rule forbids a verdict; in Part I the table says which |
#
# | size | the interval, compared with the published number; the first that holds |
# |---|---|
# | negligible | the one of 90 % lies within a margin around zero (two one-sided tests): in Part I, first edition, there is none; in its second edition it is a quarter of the published number; in Part II only effects whose direction is open are called so |
# | smaller than published | lies wholly below the tolerance around the published number; it may contain zero, since a precise null is a result |
# | as published | lies within the tolerance |
# | larger than published | lies wholly above it |
# | imprecise | none of these |
#
# Intervals have 95 %. Those of the main comparisons of the first edition, and of the second and third question of the second, are widened by Holm's procedure for their number; in the second
# edition sizes are judged by plain intervals. In Part II each interval has 95 % coverage on its own; the sentence below each table says how many would lie on each side of zero by chance alone. The tolerance
# is 25 % where a claim does not say otherwise.

# %% [markdown]
# ## Lemmas and theorems
#
# Each statement of [3 Implicit bias](03_implicit_bias.ipynb), [5 Dyck](05_dyck.ipynb), [II.2 Stability](ii2_stability.ipynb), [II.3a Local signal](ii3_local_signal.ipynb), [II.3b Proofs](ii3_proofs.ipynb),
# [II.3c Images](ii3_images.ipynb) and [II.4 Decision lists](ii4_decision_lists.ipynb) is checked numerically, as printed and as corrected. It *holds* if all
# checks pass, and *holds as corrected* if a computed number refutes the printed form and the correction passes all of its
# checks; otherwise the book shows a counter-example. Places are those of the paper on the first two pages, and those of the thesis on
# the pages of Part II.

# %%
columns = ["page", "place", "statement", "checks", "verdict", "correction"]
render(theory.sort_values("page", kind="stable")[columns])

# %% tags=["remove-cell"]
by_paper = theory.page.isin(["03_implicit_bias", "05_dyck"])
corrected = theory.verdict == "holds as corrected"
told = (
    f"{(by_paper & corrected).sum()} of the paper’s {by_paper.sum()} lemmas and theorems, and "
    f"{(~by_paper & corrected).sum()} of Part II’s {(~by_paper).sum()}, need correcting; the others hold as printed"
)
glue("theory-counts", told, display=False)
glue("errata", render(theory[by_paper & corrected][["place", "statement", "correction"]]), display=False)

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
print(
    "every question has a page:", set(answers.question) <= {q for own in tables.PAGES.values() for q in own}
)
print("statements without a counter-example:", set(theory.verdict) <= {"holds", "holds as corrected"})

# %% [markdown]
# All verdicts from laptop runs concern small languages and small models. They say whether a phenomenon appears there, not
# whether the published numbers are right.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, answers)
