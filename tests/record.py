"""Update the defaults, keys and results in `tests/recorded` that the tests compare with, and the prices.

    python tests/record.py

A default or a result that changed without its schema is refused: raise the schema first. If not the library
changed but a dependency, perhaps PyTorch, delete the recorded file first; if a tiny run changed, rename it.
"""

import sys
import tempfile

from recorded import defaults, files, keys, prices, results

from sameloss.device import use_device
from sameloss.store.store import PRICES, Store


def main() -> None:
    """Compute everything, and write it unless a change is hidden."""
    use_device("cpu")
    defaults_before, results_before = files.read(defaults.FILE), files.read(results.FILE)
    defaults_now = defaults.found()
    with tempfile.TemporaryDirectory() as folder:
        results_now = results.found(Store(folder))
    hidden = defaults.changed(defaults_before, defaults_now) + results.moved(results_before, results_now)
    if hidden:
        sys.exit("\n".join(hidden))
    files.write(defaults.FILE, defaults_now, depth=3)
    files.write(keys.FILE, keys.found(), depth=1)
    files.write(str(PRICES), prices.found(), depth=1)
    files.write(results.FILE, results.kept(results_before, results_now), depth=3)


if __name__ == "__main__":
    main()
