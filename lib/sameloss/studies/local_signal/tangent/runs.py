"""The tangent kernel's best error over many starts: the sampled part of Theorem 3.2."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sameloss.checks import check_count, check_counts
from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Store
from sameloss.studies.local_signal.tangent.rows import (
    TangentKernel,
    best_error,
    held_out_error,
    initial_filters,
    open_and_closed,
    threshold_at_signal,
    without_threshold,
)
from sameloss.studies.local_signal.theory import Patches

AT_SIGNAL = "thresholds at the signal"
SOME_CLOSED = "some just above it"
BY_BIAS = "and gradients by b"
OPEN = "b = 0"
OPEN_BY_BIAS = "b = 0, and gradients by b"
HELD_OUT = "thresholds at the signal, held out"

KINDS = (AT_SIGNAL, SOME_CLOSED, BY_BIAS, OPEN, OPEN_BY_BIAS, HELD_OUT)
"""What the kernel is made of; each with its best W."""


@dataclass(frozen=True)
class TangentStarts:
    """How many filters, starts and images.

    Raises:
        ParameterError: for a number that is not whole or too small.

    """

    filters: tuple[int, ...]  # m
    starts: int  # whose best error is computed from moments
    held: int  # of these, whose W is tried on drawn images, and which are seen at b = 0, too
    images: int  # each

    def __post_init__(self) -> None:
        """Refuse what is no number of anything."""
        check_counts(self, "starts", "held")
        check_count("images", self.images, least=2)
        for m in self.filters:
            check_count("m, the number of filters,", m)


@dataclass(frozen=True)
class TangentRows(Tabled):
    """Best errors by the number of filters m, start and kind of kernel."""

    patches: Patches
    tried: TangentStarts
    seed: int

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        images = 1e-7 * self.tried.images * self.patches.noise * self.tried.held
        return sum(1.5e-4 * m**2 * self.tried.starts + images * m / 8 for m in self.tried.filters)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Write one row a kernel: `filters`, `start`, `kind`, `error`, `standard_error` and `closed`."""
        rows: list[dict] = []
        for done, m in enumerate(self.tried.filters):
            for start in range(self.tried.starts):
                rows += self._of_start(m, start)
            report((done + 1) / len(self.tried.filters), f"m = {m}")
        pd.DataFrame(rows).to_csv(folder / TABLE, index=False)

    def _of_start(self, m: int, start: int) -> Iterator[dict]:
        at = {"filters": m, "start": start}
        filters = initial_filters(self.patches, m, generator_for("tangent filters", self.seed, m, start))
        kernel = threshold_at_signal(self.patches, filters)
        for kind, one in self._kernels(kernel, all_kinds=start < self.tried.held).items():
            closed = int(m - one.sees_signal.sum())
            yield {**at, "kind": kind, "error": best_error(one), "standard_error": 0.0, "closed": closed}
        if start < self.tried.held:
            generator = generator_for("tangent images", self.seed, m, start)
            found = held_out_error(kernel, self.tried.images, generator)
            error = {"error": found.mean, "standard_error": found.standard_error}
            yield {**at, "kind": HELD_OUT, **error, "closed": 0}

    def _kernels(self, kernel: TangentKernel, all_kinds: bool) -> dict[str, TangentKernel]:
        patches, filters = self.patches, kernel.filters
        thresholded = {
            AT_SIGNAL: kernel,
            SOME_CLOSED: open_and_closed(kernel),
            BY_BIAS: threshold_at_signal(patches, filters, biased=True),
        }
        at_zero = {
            OPEN: without_threshold(patches, filters),
            OPEN_BY_BIAS: without_threshold(patches, filters, biased=True),
        }
        return thresholded | at_zero if all_kinds else thresholded
