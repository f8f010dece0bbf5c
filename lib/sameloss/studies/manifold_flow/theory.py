"""Tiny models with exact losses and Hessians, and the flows along their minimisers (Theorem 3.3)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, vmap

from sameloss.errors import ManifoldError, ModelError, NonFiniteLoss
from sameloss.languages import Language, mask_one
from sameloss.languages.entropy import enumerate_sentences

Point = Float[Tensor, " parameter"]
Points = Float[Tensor, "*batch parameter"]
Matrix = Float[Tensor, "parameter parameter"]

# Small models whose manifold of minimisers is known in closed form.


@dataclass(frozen=True)
class LogBilinear:
    r"""Log-bilinear language model: logits $Z = AB$ of all contexts at once.

    $A$ has a row $a_c$ for each context, $B$ a column for each word. With `rank` >= `words` - 1 any
    conditionals can be attained, and wherever $B$ distinguishes all words the minimisers
    $\Gamma = \{\mathrm{softmax}(AB) = q\}$ form a smooth manifold of codimension
    contexts × (words - 1). The parameter vector is A row by row, then B row by row.
    """

    contexts: int
    words: int
    rank: int

    def matrices(
        self, theta: Points
    ) -> tuple[Float[Tensor, "*batch context rank"], Float[Tensor, "*batch rank word"]]:
        """A and B."""
        a, b = theta.split([self.contexts * self.rank, self.rank * self.words], dim=-1)
        return a.unflatten(-1, (self.contexts, self.rank)), b.unflatten(-1, (self.rank, self.words))

    def __call__(self, theta: Points) -> Float[Tensor, "*batch context word"]:
        a, b = self.matrices(theta)
        return a @ b

    def minimiser(
        self, conditionals: Float[Tensor, "context word"], generator: torch.Generator, unbalance: float = 1.0
    ) -> Point:
        r"""Return a point of $\Gamma$: balanced factors of log q, randomly mixed and unbalanced.

        For any invertible G, (A G) (G^-1 B) = A B. Here G is a random rotation times powers -1 to 1 of
        `unbalance`, so that in some directions the rows of A are large and those of B small, and vice versa.

        Raises:
            ModelError: where a conditional is zero.

        """
        if not (conditionals > 0).all():
            raise ModelError("A conditional is zero, which no logits attain; smooth the language.")
        logits = conditionals.log() - conditionals.log().mean(-1, keepdim=True)
        u, s, v = torch.linalg.svd(logits, full_matrices=False)
        a, b = torch.zeros(self.contexts, self.rank).double(), torch.zeros(self.rank, self.words).double()
        most = min(self.rank, len(s))
        a[:, :most], b[:most] = u[:, :most] * s[:most].sqrt(), s[:most].sqrt()[:, None] * v[:most]
        mix = torch.linalg.qr(torch.randn(self.rank, self.rank, dtype=torch.float64, generator=generator))[0]
        mix = mix * unbalance ** torch.linspace(1, -1, self.rank, dtype=torch.float64)
        return torch.cat([(a @ mix).flatten(), torch.linalg.solve(mix, b).flatten()])

    def trace(self, theta: Points, weights: Float[Tensor, " context"]) -> Float[Tensor, "*batch"]:
        r"""Trace of the Hessian in closed form, on $\Gamma$ and off it.

        $$\mathrm{Tr}\,\nabla^2 L = \sum_c p_c\Bigl(\sum_k \mathrm{Var}_{f_c}(B_k)
          + \lVert a_c\rVert^2 (1 - \lVert f_c\rVert^2)\Bigr)$$

        The logits are linear in every single parameter, so the remaining term of the Hessian has trace zero.
        """
        a, b = self.matrices(theta)
        f = (a @ b).softmax(-1)
        variance = (f @ b.mT.square() - (f @ b.mT).square()).sum(-1)
        return (weights * (variance + a.square().sum(-1) * (1 - f.square().sum(-1)))).sum(-1)


class PowerSum:
    r"""One context, two words, and the logit $\sum_i \theta_i^3$ between them.

    At the minimum, $\sum_i\theta_i^3 = \log(q/(1-q))$, the Hessian is $q(1-q)$ times the outer product of
    $3\theta^2$: the same predictions, many traces. Models with fewer parameters set the others to zero.
    """

    def __call__(self, theta: Points) -> Float[Tensor, "*batch 1 2"]:
        logit = theta.pow(3).sum(-1)
        return torch.stack([logit, torch.zeros_like(logit)], -1).unsqueeze(-2)

    def trace(self, theta: Points, q: float) -> Float[Tensor, "*batch"]:
        r"""Trace of the Hessian on the manifold, $9q(1-q)\sum_i\theta_i^4$."""
        return q * (1 - q) * (3 * theta.pow(2)).square().sum(-1)


# The population of masked sentences: exact loss, derivatives and gradient noise (Section 3).
#
# Everything is float64 and dense, for models of up to a few hundred parameters. A model maps a vector of
# parameters to the logits of all contexts, over any number of leading batch axes.

Logits = Callable[[Points], Float[Tensor, "*batch context word"]]

Potential = Callable[[Matrix], Float[Tensor, ""]]
"""Function of the Hessian that a flow decreases."""

Metric = Callable[[Matrix], Point]
"""Diagonal of a preconditioner, from the Hessian."""


@dataclass(frozen=True)
class Population:
    r"""All contexts $c = (t, x_{-t})$ with their probabilities and true conditionals, and a model.

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
        for name, rows in (("weights", self.weights[None]), ("conditionals", self.conditionals)):
            if not ((rows >= 0).all() and torch.allclose(rows.sum(-1), torch.ones_like(rows[:, 0]))):
                raise ModelError(f"The {name} of a population must be non-negative and sum to one.")

    @property
    def joint(self) -> Float[Tensor, "context word"]:
        """Joint probabilities of contexts and labels."""
        return self.weights[:, None] * self.conditionals

    def log_f(self, theta: Points) -> Float[Tensor, "*batch context word"]:
        """Log predictions."""
        return self.logits(theta).log_softmax(-1)

    def loss(self, theta: Points) -> Float[Tensor, "*batch"]:
        """Loss L(theta) in nats per masked token."""
        return -(self.joint * self.log_f(theta)).sum((-2, -1))

    def kl(self, theta: Points) -> Float[Tensor, "*batch"]:
        """Excess of the loss over its infimum in nats, without cancellation."""
        log_f = self.log_f(theta)
        ratio = log_f - self.conditionals.log()
        # q (e^r - 1 - r) sums to the KL, because both distributions sum to one; where q is zero it is f.
        terms = torch.where(self.conditionals == 0, log_f.exp(), self.conditionals * (ratio.expm1() - ratio))
        return (self.weights[:, None] * terms).sum((-2, -1))

    def gradient(self, theta: Point) -> Point:
        return grad(self.loss)(theta)

    def hessian(self, theta: Point) -> Matrix:
        return jacfwd(jacrev(self.loss))(theta)

    def label_gradients(self, theta: Point) -> Float[Tensor, "context word parameter"]:
        """Gradients of -log f for every context and label: those of all possible samples."""
        return -jacrev(self.log_f)(theta)

    def covariance(self, theta: Point) -> Matrix:
        r"""Covariance of the stochastic gradient of one sample (Lemma 3.2).

        $$\Sigma = \mathbb E\,\nabla\ell\,\nabla\ell^\top - \nabla L\,\nabla L^\top$$

        The last term is an outer product; the paper prints an inner one.
        """
        gradients, mean = self.label_gradients(theta), self.gradient(theta)
        return torch.einsum("cy,cyi,cyj->ij", self.joint, gradients, gradients) - torch.outer(mean, mean)

    def fisher(self, theta: Point) -> Matrix:
        r"""Fisher information $\mathbb E_c J_c^\top(\mathrm{diag} f_c - f_c f_c^\top)J_c$.

        It equals the Hessian wherever the predictions are the true conditionals, and needs first
        derivatives only.
        """
        jacobian, f = jacfwd(self.logits)(theta), self.log_f(theta).exp()
        centred = jacobian - torch.einsum("cy,cyi->ci", f, jacobian)[:, None]
        return torch.einsum("c,cy,cyi,cyj->ij", self.weights, f, centred, centred)

    def along(self, path: Float[Tensor, "time parameter"], quantity: Potential) -> Float[Tensor, " time"]:
        """Evaluate a function of the Hessian along a path of minimisers."""
        return torch.stack([quantity(self.fisher(theta)) for theta in path])


def masked_population(language: Language) -> tuple[Float[Tensor, " context"], Float[Tensor, "context word"]]:
    r"""Weights and conditionals of all masked sentences of a small language.

    In a sentence of length T each token is masked with probability 1/T, as in Section 2.1, so
    $p_c = \sum_{x_t} \Pr(x) / T$. Contexts are sorted by position, length and words.

    Raises:
        LanguageError: where the language is too large to enumerate.

    """
    joint: dict[tuple, Tensor] = {}
    for sentences in enumerate_sentences(language):
        probabilities = language.log_prob(sentences).exp() / sentences.lengths
        for position in range(int(sentences.lengths[0])):
            masked = mask_one(sentences.tokens, torch.full_like(sentences.lengths, position))
            for row, context in enumerate(masked.tolist()):
                key = (position, len(context), *context)
                words = joint.setdefault(key, torch.zeros(language.words, dtype=torch.float64))
                words[sentences.tokens[row, position] - 1] += probabilities[row]
    table = torch.stack([joint[context] for context in sorted(joint)])
    return table.sum(-1), table / table.sum(-1, keepdim=True)


# The flow that SGD follows along the minimisers of the loss (Theorem 3.3, Eq. 1).
#
# $$d\theta = -P_\Gamma\,\nabla\,\Psi(\theta)\,dt, \qquad \Psi = \tfrac14\,\mathrm{Tr}\,\nabla^2 L$$
#
# for SGD with a vanishing learning rate; other algorithms have other potentials and metrics. A potential
# is a function of the Hessian, which on the manifold is the Fisher information (Lemma 3.2).

RANK_TOLERANCE = 1e-6  # relative to the largest singular value
MOST_STEPS = 40  # Gauss-Newton steps to a minimiser; a few usually suffice
CLOSE = 1e-12  # nats above the least loss at which they have arrived


def trace_potential(hessian: Matrix) -> Float[Tensor, ""]:
    r"""Potential of Theorem 3.3, $\frac14\mathrm{Tr}\,H$."""
    return 0.25 * hessian.trace()


def finite_rate_potential(rate: float) -> Potential:
    r"""Potential of SGD at a finite learning rate, $-\frac{1}{2\eta}\,\mathrm{tr}\log(1 - \eta H/2)$.

    In a quadratic valley with noise $H/B$ the stationary covariance of the iterates solves
    $HS + SH - \eta HSH = \eta H/B$, that is $S = \frac{\eta}{B}(2 - \eta H)^{-1}$; the third derivatives of
    the valley turn it into a drift along the manifold, the gradient of this potential. Its first term is
    $\frac14\mathrm{Tr}\,H$. It is infinite where $\eta$ times an eigenvalue reaches 2.

    The noise is assumed Gaussian with a fixed covariance, so SGD on single sentences is explained in part
    only: a remainder of the order $\eta/B$ is seen in the chapter.
    """

    def potential(hessian: Matrix) -> Float[Tensor, ""]:
        return -torch.linalg.slogdet(torch.eye(len(hessian)) - rate * hessian / 2).logabsdet / (2 * rate)

    return potential


def adam_potential(batch: int, epsilon: float) -> Potential:
    r"""Potential of Adam at a vanishing learning rate (after Li, Wen and Lyu 2025).

    $$\tfrac12\sum_i\bigl(u_i - \epsilon\log(1 + u_i/\epsilon)\bigr), \qquad u_i = \sqrt{H_{ii}/B}$$

    For small $\epsilon$ it is $\mathrm{Tr}(\mathrm{Diag}(H)^{1/2})/(2\sqrt B)$. See also `adam_metric`.
    """

    def potential(hessian: Matrix) -> Float[Tensor, ""]:
        deviations = (hessian.diagonal() / batch).clamp(min=1e-300).sqrt()
        return (deviations - epsilon * (deviations / epsilon).log1p()).sum() / 2

    return potential


def adam_metric(batch: int, epsilon: float) -> Metric:
    r"""Adam's preconditioner on the manifold, $1/(\sqrt{H_{ii}/B} + \epsilon)$."""
    return lambda hessian: 1 / ((hessian.diagonal() / batch).clamp(min=0).sqrt() + epsilon)


def adam_sharpness(hessian: Matrix) -> Float[Tensor, ""]:
    r"""$\mathrm{Tr}(\mathrm{Diag}(H)^{1/2})$."""
    return hessian.diagonal().clamp(min=1e-300).sqrt().sum()


def tangent_projection(population: Population, theta: Point, rank: int, scale: Tensor | float = 1) -> Matrix:
    """Orthogonal projection on the directions in which no prediction changes.

    At a minimiser they are the kernel of the Hessian, and elsewhere the tangent space of the parameters
    with the same predictions.

    Args:
        population: the model and what it predicts.
        theta: the parameters.
        rank: the expected rank of the Hessian, M of Assumption 3.1.
        scale: project in coordinates divided by these.

    Raises:
        ManifoldError: where the rank differs.

    """
    jacobian = jacfwd(population.log_f)(theta).flatten(0, 1) * scale
    _, singular, rows = torch.linalg.svd(jacobian, full_matrices=False)
    if (here := int((singular > RANK_TOLERANCE * singular[0]).sum())) != rank:
        raise ManifoldError(
            f"The Hessian's rank is {here} here and {rank} at the start, so the minimisers form no "
            "manifold of constant dimension (Assumption 3.1); start elsewhere or stop earlier."
        )
    normal = rows[:rank]
    return torch.eye(len(theta), dtype=theta.dtype) - normal.T @ normal


def rank_of(population: Population, theta: Point) -> int:
    """Rank of the map from parameters to log predictions, M of Assumption 3.1."""
    jacobian = jacfwd(population.log_f)(theta).flatten(0, 1)
    return int(torch.linalg.matrix_rank(jacobian, rtol=RANK_TOLERANCE))


def velocity(
    population: Population, theta: Point, potential: Potential, rank: int, metric: Metric | None = None
) -> Point:
    r"""Steepest descent along the manifold in a metric $D^{-1}$, $-D^{1/2} P D^{1/2}\nabla\Psi$.

    For SGD, D is the identity. P projects on the kernel of the Jacobian times $D^{1/2}$, so that the
    velocity is tangent to the manifold.
    """
    gradient = grad(lambda theta: potential(population.fisher(theta)))(theta)
    scale = metric(population.fisher(theta)).sqrt() if metric else torch.ones_like(theta)
    return -scale * (tangent_projection(population, theta, rank, scale) @ (scale * gradient))


def projected_flow(
    population: Population, start: Point, potential: Potential, times: Float[Tensor, " time"],
    metric: Metric | None = None, tolerance: float = 1e-9,
) -> Float[Tensor, "time parameter"]:  # fmt: skip
    """Integrate the flow along the manifold with an eighth-order Runge-Kutta method.

    The velocity lies in the kernel of the Jacobian of the predictions, so that only integration errors
    leave the manifold; this is checked, not corrected.

    Args:
        population: the model and what it predicts.
        start: a minimiser.
        potential: decreases along the flow; see `trace_potential`.
        times: increasing from 0, in units of (learning rate)² × steps.
        metric: of a preconditioned algorithm.
        tolerance: of the integrator, relative, and largest KL (nats) of a minimiser.

    Raises:
        ManifoldError: where the start is no minimiser, or the flow leaves the manifold or changes dimension.

    """
    _check_minimiser(population, start[None], tolerance, "The starting point")
    rank = rank_of(population, start)

    def change(_: float, theta: np.ndarray) -> np.ndarray:
        return velocity(population, torch.from_numpy(theta), potential, rank, metric).numpy()

    span, y = (0.0, float(times[-1])), start.numpy()
    solution = solve_ivp(change, span, y, "DOP853", times.numpy(), rtol=tolerance, atol=tolerance)
    if not solution.success:
        raise ManifoldError(f"The flow has no solution up to {span[1]:g} ({solution.message}).")
    path = torch.from_numpy(solution.y.T.copy())
    _check_minimiser(population, path, tolerance, "A point of the flow")
    return path


def onto_manifold(population: Population, theta: Points) -> Points:
    """Move to nearby minimisers by Gauss-Newton steps, each the smallest that corrects the predictions.

    This removes the fluctuations of SGD about the manifold. The result is one of several minimisers nearby;
    the choice changes the trace by an amount of the order of the learning rate.

    Raises:
        ManifoldError: where the steps do not come within `CLOSE` of the least loss.

    """
    target = _against_last(population.conditionals.log())
    jacobian = vmap(jacfwd(lambda point: _against_last(population.logits(point))))
    points = theta.reshape(-1, theta.shape[-1])
    for _ in range(MOST_STEPS):
        if float(population.kl(points).max()) <= CLOSE:
            break
        residual = _against_last(population.logits(points)) - target
        j = jacobian(points)
        weights, _ = torch.linalg.solve_ex(j @ j.mT, residual[..., None])  # not finite where singular
        points = points - (j.mT @ weights)[..., 0]
    _check_minimiser(population, points, CLOSE, "What should be a minimiser close by")
    return points.reshape(theta.shape)


def _against_last(logits: Float[Tensor, "*batch context word"]) -> Float[Tensor, "*batch difference"]:
    """Logits relative to the last word: as many numbers as the predictions have degrees of freedom."""
    return (logits[..., :-1] - logits[..., -1:]).flatten(-2)


def _check_minimiser(population: Population, theta: Points, tolerance: float, what: str) -> None:
    if not (kl := float(population.kl(theta).max())) <= tolerance:
        raise ManifoldError(
            f"{what} is {kl:.2g} nats above the least loss and must be within {tolerance:g}; "
            "the flow lives on the minimisers."
        )


# SGD and Adam on freshly sampled labels, with many replicas at once (Theorem 3.3).

BLOCK = 4096  # about how many labels are sampled at once
LARGEST = 1e6  # a larger parameter counts as divergence


@dataclass(frozen=True)
class SGD:
    """Plain stochastic gradient descent."""

    rate: float

    def update(self, gradient: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The change of the parameters, and the next state."""
        return -self.rate * gradient, state


@dataclass(frozen=True)
class Adam:
    """Adam with its second moment initialised at stationarity, so that there is no bias to correct."""

    rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def begin(self, variance: Point, replicas: int) -> tuple[Tensor, ...]:
        """Initial state: a first moment of zero, and the variance of the gradient as second moment."""
        return torch.zeros(replicas, len(variance), dtype=variance.dtype), variance.repeat(replicas, 1)

    def update(self, gradient: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The change of the parameters, and the next moments."""
        first = torch.lerp(gradient, state[0], self.beta1)
        second = torch.lerp(gradient.square(), state[1], self.beta2)
        return -self.rate * first / (second.sqrt() + self.epsilon), (first, second)


Labels = Iterator[Float[Tensor, "replica context word"]]
"""For each step, the fraction of each context and label in each replica's batch."""


def sampled_labels(population: Population, batch: int, replicas: int, generator: torch.Generator) -> Labels:
    """Sample contexts and labels independently for every step and replica."""
    joint = population.joint
    steps = max(1, BLOCK // (batch * replicas))
    while True:
        drawn = torch.multinomial(joint.flatten(), steps * replicas * batch, True, generator=generator)
        for rows in drawn.view(steps, replicas, batch):
            counts = torch.zeros(replicas, joint.numel(), dtype=joint.dtype)
            counts.scatter_add_(1, rows, torch.full_like(rows, 1 / batch, dtype=joint.dtype))
            yield counts.unflatten(1, joint.shape)


def exact_labels(population: Population, replicas: int) -> Labels:
    """Give every step the whole population: gradient descent without noise."""
    while True:
        yield population.joint.expand(replicas, -1, -1)


def gradients(
    population: Population, theta: Float[Tensor, "replica parameter"], labels: Tensor
) -> Float[Tensor, "replica parameter"]:
    """Each replica's gradient of the loss on its labels."""
    theta = theta.detach().requires_grad_()
    logits = population.logits(theta)
    # Softmax and sum over a short last axis are slow in torch: several times faster across it.
    f = logits.detach().mT.contiguous().softmax(-2).mT
    totals = labels @ labels.new_ones(labels.shape[-1], 1)
    return torch.autograd.grad(logits, theta, totals * f - labels)[0]


def replicate(
    population: Population, start: Float[Tensor, "*replica parameter"], algorithm: SGD | Adam, labels: Labels,
    steps: list[int], state: tuple[Tensor, ...] = (),
) -> Float[Tensor, "time replica parameter"]:  # fmt: skip
    """Run replicas of an algorithm and return their parameters after the given numbers of steps.

    Args:
        population: the model and what it predicts.
        start: of all replicas, or of each.
        algorithm: SGD or Adam, with its rate.
        labels: seen by each step; see `sampled_labels`.
        steps: increasing; 0 is the start.
        state: initial state of the algorithm; see `Adam.begin`.

    Raises:
        NonFiniteLoss: where a replica diverges.

    """
    batch, path = next(labels), []
    theta = start.expand(len(batch), -1)
    for step in range(steps[-1] + 1):
        if step in steps:
            if not (theta.abs() < LARGEST).all():
                raise NonFiniteLoss(
                    f"{type(algorithm).__name__} with learning rate {algorithm.rate:g} diverged before step "
                    f"{step}; the rate times the Hessian's largest eigenvalue must stay well below 2."
                )
            path.append(theta)
        change, state = algorithm.update(gradients(population, theta, batch), state)
        theta, batch = theta + change, next(labels)
    return torch.stack(path)
