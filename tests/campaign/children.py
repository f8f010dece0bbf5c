"""Child processes that compute a run, and are killed at a chosen time or file change.

They are forked to save the seconds of an import. Threads do not survive a fork, so children compute on one,
as every run does.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import torch
import torch._dynamo  # or the optimiser's first step would import it in every child

from sameloss.device import use_device

torch.set_num_threads(1)

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
"""Audit events of changes, beside files opened for writing."""


class Child:
    """A child process that calls `work` and ends; a traceback goes to a file in the folder `notes`."""

    def __init__(self, work: Callable[[], object], notes: Path) -> None:
        self._traceback = notes / f"said-{time.monotonic_ns()}"
        self.pid = os.fork()
        if not self.pid:
            self._do(work)

    def _do(self, work: Callable[[], object]) -> NoReturn:
        status = 1
        try:
            signal.alarm(300)  # longer than any work here
            use_device("cpu")  # CUDA does not survive a fork
            work()
            status = 0
        except BaseException:
            with self._traceback.open("w") as file:
                traceback.print_exc(file=file)
        finally:
            os._exit(status)  # never return into the parent's code

    def kill_after(self, seconds: float) -> bool:
        """Kill it after some time; return whether it was still alive."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._over(os.WNOHANG):
                return False
            time.sleep(min(0.002, max(0.0, end - time.monotonic())))
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._over(0)
        return self.killed

    def wait(self) -> "Child":
        self._over(0)
        return self

    def _over(self, options: int) -> bool:
        pid, self._status = os.waitpid(self.pid, options)
        return pid != 0

    @property
    def killed(self) -> bool:
        return os.WIFSIGNALED(self._status) and os.WTERMSIG(self._status) == signal.SIGKILL

    @property
    def fault(self) -> str | None:
        """Its traceback or bad exit status, if any; a kill is no fault."""
        if self._traceback.exists():
            return self._traceback.read_text()
        return None if self.killed or self._status == 0 else f"it ended with status {self._status}"


def at_each_change(do: Callable[[int], None]) -> None:
    """Call with 1, 2, ... before each change of a file or folder, until this process ends."""
    count = 0

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        if event in CHANGES or (event == "open" and _writes(args)):
            count += 1
            do(count)

    sys.addaudithook(hook)


def _writes(args: tuple[object, ...]) -> bool:
    _, mode, flags = args
    return bool(set(str(mode or "")) & set("wax+")) or bool(int(str(flags)) & (os.O_WRONLY | os.O_RDWR))


def die_before_change(number: int) -> None:
    """Kill this process before its change of that number."""
    at_each_change(lambda count: os.kill(os.getpid(), signal.SIGKILL) if count == number else None)
