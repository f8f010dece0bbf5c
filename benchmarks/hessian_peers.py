"""The trace of the Hessian of the loss by random vectors in the space of the parameters.

Every peer turns a batch of sentences, with the labels of the loss, into one draw of the trace; what
differs between draws is both the sentences and the vectors. What the peers cannot do: none gives a
standard error, of sentences least of all, so draws from independent batches stand in for it; PyHessian
stops at a tolerance that says nothing of the error, and here never does. Its models take one tensor, so
that tokens and position travel together, and with padding the length would have to as well (a
dictionary would do for curvlinops). A tied head is no trouble to any of them.
"""

import copy
import warnings

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.languages.masking import Batch


class Packed(nn.Module):
    """A masked language model of one tensor: the tokens, and behind them the masked position."""

    def __init__(self, model: nn.Module) -> None:
        """Wrap the model."""
        super().__init__()
        self.model = model

    def forward(self, inputs: Int[Tensor, "batch seq_and_position"]) -> Tensor:
        """Return the logits."""
        return self.model(inputs[:, :-1], inputs[:, -1])


def packed(masked: Batch) -> tuple[Tensor, Tensor]:
    """Return unpadded sentences as `Packed` takes them, and their labels."""
    return torch.cat([masked.masked, masked.positions[:, None]], 1), masked.targets


class SpelledOutNorm(nn.Module):
    """LayerNorm in plain arithmetic.

    `torch.func.vmap` of a derivative of a derivative takes the mean and deviation that torch's own
    LayerNorm saves for constants (torch 2.13), so that products of curvlinops' Hessian with a vector
    come out wrong in the rows of LayerNorm's weights.
    """

    def __init__(self, norm: nn.LayerNorm) -> None:
        """Share the parameters of torch's module."""
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred * (variance + self.eps).rsqrt() * self.weight + self.bias


def spelled_out(model: nn.Module) -> nn.Module:
    """Return a copy of a model with every LayerNorm spelled out."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.LayerNorm):
                setattr(module, name, SpelledOutNorm(child))
    return model


class Hutchinson:
    """What the paper's released code does: z^T H z for a Gaussian z, by differentiating twice.

    Written plainly, because it is faster so than by `sameloss.measures.flatness.hessian`, whose
    functional form also serves dense Hessians.
    """

    def __init__(self, model: nn.Module, generator: torch.Generator) -> None:
        """Take the model and what draws the vectors, on the model's device."""
        self.model, self.generator = model, generator
        self.parameters = list(model.parameters())

    def product(self, inputs: Tensor, labels: Tensor, vector: list[Tensor]) -> list[Tensor]:
        """Return the Hessian of the batch times a vector."""
        loss = F.cross_entropy(self.model(inputs), labels)
        gradients = torch.autograd.grad(loss, self.parameters, create_graph=True)
        return torch.autograd.grad(gradients, self.parameters, vector)

    def __call__(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return one draw of the trace."""
        vector = [torch.empty_like(p).normal_(generator=self.generator) for p in self.parameters]
        product = self.product(inputs, labels, vector)
        return sum((z * h).sum() for z, h in zip(vector, product, strict=True))


class PyHessian:
    """PyHessian's trace of a batch: Rademacher vectors, which share the graph of the gradient."""

    def __init__(self, model: nn.Module, vectors: int) -> None:
        """Take a copy of the model: gradients stay behind on its parameters."""
        self.model, self.vectors = copy.deepcopy(model), vectors

    def __call__(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return one draw of the trace, the mean over the vectors."""
        from pyhessian import hessian

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using backward\\(\\) with create_graph=True", UserWarning)
            peer = hessian(self.model, F.cross_entropy, data=(inputs, labels), cuda=inputs.is_cuda)
        values = peer.trace(maxIter=self.vectors, tol=0)
        self.model.zero_grad(set_to_none=True)  # or the graph would live on in the gradients
        return torch.tensor(values, dtype=torch.float64).mean()


class Curvlinops:
    """One of curvlinops' operators on a batch, and one of its estimators of a trace."""

    def __init__(self, model: nn.Module, operator: str, estimator: str, products: int) -> None:
        """Choose the operator and the estimator by name, and the number of its products."""
        self.model = spelled_out(model) if operator == "HessianLinearOperator" else copy.deepcopy(model)
        self.operator, self.estimator, self.products = operator, estimator, products

    def matrix(self, inputs: Tensor, labels: Tensor) -> object:
        """Return the operator; its test for determinism would double the cost."""
        import curvlinops

        kind, parameters = getattr(curvlinops, self.operator), list(self.model.parameters())
        data = [(inputs, labels)]
        return kind(self.model, nn.CrossEntropyLoss(), parameters, data, check_deterministic=False)

    def __call__(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return one draw of the trace."""
        import curvlinops

        return getattr(curvlinops, self.estimator)(self.matrix(inputs, labels), self.products)
