"""Children of this process that compute, and die when and where a trial says.

They are forked, so that a kill does not cost the seconds of an import. Threads do not come along, so children
compute on one, as every run does.
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
import torch._dynamo  # an optimiser imports it at its first step: seconds, in each child

from sameloss.device import use_device

torch.set_num_threads(1)

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
"""What Python reports when it changes a folder, beside files that are opened to be written."""


class Child:
    """A process that does one thing; what goes wrong there is kept in `fault`."""

    def __init__(self, work: Callable[[], object], notes: Path) -> None:
        """Begin.

        Args:
            work: what it does.
            notes: a folder for what it has to say.

        """
        self._said = notes / f"said-{time.monotonic_ns()}"
        self.pid = os.fork()
        if not self.pid:
            self._do(work)

    def _do(self, work: Callable[[], object]) -> NoReturn:
        """Work and end; whatever happens, there is no way back to what the parent was doing."""
        status = 1
        try:
            signal.alarm(300)  # nothing here takes so long
            use_device("cpu")  # a GPU that the parent has used is lost here
            work()
            status = 0
        except BaseException:
            with self._said.open("w") as said:
                traceback.print_exc(file=said)
        finally:
            os._exit(status)

    def kill_after(self, seconds: float) -> bool:
        """Kill it after a while; tell whether it still lived."""
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
        """Wait for its end."""
        self._over(0)
        return self

    def _over(self, options: int) -> bool:
        pid, self._status = os.waitpid(self.pid, options)
        return pid != 0

    @property
    def killed(self) -> bool:
        """Tell whether it was killed."""
        return os.WIFSIGNALED(self._status) and os.WTERMSIG(self._status) == signal.SIGKILL

    @property
    def fault(self) -> str | None:
        """Return the traceback with which it ended, if it did."""
        if self._said.exists():
            return self._said.read_text()
        return None if self.killed or self._status == 0 else f"it ended with status {self._status}"


def at_each_change(do: Callable[[int], None]) -> None:
    """Call with 1, 2, ... just before this process changes a file or a folder; there is no way back."""
    count = 0

    def hear(event: str, given: tuple[object, ...]) -> None:
        nonlocal count
        if event in CHANGES or (event == "open" and _writes(given)):
            count += 1
            do(count)

    sys.addaudithook(hear)


def _writes(given: tuple[object, ...]) -> bool:
    _, mode, flags = given
    return bool(set(str(mode or "")) & set("wax+")) or bool(int(str(flags)) & (os.O_WRONLY | os.O_RDWR))


def die_before_change(number: int) -> None:
    """Let this process be killed just before it changes something for the so-many-th time."""
    at_each_change(lambda count: os.kill(os.getpid(), signal.SIGKILL) if count == number else None)
