"""No process outlives the one that started it."""

import os
import threading
import time

POLL_S = 0.5


def end_with_parent() -> None:
    """End this process when the one that started it is gone: a killed notebook leaves no worker behind."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
