"""No process outlives the one that started it."""

import os
import threading
import time

POLL_S = 0.5


def end_with_parent(parent: int | None = None) -> None:
    """End this process when the one that started it is gone: a killed notebook leaves no worker behind.

    Args:
        parent: the number of that process; None: as the system has it now, which is another where the parent
            has died while this process was starting.

    """
    parent = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
