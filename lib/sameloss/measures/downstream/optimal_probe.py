"""Linear probes at their optimum: softmax regression with a ridge that held-out sentences choose.

Nothing of an optimiser is left in the result: no rate, no batch, no length, no start.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.checks import check_counts, check_positive
from sameloss.errors import ParameterError
from sameloss.measures.downstream.probe import LinearProbes, check_labels, draw_projection, projected, scaling

ROUNDING = 1e-12
"""Axes along which the second moment is this much smaller than along the first are rounding."""


@dataclass(frozen=True)
class OptimalProbe:
    """L2-regularised softmax regression on standardised features, solved by L-BFGS in float64.

    The ridge λ of each seed and task is the one of `ridges` with the least cross-entropy on the last
    `held_out` share of its sentences, to which it was not fitted; then the probe is fitted to all. The bias
    is penalised too, so that there is one optimum even where a class does not occur.
    """

    ridges: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    held_out: float = 0.2
    tolerance: float = 5e-4  # of the gradient, in the principal axes of the features
    iterations: int = 1000
    projection: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings with which there is no optimum, or none that could be found."""
        check_positive(self, "tolerance")
        check_counts(self, "iterations", *(() if self.projection is None else ("projection",)))
        if not self.ridges or min(self.ridges) <= 0:
            raise ParameterError(f"ridges must be positive numbers, one at least; got {self.ridges}.")
        if not 0 < self.held_out < 1:
            raise ParameterError(f"held_out must lie between 0 and 1; got {self.held_out}.")

    @property
    def passes(self) -> int:
        """Return roughly how many times it goes over its sentences, as measured on those of a laptop."""
        return 60 * (1 + len(self.ridges))

    def fit(
        self,
        features: Float[Tensor, "seed example feature"],
        labels: Int[Tensor, "seed example task"],
        classes: Sequence[int],
        seed: int,
    ) -> LinearProbes:
        """Solve one probe for each seed: see `Probe.fit`. Only the projection is random.

        >>> features = torch.tensor([[[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]])
        >>> labels = torch.tensor([[[0], [1], [0], [1], [1]]])  # of one seed and task: the first feature
        >>> probes = OptimalProbe().fit(features, labels, [2], seed=0)
        >>> probes.correct(features, labels[0])[..., 0].all()
        tensor(True)
        >>> bool(probes.gradient(features, labels) < 5e-4)
        True

        """
        check_labels(labels, classes)
        return self.solved(features, labels, classes, seed)

    def solved(
        self,
        features: Float[Tensor, "seed example feature"],
        labels: Int[Tensor, "seed example task"],
        classes: Sequence[int],
        seed: int,
    ) -> LinearProbes:
        """Return the same for any labels, of a single class too: then the probe says so of everything."""
        projection = draw_projection(features, self.projection, torch.Generator().manual_seed(seed))
        labels, solved = labels.to(features.device), []
        for number, own in enumerate(features):  # one seed at a time: wide features fill a GPU
            own = projected(own, None if projection is None else projection[number]).double()
            centre, spread = scaling(own[None])
            read = (own - centre[0]).div_(spread[0])
            solved.append((*self._solve(read, labels[number], classes), centre[0], spread[0]))
        weight, ridge, centre, spread = (torch.stack(parts) for parts in zip(*solved, strict=True))
        return LinearProbes(weight[:, :-1], weight[:, -1:], centre, spread, tuple(classes), ridge, projection)

    def _solve(
        self, read: Float[Tensor, "example read"], labels: Int[Tensor, "example task"], classes: Sequence[int]
    ) -> tuple[Float[Tensor, "read_and_1 logit"], Float[Tensor, " task"]]:
        """Return the optimal weights (bias last) of one seed, and the ridge of each task."""
        read = F.pad(read, (0, 1), value=1.0)
        ridge, start = self._chosen_ridge(read, labels, classes)
        return self._optimum(_turned(read), labels, classes, ridge, start), ridge

    def _chosen_ridge(
        self, read: Float[Tensor, "example read"], labels: Int[Tensor, "example task"], classes: Sequence[int]
    ) -> tuple[Float[Tensor, " task"], Float[Tensor, "read logit"]]:
        """Return the ridge of each task that is best on held-out sentences, and the weights found with it.

        The largest ridge is solved first: each optimum is a good start for the next.
        """
        kept = len(read) - max(1, round(self.held_out * len(read)))
        weight, best = read.new_zeros(read.shape[1], sum(classes)), read.new_full((len(classes),), torch.inf)
        ridge, found, own = torch.zeros_like(best), weight, _turned(read[:kept])
        for tried in sorted(self.ridges, reverse=True):
            weight = self._optimum(own, labels[:kept], classes, torch.full_like(best, tried), weight)
            loss = _losses(read[kept:] @ weight, labels[kept:], classes)
            better = loss < best
            best, ridge = loss.minimum(best), ridge.masked_fill(better, tried)
            found = torch.where(_each(better, classes), weight, found)
        return ridge, found

    def _optimum(
        self,
        own: "_Turned",
        labels: Int[Tensor, "example task"],
        classes: Sequence[int],
        ridge: Float[Tensor, " task"],
        start: Float[Tensor, "read logit"],
    ) -> Float[Tensor, "read logit"]:
        """Minimise the mean cross-entropy + ridge / 2 ‖W‖² of every task.

        The curvature of cross-entropy is at most half the features' second moment (Böhning 1992). In its
        principal axes, each scaled by that bound, all directions curve alike, and L-BFGS takes few steps.
        """
        each = _each(ridge, classes)
        scale = (own.moment[:, None] / 2 + each).rsqrt()
        free = (own.axes.T @ start / scale).requires_grad_()
        solver = torch.optim.LBFGS(
            [free],
            max_iter=self.iterations,
            max_eval=2 * self.iterations,
            history_size=20,
            tolerance_grad=self.tolerance * float(scale.min()),
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            solver.zero_grad()
            weight = scale * free
            total = _losses(own.read @ weight, labels, classes).sum() + (each * weight**2).sum() / 2
            total.backward()
            return total

        with torch.enable_grad():
            solver.step(loss)
        return own.axes @ (scale * free).detach()


class _Turned(NamedTuple):
    """Features in the principal axes of their second moment."""

    read: Float[Tensor, "example axis"]
    moment: Float[Tensor, " axis"]
    axes: Float[Tensor, "width axis"]


def _turned(read: Float[Tensor, "example width"]) -> _Turned:
    """Turn features into their principal axes.

    Fewer sentences than features span as many axes as sentences; along all others the optimum is zero.
    """
    if len(read) < read.shape[1]:
        moment, ends = torch.linalg.eigh(read @ read.T / len(read))
        axes = read.T @ (ends / (len(read) * moment.clamp_min(moment[-1] * ROUNDING)).sqrt())
    else:
        moment, axes = torch.linalg.eigh(read.T @ read / len(read))
    return _Turned(read @ axes, moment.clamp_min(0), axes)


def _each(values: Tensor, classes: Sequence[int]) -> Tensor:
    """Repeat the value of each task for all of its logits."""
    return values.repeat_interleave(torch.tensor(classes, device=values.device))


def _losses(
    logits: Float[Tensor, "example logit"], labels: Int[Tensor, "example task"], classes: Sequence[int]
) -> Float[Tensor, " task"]:
    """Return the mean cross-entropy of each task."""
    tasks = zip(logits.split(tuple(classes), dim=-1), labels.unbind(1), strict=True)
    return torch.stack([F.cross_entropy(task, own) for task, own in tasks])
