"""The trace of the Hessian, weighted by the size of the parameters it belongs to."""

from torch import nn

from sameloss.errors import ParameterError
from sameloss.measures.flatness.estimated_trace import EstimatedTrace
from sameloss.statistics.estimate import Estimate


def relative_trace(model: nn.Module, trace: EstimatedTrace) -> Estimate:
    r"""Return $\sum_l \lVert W_l \rVert_F^2\, \mathrm{Tr} H_{ll}$ over the parameter tensors $W_l$.

    Invariant where a reparametrisation scales whole tensors, as in normalized flat minima (Tsuzuku,
    Sato and Sugiyama 2020) and relative flatness (Petzka et al. 2021, which refines the product to
    pairs of neurons). It also stays where tensors are rotated or permuted within themselves.

    Args:
        model: the model that the trace is of.
        trace: of its Hessian, by parameter.

    Raises:
        ParameterError: where the trace is empty or has a parameter that the model lacks.

    """
    norms = {name: float(p.detach().double().square().sum()) for name, p in model.named_parameters()}
    unknown = sorted(trace.draws.keys() - norms.keys())
    if unknown or not trace.draws:
        raise ParameterError(f"The trace must be of this model's parameters; it has {unknown or 'none'}.")
    return Estimate.of(sum(norms[name] * values.double() for name, values in trace.draws.items()))
