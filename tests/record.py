"""Record anew what the tests hold the library to: defaults, keys and results in `tests/recorded`.

    python tests/record.py

A default or a result that changed while the schema stayed is refused: raise the schema first. Where not
the library changed but what it stands on, another version of PyTorch perhaps, delete the recorded file
first; where only a tiny run changed, give it another name.
"""

import sys
import tempfile

from recorded import defaults, files, keys, results

from sameloss.device import use_device
from sameloss.store.store import Store


def main() -> None:
    """Compute all, refuse what hides a change, write the rest."""
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
    files.write(results.FILE, results.kept(results_before, results_now), depth=3)


if __name__ == "__main__":
    main()
