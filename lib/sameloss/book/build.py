"""Build the book: execute the chapters, stage the executed copies, render HTML.

python -m sameloss.book.build compute --preset laptop    all runs of all chapters, and no chapter
python -m sameloss.book.build execute --preset laptop    chapters that have changed (--force: all of them)
python -m sameloss.book.build html [--committed]          executed (or committed) notebooks to HTML
python -m sameloss.book.build twins [--sync]              compare notebooks with their py:percent twins
python -m sameloss.book.build adopt                       make the executed notebooks the committed ones
python -m sameloss.book.build record --preset laptop-long  write a long run's tables to results/
                             [--finished] [--dry-run]     only what is finished; only say what is left
python -m sameloss.book.build check --preset laptop       refuse now what adopt and keep would refuse later
python -m sameloss.book.build keep --preset laptop        add to results/runs what every finished run found
python -m sameloss.book.build take                        take what is there as computed
"""

import argparse
import os
from importlib import import_module
from pathlib import Path

from sameloss.errors import BookError
from sameloss.store.location import HOME

MODULES = (
    {"compute": "compute", "execute": "execute", "html": "site"}
    | {name: name for name in ("twins", "adopt", "record")}
    | dict.fromkeys(("check", "keep", "take"), "record")
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


def arguments() -> argparse.ArgumentParser:
    """Return what may be said on the command line."""
    parser = argparse.ArgumentParser(prog="python -m sameloss.book.build")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("compute", "check", "keep"):
        commands.add_parser(name).add_argument("--preset", default="laptop")
    commands.add_parser("take")
    execute = commands.add_parser("execute")
    execute.add_argument("--preset", default="laptop")
    execute.add_argument("--force", action="store_true")
    commands.add_parser("html").add_argument("--committed", action="store_true")
    commands.add_parser("twins").add_argument("--sync", action="store_true")
    commands.add_parser("adopt")
    record = commands.add_parser("record")
    record.add_argument("--preset", default="laptop-long")
    record.add_argument("--page", help="only this page's record")
    record.add_argument("--finished", action="store_true", help="compute nothing; tables of what is finished")
    record.add_argument("--dry-run", action="store_true", help="only say what is left, in order")
    return parser


if __name__ == "__main__":
    main()
