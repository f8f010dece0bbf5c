"""Tiny models, everything they can be asked, and the flows along their minimisers (Theorem 3.3)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, vmap

from sameloss.errors import ManifoldError, ModelError, NonFiniteLoss
from sameloss.languages import Language, mask_one
from sameloss.languages.entropy import enumerate_sentences

# Small models whose manifold of minimisers is known in closed form.


@dataclass(frozen=True)
class LogBilinear:
    r"""The log-bilinear language model: logits $Z = AB$ of all contexts at once.

    $A$ has a row $a_c$ for each context, $B$ a column for each word. With `rank` >= `words` - 1 any
    conditionals can be had, and wherever $B$ tells all words apart the minimisers
    $\Gamma = \{\mathrm{softmax}(AB) = q\}$ form a smooth manifold of codimension
    contexts × (words - 1). A vector of parameters is A row by row, then B row by row.
    """

    contexts: int
    words: int
    rank: int

    @property
    def parameters(self) -> int:
        """Return the length of the vector of parameters."""
        return self.rank * (self.contexts + self.words)

    def matrices(
        self, theta: Float[Tensor, "*batch parameter"]
    ) -> tuple[Float[Tensor, "*batch context rank"], Float[Tensor, "*batch rank word"]]:
        """Return A and B."""
        a, b = theta.split([self.contexts * self.rank, self.rank * self.words], dim=-1)
        return a.unflatten(-1, (self.contexts, self.rank)), b.unflatten(-1, (self.rank, self.words))

    def __call__(self, theta: Float[Tensor, "*batch parameter"]) -> Float[Tensor, "*batch context word"]:
        """Return the logits."""
        a, b = self.matrices(theta)
        return a @ b

    def minimiser(
        self, conditionals: Float[Tensor, "context word"], generator: torch.Generator, unbalance: float = 1.0
    ) -> Float[Tensor, " parameter"]:
        r"""Return a point of $\Gamma$: the balanced factors of log q, mixed and unbalanced at random.

        For any invertible G, (A G) (G^-1 B) = A B. G is a random rotation times `unbalance` to
        powers from -1 to 1, so that some directions have large rows of A and small ones of B and
        others the reverse.

        Raises:
            ModelError: where a conditional is zero, or the rank too small.

        """
        if not (conditionals > 0).all():
            raise ModelError("A conditional is zero, which no logits attain; smooth the language.")
        logits = conditionals.log() - conditionals.log().mean(-1, keepdim=True)
        u, s, v = torch.linalg.svd(logits, full_matrices=False)
        if self.rank < (needed := int((s > 1e-12 * s[0]).sum())):
            raise ModelError(f"rank must be at least {needed} for these conditionals; got {self.rank}.")
        a, b = torch.zeros(self.contexts, self.rank).double(), torch.zeros(self.rank, self.words).double()
        most = min(self.rank, len(s))
        a[:, :most], b[:most] = u[:, :most] * s[:most].sqrt(), s[:most].sqrt()[:, None] * v[:most]
        mix = torch.linalg.qr(torch.randn(self.rank, self.rank, dtype=torch.float64, generator=generator))[0]
        mix = mix * unbalance ** torch.linspace(1, -1, self.rank, dtype=torch.float64)
        return torch.cat([(a @ mix).flatten(), torch.linalg.solve(mix, b).flatten()])

    def trace(
        self, theta: Float[Tensor, "*batch parameter"], weights: Float[Tensor, " context"]
    ) -> Float[Tensor, "*batch"]:
        r"""Return the trace of the Hessian in closed form, on $\Gamma$ and off it.

        $$\mathrm{Tr}\,\nabla^2 L = \sum_c p_c\Bigl(\sum_k \mathrm{Var}_{f_c}(B_k)
          + \lVert a_c\rVert^2 (1 - \lVert f_c\rVert^2)\Bigr)$$

        The logits have no second derivative in any one parameter, so the rest of the Hessian has no trace.
        """
        a, b = self.matrices(theta)
        f = (a @ b).softmax(-1)
        variance = (f @ b.mT.square() - (f @ b.mT).square()).sum(-1)
        return (weights * (variance + a.square().sum(-1) * (1 - f.square().sum(-1)))).sum(-1)


@dataclass(frozen=True)
class PowerSum:
    r"""One context, two words, and the logit $\sum_i \theta_i^p$ between them.

    At the minimum, $\sum_i\theta_i^p = \log(q/(1-q))$, the Hessian is $q(1-q)$ times the outer product
    of $p\,\theta^{p-1}$: one set of predictions, many traces. A model with fewer parameters is this
    one with the others zero.
    """

    power: int = 3

    def __call__(self, theta: Float[Tensor, "*batch parameter"]) -> Float[Tensor, "*batch 1 2"]:
        """Return the logits of the two words in the one context."""
        logit = theta.pow(self.power).sum(-1)
        return torch.stack([logit, torch.zeros_like(logit)], -1).unsqueeze(-2)

    def trace(self, theta: Float[Tensor, "*batch parameter"], q: float) -> Float[Tensor, "*batch"]:
        r"""Return $q(1-q)\sum_i p^2\theta_i^{2p-2}$, the trace of the Hessian on the manifold."""
        return q * (1 - q) * (self.power * theta.pow(self.power - 1)).square().sum(-1)


# A masked language model's whole population: its loss, derivatives and gradient noise, exact (Section 3).
#
# Everything is float64 and dense, for models of up to a few hundred parameters. A model is a function
# from a vector of parameters to the logits of all contexts, over any number of leading batch axes.

Logits = Callable[[Float[Tensor, "*batch parameter"]], Float[Tensor, "*batch context word"]]


@dataclass(frozen=True)
class Population:
    r"""Every context $c = (t, x_{-t})$ with its probability, the true conditionals, and a model of them.

    Args:
        weights: $p_c$, which sum to one.
        conditionals: $q_c$, the true distribution of the masked word.
        logits: the model.

    Raises:
        ModelError: where these are not distributions.

    """

    weights: Float[Tensor, " context"]
    conditionals: Float[Tensor, "context word"]
    logits: Logits

    def __post_init__(self) -> None:
        """Refuse what is no distribution."""
        for name, rows in (("weights", self.weights[None]), ("conditionals", self.conditionals)):
            if not ((rows >= 0).all() and torch.allclose(rows.sum(-1), torch.ones_like(rows[:, 0]))):
                raise ModelError(f"The {name} of a population must be non-negative and sum to one.")

    @property
    def joint(self) -> Float[Tensor, "context word"]:
        """Return the probability of each context with each label."""
        return self.weights[:, None] * self.conditionals

    def log_f(self, theta: Float[Tensor, "*batch parameter"]) -> Float[Tensor, "*batch context word"]:
        """Return the log predictions."""
        return self.logits(theta).log_softmax(-1)

    def loss(self, theta: Float[Tensor, "*batch parameter"]) -> Float[Tensor, "*batch"]:
        """Return L(theta) in nats a masked token."""
        return -(self.joint * self.log_f(theta)).sum((-2, -1))

    def kl(self, theta: Float[Tensor, "*batch parameter"]) -> Float[Tensor, "*batch"]:
        """Return how far the loss is above its least, computed without cancellation, in nats."""
        ratio = self.log_f(theta) - self.conditionals.log()
        # q (e^r - 1 - r) sums to the KL, because both distributions sum to one.
        return (self.weights[:, None] * self.conditionals * (ratio.expm1() - ratio)).nansum((-2, -1)) + (
            self.weights[:, None] * self.log_f(theta).exp() * (self.conditionals == 0)
        ).sum((-2, -1))

    def gradient(self, theta: Float[Tensor, " parameter"]) -> Float[Tensor, " parameter"]:
        """Return the gradient of the loss."""
        return grad(self.loss)(theta)

    def hessian(self, theta: Float[Tensor, " parameter"]) -> Float[Tensor, "parameter parameter"]:
        """Return the dense Hessian of the loss."""
        return jacfwd(jacrev(self.loss))(theta)

    def label_gradients(self, theta: Float[Tensor, " parameter"]) -> Float[Tensor, "context word parameter"]:
        """Return the gradient of -log f for every context and label: all that a sample can give."""
        return -jacrev(self.log_f)(theta)

    def covariance(self, theta: Float[Tensor, " parameter"]) -> Float[Tensor, "parameter parameter"]:
        r"""Return the covariance of the stochastic gradient of one sample (Lemma 3.2).

        $$\Sigma = \mathbb E\,\nabla\ell\,\nabla\ell^\top - \nabla L\,\nabla L^\top$$

        The last term is an outer product; the paper prints an inner one.
        """
        gradients, mean = self.label_gradients(theta), self.gradient(theta)
        return torch.einsum("cy,cyi,cyj->ij", self.joint, gradients, gradients) - torch.outer(mean, mean)

    def fisher(self, theta: Float[Tensor, " parameter"]) -> Float[Tensor, "parameter parameter"]:
        r"""Return the Fisher information $\mathbb E_c J_c^\top(\mathrm{diag} f_c - f_c f_c^\top)J_c$.

        It equals the Hessian wherever the predictions are the true conditionals, and needs first
        derivatives only.
        """
        jacobian, f = jacfwd(self.logits)(theta), self.log_f(theta).exp()
        centred = jacobian - torch.einsum("cy,cyi->ci", f, jacobian)[:, None]
        return torch.einsum("c,cy,cyi,cyj->ij", self.weights, f, centred, centred)


def masked_population(language: Language) -> tuple[Float[Tensor, " context"], Float[Tensor, "context word"]]:
    r"""Return the weights and conditionals of everything that can be masked in a small language.

    A sentence of length T loses each of its tokens with probability 1/T, as in Section 2.1, so
    $p_c = \sum_{x_t} \Pr(x) / T$. Contexts are in the order of position, length and words.

    Raises:
        LanguageError: where the language is too large to enumerate.

    """
    joint: dict[tuple, Tensor] = {}
    for sentences in enumerate_sentences(language):
        shares = language.log_prob(sentences).exp() / sentences.lengths
        for position in range(int(sentences.lengths[0])):
            masked = mask_one(sentences.tokens, torch.full_like(sentences.lengths, position))
            for row, context in enumerate(masked.tolist()):
                words = joint.setdefault(
                    (position, len(context), *context), torch.zeros(language.words, dtype=torch.float64)
                )
                words[sentences.tokens[row, position] - 1] += shares[row]
    table = torch.stack([joint[context] for context in sorted(joint)])
    return table.sum(-1), table / table.sum(-1, keepdim=True)


# The flow that SGD follows along the minimisers of the loss (Theorem 3.3, Eq. 1).
#
# $$d\theta = -P_\Gamma\,\nabla\,\Psi(\theta)\,dt, \qquad \Psi = \tfrac14\,\mathrm{Tr}\,\nabla^2 L$$
#
# for SGD with a vanishing learning rate; other algorithms have other potentials and metrics. A potential
# is a function of the Hessian, which on the manifold is the Fisher information (Lemma 3.2).

Hessian = Float[Tensor, "parameter parameter"]

Potential = Callable[[Hessian], Float[Tensor, ""]]

Metric = Callable[[Hessian], Float[Tensor, " parameter"]]
"""Diagonal of a preconditioner, from the Hessian."""

RANK_TOLERANCE = 1e-6  # a singular value below this fraction of the largest is zero
MOST_STEPS = 40  # Gauss-Newton steps to a minimiser; a few are the rule


def trace_potential(coefficient: float = 0.25) -> Potential:
    """Return the potential of Theorem 3.3: `coefficient` times the trace."""
    return lambda hessian: coefficient * hessian.trace()


def finite_rate_potential(rate: float) -> Potential:
    r"""Return the potential of SGD at a finite rate, $-\frac{1}{2\eta}\,\mathrm{tr}\log(1 - \eta H/2)$.

    In a quadratic valley with noise $H/B$ the iterates' stationary covariance solves
    $HS + SH - \eta HSH = \eta H/B$, that is $S = \frac{\eta}{B}(2 - \eta H)^{-1}$, and the valley's
    third derivatives turn it into a drift along the manifold that is the gradient of this. Its first term is
    $\frac14\mathrm{Tr}\,H$. It is infinite where $\eta$ times an eigenvalue reaches 2.

    The noise is taken as Gaussian of a fixed covariance. What SGD on single sentences does beyond a vanishing
    rate is explained in part: a rest of the order $\eta/B$ remains, as the chapter shows.
    """

    def potential(hessian: Hessian) -> Float[Tensor, ""]:
        return -torch.linalg.slogdet(torch.eye(len(hessian)) - rate * hessian / 2).logabsdet / (2 * rate)

    return potential


def adam_potential(batch: int, epsilon: float) -> Potential:
    r"""Return the potential of Adam at a vanishing rate (after Li, Wen and Lyu 2025).

    $$\tfrac12\sum_i\bigl(u_i - \epsilon\log(1 + u_i/\epsilon)\bigr), \qquad u_i = \sqrt{H_{ii}/B}$$

    With a small $\epsilon$ it is $\mathrm{Tr}(\mathrm{Diag}(H)^{1/2})/(2\sqrt B)$. See also `adam_metric`.
    """

    def potential(hessian: Hessian) -> Float[Tensor, ""]:
        deviations = (hessian.diagonal() / batch).clamp(min=1e-300).sqrt()
        return (deviations - epsilon * (deviations / epsilon).log1p()).sum() / 2

    return potential


def adam_metric(batch: int, epsilon: float) -> Metric:
    r"""Return Adam's preconditioner on the manifold, $1/(\sqrt{H_{ii}/B} + \epsilon)$."""
    return lambda hessian: 1 / ((hessian.diagonal() / batch).clamp(min=0).sqrt() + epsilon)


def adam_sharpness(hessian: Hessian) -> Float[Tensor, ""]:
    r"""Return $\mathrm{Tr}(\mathrm{Diag}(H)^{1/2})$."""
    return hessian.diagonal().clamp(min=1e-300).sqrt().sum()


def tangent_projection(
    population: Population, theta: Float[Tensor, " parameter"], rank: int, scale: Tensor | None = None
) -> Float[Tensor, "parameter parameter"]:
    """Return the orthogonal projection on the directions in which no prediction changes.

    They are the kernel of the Hessian where theta is a minimiser, and elsewhere the tangent space of
    the parameters with the same predictions.

    Args:
        population: the model and what it predicts.
        theta: the parameters.
        rank: that of the Hessian, M of Assumption 3.1.
        scale: project in coordinates divided by these.

    Raises:
        ManifoldError: where the rank is another one.

    """
    jacobian = jacfwd(population.log_f)(theta).flatten(0, 1)
    jacobian = jacobian if scale is None else jacobian * scale
    _, singular, rows = torch.linalg.svd(jacobian, full_matrices=False)
    if (found := int((singular > RANK_TOLERANCE * singular[0]).sum())) != rank:
        raise ManifoldError(
            f"The Hessian's rank is {found} here and {rank} at the start, so the minimisers are no "
            "manifold of one dimension (Assumption 3.1); start elsewhere or stop earlier."
        )
    normal = rows[:rank]
    return torch.eye(len(theta), dtype=theta.dtype) - normal.T @ normal


def rank_of(population: Population, theta: Float[Tensor, " parameter"]) -> int:
    """Return the rank of the map from parameters to log predictions, M of Assumption 3.1."""
    singular = torch.linalg.svdvals(jacfwd(population.log_f)(theta).flatten(0, 1))
    return int((singular > RANK_TOLERANCE * singular[0]).sum())


class Path(NamedTuple):
    """Where a flow is at given times, or replicas of an algorithm at given steps."""

    times: Tensor
    theta: Float[Tensor, "time *replica parameter"]

    def along(self, population: Population, quantity: Potential) -> Float[Tensor, " time"]:
        """Return a function of the Hessian along a flow."""
        return torch.stack([quantity(population.fisher(theta)) for theta in self.theta])


def velocity(
    population: Population,
    theta: Float[Tensor, " parameter"],
    potential: Potential,
    rank: int,
    metric: Metric | None = None,
) -> Float[Tensor, " parameter"]:
    r"""Return $-D^{1/2} P D^{1/2}\nabla\Psi$, the steepest descent along the manifold in a metric $D^{-1}$.

    D is the identity for SGD. P projects on the kernel of the Jacobian times $D^{1/2}$, so the
    result is tangent to the manifold.
    """
    gradient = grad(lambda theta: potential(population.fisher(theta)))(theta)
    if metric is None:
        return -tangent_projection(population, theta, rank) @ gradient
    scale = metric(population.fisher(theta)).sqrt()
    return -scale * (tangent_projection(population, theta, rank, scale) @ (scale * gradient))


def projected_flow(
    population: Population,
    start: Float[Tensor, " parameter"],
    potential: Potential,
    times: Float[Tensor, " time"],
    metric: Metric | None = None,
    tolerance: float = 1e-9,
) -> Path:
    """Integrate the flow along the manifold with an eighth-order Runge-Kutta method.

    The velocity lies in the kernel of the Jacobian of the predictions, so that only the integrator's error
    leads off the manifold; it is checked, not corrected.

    Args:
        population: the model and what it predicts.
        start: a minimiser.
        potential: what the flow lowers; see `trace_potential`.
        times: increasing, from 0 on, in units of (learning rate)² × steps.
        metric: of a preconditioned algorithm.
        tolerance: of the integrator, relative, and largest KL (nats) that counts as a minimiser.

    Raises:
        ManifoldError: where the start is no minimiser, the manifold is left, or its dimension changes.

    """
    _check_minimiser(population, start[None], tolerance, "The starting point")
    rank = rank_of(population, start)

    def right_hand_side(_: float, theta: np.ndarray) -> np.ndarray:
        return velocity(population, torch.from_numpy(theta), potential, rank, metric).numpy()

    solved = solve_ivp(
        right_hand_side,
        (0.0, float(times[-1])),
        start.numpy(),
        method="DOP853",
        t_eval=times.numpy(),
        rtol=tolerance,
        atol=tolerance,
    )
    if not solved.success:
        raise ManifoldError(f"The flow has no solution up to {float(times[-1]):g} ({solved.message}).")
    theta = torch.from_numpy(solved.y.T.copy())
    _check_minimiser(population, theta, tolerance, "A point of the flow")
    return Path(times, theta)


def onto_manifold(
    population: Population, theta: Float[Tensor, "*batch parameter"], tolerance: float = 1e-12
) -> Float[Tensor, "*batch parameter"]:
    """Return minimisers close by: Gauss-Newton steps, each the least change that mends the predictions.

    What SGD hovers around is seen without its hovering. The point is one of several close by: which one moves
    the trace by an amount of the order of the rate.

    Raises:
        ManifoldError: where the steps do not come within `tolerance` (nats) of the least loss.

    """
    wanted = _against_last(population.conditionals.log())
    jacobian = vmap(jacfwd(lambda point: _against_last(population.logits(point))))
    points = theta.reshape(-1, theta.shape[-1])
    for _ in range(MOST_STEPS):
        if float(population.kl(points).max()) <= tolerance:
            break
        residual = _against_last(population.logits(points)) - wanted
        j = jacobian(points)
        weights, _ = torch.linalg.solve_ex(j @ j.mT, residual[..., None])  # not finite where singular
        points = points - (j.mT @ weights)[..., 0]
    _check_minimiser(population, points, tolerance, "What should be a minimiser close by")
    return points.reshape(theta.shape)


def _against_last(logits: Float[Tensor, "*batch context word"]) -> Float[Tensor, "*batch difference"]:
    """Return logits minus that of the last word: as many numbers as predictions have freedom."""
    return (logits[..., :-1] - logits[..., -1:]).flatten(-2)


def _check_minimiser(
    population: Population, theta: Float[Tensor, "time parameter"], tolerance: float, what: str
) -> None:
    if not (kl := float(population.kl(theta).max())) <= tolerance:
        raise ManifoldError(
            f"{what} is {kl:.2g} nats above the least loss and must be within {tolerance:g}; "
            "the flow lives on the minimisers."
        )


# SGD and Adam on freshly sampled labels, many replicas at once (Theorem 3.3).

BLOCK = 4096  # labels drawn at once, about
LARGEST = 1e6  # a parameter beyond it counts as diverged


@dataclass(frozen=True)
class SGD:
    """Plain stochastic gradient descent."""

    rate: float

    def begin(self, variance: Float[Tensor, " parameter"], replicas: int) -> tuple[Tensor, ...]:
        """Return no state."""
        return ()

    def update(self, gradient: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return -rate × gradient."""
        return -self.rate * gradient, state


@dataclass(frozen=True)
class Adam:
    """Adam, begun where its second moment has settled, so that no bias needs correction."""

    rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def begin(self, variance: Float[Tensor, " parameter"], replicas: int) -> tuple[Tensor, ...]:
        """Return a first moment of zero and the second moment at the start."""
        return torch.zeros(replicas, len(variance), dtype=variance.dtype), variance.repeat(replicas, 1)

    def update(self, gradient: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return Adam's change."""
        first = torch.lerp(gradient, state[0], self.beta1)
        second = torch.lerp(gradient.square(), state[1], self.beta2)
        return -self.rate * first / (second.sqrt() + self.epsilon), (first, second)


Labels = Iterator[Float[Tensor, "replica context word"]]
"""What each step sees: the share of each context and label in each replica's batch."""


def sampled_labels(population: Population, batch: int, replicas: int, generator: torch.Generator) -> Labels:
    """Draw contexts and labels afresh for every step and replica."""
    joint = population.joint
    steps = max(1, BLOCK // (batch * replicas))
    while True:
        drawn = torch.multinomial(joint.flatten(), steps * replicas * batch, True, generator=generator)
        for rows in drawn.view(steps, replicas, batch):
            counts = torch.zeros(replicas, joint.numel(), dtype=joint.dtype)
            counts.scatter_add_(1, rows, torch.full_like(rows, 1 / batch, dtype=joint.dtype))
            yield counts.unflatten(1, joint.shape)


def exact_labels(population: Population, replicas: int) -> Labels:
    """Give every step the whole population: gradient descent, without noise."""
    while True:
        yield population.joint.expand(replicas, -1, -1)


def gradients(
    population: Population, theta: Float[Tensor, "replica parameter"], labels: Tensor
) -> Float[Tensor, "replica parameter"]:
    """Return each replica's gradient of the loss on its labels."""
    theta = theta.detach().requires_grad_()
    logits = population.logits(theta)
    # Softmax and sum over a short last axis are slow in torch: several times faster across it.
    f = logits.detach().mT.contiguous().softmax(-2).mT
    shares = labels @ labels.new_ones(labels.shape[-1], 1)
    return torch.autograd.grad(logits, theta, shares * f - labels)[0]


def replicate(
    population: Population,
    start: Float[Tensor, "*replica parameter"],
    algorithm: SGD | Adam,
    labels: Labels,
    steps: list[int],
    variance: Float[Tensor, " parameter"] | None = None,
) -> Path:
    """Run replicas of an algorithm from one point, and stop at the given steps to look.

    Args:
        population: the model and what it predicts.
        start: where all replicas begin, or each.
        algorithm: SGD or Adam, with its rate.
        labels: what each step sees; see `sampled_labels`.
        steps: increasing, 0 for the start.
        variance: of the gradient, for Adam to begin with.

    Raises:
        NonFiniteLoss: where a replica diverges.

    """
    batch = next(labels)
    theta = start.expand(len(batch), -1)
    state = algorithm.begin(torch.zeros_like(theta[0]) if variance is None else variance, len(theta))
    wanted, seen = set(steps), []
    for step in range(steps[-1] + 1):
        if step in wanted:
            if not (theta.abs() < LARGEST).all():
                raise NonFiniteLoss(
                    f"{type(algorithm).__name__} with learning rate {algorithm.rate:g} diverged before step "
                    f"{step}; the rate times the Hessian's largest eigenvalue must stay well below 2."
                )
            seen.append(theta)
        change, state = algorithm.update(gradients(population, theta, batch), state)
        theta, batch = theta + change, next(labels)
    return Path(torch.tensor(steps), torch.stack(seen))
