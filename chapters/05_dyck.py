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
# # 5 A language where the flattest model transfers
#
# **The claim** (Section 5, Theorem 5.1 and Appendix F of [Liu et al., 2023](bibliography.md)): on sentences of balanced brackets
# the masked language model with the smallest trace of the Hessian has learnt what a downstream task needs; a
# head fitted on $n$ samples is then right everywhere with probability at least $1 - 2^{-n}$.
#
# **What you will see**: the language enumerated, so that losses, traces and probabilities are exact; every lemma
# as a computed check, with a counter-example where it fails; a search for the flattest solution; and SGD
# with label noise, which has to find it by itself.
#
# By default searches and trainings have two thirds of the steps of `-p preset laptop-long`.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, gpu, paper
sentence_length: int = None  # T, even, 6 to 10; None: 6
width: int = None  # m, neurons of the trained models, from 2; None: the preset's
steps: int = None  # of SGD; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.studies.dyck.pages import STUDY

page = begin(globals(), STUDY, "05_dyck")

# %%
length = page.config.length

# %% [markdown]
# ## The language, enumerated
#
# A sentence has $T$ brackets, half of them ⟨ and half ⟩. (The paper names the language after Dyck
# [Nivat, 1970](bibliography.md); brackets need not nest, only their counts agree.) One is masked. Token $t$ is encoded as $e_t$
# for ⟨ and $-e_t$ for ⟩, and a mask there as $\pm e_{t+T}$ with a random sign. With $z = \sum_t x_t$,
#
# $$ g^*(x) = \#⟩ - \#⟨ = -\langle \mathbf 1_T, z_{1:T}\rangle , $$
#
# which is $1$ where the mask hides ⟨ and $-1$ where it hides ⟩. Downstream, all $2^T$ strings are equally
# likely, there is no mask, and $g^*$ is to be predicted. The model is one layer of attention and one of ReLU,
#
# $$ f(x) = \tfrac1m\, u^\top\sigma\bigl(V h(x)\bigr), \quad h(x) = \sum_j a_j x_j , \quad
# a = \mathrm{softmax}_j\,\langle Q x_1, K x_j\rangle . $$

# %%
from sameloss.book.chapter import render, show_source
from sameloss.studies.dyck import theory

show_source(theory.pretraining_inputs)

# %%
from myst_nb import glue

inputs = theory.pretraining_inputs(length)
downstream = theory.downstream_inputs(length)
glue("dyck-T", length, display=False)
glue("dyck-inputs", f"{len(inputs.target):,}", display=False)
glue("dyck-strings", len(downstream.target), display=False)
glue("dyck-p0", f"{theory.zero_probability(length):.4f}", display=False)

# %% [markdown]
# At $T$ = {glue:text}`dyck-T` that makes {glue:text}`dyck-inputs` inputs of pre-training and {glue:text}`dyck-strings`
# downstream. A fraction $p_0$ = {glue:text}`dyck-p0` of these is balanced.
#
# ## Two solutions
#
# **Solution (1)** counts brackets: all its neurons are $\mp c\,[\mathbf 1; \mathbf 0]$. **Solution (2)** draws $V$ at
# random and fits $u$. Both have zero loss. Averaging attention ($Q = K = 0$) serves both.

# %%
from sameloss.studies import drawing
from sameloss.studies.dyck import show
from sameloss.studies.dyck.theory import transferable_solution

models = show.solutions(inputs, page.config.width, page.config.generator("page"))
two = dict(list(models.items())[:2])
show_source(transferable_solution)

# %% mystnb={"figure": {"caption": "Figure 6 of the paper from its real arrays. Top left: the encoding of one input; the second column of a mask lies behind the line. Top right: V of solution (1). Bottom left: the first rows of V of solution (2), each divided by its largest entry. Bottom right: how the neurons' contributions to that input add up to the same output, directly or by a random walk.", "name": "fig-dyck"}, "image": {"alt": "Four panels: a sparse signed encoding; identical rows of ones with both signs; unstructured rows; a monotone sum beside one that goes up and down."}}
example = 7
first_rows = two["solution (2), random features"]
first_rows = first_rows._replace(value=first_rows.value[:8], head=first_rows.head[:8])
left, right, below, walk = drawing.panels(4, width=4.6)
show.encoding(inputs, example, left)
show.values(two["solution (1)"], "V of solution (1)", right)
show.values(first_rows, "V of solution (2), first rows", below)
show.contributions(two, inputs, example, walk)

# %% [markdown]
# Where the loss is zero, its Hessian is $2\,\mathbb E\,\nabla f\nabla f^\top$, so that the trace is a sum of squared
# norms, exact over all inputs. `bound` is $4/(m\sqrt T)$, see below. `cancellation` is the sum of the absolute
# contributions over the absolute sum: 1 where active neurons never work against each other. (3) to (5) are the residuals of the
# three conditions of Lemma F.1.

# %%
table = show.solution_table(models, inputs)
shown = ["solution", "m", "loss", "trace", "trace / bound", "cancellation", "(3)", "(4)", "(5)"]
render(table[shown].assign(loss=table.loss.map("{:.0e}".format)), decimals=3)

# %%
random_row = table.iloc[1]
glue("dyck-random-ratio", f"{random_row['trace / bound']:.0f}", display=False)
glue("dyck-random-cancellation", f"{random_row.cancellation:.1f}", display=False)
glue("dyck-smoothed", f"{table.iloc[2]['smoothed / bound']:.2f}", display=False)

# %% [markdown]
# With as many random features as there are inputs, solution (2) has {glue:text}`dyck-random-ratio` times the
# smallest trace and its contributions cancel {glue:text}`dyck-random-cancellation`-fold, as Section 5 says. The last two
# rows are not in the paper's text; they matter for Lemma F.3 and come below.
#
# ## The lower bound
#
# With $\lVert h\rVert \ge 1/\sqrt T$ and $|f| = 1$,
#
# $$ 2\,\mathbb E\lVert\nabla f\rVert^2 \;\ge\; \frac2{m^2}\,\mathbb E\sum_i\bigl(\sigma(V_i\cdot h)^2
# + u_i^2\lVert h\rVert^2\,\mathbf 1[V_i\cdot h > 0]\bigr) \;\ge\; \frac4{m^2}\,\mathbb E\,\lVert h\rVert\sum_i
# |u_i|\,\sigma(V_i\cdot h) \;\ge\; \frac4m\,\mathbb E\,\lVert h\rVert\,|f| \;\ge\; \frac4{m\sqrt T} . $$
#
# Lemma F.1 prints $\sqrt{4/T}$ for every $m$: two errors: the factor 2 of Lemma F.4 and one of the two factors
# $1/m$, which cancel at $m = 2$. Solution (1) meets {eq}`eq-bound` with equality at every width, so it lies below
# the printed bound from $m = 3$ on.
#
# Is there anything flatter, or anything else as flat? From random $Q, K, V, u$ we minimise $m\,\mathrm{Tr} + w L$ with
# $w$ growing, then go to zero loss. The trace jumps where a neuron begins to be active, so the ReLU is
# smoothed meanwhile, less and less.

# %%
import pandas as pd

*searches, transfer, features, training, checks = map(page.store.get, page.runs())
found = pd.concat(searches, ignore_index=True)
render(show.search_table(found), decimals=4)

# %% mystnb={"figure": {"caption": "Traces of solutions: found by the search from random starting points (circles, many on top of each other), of random features with the smallest head (squares), and both lower bounds.", "name": "fig-dyck-bound"}, "image": {"alt": "Found solutions lie on the line 4/(m√T), random features more than ten times above it; the printed bound is a horizontal line that crosses the found ones."}}
from sameloss.studies.dyck.theory import ZERO_LOSS

(ax,) = drawing.panels(1, width=6)
solved, fitted = found[found.loss <= ZERO_LOSS], features[features.loss <= ZERO_LOSS]
show.traces_by_width(solved, fitted, length, ax)

# %% [markdown]
# Nothing found is flatter than $4/(m\sqrt T)$, and restarts that come down to it have the neurons of solution (1): the
# table has the sine of the angle between neurons and $\mp[\mathbf 1;\mathbf 0]$, a mean weighted by $|u_i|\lVert V_i\rVert$.
# A restart that does not reach zero loss is no solution; it is counted and left out.
#
# ## A counter-example at the kink
#
# Lemma F.3 says that at equality $V^{(c)}$ is a multiple of $\mathbf 1$ and $V^{(p)}$ is zero (case 1) or all $\pm c$
# (case 2). Let $\xi$ be any linear function of the input that is always $1$ or $-1$. Then the four neurons
#
# $$ g^* + \xi, \quad g^* - \xi, \quad -g^* + \xi, \quad -g^* - \xi $$
#
# are 0 or 2 where active, never cancel, and give zero loss: conditions (3) to (5) hold. Case 2 of the proof is
# $\xi$ = the sign of the mask. But the sign of **whatever stands first**, bracket or mask, is as good, and its
# $V^{(c)} = \mp(\mathbf 1 \pm e_1)$ is no multiple of $\mathbf 1$. Exhaustive counting of the neurons that (3) and (4)
# allow:

# %%
from sameloss.studies.dyck.theory import allowed_neurons

counts = allowed_neurons(6)
glue("dyck-allowed", counts.all, display=False)
glue("dyck-described", counts.described, display=False)
show_source(allowed_neurons)

# %% [markdown]
# There are {glue:text}`dyck-allowed` for each sign of $u$ at $T = 6$, of which the lemma describes
# {glue:text}`dyck-described`; so as printed it is false. All but one of them are exactly at the ReLU's kink on half of
# the inputs, where a Hessian does not exist and $\mathbf 1[V_i\cdot h > 0]$ is a convention. Averaged over
# directions, the second derivatives at such a solution make {glue:text}`dyck-smoothed` times the bound, so that a
# process that feels a neighbourhood does not prefer them. If the loss is to be twice differentiable at the
# solution, as Theorem 5.1's problem needs, only solution (1) is left, and the theorem's idea is saved. That
# proof is short: off the kink a neuron of $u_i > 0$ is positive wherever $g^* = 1$, by (3) all
# these values are equal, and the inputs have full rank.

# %%
kinked = ["solution", "m", "trace / bound", "smoothed / bound", "at the kink"]
render(table[kinked], decimals=3)

# %% [markdown]
# ## Theorem 5.1: the probability of success
#
# With $T$ even and no mask, $g^*$ is even: the case $g^* = \pm1$ that the proof treats never occurs downstream. The
# result survives, since on each sign of $g^*$ solution (1) is linear in it: $\sigma(V_i\cdot h) = c_i\max(0, \pm g^*)$. One
# sample of each sign suffices, balanced strings teach nothing, and so the probability of failure is exactly
#
# $$ 2\Bigl(\frac{1 + p_0}2\Bigr)^n - p_0^n . $$
#
# At $p_0 = 0$ this is $2^{1-n}$: the printed $2^{-n}$ would be a factor 2 too small even if no string were balanced.

# %%
from sameloss.studies.dyck.theory import failure_probability

show_source(failure_probability)

# %% mystnb={"figure": {"caption": "Probability that the smallest head that fits n downstream samples errs on some string: exact (lines), simulated with 95 % Clopper-Pearson intervals (markers), and as printed (dashed).", "name": "fig-dyck-failures"}, "image": {"alt": "Curves that fall with n, all well above the printed one; the kinked solution starts higher and falls faster."}}
(ax,) = drawing.panels(1, width=6)
show.failures(transfer, ax)

# %%
at_five = transfer[(transfer.samples == 5) & (transfer.length == length)].set_index("solution")
own, kinked_row = at_five.loc["solution (1)"], at_five.loc["kinked solution"]
for name, value in {"exact": own.exact, "simulated": own.simulated, "kinked": kinked_row.exact}.items():
    glue(f"dyck-five-{name}", f"{value:.3f}", display=False)
glue("dyck-five-printed", f"{own.printed:.3f}", display=False)

# %% [markdown]
# At $n = 5$: {glue:text}`dyck-five-exact` exactly, {glue:text}`dyck-five-simulated` simulated, against the printed
# {glue:text}`dyck-five-printed`. The kinked solution (ξ = the first token) has four features instead of two, so it
# needs at least three samples; with many it does better, because balanced strings are no longer useless.
#
# ## Theorem F.6: how many random features
#
# The proof cites Lemma 9 of [Bai and Lee, 2020](bibliography.md) for weights $a(v)$ with $\mathbb E[\sigma(v\cdot h)\,a] = g^*$. Stein's identity
# gives them explicitly, $a(v) = -2\,\langle\mathbf 1, v^{(c)}\rangle$, with $\mathbb E[a^2] = 4T^2$ and one neuron's variance
# $2T^2 + 3$. So the proof's head has an expected loss of $(2T^2+3)/m$, no $2^T$ in it, and the best head is far better: the
# space of all such features has dimension $T\binom T{T/2} + 2T$ only, and from that width on the loss is zero.

# %% mystnb={"figure": {"caption": "Random features by width, several draws each. Left: loss of the best head and of the proof's. Right: squared norms of heads, and a lower bound for every head whose loss is at most 0.1; T² is what the theorem prints up to a constant.", "name": "fig-dyck-features"}, "image": {"alt": "Losses fall with the width, the best head's to zero at a finite one; all norms grow in proportion to the width."}}
left, right = drawing.panels(2, width=4.6)
show.random_feature_losses(features, inputs, left)
show.head_norms(features, length, right)

# %%
render(show.width_table(features, (0.1, 0.01), length), decimals=2)

# %% [markdown]
# The widths measured are from a coarse grid. The norm is not $O(T^2)$: with the $1/m$ in $f$, every head with a small
# loss has a squared norm that grows in proportion to $m$. Divided by $m$, the proof's is $4T^2$ on average.
#
# Do random features transfer? Zero pre-training loss leaves the best head itself nearly right downstream once there are
# many of them, and a head fitted on few strings is not:

# %%
medians = features.groupby("width")[["loss", "ratio", "cancellation", "error_own", "error_few"]].median()
few = page.config.few
names = {
    "ratio": "trace / bound",
    "error_own": "downstream error, own head",
    "error_few": f"head from {few} samples",
}
render(medians.reset_index().rename(columns=names), decimals=4)

# %% [markdown]
# ## Does SGD find it?
#
# Theorem 5.1 is about a minimiser; Section 3 says that SGD's noise goes there. Both together on this language:
# the same random parameters ($V$ as in solution (2)), small batches, and targets $g^* \pm s$ with
# label noise $s$ of either sign, or none. At zero loss the noise of an ordinary batch vanishes here, since the targets are a
# function of the input: $s = 0$ is the control. (The curve "trace" is $2\,\mathbb E\lVert\nabla f\rVert^2$, which is the trace at zero
# loss; downstream heads are fitted on few strings; their error is the median over 100 such samples.)

# %% mystnb={"figure": {"caption": "SGD from the same random parameters with label noise and without: medians and middle halves of the seeds. Left: pre-training loss. Middle: trace over its lower bound. Right: downstream error of heads fitted on few strings.", "name": "fig-dyck-training"}, "image": {"alt": "Losses fall for all; the trace stays high without noise and comes down to a few times the bound with it, and the downstream error follows."}}
left, middle, right = drawing.panels(3, width=3.7)
show.along_noisy_training(training, "loss", "pre-training loss", left)
show.along_noisy_training(training, "ratio", "trace / (4/(m√T))", middle)
show.along_noisy_training(training, "error_few", "downstream error", right)
drawing.legend(left)

# %% mystnb={"figure": {"caption": "Downstream error against the trace at the end of training, one point per model. The line is the smallest trace there can be.", "name": "fig-dyck-error"}, "image": {"alt": "Models with label noise have a tenth of the trace and of the downstream error of those without."}}
(ax,) = drawing.panels(1, width=6)
last = training[training.step == training.step.max()]
show.error_against_trace(last, few, ax)

# %%
ends = show.trained_table(last)
names = {"ratio": "trace / bound", "attention": "of it by Q, K", "off_direction": "sine to ∓[1; 0]"}
render(ends.rename(columns=names), decimals=4)

# %%
effects = show.noise_effects(last, ("loss", "trace", "error_few", "error_own"))
for row in effects[effects.noise == effects.noise.max()].itertuples():
    glue(f"dyck-{row.quantity}-factor", f"{row.factor:.2g}", display=False)
    glue(f"dyck-{row.quantity}-interval", f"{row.low:.2g} to {row.high:.2g}", display=False)
glue("dyck-last-ratio", f"{ends.ratio.iloc[-1]:.1f}", display=False)
glue("dyck-most-noise", f"{ends.noise.iloc[-1]:g}", display=False)
render(effects, decimals=3)

# %%
correlations = show.rank_correlations(last)
render(correlations, decimals=3)

# %% [markdown]
# Label noise {glue:text}`dyck-most-noise` multiplies the trace by {glue:text}`dyck-trace-factor` (95 % interval
# {glue:text}`dyck-trace-interval`, paired by initial weights), the downstream error of a head from few samples by
# {glue:text}`dyck-error_few-factor` ({glue:text}`dyck-error_few-interval`), and the pre-training loss by
# {glue:text}`dyck-loss-factor` ({glue:text}`dyck-loss-interval`): noise keeps the loss *higher*, and the flatter model is better
# downstream all the same. It is not the flattest one: the median is still {glue:text}`dyck-last-ratio` times the bound, and its neurons are
# not all along $\mp[\mathbf 1;\mathbf 0]$, so Theorem 5.1's zero error is approached and not reached. Over all models
# trace and error rank alike; among models of one noise the table shows how much of that is left.
#
# ## Verdicts
#
# Each statement by all its checks; `holds as corrected` means that what is printed is refuted by a computed number
# and the correction passes all of its own.

# %%
from sameloss.studies.dyck.statements import STATEMENTS

verdicts = page.statements()
render(verdicts)

# %% [markdown]
# ## Errata
#
# What is printed, each with the number that refutes it (`value` is computed, `target` printed):

# %% tags=["hide-input"]
refuted = checks[checks.printed & ~checks.passed]
places = {name: statement.place for name, statement in STATEMENTS.items()}
errata = refuted.assign(place=refuted.of.map(places))[["place", "text", "value", "target"]]
render(errata, decimals=4)

# %% [markdown]
# - **Lemma F.1** leaves out of its "if and only if" that the gradient by $Q$ and $K$ must vanish, which its proof
#   does say: with $Q = 0$ and any other $K$ the three conditions hold and the trace is above the bound. Its condition (4) bounds
#   a product from above; active neurons of both signs are what must not occur together, and only the symmetry
#   $h \to -h$ makes the two the same.
# - **Lemma F.3** exchanges $I_+$ and $I_-$, has 0 for $V_i\cdot h$ where it is $-c_i$ (zero only after the ReLU), and
#   speaks of inputs that do not occur downstream. In the head that follows it, $\lVert c\rVert_2$ should be squared:
#   $\tilde u = m c / \lVert c\rVert_2^2$ on $I_+$, and minus that on $I_-$.
# - **Theorem 5.1**'s condition $T \ge 6$ enters through Lemma F.3 only, and off the kink is not needed.
# - **Attention** is written $\langle Qx_t, Kx_t\rangle$ for the first score; it should be $\langle Qx_t, Kx_1\rangle$. $I_x$ is a
#   subset of $[m]$, not of $[T]$.
#
# ## Deviations
#
# - The derivative of the ReLU at 0 is 0, the paper's convention; where a solution is at a kink the page says so.
# - Label noise stands in for the noise of sampled tokens: with a squared loss on a deterministic target, ordinary
#   batches have none at zero loss.
# - $Q$ and $K$ have few rows (four when trained, two in the search); the paper leaves their number open.
#
# ## Exercises
#
# 1. Do longer sentences change the picture? `-p sentence_length 8` (several minutes).
# 2. Two neurons are the theorem's smallest model. Can SGD train it? `-p width 2`. And does a wider one
#    get closer to its bound? `-p width 16`.
# 3. Is SGD only slow? `-p steps 100000` (minutes).

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
for row in verdicts.itertuples():
    print(f"{row.id}: {row.verdict}")
print("solution (1) meets the bound:", abs(table["trace / bound"].iloc[0] - 1) < 1e-9)
print("nothing found is flatter:", bool(solved.ratio.min() > 1 - 1e-9))
print("neurons allowed, described, off the kink:", *counts)

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, training)
