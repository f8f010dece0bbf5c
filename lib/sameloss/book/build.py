"""Build the book: execute the chapters, stage the executed copies, render HTML.

python -m sameloss.book.build compute --preset laptop    all runs of all chapters, and no chapter
python -m sameloss.book.build execute --preset laptop    chapters that have changed (--force: all of them)
python -m sameloss.book.build html [--committed]          executed (or committed) notebooks to HTML
python -m sameloss.book.build twins [--sync]              compare notebooks with their py:percent twins
python -m sameloss.book.build adopt                       make the executed notebooks the committed ones
python -m sameloss.book.build record --preset laptop-long  write a long run's tables to results/
                             [--finished] [--dry-run]     only what is finished; only say what is left
                             (compute, execute, record: --max-hours 20 in the place of the preset's limit)
python -m sameloss.book.build check --preset laptop       refuse now what adopt and keep would refuse later
python -m sameloss.book.build keep --preset laptop        add to results/runs what every finished run found
python -m sameloss.book.build take                        take what is there as computed
"""

import argparse
import os
import shutil
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir

from sameloss.errors import BookError
from sameloss.store.location import HOME

MODULES = {"execute": "execute", "html": "site", "twins": "twins"} | dict.fromkeys(
    ("compute", "adopt", "record", "check", "keep", "take"), "record"
)
"""Where each command is; only that is imported, and by the processes that it starts nothing."""


def main() -> None:
    """Run one command from the repository root; a fault ends it with a sentence."""
    given = vars(arguments().parse_args())
    name = given.pop("command")
    if not Path("_toc.yml").is_file():
        raise SystemExit("This is not the folder of the book, which has a _toc.yml; run the command there.")
    os.environ[HOME] = str(Path.cwd())  # for kernels and workers, too, whosever the library is
    command = getattr(import_module(f"sameloss.book.{MODULES[name]}"), name)
    try:
        command(**given)
    except BookError as fault:
        raise SystemExit(str(fault)) from None
    except OSError as error:
        raise SystemExit(_of_the_system(error)) from None


def _of_the_system(error: OSError) -> str:
    """Return in one sentence what a disk, a folder or a file did not allow; raise again what is of none."""
    from sameloss.store.store import FULL  # torch takes seconds that no other command need wait

    where, why = error.filename, error.strerror
    if isinstance(error, shutil.Error):  # of many files, each with its own reason
        (_, where, why), *_ = error.args[0]
        why = why.partition(":")[0]
    elif where is None and error.errno in FULL:  # of an open file, whose disk is the one with the least space
        written = [Path(name) for name in (".", "_build", "artifacts", "results", gettempdir())]
        where = min(filter(Path.exists, written), key=lambda path: shutil.disk_usage(path).free).resolve()
    if where is None:
        raise error
    return f"{where} cannot be used ({why}); put that right, then run this again: what was computed is kept."


def arguments() -> argparse.ArgumentParser:
    """Return what may be said on the command line."""
    parser = argparse.ArgumentParser(prog="python -m sameloss.book.build")
    commands = parser.add_subparsers(dest="command", required=True)
    of = {name: commands.add_parser(name) for name in MODULES}
    for name in ("compute", "execute", "record", "check", "keep"):
        of[name].add_argument("--preset", default="laptop-long" if name == "record" else "laptop")
    for name in ("compute", "execute", "record"):
        of[name].add_argument("--max-hours", type=float, help="in the place of the preset's limit")
    of["execute"].add_argument("--force", action="store_true")
    of["html"].add_argument("--committed", action="store_true")
    of["twins"].add_argument("--sync", action="store_true")
    record = of["record"]
    record.add_argument("--page", help="only this page's record")
    record.add_argument("--finished", action="store_true", help="compute nothing; tables of what is finished")
    record.add_argument("--dry-run", action="store_true", help="only say what is left, in order")
    return parser


if __name__ == "__main__":
    main()
