"""Run the campaign, and write what it found to `results/`: `make campaign`, or a part of it.

python -m campaign [--seed 0] [--share 0.1] [--only training] [--record]
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from campaign import commands, crowds, damage, kills, limits
from campaign.parts import Counted, run, table
from sameloss.store.location import uncommitted
from sameloss.store.store import environment

PARTS = (*kills.PARTS, *damage.PARTS, *limits.PARTS, *crowds.PARTS, *commands.PARTS)

ROOT = Path(__file__).parents[2]

RECORD = ROOT / "results" / "campaign.csv"


def main() -> None:
    """Run what is asked for; faults are told with their seeds, and make the status 1."""
    parser = arguments()
    given = parser.parse_args()
    parts = [part for part in PARTS if given.only in part.what]
    if not parts:
        parser.error(f"no part has {given.only!r} in its name; parts are {', '.join(p.what for p in PARTS)}")
    if given.record and (given.share < 1 or uncommitted(ROOT)):
        parser.error("what is recorded are whole parts, of a clean tree")
    counted = []
    for part in parts:
        counted.append(run(part, given.seed, max(1, round(given.share * part.trials))))
        print(table(counted[-1:]).to_string(index=False, header=False), flush=True)
    print(table(counted).to_string(index=False))
    if given.record:
        record(counted)
    sys.exit(any(c.faults for c in counted))


def arguments() -> argparse.ArgumentParser:
    """Return what may be said on the command line."""
    parser = argparse.ArgumentParser(prog="python -m campaign")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials of every part")
    parser.add_argument("--only", default="", help="parts that have this in their names")
    parser.add_argument("--record", action="store_true", help="write the counts to results/")
    return parser


def record(counted: list[Counted]) -> None:
    """Write the counts, with what was found and where, over those of the same parts from before."""
    here = environment()
    origin = {"created": datetime.now(UTC).date(), "device": here["device"], "revision": here["revision"]}
    found = ["; ".join(c.faults.values()) for c in counted]
    new = table(counted).assign(found=found, **origin).set_index("what")
    old = pd.read_csv(RECORD, index_col="what") if RECORD.exists() else new.iloc[:0]
    names = [part.what for part in PARTS if part.what in {*new.index, *old.index}]
    pd.concat([new, old.drop(new.index, errors="ignore")]).loc[names].to_csv(RECORD)


if __name__ == "__main__":
    main()
