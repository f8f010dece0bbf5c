"""Execute changed chapters with papermill, two at a time."""

import io
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError

from sameloss.book.notebooks import (
    DEFAULT,
    EXECUTED,
    Execution,
    execution_of,
    fingerprints,
    notebooks,
    show_captions,
)
from sameloss.store.location import source_revision
from sameloss.store.processes import end_with_parent

KERNELS = 2
"""Chapters executed at once; each uses one core and 0.7 GB."""


def execute(
    preset: str, force: bool = False, max_hours: float | None = None, page: str | None = None
) -> None:
    """Compute the runs of all changed chapters in one pool, then execute the chapters.

    Args:
        preset: of all chapters.
        force: whether to execute unchanged chapters too.
        max_hours: limit on the runs; None: the preset's.
        page: the only one to execute; None: all.

    Raises:
        SystemExit: if a chapter ends in an error.

    """
    changed = {}
    for path, fingerprint in fingerprints(notebooks(page), preset).items():
        execution = Execution(preset, fingerprint, source_revision())
        before = execution_of(path)
        if force or before is None or before.fingerprint != fingerprint:
            changed[path] = execution
        else:
            print(f"── {path} ({preset}): unchanged", flush=True)
    if changed:
        from sameloss.book.record import compute  # imports torch, which takes seconds

        compute(preset, [path.stem for path in changed], max_hours)
        execute_all(changed)


def execute_all(executions: dict[Path, Execution]) -> None:
    """Execute chapters in parallel; after an error, let those in progress finish.

    Raises:
        SystemExit: if a chapter ends in an error, or a process was killed.

    """
    os.environ["OMP_NUM_THREADS"] = "1"  # of each kernel
    with ProcessPoolExecutor(KERNELS, get_context("spawn"), initializer=end_with_parent) as pool:
        try:
            running = {pool.submit(execute_one, *item): item for item in executions.items()}
            for future in as_completed(running):
                (page, execution), (printed, seconds, fault) = running[future], future.result()
                print(f"── {page} ({execution.preset})\n{printed.rstrip()}")
                if fault:
                    raise SystemExit(f"{page} {fault}")
                print(f"   done in {seconds:.0f} s", flush=True)
        except BrokenProcessPool:
            raise SystemExit(
                "A process that executes chapters was killed; run this again to go on."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def execute_one(page: Path, execution: Execution) -> tuple[str, float, str | None]:
    """Execute one chapter; its copy appears only on success.

    Returns:
        Printed text, seconds, and the error if any.

    """
    started, printed = time.perf_counter(), io.StringIO()
    target = EXECUTED / page
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished.ipynb")
    parameters = {} if execution.preset == DEFAULT else {"preset": execution.preset}
    fault = None
    try:
        notebook = papermill.execute_notebook(
            page,
            unfinished,
            parameters,
            extra_arguments=["--IPKernelApp.log_level=50"],
            stdout_file=printed,
            stderr_file=printed,
            progress_bar=False,
        )
        show_captions(notebook)
        execution.write(notebook)
        nbformat.write(notebook, unfinished)
        unfinished.replace(target)
    except PapermillExecutionError as error:
        fault = f"ended with {error.ename}: {error.evalue}"
    except RuntimeError as error:  # the kernel did not start, or was killed
        fault = f"lost its kernel, perhaps for want of memory ({error}); run this again to go on."
    return printed.getvalue(), time.perf_counter() - started, fault
