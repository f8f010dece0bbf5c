"""The Hessian: products with it, dense ones, its largest eigenvalue."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp, vmap
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.validation import check, check_logits
from sameloss.models.bilstm import without_cudnn

# The full Hessian of the pre-training loss: products with vectors, the dense matrix, its trace.
#
# The Fisher form of the trace (`trace.py`) needs saturation; what is here does not. With logits
# z(theta), predictions f and exact conditionals q,
#
# $$\nabla^2 L = \mathbb E\, J^\top (\mathrm{diag} f - f f^\top) J
#   + \mathbb E \sum_y (f_y - q_y) \nabla^2 z_y ,$$
#
# whose first term is the Fisher information and whose second one vanishes at saturation (Lemma 3.2).

Parameters = dict[str, Tensor]

ParameterLoss = Callable[[Parameters], Tensor]
"""A loss as a function of the trainable parameters by name."""

Product = Callable[[Tensor], Tensor]
"""The Hessian as a function from a flat vector to a flat vector."""

ROWS = 64
"""Rows of a dense Hessian computed at once."""


def flat_parameters(model: nn.Module) -> Float[Tensor, " parameter"]:
    """Return the trainable parameters as one detached vector, in the order of `named_parameters`."""
    return flattened(_parameters(model))


def unflattened(model: nn.Module, flat: Float[Tensor, " parameter"]) -> dict[str, Tensor]:
    """Return a vector of all trainable parameters as parameters by name, views of it."""
    shapes = {name: value.shape for name, value in _parameters(model).items()}
    parts = flat.split([shape.numel() for shape in shapes.values()])
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def _parameters(model: nn.Module) -> Parameters:
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def flattened(parameters: dict[str, Tensor]) -> Float[Tensor, " parameter"]:
    """Return parameters by name as one vector: the inverse of `unflattened`."""
    return torch.cat([value.flatten() for value in parameters.values()])


def population_loss(
    model: nn.Module, masked: Batch, truth: Float[Tensor, "batch word"] | None = None
) -> Callable[[dict[str, Tensor]], Tensor]:
    """Return the loss as a function of the trainable parameters, fit for `torch.func`'s transforms.

    Args:
        model: a masked language model.
        masked: at least one masked sentence.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.

    Returns:
        A function from parameters by name to the mean over the sentences of -sum_y truth[y] log f[y],
        in nats a masked token.

    Raises:
        ModelError: for what `check` refuses, and, once called, for logits of another shape.
        ParameterError: where truth is of other sentences or words.

    """
    masked, truth = on_model_device(model, masked, truth)
    return lambda parameters: _cross_entropy(_logits(model, parameters, masked), masked, truth)


def _cross_entropy(logits: Tensor, masked: Batch, truth: Tensor | None) -> Tensor:
    return -(_conditionals(masked, truth, logits) * logits.log_softmax(-1)).sum(-1).mean()


def gap_loss(model: nn.Module, masked: Batch, truth: Tensor | None = None) -> ParameterLoss:
    """Return the function E sum_y (f_y - q_y) z_y of the parameters, f held fixed.

    Its Hessian is the Hessian of the loss minus the Fisher information (Lemma 3.2).
    """
    masked, truth = on_model_device(model, masked, truth)
    with torch.no_grad():
        logits = _logits(model, _parameters(model), masked)
        excess = logits.softmax(-1) - _conditionals(masked, truth, logits)
    return lambda parameters: (excess * _logits(model, parameters, masked)).sum(-1).mean()


def _logits(model: nn.Module, parameters: Parameters, masked: Batch) -> Tensor:
    with _twice_differentiable():
        return functional_call(model, parameters, (masked.masked, masked.positions, masked.lengths))


@contextmanager
def _twice_differentiable() -> Iterator[None]:
    """Keep to kernels whose gradient has a gradient: fused attention's and cuDNN's LSTM's have none."""
    with sdpa_kernel(SDPBackend.MATH), without_cudnn():
        yield


def on_model_device(model: nn.Module, masked: Batch, truth: Tensor | None) -> tuple[Batch, Tensor | None]:
    """Move sentences and conditionals to the model's device, and refuse those that do not fit together.

    Raises:
        ModelError: for what `check` refuses.
        ParameterError: where there is not one row of `truth` for each sentence.

    """
    check(model, masked)
    if truth is not None and len(truth) != len(masked.masked):
        raise ParameterError(f"truth needs a row a sentence, {len(masked.masked)} of them; got {len(truth)}.")
    device = next(model.parameters()).device
    return masked.to(device), truth if truth is None else truth.to(device)


def _conditionals(masked: Batch, truth: Tensor | None, logits: Tensor) -> Tensor:
    """Return Pr(. | x_-t) like the logits: `truth`, or the one-hot targets."""
    check_logits(logits, masked)
    words = logits.shape[1]
    if truth is None:
        return F.one_hot(masked.targets, words).to(logits.dtype)
    if truth.shape[1] != words:
        raise ParameterError(f"The model's logits cover {words} words, truth {truth.shape[1]}.")
    return truth.to(logits.dtype)


def _pullback(loss: ParameterLoss, parameters: Parameters) -> Callable[[Parameters], Parameters]:
    """Return the Hessian as a linear map; the graph of the gradient is built once for all vectors."""
    # Reverse over reverse, because forward over reverse (jvp of grad) took 1.1 to 1.7 times as long for
    # a model of 106K parameters on one core (batch 32 to 512), 2 to 3 times once vectors share the graph,
    # and forward mode lacks a kernel for float32 LSTMs.
    pull = vjp(grad(loss), parameters)[1]
    return lambda vector: pull(vector)[0]


def hessian_product(model: nn.Module, loss: ParameterLoss) -> Product:
    """Return the Hessian of `loss` at the model's parameters as a function of flat vectors."""
    pull = _pullback(loss, _parameters(model))
    return lambda flat: flattened(pull(unflattened(model, flat)))


def dense_hessian(
    model: nn.Module, masked: Batch, truth: Float[Tensor, "batch word"] | None = None, *, most: int = 3000
) -> Float[Tensor, "parameter parameter"]:
    """Compute the Hessian of the loss over all trainable parameters, exact up to rounding.

    Args:
        model: a masked language model, best in float64.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        most: largest number of parameters.

    Returns:
        The matrix, rows and columns in the order of `flat_parameters`, in nats by squared parameter.

    Raises:
        ParameterError: for a model of more parameters.
        ModelError: for what `check` refuses.

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> dense_hessian(model, masked)  # diag f - f f^T
    tensor([[ 0.2500, -0.1250, -0.1250],
            [-0.1250,  0.1875, -0.0625],
            [-0.1250, -0.0625,  0.1875]], dtype=torch.float64)

    """
    point = flat_parameters(model)
    if len(point) > most:
        size = len(point) ** 2 * point.element_size() / 1e9
        raise ParameterError(
            f"The Hessian of {len(point)} parameters takes {size:.3g} GB; the limit is {most} parameters."
        )
    # Not torch.func.hessian, which vmaps inside the outer derivative: of torch 2.13's LayerNorm it then
    # takes the saved mean and deviation for constants, and rows of LayerNorm weights come out wrong.
    product = hessian_product(model, population_loss(model, masked, truth))
    identity = torch.eye(len(point), dtype=point.dtype, device=point.device)
    return torch.cat([vmap(product)(rows) for rows in identity.split(ROWS)])


# The largest eigenvalue of the Hessian: the curvature in the sharpest direction.


def top_eigenvalue(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    tolerance: float = 1e-3,
    restarts: int = 100,
    seed: int = 0,
) -> float:
    r"""Compute $\max_{\lVert v \rVert = 1} v^\top H v$, the largest (not largest absolute) eigenvalue.

    The method is implicitly restarted Lanczos (Lehoucq, Sorensen and Yang 1998, ARPACK) on
    Hessian-vector products.

    Args:
        model: a masked language model.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        tolerance: accepted error relative to the eigenvalue.
        restarts: largest number of restarts, each of up to 20 products.
        seed: seed of the first vector.

    Returns:
        The eigenvalue, in nats by squared parameter.

    Raises:
        ModelError: for what `check` refuses.
        ParameterError: where Lanczos does not converge.

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> round(top_eigenvalue(model, masked), 3)
    0.375

    """
    check(model, masked)
    times, point = hessian_product(model, population_loss(model, masked, truth)), flat_parameters(model)

    def product(vector: np.ndarray) -> np.ndarray:
        return times(torch.from_numpy(vector.reshape(-1)).to(point)).double().cpu().numpy()

    hessian = LinearOperator((len(point), len(point)), product, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(len(point))
    options = {"which": "LA", "tol": tolerance, "maxiter": restarts, "return_eigenvectors": False}
    try:
        return float(eigsh(hessian, 1, v0=start, **options)[0])
    except ArpackError as error:
        raise ParameterError(
            f"Lanczos did not find the largest eigenvalue to a relative error of {tolerance:g} in "
            f"{restarts} restarts; allow a larger tolerance or more restarts."
        ) from error
