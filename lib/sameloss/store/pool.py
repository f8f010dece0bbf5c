"""Compute many runs in parallel processes, with one progress bar."""

import os
import pickle
import sys
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from graphlib import TopologicalSorter
from multiprocessing import get_context

import cloudpickle
from tqdm import tqdm

from sameloss.device import holds_accelerator, usable_workers
from sameloss.errors import BookError, StoreError
from sameloss.store.processes import end_with_parent
from sameloss.store.store import PROGRESS, Run, Store

POLL_S = 0.5

SHORT = 8.0
"""Effort (seconds) below which starting two workers takes longer than computing without them."""


def compute_all(store: Store, runs: Iterable[Run], workers: int | None = None) -> None:
    """Compute all missing runs and ancestors in parallel, without loading results.

    Args:
        store: where results are stored.
        runs: requested runs.
        workers: processes, one thread each; None: `usable_workers`, or the calling process for little work
            and where it holds the GPU, which may be exclusive.

    Raises:
        BookError: the first error of a run, after all runs in progress have finished.
        StoreError: if a worker was killed; finished runs are kept, and trainings can be resumed.

    """
    missing = store.missing(runs)
    if not missing:
        return
    if workers is None and (holds_accelerator() or sum(run.effort for run in missing) <= SHORT):
        with _bar(missing) as bar:
            for run in missing:  # parents first
                store.complete.compute(run)
                bar.update(run.effort)
        return
    workers = workers or usable_workers()
    spawn = get_context("spawn")  # a fork would inherit torch's thread pool in an undefined state
    pool = ProcessPoolExecutor(workers, spawn, initializer=end_with_parent, initargs=(os.getpid(),))
    try:
        _keep_busy(pool, workers, store, missing)
    except BrokenProcessPool:
        raise StoreError(
            "A worker process was killed, perhaps for want of memory; finished runs are kept. "
            "Run again to go on, with fewer workers (parameter `workers`) if memory was short."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _keep_busy(pool: Executor, workers: int, store: Store, runs: list[Run]) -> None:
    """Keep all workers busy, the longest chain of dependent work first; after an error, finish what runs.

    Args:
        pool: of processes.
        workers: their number.
        store: where results are stored.
        runs: parents first.

    """
    unfinished = {run.key: run for run in runs}
    parents = {key: [p.key for p in run.parents() if p.key in unfinished] for key, run in unfinished.items()}
    chains = {key: run.effort for key, run in unfinished.items()}
    for key in reversed(unfinished):
        for parent in parents[key]:
            chains[parent] = max(chains[parent], unfinished[parent].effort + chains[key])
    order = TopologicalSorter(parents)
    order.prepare()
    ready: list[str] = []
    running: dict[Future[None], Run] = {}
    with _bar(runs) as bar:
        while order.is_active():
            ready = sorted([*ready, *order.get_ready()], key=lambda key: -chains[key])
            while ready and len(running) < workers:
                run = unfinished[ready.pop(0)]
                running[pool.submit(_compute, store.complete, cloudpickle.dumps(run))] = run
            done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    future.result()
                except BookError as error:
                    raise error from None  # without the worker's traceback
                key = running.pop(future).key
                del unfinished[key]
                order.done(key)
            _show(bar, store, unfinished.values(), running.values())


def _compute(store: Store, run: bytes) -> None:
    """Compute a run, whose class may stand in a notebook, where this process cannot import it."""
    store.compute(pickle.loads(run))


def _bar(runs: list[Run]) -> tqdm:
    """Progress bar over the effort of all runs."""
    return tqdm(
        total=sum(run.effort for run in runs),
        desc=f"{len(runs)} runs",
        bar_format="{desc} {percentage:3.0f}% |{bar:20}| {elapsed}<{remaining} {postfix}",
        mininterval=0.5 if sys.stderr.isatty() else 5,  # fewer lines in a log
    )


def _show(bar: tqdm, store: Store, unfinished: Iterable[Run], running: Iterable[Run]) -> None:
    """Advance the bar and show the progress text of each worker."""
    states = [(run.effort, *_state(store, run)) for run in running]
    bar.set_postfix_str(" · ".join(text for *_, text in states if text), refresh=False)
    left = sum(run.effort for run in unfinished) - sum(effort * done for effort, done, _ in states)
    advance = bar.total - left - bar.n
    if advance > 1e-3 * bar.total or not states:
        bar.update(advance)


def _state(store: Store, run: Run) -> tuple[float, str]:
    """Fraction done and progress text of a running computation."""
    try:
        fraction, _, text = (store.partial(run) / PROGRESS).read_text().partition(" ")
        return float(fraction), text
    except (OSError, ValueError):
        return 0.0, ""
