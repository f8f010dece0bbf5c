"""What two models differ in that were trained on twins: losses at single images, parameters, predictions.

Beside it stands what uniform stability is to bound, the generalisation gap of the first.
"""

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.studies.stability.losses import LOSS, total_variation

LogP = Float[Tensor, "model image label"]
Labels = Int[Tensor, " image"]


def twin_table(
    tested: LogP,
    labels: Labels,
    sampled: Float[Tensor, "model position label"],
    own: Int[Tensor, "model position"],
    by: Int[Tensor, " pair"],
    vectors: Float[Tensor, "model parameter"],
) -> pd.DataFrame:
    """Return what pairs of models differ in, S and S' of the first pair before those of the second.

    Args:
        tested: log probabilities of all test images.
        labels: theirs.
        sampled: of the images that each model was trained on.
        own: their labels.
        by: the row z of the test set that S' has and S has not.
        vectors: all parameters.

    Returns:
        One row a pair: `error` of S on the test set and `trained error` on its sample; for each loss `gap`,
        the excess of the loss on the test set over that on S, `beta`, the largest difference that an image
        makes, `others`, the same without z, and `mean`; the same three of the total variation; `distance`,
        `norm` (the mean of both) and `normalised` distance.

    """
    columns = {
        "error": _first(LOSS["0-1"](tested, _each(labels, tested))).mean(1),
        "trained error": _first(LOSS["0-1"](sampled, own)).mean(1),
    }
    for name, loss in LOSS.items():
        losses = loss(tested, _each(labels, tested))
        columns[f"gap {name}"] = _first(losses).mean(1) - _first(loss(sampled, own)).mean(1)
        columns |= _extremes(name, (losses[::2] - losses[1::2]).abs(), by)
    columns |= _extremes("total variation", total_variation(tested[::2], tested[1::2]), by)
    columns |= _parameters(vectors)
    table = pd.DataFrame({name: found.cpu().numpy() for name, found in columns.items()})
    return table.rename_axis("pair").reset_index()


def _first(of_models: Tensor) -> Tensor:
    """Return what belongs to S."""
    return of_models[::2]


def _each(labels: Labels, models: Tensor) -> Int[Tensor, "model image"]:
    return labels.expand(len(models), -1)


def _extremes(name: str, changes: Float[Tensor, "pair image"], by: Int[Tensor, " pair"]) -> dict[str, Tensor]:
    others = changes.clone()
    others[torch.arange(len(by)), by] = 0
    return {
        f"beta {name}": changes.amax(1),
        f"others {name}": others.amax(1),
        f"mean {name}": changes.mean(1),
    }


def _parameters(vectors: Float[Tensor, "model parameter"]) -> dict[str, Tensor]:
    norms = vectors.norm(dim=1)
    norm, distance = (norms[::2] + norms[1::2]) / 2, (vectors[::2] - vectors[1::2]).norm(dim=1)
    return {"distance": distance, "norm": norm, "normalised": distance / norm}
