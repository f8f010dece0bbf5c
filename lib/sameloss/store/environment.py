"""What computes here: the versions and the device that a result's manifest records."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version

import torch

from sameloss.device import device_name
from sameloss.store.revision import source_revision


def environment() -> dict[str, str]:
    """Return the time, the versions, the revision and the device of this process."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sameloss": version("sameloss"),
        "revision": source_revision(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(),
    }
