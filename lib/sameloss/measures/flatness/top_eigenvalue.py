"""The largest eigenvalue of the Hessian: the curvature in the sharpest direction."""

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor, nn

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.hessian import flat_parameters, hessian_product, population_loss
from sameloss.measures.flatness.validation import check


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

    >>> from sameloss.measures.flatness.unigram import Unigram, one_word_sentences
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
