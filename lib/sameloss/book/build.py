"""Command line of the book: execute chapters, render HTML, keep records.

python -m sameloss.book.build compute --preset laptop      compute the runs of all chapters
                             [--anew]                      also those that are recorded
python -m sameloss.book.build execute --preset laptop      execute changed chapters (--force: all)
python -m sameloss.book.build html [--committed]           render executed (or committed) notebooks
python -m sameloss.book.build pdf                          print committed notebooks into one file
python -m sameloss.book.build twins [--sync]               compare notebooks with their py:percent twins
python -m sameloss.book.build adopt                        keep the outputs and runs of executed notebooks
                             [--check]                     only require that their source is committed
python -m sameloss.book.build record --preset laptop-long  compute a long preset, add its runs to results/runs
                             [--finished] [--dry-run]      only what is finished; only list what is left
                             [--minutes 9]                 stop after so long; to be run again
                             (compute, execute, record: --max-hours 20 overrides the preset's limit)
"""

import argparse
import os
from importlib import import_module
from pathlib import Path

from sameloss.checks import check_positive
from sameloss.errors import BookError
from sameloss.store.location import HOME

MODULES = {"execute": "execute", "html": "site", "pdf": "site", "twins": "notebooks"} | dict.fromkeys(
    ("compute", "adopt", "record"), "record"
)
"""Module of each command, imported only when it runs."""

LIMITS = ("max_hours", "minutes")
"""Options that are numbers."""


def main() -> None:
    """Run one command in the repository root; errors end it with one sentence."""
    given = arguments().parse_args()
    options = vars(given).copy()
    name = options.pop("command")
    if not Path("_toc.yml").is_file():
        raise SystemExit("This is not the folder of the book, which has a _toc.yml; run the command there.")
    os.environ[HOME] = str(Path.cwd())  # for kernels and workers too, wherever the library is installed
    command = getattr(import_module(f"sameloss.book.{MODULES[name]}"), name)
    try:
        check_positive(given, *(limit for limit in LIMITS if options.get(limit) is not None))
        command(**options)
    except BookError as fault:
        raise SystemExit(str(fault)) from None
    except KeyboardInterrupt:
        raise SystemExit("Interrupted; run this again to go on: what was computed is kept.") from None
    except OSError as error:
        if error.strerror is None:  # not of a file, folder or disk
            raise
        raise SystemExit(
            f"{error.filename or 'The disk'} cannot be used ({error.strerror}); put that right, then run "
            "this again: what was computed is kept."
        ) from None


def arguments() -> argparse.ArgumentParser:
    """Parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m sameloss.book.build")
    commands = parser.add_subparsers(dest="command", required=True)
    parsers = {name: commands.add_parser(name) for name in MODULES}
    for name in ("compute", "execute", "record"):
        parsers[name].add_argument("--preset", default="laptop-long" if name == "record" else "laptop")
        parsers[name].add_argument("--max-hours", type=float, help="instead of the preset's limit")
    parsers["compute"].add_argument("--anew", action="store_true")
    parsers["adopt"].add_argument("--check", action="store_true")
    parsers["execute"].add_argument("--force", action="store_true")
    parsers["html"].add_argument("--committed", action="store_true")
    parsers["twins"].add_argument("--sync", action="store_true")
    for name in ("execute", "adopt", "record"):
        parsers[name].add_argument("--page", help="only this one")
    record = parsers["record"]
    record.add_argument("--finished", action="store_true", help="compute nothing; record what is finished")
    record.add_argument("--dry-run", action="store_true", help="only say what is left, in order")
    record.add_argument("--minutes", type=float, help="stop after so long; run it again to go on")
    return parser


if __name__ == "__main__":
    main()
