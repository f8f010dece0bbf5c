"""Several orthogonal features in the place of one (remark in Section 3.3): an image has one of r, at random.

A filter that answers to r' of them alike has only 1/√r' of its length along each, as if the noise were √r'
times as strong. With a filter for each, noise has r times as many rows, and the signal its whole length.
"""

from math import log, sqrt

import numpy as np
import pandas as pd

from sameloss.checks import check_count
from sameloss.studies.local_signal.tangent.rows import dimension
from sameloss.studies.local_signal.theory import Patches, best_threshold

SHOWN_ROWS = (1000, 10_000, 1_000_000)

SHOWN_FEATURES = (1, 2, 10)


def one_filter(patches: Patches, features: int) -> float:
    """Return what one filter can reach that answers alike to some features, and guesses the others.

    Args:
        patches: k and σ.
        features: r; an image's signal row is y times one of so many orthogonal directions.

    Raises:
        ParameterError: for no feature.

    """
    check_count("features", features)
    seen = np.unique(np.geomspace(1, features, 2 + round(log(features, 4))).round())  # r is among them
    right = [best_threshold(Patches(patches.noise, patches.multiplier * sqrt(own)))[1] for own in seen]
    return float(
        max(own / features * r + (1 - own / features) / 2 for own, r in zip(seen, right, strict=True))
    )


def filter_each(patches: Patches, features: int) -> float:
    """Return what r filters reach, each along a feature of its own, all with the best threshold.

    Their noise is independent, and the other filters answer nothing to an image's signal.

    >>> filter_each(Patches(1000), 1) == best_threshold(Patches(1000))[1]
    True
    """
    check_count("features", features)
    rows = patches.noise * features
    return best_threshold(Patches(rows, patches.sigma / Patches(rows).sigma))[1]


def feature_table() -> pd.DataFrame:
    """Return both by k and r, at the thesis' own σ."""
    cases = [(Patches(k), r) for k in SHOWN_ROWS for r in (*SHOWN_FEATURES, dimension(Patches(k)))]
    rows = [
        {"k": p.noise, "features": r, "one filter": one_filter(p, r), "a filter each": filter_each(p, r)}
        for p, r in cases
    ]
    return pd.DataFrame(rows)
