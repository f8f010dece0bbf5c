"""Compute many runs on the cores of one machine, with one progress bar."""

import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from tqdm import tqdm

from sameloss.device import best_device
from sameloss.errors import BookError, StoreError
from sameloss.store.store import PROGRESS, Run, Store, with_ancestors

POLL_S = 0.5


def get_all(store: Store, runs: Sequence[Run], workers: int | None = None) -> list:
    """Return the results of `runs`, computing what is missing in parallel: see `compute_all`."""
    compute_all(store, runs, workers)
    return [store.get(run) for run in runs]


def compute_all(store: Store, runs: Iterable[Run], workers: int | None = None) -> None:
    """Compute what is missing of `runs` and of all they read, in parallel; nothing is loaded.

    Args:
        store: where results live.
        runs: what is wanted; what they read is computed first.
        workers: processes, each on one thread; `usable_workers` where None.

    Raises:
        StoreError: where a worker process was killed; finished runs are kept, a training goes on
            from its last resumable state next time.

    """
    missing = [run for run in with_ancestors(runs) if not store.has(run)]
    if missing:
        # A forked child would inherit torch's thread pool in an undefined state.
        workers = workers or usable_workers()
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=end_with_parent)
        try:
            _compute(store, missing, pool, workers)
        except BrokenProcessPool:
            raise StoreError(
                "A worker process was killed, perhaps for want of memory; finished runs are kept. "
                "Run again to go on, with fewer workers (parameter `workers`) if memory was short."
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def usable_workers() -> int:
    """Return how many runs to compute at once: one a core, and on a GPU one."""
    return 1 if best_device() == "cuda" else os.cpu_count() or 1


def end_with_parent() -> None:
    """End this process when the one that started it is gone: a killed notebook leaves no worker behind."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Queue:
    """Runs that wait for the runs they read, or for a worker."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Sort the runs, longest first, and note what each waits for."""
        self.runs = {run.key: run for run in sorted(runs, key=lambda run: -run.effort)}
        self._awaited = {
            key: {p.key for p in run.parents()} & set(self.runs) for key, run in self.runs.items()
        }

    def pop(self) -> Run | None:
        """Take the longest run that waits for no other; None where there is none."""
        key = next((key for key in self.runs if not self._awaited[key]), None)
        return None if key is None else self.runs.pop(key)

    def finished(self, run: Run) -> None:
        """Let runs go that waited for this one."""
        for awaited in self._awaited.values():
            awaited.discard(run.key)


def _compute(store: Store, runs: list[Run], pool: Executor, workers: int) -> None:
    """Keep the workers busy; after an error only let running ones end."""
    queue = _Queue(runs)
    running: dict[Future, Run] = {}
    names = ", ".join(sorted({run.kind for run in runs}))
    # A log gets a line now and then, a terminal a moving bar.
    with tqdm(
        total=sum(run.effort for run in runs),
        desc=f"{names} ({len(runs)})",
        bar_format="{desc} {percentage:3.0f}% |{bar:20}| {elapsed}<{remaining} {postfix}",
        mininterval=0.5 if sys.stderr.isatty() else 5,
    ) as bar:
        while queue.runs or running:
            while len(running) < workers and (run := queue.pop()):
                running[pool.submit(_compute_one, store, run)] = run
            finished, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
            for future in finished:
                run = running.pop(future)
                _raise_plainly(future)
                queue.finished(run)
            _show(bar, store, list(queue.runs.values()), list(running.values()))


def _compute_one(store: Store, run: Run) -> None:
    store.get(run)


def _raise_plainly(future: Future) -> None:
    """Raise a worker's error; one of ours without the worker's own traceback."""
    try:
        future.result()
    except BookError as error:
        raise error from None


def _show(bar: tqdm, store: Store, queue: list[Run], running: list[Run]) -> None:
    states = [_state(store, run) for run in running]
    left = sum(run.effort for run in queue)
    left += sum(run.effort * (1 - done) for run, (done, _) in zip(running, states, strict=True))
    bar.set_postfix_str(" · ".join(text for _, text in states if text), refresh=False)
    advance = bar.total - left - bar.n
    if advance > 1e-3 * bar.total or not running:
        bar.update(advance)


def _state(store: Store, run: Run) -> tuple[float, str]:
    """Read how far a running computation is."""
    try:
        fraction, _, text = (store.partial(run) / PROGRESS).read_text().partition(" ")
        return float(fraction), text
    except (OSError, ValueError):
        return 0.0, ""
