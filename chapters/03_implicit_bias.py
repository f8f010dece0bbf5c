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
# # 3 Implicit bias leads to flat solutions
#
# **The claim** (Section 3, Appendix C of [Liu et al., 2023](bibliography.md)): at saturation the loss is flat along a
# manifold of minimisers, but gradients are still noisy, and this noise moves SGD along the manifold
# towards a smaller trace of the Hessian: Lemma 3.2, Theorem 3.3, Figure 4.
#
# **What you will see**: the lemma as two matrices; a language for which the theorem's assumption is empty;
# SGD at several rates and batch sizes beside the flow of the theorem, and the ¼ of the theorem estimated
# from SGD alone; what changes at a finite rate and with Adam; and Figure 4 drawn from a computed loss.
#
# By default SGD's smallest rate is left out, which takes most of the steps; `-p preset laptop-long` has it.

# %% tags=["parameters"]
preset: str = "auto"  # auto, smoke, laptop, laptop-long, gpu, paper
learning_rate: float = None  # the largest of SGD with batch size 1; each next is half; None: 0.2
replicas: int = None  # independent runs of SGD at each rate; None: the preset's
max_hours: float = None  # refuse what takes one core, or GPU, longer than this; None: the preset's limit
workers: int = None  # runs at once; None: one per core
device: str = "auto"  # cpu or cuda; auto takes the best there is
artifacts: str = None  # folder of the run store; None: artifacts/ beside _config.yml

# %%
from sameloss.book.chapter import begin
from sameloss.studies.manifold_flow.pages import STUDY

page = begin(globals(), STUDY, "03_implicit_bias")

# %%
sgd, adam, zeros, path = map(page.store.get, page.runs())

# %% [markdown]
# ## A model whose minimisers are known
#
# The language is a smoothed hidden Markov model with sentences of two tokens out of three words: six masked
# sentences, or *contexts* $c = (t, x_{-t})$, with known weights $p_c$ and conditionals $q_c$.
# The model is log-bilinear: context $c$ has a vector $a_c$, the words have the columns of $B$, and
#
# $$ f(c) = \mathrm{softmax}(a_c B), \qquad \Gamma = \{(A, B) : f = q\} . $$
#
# Its 27 parameters have to meet 12 conditions. Wherever $B$ distinguishes the words, $\Gamma$ is therefore a
# smooth manifold of dimension 15, and points of it can be written down: factorise
# $\log q$, then replace $(A, B)$ by $(AG, G^{-1}B)$ with any invertible $G$. On $\Gamma$ all
# predictions are the same and perfect; the trace is not the same:
#
# $$ \mathrm{Tr}\,\nabla^2 L = \sum_c p_c\Bigl(\sum_k \mathrm{Var}_{f_c}(B_k)
#    + \lVert a_c\rVert^2\,(1-\lVert f_c\rVert^2)\Bigr) . $$
#
# **By hand.** One context, two words, predictions $f = (½, ½)$. With $a = 0$ and $B = (1, -1)$ the variance is
# 1 and the trace $1 + 0 = 1$; with $a = 2$ and $B = (0, 0)$ it is $0 + 4\cdot½ = 2$. The same function,
# twice as sharp.

# %%
import torch

from sameloss.studies.manifold_flow.theory import LogBilinear

model = LogBilinear(contexts=1, words=2, rank=1)
points = torch.tensor([[0.0, 1.0, -1.0], [2.0, 0.0, 0.0]])
model.trace(points, weights=torch.ones(1))

# %% [markdown]
# ## Bartlett's identity (Lemma 3.2)
#
# $$ \Sigma(\theta) = \mathbb E\,\nabla\ell\,\nabla\ell^\top - \nabla L\,\nabla L^\top
#    \;=\; \nabla^2 L(\theta) \quad\text{on } \Gamma . $$
#
# Both are sums over all contexts and labels here, the Hessian by automatic differentiation twice. No
# label is noisy by design: the language's own randomness is what makes $\Sigma$ non-zero.

# %%
from sameloss.book.chapter import show_source
from sameloss.studies.manifold_flow.theory import Population

show_source(Population.covariance)

# %% mystnb={"figure": {"caption": "Covariance of the stochastic gradient and Hessian of the loss at one point of Γ: the same matrix. The first 18 parameters are A, the last nine B. Colours are compressed by a square root.", "name": "fig-bartlett"}, "image": {"alt": "Two heat maps of 27 by 27 entries that look the same."}}
from sameloss.studies.manifold_flow import show

population, model = page.sgd.population()
start = page.sgd.start()
show.matrices({"covariance Σ": population.covariance(start), "Hessian ∇²L": population.hessian(start)})

# %% [markdown]
# Off $\Gamma$ the two part. Along random rays from a point of $\Gamma$ their distance grows in proportion to
# the distance from $\Gamma$, that is, as the root of the KL. A model that is nearly saturated satisfies the
# lemma nearly, but a KL of 0.01 is not yet a small distance.

# %% mystnb={"figure": {"caption": "Relative distance (Frobenius) of covariance and Hessian along eight random rays from a point of Γ.", "name": "fig-rays"}, "image": {"alt": "Straight lines of slope one half in double logarithmic axes."}}
from sameloss.studies.drawing import panels

rays = show.ray_table(page.sgd)
(ax,) = panels(1, width=5)
show.distance_from_saturation(rays, ax)

# %% [markdown]
# ## Where Assumption 3.1 is empty
#
# A softmax is positive. If a true conditional is zero, no parameters attain the least loss, and $\Gamma$ is
# the empty set: the loss comes near its infimum only as logits diverge. To a word of probability zero the
# model must give less than the KL allows, so the difference of two logits is at least
# $\log(p_c / \mathrm{KL})$ up to a constant. Block-diagonal Markov models and layered grammars, the paper's
# languages, have such zeros. Gradient flow on the exact loss shows it:

# %% mystnb={"figure": {"caption": "Largest difference of two logits of one context along gradient flow on the exact loss, from left to right, for a language with zeros and for the same language smoothed.", "name": "fig-zeros"}, "image": {"alt": "With zeros the difference of logits grows with every decade of KL; without, it stops at a finite value."}}
(ax,) = panels(1, width=5)
show.logits_against_kl(zeros, ax)

# %% [markdown]
# ## Theorem 3.3
#
# $$ d\hat\theta(t) = -\tfrac14\,\nabla_\Gamma \mathrm{Tr}\,\nabla^2 L(\hat\theta(t))\,dt,
#    \qquad \theta_{K/\eta^2}\to\hat\theta(K) \text{ in distribution as } \eta\to 0 . $$
#
# $\nabla_\Gamma$ is the gradient projected on the tangent space of $\Gamma$, the kernel of the Jacobian of the
# predictions. It is the solution of an ordinary differential equation without randomness, and is
# integrated here to nine digits.

# %%
from sameloss.studies.manifold_flow.theory import velocity

show_source(velocity)

# %% [markdown]
# SGD draws one context and one label per step and starts at one point of $\Gamma$, with many
# replicas. It hovers near $\Gamma$ at a distance of order $\sqrt\eta$; to see where *along* $\Gamma$ it is,
# each replica is also moved to a minimiser close by, and the trace taken there. This is a
# sharper test of the theorem than the trace at the iterate, which is below.

# %% mystnb={"figure": {"caption": "Mean trace of SGD's replicas, at the minimisers close by, with its standard deviation over replicas as a band, for learning rates that halve. In the time η²k/B of the theorem all come to lie on the flow as η goes to zero.", "name": "fig-drift"}, "image": {"alt": "Traces against rescaled time for several rates and batch sizes; smaller rates lie closer to the flow."}}
batches = sorted(sgd["trajectories"].batch.unique())
for batch, ax in zip(batches, panels(len(batches)), strict=True):
    show.drift(sgd["trajectories"], sgd["flow"], batch, ax)

# %% [markdown]
# **The coefficient.** A flow with coefficient $c$ instead of ¼ is the same flow at another speed. For each
# rate, $c$ is the one whose flow passes closest to the mean of SGD's replicas; its error comes from
# their scatter. The polynomial through all rates of a batch size, at rate zero, is an estimate of the
# theorem's number in which the theorem was not used.

# %% mystnb={"figure": {"caption": "Left: the coefficient that fits SGD at each rate and, left of zero, its limit at rate zero, with 95 % intervals, times the batch size. Right: how far SGD is from the flow; a slope of one is an error proportional to the rate.", "name": "fig-coefficient"}, "image": {"alt": "Left, coefficients fall to one quarter as the rate goes to zero for every batch size. Right, distances fall along lines of slope one."}}
from sameloss.studies.manifold_flow.statements import coefficient_limits, gap_table

limits, gaps = coefficient_limits(sgd["coefficients"]), gap_table(sgd)
axes = panels(2, width=4.5)
show.coefficients(sgd["coefficients"], limits, axes[0])
show.gaps(gaps, axes[1])

# %% tags=["remove-cell"]
import numpy as np
from myst_nb import glue

first = limits.iloc[0]
interval = 1.96 * first.standard_error * np.array([-1, 1])
slope, half = show.order_of(gaps[gaps.batch == 1])
glue("coefficient", f"{first.coefficient:.4f}", display=False)
glue("coefficient-interval", "{:.4f} to {:.4f}".format(*first.coefficient + interval), display=False)
glue("power", f"{0.25 / first.standard_error:.0f}", display=False)
glue("slope", f"{slope:.2f} ± {half:.2f}", display=False)
glue("spread-slope", f"{show.order_of(gaps[gaps.batch == 1], 'spread')[0]:.2f}", display=False)
moved = (sgd["control"].trace - sgd["control"].trace.iloc[0]).abs().max()
glue("control", f"{moved:.0e}", display=False)

# %% [markdown]
# With batch size 1 the coefficient is {glue:text}`coefficient` (95 % interval {glue:text}`coefficient-interval`); a
# theorem with ½ would be {glue:text}`power` standard errors away. Times the batch size, it is the same for all:
# $1/(4B)$. The theorem gives no rate of convergence. Between the two smallest rates the distance
# from the flow falls as $\eta$ to the power {glue:text}`slope`, and the scatter of replicas along $\Gamma$ as $\eta$ to the power
# {glue:text}`spread-slope`.
#
# **Without noise nothing moves.** The same steps with the exact conditionals as targets change the trace by
# {glue:text}`control`: on $\Gamma$ the exact gradient is zero. It is the randomness of labels, which the paper needs no
# assumption for, that drives the drift. The theorem itself is about a limit; at these rates the trace at
# SGD's own iterates is as follows.

# %% mystnb={"figure": {"caption": "The same as the first figure of this section, with the trace at SGD's iterates, which hover near Γ.", "name": "fig-iterates"}, "image": {"alt": "Traces against rescaled time with wider bands."}}
for batch, ax in zip(batches, panels(len(batches)), strict=True):
    show.drift(sgd["trajectories"], sgd["flow"], batch, ax, measured="iterate")

# %% [markdown]
# ## A rate that is not small
#
# In a quadratic valley with noise $H/B$, iterates have a stationary covariance $S$ with
# $HS + SH - \eta HSH = \eta H/B$, so $S = \frac{\eta}{B}(2-\eta H)^{-1}$. The valley's third derivatives turn
# it into a drift along $\Gamma$, which is the gradient of
#
# $$ -\frac1{2\eta}\,\mathrm{tr}\log\Bigl(1-\frac{\eta H}{2}\Bigr)
#    = \frac14\mathrm{Tr}\,H + \frac{\eta}{16}\mathrm{Tr}\,H^2 + \dots $$
#
# It punishes large eigenvalues more than the trace does. It is one of two corrections of order $\eta$:
# the other comes from the valley not being quadratic where SGD hovers, and has an $\eta/B$ in it. So
# with a large batch the first remains, and with batch size 1 the second is the larger.

# %% mystnb={"figure": {"caption": "Trace at SGD's iterates at one large rate: with ever larger batches it comes to lie on the flow for that rate, not on the flow of the theorem. Bars are 95 % intervals.", "name": "fig-finite"}, "image": {"alt": "Curves for growing batch sizes approach the dashed flow of the finite rate, which lies below the flow of the trace."}}
(ax,) = panels(1, width=5.5)
show.finite_rate(sgd["finite"], page.config.finite_rate, ax)

# %% [markdown]
# ## Adam
#
# The paper proves the theorem for SGD and trains with AdamW. On $\Gamma$ the second moment of Adam settles at
# $\mathrm{Diag}(H)/B$, so that each parameter has its own rate. The argument above with this
# preconditioner gives, for a small $\epsilon$,
#
# $$ d\hat\theta = -\tfrac12\,D\,\nabla^D_\Gamma\,\mathrm{Tr}\bigl(\mathrm{Diag}(H)^{1/2}\bigr)\,dt,
#    \qquad D = \mathrm{Diag}(H)^{-1/2},\quad t = \eta^2 k , $$
#
# the quantity of [Li et al., 2025](bibliography.md); the batch size drops out.

# %% mystnb={"figure": {"caption": "Adam's replicas (mean and 95 % interval, at minimisers close by) beside the flow above, with its ε. Right: the plane of both measures of flatness. SGD ends at the least trace, Adam at less Tr Diag(H)^½ and more trace.", "name": "fig-adam"}, "image": {"alt": "Left and middle, Adam's trace and Tr Diag(H) to the half follow its flow. Right, paths of SGD and Adam part and end near different stars."}}
axes = panels(3, width=3.7)
show.adam_along_flow(adam, "trace", "trace of the Hessian", axes[0])
show.adam_along_flow(adam, "sharpness", "Tr Diag(H)^½", axes[1])
show.two_measures(adam, axes[2])

# %% tags=["remove-cell"]
from sameloss.studies.manifold_flow.statements import adam_beside_trace_flow, adam_limit

value, error = adam_limit(adam)
glue("adam-coefficient", f"{value:.3f} ± {1.96 * error:.3f}", display=False)
glue("adam-beside", f"{-100 * adam_beside_trace_flow(adam):.0f}", display=False)

# %% [markdown]
# Estimated like that of SGD, and extrapolated to a vanishing rate, the coefficient of Adam's flow is
# {glue:text}`adam-coefficient` (95 % interval) instead of ½. At first Adam and SGD lower both quantities
# alike; they part where they end. There Adam's $\mathrm{Tr}(\mathrm{Diag}(H)^{1/2})$ is {glue:text}`adam-beside` % below that of the
# theorem's flow at the same trace. The trace does not change when $(A, B)$ is rotated,
# $\mathrm{Tr}(\mathrm{Diag}(H)^{1/2})$ does, and it is small where parameters are sparse. So a trace measured along
# AdamW, as in [4 Flatness](04_flatness.ipynb), is not a quantity that AdamW is known to minimise.
#
# ## Figure 4, computed
#
# One context, two words, and the logit $\theta_1^3 + \theta_2^3$. The minimisers are a curve; the trace on it is
# $9\,q(1-q)(\theta_1^4 + \theta_2^4)$. The small model has $\theta_2 = 0$: a subset of the large one, with the same
# least loss at a single point.

# %% mystnb={"figure": {"caption": "Left: KL (grey, darker is larger), its minimisers Γ coloured by the trace of the Hessian, and two paths of SGD from the dots to the stars. Large model: down to Γ, then along it to the flat point. Small model, the dotted line: down to its only minimiser. Right: the trace along Γ.", "name": "fig-landscape"}, "image": {"alt": "Left, a curve of minimisers with two noisy paths; right, the trace along it with a minimum where the large model ends."}}
landscape = page.landscape.population()
axes = panels(2, width=4.8)
show.landscape(path, landscape, axes[0])
show.trace_along_manifold(path, landscape, axes[1])

# %% [markdown]
# **Set it yourself.** The same loss and start, with a rate, a batch and label noise of your own. Without noise the
# path ends where it meets $\Gamma$; with it the path drifts along, the faster the larger the rate and the smaller the
# batch.

# %% tags=["hide-input"]
from sameloss.book.movable import movable_landscape

movable_landscape(page.landscape)

# %% [markdown]
# SGD of the small model stays at its minimiser. The large model reaches $\Gamma$ far from the flattest
# point, with a trace that need not be smaller than that of the small model, and then drifts. Larger
# models *have* flatter minima, because they have all of the smaller one's; that they *reach* them is
# the drift's doing and takes of the order of $1/\eta^2$ steps.
#
# ## Verdicts
#
# Each statement is judged by numbers computed above: what is printed, and where that fails, a corrected form.
# An estimate agrees within four standard errors. At the smoke preset that is often too wide to refute
# anything.

# %%
from sameloss.book.chapter import render

found = page.checks
verdicts = page.statements()
render(verdicts.drop(columns="id"))

# %%
shown = found.drop(columns="of").rename(columns={"text": "check"})
render(shown.assign(value=found.value.map("{:.3g}".format), tolerance=found.tolerance.map("{:.1g}".format)))

# %% tags=["hide-input"]
# NBVAL_CHECK_OUTPUT
by = verdicts.set_index("id").verdict
print("Lemma 3.2:", by["lem32"])
print("its covariance:", by["lem32-covariance"])
print("Assumption 3.1:", by["assumption31"])
print("nothing moves without noise:", bool(moved < 1e-9))
print("the coefficient is no ½ and no ⅛:", bool((limits.coefficient.sub(0.25).abs() < 0.1).all()))
print("SGD approaches the flow as η falls:", bool(gaps.groupby("batch").gap.is_monotonic_increasing.all()))
large, small = (path[path.model == name].trace.iloc[-1] for name in ("large", "small"))
print("the large model ends flatter than the small one:", bool(large < small))

# %% [markdown]
# ## Errata
#
# - **Lemma 3.2** subtracts $\nabla L^\top\nabla L$, which for the column vectors of its first term is a number. The proof in Appendix C
#   has the outer product. On $\Gamma$ both are zero and the lemma is untouched.
# - **Appendix C** writes $\nabla L$ as the mean of $\nabla\log f$, without its sign, which drops out of $\Sigma$.
# - **Assumption 3.1** excludes the languages of the paper's own experiments: see {numref}`fig-zeros`.
# - **SGD and AdamW.** The theorem is about the first, most of the experiments about the second.
#
# ## Deviations
#
# - The instance is tiny, so that the flow, the Hessian and SGD's law can be had exactly. It says whether
#   the theorem's numbers are right, not whether a language model's training is long enough for them to matter.
# - The fitted coefficient uses minimisers close to SGD's iterates. The theorem's own quantity, the trace at the
#   iterates, has the same limit with a larger error at every rate.
# - Adam begins with its second moment settled and with an $\epsilon$ that is not negligible
#   beside the smallest entries of $\mathrm{Diag}(H)^{1/2}$: with a smaller one its flow reaches kinks, where a diagonal entry
#   vanishes, and has no smooth solution beyond. Its memory has $1-\beta_2 = \eta/10$: with a fixed $\beta_2$ the
#   second moment keeps some noise at every rate, and the limit is another one. Both this and the comparison at
#   Adam's end were chosen after a first run, with 0.999, had ended 6 % off its flow at the smallest rate.
# - The expansion behind the finite rate is heuristic; the limit with noise that depends on the parameters
#   is a theorem of [Li et al., 2022](bibliography.md), after [Blanc et al., 2020; Damian et al., 2021](bibliography.md).
#
# ## Exercises
#
# 1. How large may the rate be? `-p learning_rate 3` ends with one sentence. Does `-p learning_rate 0.3`?
# 2. How many replicas does the ¼ need? `-p replicas 30`.
# 3. Off $\Gamma$, why is the trace at SGD's iterates smaller than at the minimisers close by?
# 4. Put a model of your own in `Population` and a point of its $\Gamma$ in `projected_flow`.

# %% tags=["hide-input"]
from sameloss.book.chapter import close

close(page, sgd["trajectories"])
