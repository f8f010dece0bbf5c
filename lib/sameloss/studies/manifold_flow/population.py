"""A masked language model's whole population: its loss, derivatives and gradient noise, exact (Section 3).

Everything is float64 and dense, for models of up to a few hundred parameters. A model is a function
from a vector of parameters to the logits of all contexts, over any number of leading batch axes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, jacfwd, jacrev

from sameloss.errors import ModelError
from sameloss.languages import Language, mask_one
from sameloss.languages.enumeration import enumerate_sentences

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

    @property
    def entropy(self) -> float:
        """Return the least possible loss, in nats a masked token."""
        return float(-(self.weights * torch.xlogy(self.conditionals, self.conditionals).sum(-1)).sum())

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
