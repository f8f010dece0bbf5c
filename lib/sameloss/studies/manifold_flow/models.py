"""Small models whose manifold of minimisers is known in closed form."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.errors import ModelError


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
