"""Stores that begin with what another one has, and what may differ between two of them."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from sameloss.store.store import Run, Store

SECONDS = {"seconds"}
"""Columns of measured times, which no comparison of results may depend on."""


def with_copies(runs: Iterable[Run], store: Store, root: Path) -> Store:
    """Return a store at a new place with copies of these runs, computed first where they are not."""
    copied = Store(root)
    for run in runs:
        store.compute(run)
        shutil.copytree(store.folder(run), copied.folder(run))
    return copied
