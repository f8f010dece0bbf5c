"""Compute many runs on the cores of one machine, with one progress bar."""

import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from tqdm import tqdm

from sameloss.checks import check_count
from sameloss.device import usable_workers
from sameloss.errors import BookError, StoreError
from sameloss.store.processes import end_with_parent
from sameloss.store.store import PROGRESS, Run, Store

POLL_S = 0.5

MOST_KINDS = 4
"""So many kinds of runs a progress bar names."""

SHORT = 8.0
"""Seconds of effort that the calling process is done with when two others had started and shared them."""


def compute_all(store: Store, runs: Iterable[Run], workers: int | None = None) -> None:
    """Compute in parallel what is missing of `runs`, and read nothing.

    Args:
        store: where results live.
        runs: what is wanted; what they read is computed first.
        workers: processes, each on one thread; where None, `usable_workers`, or for little work the
            calling process itself.

    Raises:
        ParameterError: for a number of workers that is none.
        BookError: the first fault of a run; those that had begun are finished and kept.
        StoreError: where a worker process was killed; finished runs are kept, a training goes on
            from its last resumable state next time.

    """
    if workers is not None:
        check_count("workers", workers)
    missing = store.missing(runs)
    if not missing:
        return
    if workers is None and sum(run.effort for run in missing) <= SHORT:
        with _bar(missing) as bar:
            for run in missing:  # parents first
                store.whole.compute(run)
                bar.update(run.effort)
        return
    workers = workers or usable_workers()
    # A forked child would inherit torch's thread pool in an undefined state.
    spawn, here = get_context("spawn"), (os.getpid(),)
    pool = ProcessPoolExecutor(workers, spawn, initializer=end_with_parent, initargs=here)
    try:
        _keep_busy(pool, workers, store, missing)
    except BrokenProcessPool:
        raise StoreError(
            "A worker process was killed, perhaps for want of memory; finished runs are kept. "
            "Run again to go on, with fewer workers (parameter `workers`) if memory was short."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Queue:
    """The runs that no worker has begun; each waits until the runs that it reads are finished."""

    def __init__(self, runs: Sequence[Run]) -> None:
        """Note what each run awaits, and put the runs in order.

        The first is the one that begins the longest chain of runs that read each other, which could
        otherwise be the only one left to wait for at the end.

        Args:
            runs: parents first.

        """
        given = {run.key: run for run in runs}
        self._awaited = {key: {p.key for p in run.parents()} & set(given) for key, run in given.items()}
        chains = {key: run.effort for key, run in given.items()}
        for key in reversed(given):
            for parent in self._awaited[key]:
                chains[parent] = max(chains[parent], given[parent].effort + chains[key])
        self.runs = {key: given[key] for key in sorted(given, key=lambda key: -chains[key])}

    def pop(self) -> Run | None:
        """Remove and return the first run that awaits no other; return None where all do."""
        key = next((key for key in self.runs if not self._awaited[key]), None)
        return None if key is None else self.runs.pop(key)

    def finished(self, run: Run) -> None:
        """Note that a run is finished, so that those that awaited only this one can be popped."""
        for awaited in self._awaited.values():
            awaited.discard(run.key)


def _keep_busy(pool: Executor, workers: int, store: Store, runs: list[Run]) -> None:
    """Give every worker a run as long as there is one; after a fault only let the begun ones end."""
    queue = _Queue(runs)
    running: dict[Future[None], Run] = {}
    with _bar(runs) as bar:
        while queue.runs or running:
            while len(running) < workers and (run := queue.pop()):
                running[pool.submit(store.whole.compute, run)] = run
            done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    future.result()
                except BookError as error:
                    raise error from None  # without the worker's own traceback
                queue.finished(running.pop(future))
            _show(bar, store, list(queue.runs.values()), list(running.values()))


def _bar(runs: list[Run]) -> tqdm:
    """Return a progress bar of the effort of all runs, named after their kinds where these are few."""
    kinds = sorted({run.kind for run in runs})
    return tqdm(
        total=sum(run.effort for run in runs),
        desc=f"{', '.join(kinds)} ({len(runs)})" if len(kinds) <= MOST_KINDS else f"{len(runs)} runs",
        bar_format="{desc} {percentage:3.0f}% |{bar:20}| {elapsed}<{remaining} {postfix}",
        mininterval=0.5 if sys.stderr.isatty() else 5,  # in a log a line now and then
    )


def _show(bar: tqdm, store: Store, queue: list[Run], running: list[Run]) -> None:
    """Move the bar to the effort that is done, and write beside it what the workers say."""
    states = [_state(store, run) for run in running]
    left = sum(run.effort for run in queue)
    left += sum(run.effort * (1 - done) for run, (done, _) in zip(running, states, strict=True))
    bar.set_postfix_str(" · ".join(text for _, text in states if text), refresh=False)
    advance = bar.total - left - bar.n
    if advance > 1e-3 * bar.total or not running:
        bar.update(advance)


def _state(store: Store, run: Run) -> tuple[float, str]:
    """Return the fraction of a running computation that is done, and its own words."""
    try:
        fraction, _, text = (store.partial(run) / PROGRESS).read_text().partition(" ")
        return float(fraction), text
    except (OSError, ValueError):
        return 0.0, ""
