"""Workers that compute without checks of types, forked from a process that has imported what they need."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from unittest.mock import patch

from sameloss.store import pool
from sameloss.store.processes import end_with_parent

IMPORTED = ["sameloss.book.pages", "torch._dynamo"]
"""All studies, and what the first step of an optimiser imports."""


FORKING = get_context("forkserver")
"""Forks from a process that these tests alone have, without threads, which ends with them."""

FORKING.set_forkserver_preload(IMPORTED)


@contextmanager
def quick_workers() -> Iterator[None]:
    """Let workers begin in no time, not in the seconds of an import."""
    with (
        patch.object(pool, "get_context", lambda method: FORKING),
        patch.object(pool, "end_with_parent", _end_with_all),
    ):
        yield


def _end_with_all(_: int) -> None:
    end_with_parent()
