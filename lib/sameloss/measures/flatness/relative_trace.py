"""The trace of the Hessian, weighted by the size of the parameters it belongs to."""

from functools import reduce

import torch
from torch import nn

from sameloss.errors import ParameterError
from sameloss.measures.flatness.estimated_trace import EstimatedTrace
from sameloss.statistics.estimate import Estimate


def relative_trace(model: nn.Module, trace: EstimatedTrace) -> Estimate:
    r"""Compute $\sum_l \lVert W_l \rVert_F^2\, \mathrm{Tr} H_{ll}$ over the parameter tensors $W_l$.

    The sum is invariant where a reparametrisation scales whole tensors, as in normalized flat minima
    (Tsuzuku, Sato and Sugiyama 2020) and relative flatness (Petzka et al. 2021, which refines the
    product to pairs of neurons). It also stays where tensors are rotated or permuted within themselves.

    Args:
        model: the model whose Hessian was measured.
        trace: the trace of this Hessian, by parameter.

    Returns:
        The sum in nats, with the error of the trace.

    Raises:
        ParameterError: where the trace is empty or has a parameter that the model lacks.

    >>> from sameloss.measures.flatness.trace import fisher_trace
    >>> from sameloss.measures.flatness.unigram import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> trace = fisher_trace(model, masked, estimator="exact")
    >>> round(relative_trace(model, trace).mean, 3)  # (log² 2 + 2 log² 4) 5/8
    2.703

    """
    norms = {name: float(p.detach().double().square().sum()) for name, p in model.named_parameters()}
    unknown = sorted(trace.draws.keys() - norms.keys())
    if unknown or not trace.draws:
        raise ParameterError(f"The trace must be of this model's parameters; it has {unknown or 'none'}.")
    weighted = (norms[name] * values.double() for name, values in trace.draws.items())
    return Estimate.of(reduce(torch.add, weighted))
