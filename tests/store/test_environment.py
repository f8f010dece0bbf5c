"""What a manifest records of the process."""

from datetime import UTC, datetime

import torch

from sameloss.device import device_name
from sameloss.store.environment import environment, source_revision


def test_an_environment_says_when_by_what_and_where():
    before = datetime.now(UTC).replace(microsecond=0)
    found = environment()
    assert before <= datetime.fromisoformat(found.pop("created")) <= datetime.now(UTC)
    assert found.pop("python").startswith("3.")
    assert found == {
        "sameloss": "0.1.0",
        "revision": source_revision(),
        "torch": torch.__version__,
        "device": device_name(),
    }
