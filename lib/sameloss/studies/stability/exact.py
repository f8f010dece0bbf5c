"""The stored steps that need no sample of swaps: every swap of a small sample, trained or in closed form."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.checks import check_counts
from sameloss.device import best_device
from sameloss.images import Images, ImageSource
from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Store
from sameloss.studies.stability.bounds import parameter_bound
from sameloss.studies.stability.losses import LOSS
from sameloss.studies.stability.networks import LogisticRegression
from sameloss.studies.stability.ridge import solved, stability_bound, swap_changes
from sameloss.studies.stability.stacked import Descent, Stack, log_probabilities, train
from sameloss.studies.stability.twins import all_swaps, check_sample, visiting_order

REPEATS = 2000
"""Draws of some swaps out of all."""

KERNELS = {"linear": "linear", "Gaussian": "rbf"}
"""Kernels by our names, and scikit-learn's."""


@dataclass(frozen=True)
class AllSwaps(Tabled):
    """Logistic regression on a sample and on every swap of it: the supremum, and what random swaps see of it.

    Its table has a row a loss and a number of swaps drawn: the `exact` largest change over all swaps and test
    images, `median`, `low` and `high` (2.5 and 97.5 %) of the largest over so many random swaps; and, in all
    rows the same, the largest `distance` of parameters, its `bound`, and the `slope` of the loss in them.
    """

    source: ImageSource
    descent: Descent
    size: int
    candidates: int  # test images that replace
    drawn: tuple[int, ...]  # numbers of random swaps
    seed: int

    def __post_init__(self) -> None:
        """Refuse what is no sample."""
        check_counts(self, "size", "candidates")
        check_sample(self.size, self.source.pool, self.descent.batch)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train on all swaps as one stack, the sample itself first."""
        images = self.source.load()
        x, y, device = images.x.to(best_device()), images.y.to(best_device()), best_device()
        network = LogisticRegression()
        shape = tuple(x.shape[1:])
        rows = self.rows(images).to(device)
        model = {name: own.to(device) for name, own in network.drawn(shape, images.classes, 0).items()}
        stack = Stack(network.build(shape, images.classes).to(device), [model], len(rows))
        for step in train(stack, x, y, rows, self.order().to(device), self.descent):
            if step % 50 == 0:
                report(step / self.descent.steps, f"{len(rows)} swaps")
        table = pd.DataFrame(self._seen(stack, x, y, images.pool)).assign(**self._distances(stack, x))
        table.to_csv(folder / TABLE, index=False)

    def rows(self, images: Images) -> Tensor:
        """Return the sample, and then each swap of it."""
        rng = generator_for("all swaps", self.seed, self.size)
        sample = torch.randperm(images.pool, generator=rng)[: self.size]
        candidates = torch.randperm(images.tested, generator=rng)[: self.candidates]
        return torch.cat([sample[None], all_swaps(sample, candidates).rows(images.pool)[1::2]])

    def order(self) -> Tensor:
        """Return the order of visits, the same for all."""
        rng = generator_for("order of all swaps", self.seed, self.size)
        return visiting_order(self.size, self.descent.batch, self.descent.steps, rng)[None]

    def _seen(self, stack: Stack, x: Tensor, y: Tensor, pool: int) -> Iterator[dict]:
        tested = torch.arange(pool, len(x), device=x.device).expand(
            len(next(iter(stack.weights.values()))), -1
        )
        predicted = log_probabilities(stack.network, stack.weights, x, tested)
        for name, loss in LOSS.items():
            losses = loss(predicted, y[tested])
            largest = (losses[1:] - losses[:1]).abs().amax(1).cpu().numpy()
            for count in self.drawn:
                yield {
                    "loss": name,
                    "drawn": count,
                    "exact": largest.max(),
                    **self._largest_of(largest, count),
                }

    def _largest_of(self, changes: Float[np.ndarray, " swap"], count: int) -> dict[str, float]:
        rng = np.random.default_rng(self.seed)
        found = [rng.choice(changes, count, replace=False).max() for _ in range(REPEATS)]
        low, median, high = np.quantile(found, [0.025, 0.5, 0.975])
        return {"median": median, "low": low, "high": high}

    def _distances(self, stack: Stack, x: Tensor) -> dict[str, float]:
        vectors = stack.vectors()
        slope = float((x.flatten(1).double().square().sum(1) + 1).sqrt().max())
        d = self.descent
        bound = parameter_bound(slope, d.lr, d.steps, self.size, d.batch)
        return {
            "distance": float((vectors[1:] - vectors[0]).norm(dim=1).max()),
            "bound": bound,
            "slope": slope,
        }

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 3e-7 * self.size * self.candidates * self.descent.batch * self.descent.steps


@dataclass(frozen=True)
class RidgeSwaps(Tabled):
    """All swaps of ridge regression in closed form, and the bound of Bousquet and Elisseeff (2002).

    Its table has a row a kernel, λ and m: the largest `change` of the squared loss over all swaps and test
    images, and the `bound` on it.
    """

    source: ImageSource
    sizes: tuple[int, ...]
    ridges: tuple[float, ...]
    candidates: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Solve each once."""
        pd.DataFrame(self._rows(self.source.load())).to_csv(folder / TABLE, index=False)

    def _rows(self, images: Images) -> Iterable[dict]:
        from sklearn.metrics.pairwise import (
            pairwise_kernels,  # takes its time, and other runs need none of it
        )

        x, y = images.x.flatten(1).double().numpy(), 2.0 * images.y.numpy() - 1
        rng = np.random.default_rng(self.seed)
        tested = images.pool + rng.permutation(images.tested)[: self.candidates]
        for size in self.sizes:
            rows = np.concatenate([rng.permutation(images.pool)[:size], tested])
            for name, metric in KERNELS.items():
                gram = pairwise_kernels(x[rows], metric=metric)
                for ridge in self.ridges:
                    yield {
                        "kernel": name,
                        "ridge": ridge,
                        "size": size,
                        "change": _largest_change(gram, y[rows], size, ridge),
                        "bound": stability_bound(ridge, size, float(np.diag(gram).max()), 1.0),
                    }


def _largest_change(
    gram: Float[np.ndarray, "row row"], y: Float[np.ndarray, " row"], size: int, ridge: float
) -> float:
    """Return the largest change of (f(x) - y)² at a candidate, over all swaps."""
    before = gram[size:, :size] @ solved(gram[:size, :size], y[:size], ridge)
    changes = swap_changes(gram, y, size, ridge)
    return float(np.abs(changes * (2 * (before - y[size:]) + changes)).max())
