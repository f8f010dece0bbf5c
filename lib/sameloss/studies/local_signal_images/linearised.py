"""A network linearised in its parameters, trained as such: for kernels that are too large to be solved.

f(x; δ) = f(x; θ₀) + ⟨∇f(x; θ₀), δ⟩: the product is one forward derivative (jvp), and no kernel is formed. The
thesis trains its tangent kernels so, with Adam.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jvp

from sameloss.studies.local_signal_images.descent import (
    BATCH_AT_TEST,
    Answers,
    LogisticDescent,
    Logits,
    batches,
    check_finite,
    mean_loss,
    outputs,
)
from sameloss.studies.local_signal_images.networks import Weights

Batch = Float[Tensor, "image *shape"]


def linear_outputs(model: nn.Module, start: Weights, change: Weights, x: Batch) -> Logits:
    """Return f(x; δ) of a batch.

    Args:
        model: gives logits of images.
        start: θ₀.
        change: δ.
        x: images.

    """

    def output(weights: Weights) -> Tensor:
        return functional_call(model, weights, (x,))

    found = jvp(output, (start,), (change,))
    return found[0] + found[1]


def all_linear_outputs(model: nn.Module, start: Weights, change: Weights, x: Batch) -> Logits:
    """Return f(x; δ) of all images, batch by batch."""
    with torch.no_grad():
        parts = [linear_outputs(model, start, change, part) for part in x.split(BATCH_AT_TEST)]
    return torch.cat(parts)


def train_linearised(
    model: nn.Module,
    start: Weights,
    x: Batch,
    y: Answers,
    descent: LogisticDescent,
    rng: torch.Generator,
    *,
    centred: bool = False,
) -> Weights:
    """Train δ from zero on the loss of the network; return it.

    Args:
        model: gives logits of images.
        start: θ₀.
        x: images.
        y: of each.
        descent: how.
        rng: of the order of visits.
        centred: whether f(x; θ₀) is taken off, as in lazy training, whose limit this is.

    Raises:
        NonFiniteLoss: for a training that diverged.

    """
    change = {name: torch.zeros_like(own).requires_grad_() for name, own in start.items()}
    optimiser = descent.optimiser_of(list(change.values()))
    first = outputs(model, start, x) if centred else None
    for step, rows in enumerate(batches(len(x), descent, rng)):
        optimiser.param_groups[0]["lr"] = descent.lr_at(step)
        found = linear_outputs(model, start, change, x[rows])
        loss = mean_loss(found if first is None else found - first[rows], y[rows])
        check_finite(loss, descent)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: own.detach() for name, own in change.items()}
