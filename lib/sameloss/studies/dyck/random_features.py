"""Random features on the bracket language, solution (2) of Section 5 (Theorem F.6, Lemma F.7)."""

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.studies.dyck.downstream import downstream_loss, error_after
from sameloss.studies.dyck.language import Inputs
from sameloss.studies.dyck.transformer import (
    Transformer,
    cancellation,
    hessian_trace,
    lower_bound,
    pretraining_loss,
    random_feature_solution,
    run,
)

SMALL_LOSS = 0.1
"""The ε of Theorem F.6 for which the smallest possible head is bounded."""


def constructed_head(model: Transformer, length: int) -> Float[Tensor, " width"]:
    """Return u_i = a(V_i) with a(v) = -2·⟨1, v^(c)⟩, whose expected output is g*.

    Lemma F.7 made explicit: for v ~ N(0, T·I) and ‖h‖² = 1/T, Stein's identity gives
    E[σ(v·h) β·v] = T β·h/2. So a(v) = (2/T) β·v has E[σ(v·h) a] = β·h and E[a²] = 4‖β‖²/T; here β is
    -T·[1; 0] and E[a²] = 4T².
    """
    return -2 * model.value[:, :length].sum(1)


def constructed_loss(length: int, width: int) -> float:
    """Return the expected loss of `constructed_head`, (2T² + 3)/m: the variance of one neuron over m.

    With X = v·h and a = 2g*X + 2√(T² - 1) W, X and W independent N(0, 1), E[σ(X)²a²] = 6 + 2(T² - 1).
    """
    return (2 * length**2 + 3) / width


def exact_width(inputs: Inputs) -> int:
    """Return the rank of all random features together: of σ(v·h) = (v·h + |v·h|)/2 on pairs ±h.

    The even part has one dimension a pair, the odd one those of h: half the inputs and 2T.
    """
    return len(inputs.target) // 2 + inputs.tokens.shape[-1]


def least_norm(model: Transformer, inputs: Inputs) -> float:
    """Return a bound that ‖u‖² of every head with a loss up to ε = 0.1 exceeds on these features.

    E f² ≥ (1 - √ε)² and E f² ≤ ‖u‖² λ/m², λ the largest eigenvalue of E σσᵀ.
    """
    features = run(model, inputs).preactivations.relu()
    largest = torch.linalg.matrix_norm(features, ord=2).square() / len(features)
    return float((1 - SMALL_LOSS**0.5) ** 2 * model.width**2 / largest)


def measured(
    inputs: Inputs, downstream: Inputs, width: int, few: int, generator: torch.Generator
) -> dict[str, float]:
    """Draw random features once and return what the best and the constructed head have on them.

    Downstream errors are of the best head itself and of heads fitted on `few` samples.
    """
    best = random_feature_solution(inputs, width, generator)
    constructed = best._replace(head=constructed_head(best, inputs.length))
    trace = float(hessian_trace(best, inputs))
    return {
        "loss": float(pretraining_loss(best, inputs)),
        "norm": float(best.head.square().sum()),
        "least_norm": least_norm(best, inputs),
        "trace": trace,
        "ratio": trace / lower_bound(inputs.length, width),
        "cancellation": cancellation(best, inputs),
        "error_own": float(downstream_loss(best, best.head, downstream)),
        "error_few": error_after(best, downstream, few, generator),
        "constructed_loss": float(pretraining_loss(constructed, inputs)),
        "constructed_norm": float(constructed.head.square().sum()),
    }
