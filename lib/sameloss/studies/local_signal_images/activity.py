"""Which neurons are active (Figure 3.2): the share of a layer's ReLUs whose output is not zero."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sameloss.studies.local_signal_images.descent import outputs
from sameloss.studies.local_signal_images.networks import Weights


def active_shares(model: nn.Module, weights: Weights, x: Float[Tensor, "image *shape"]) -> list[float]:
    """Return the share of active neurons of each layer of ReLUs, over all of its units, pixels and images.

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Flatten(0))
    >>> active_shares(model, {}, torch.tensor([[-1.0], [2.0], [0.0], [3.0]]))
    [0.5]
    """
    layers = [layer for layer in model.modules() if isinstance(layer, nn.ReLU)]
    active, seen = [0.0] * len(layers), [0] * len(layers)

    def watch(at: int) -> torch.utils.hooks.RemovableHandle:
        def count(_: nn.Module, given: object, result: Tensor) -> None:
            active[at] += float((result > 0).sum())
            seen[at] += result.numel()

        return layers[at].register_forward_hook(count)

    watching = [watch(at) for at in range(len(layers))]
    outputs(model, weights, x)
    for handle in watching:
        handle.remove()
    return [own / count for own, count in zip(active, seen, strict=True)]
