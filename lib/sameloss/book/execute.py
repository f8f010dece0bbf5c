"""Execute the chapters through papermill: those alone whose inputs have changed, two at a time."""

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

from sameloss.book.notebooks import DEFAULT, Execution, copy_of, execution_of, fingerprints, notebooks
from sameloss.store.location import source_revision
from sameloss.store.processes import end_with_parent
from sameloss.studies.drawing import NARROW_WANTED

KERNELS = 2
"""Chapters executed at once; each takes a core and 0.7 GB."""


def execute(preset: str, force: bool = False, max_hours: float | None = None) -> None:
    """Compute what the changed chapters read in one pool, then execute them.

    Args:
        preset: of all chapters.
        force: whether to execute chapters that have not changed, too.
        max_hours: that their runs may take, which chapters then find; the preset's limit where None.

    Raises:
        SystemExit: where a chapter ends in an error.

    """
    changed = {}
    for page, fingerprint in fingerprints(notebooks(), preset).items():
        execution = Execution(preset, fingerprint, source_revision())
        before = execution_of(page)
        if force or before is None or before.fingerprint != fingerprint:
            changed[page] = execution
        else:
            print(f"── {page} ({preset}): unchanged", flush=True)
    if changed:
        from sameloss.book.record import compute  # torch takes seconds that an unchanged book need not wait

        compute(preset, [page.stem for page in changed], max_hours)
        execute_all(changed)


def execute_all(executions: dict[Path, Execution]) -> None:
    """Execute chapters in processes of their own; after a fault let those that were handed out end.

    Raises:
        SystemExit: where a chapter ends in an error, or a process was killed.

    """
    with ProcessPoolExecutor(KERNELS, get_context("spawn"), initializer=_begin) as pool:
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


def _begin() -> None:
    """Tell the kernels that this process will start to use one core, and that they are for the book."""
    end_with_parent()
    os.environ.update({"OMP_NUM_THREADS": "1", NARROW_WANTED: "yes"})


def execute_one(page: Path, execution: Execution) -> tuple[str, float, str | None]:
    """Execute one chapter; its copy appears, with a record of the execution, only where that succeeds.

    Returns:
        What it printed, the seconds that it took, and what went wrong.

    """
    started, printed = time.perf_counter(), io.StringIO()
    target = copy_of(page)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished.ipynb")
    given = {} if execution.preset == DEFAULT else {"preset": execution.preset}
    fault = None
    try:
        said = {"stdout_file": printed, "stderr_file": printed, "progress_bar": False}
        quiet = ["--IPKernelApp.log_level=50"]
        notebook = papermill.execute_notebook(page, unfinished, given, extra_arguments=quiet, **said)
        execution.write(notebook)
        nbformat.write(notebook, unfinished)
        unfinished.replace(target)
    except PapermillExecutionError as error:
        fault = f"ended with {error.ename}: {error.evalue}"
    except RuntimeError as error:  # of the kernel: it did not start, or was killed
        fault = f"lost its kernel, perhaps for want of memory ({error}); run this again to go on."
    return printed.getvalue(), time.perf_counter() - started, fault
