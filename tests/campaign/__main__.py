"""Command line of the campaign, `make campaign`; `--record` writes the counts to `results/`.

python -m campaign [--seed 0] [--share 0.1] [--only training] [--record]
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from campaign import commands, damage, kills, limits, strangers
from campaign.parts import Tally, run, table
from sameloss.store.location import uncommitted
from sameloss.store.provenance import seal, sealed
from sameloss.store.store import environment

PARTS = (
    *kills.PARTS, *damage.PARTS, *limits.PARTS, *strangers.PARTS, *kills.CONCURRENT, *commands.PARTS
)  # fmt: skip

ROOT = Path(__file__).parents[2]

RECORD = ROOT / "results" / "campaign.csv"
SEAL = RECORD.with_suffix(".json")


def main() -> None:
    """Run the selected parts; exit with status 1 if a trial failed."""
    parser = argparse.ArgumentParser(prog="python -m campaign")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--share", type=float, default=1.0, help="fraction of the trials of every part")
    parser.add_argument("--only", nargs="+", default=[""], help="parts whose names contain one of these")
    parser.add_argument("--record", action="store_true", help="write the counts to results/")
    args = parser.parse_args()
    parts = [part for part in PARTS if any(words in part.what for words in args.only)]
    if not parts:
        parser.error(
            f"no part has any of {args.only} in its name; parts are {', '.join(p.what for p in PARTS)}"
        )
    if args.record and (args.share < 1 or uncommitted(ROOT)):
        parser.error("only whole parts on a clean tree can be recorded")
    tallies = []
    for part in parts:
        tallies.append(run(part, args.seed, max(1, round(args.share * part.trials))))
        print(table(tallies[-1:]).to_string(index=False, header=False), flush=True)
    print(table(tallies).to_string(index=False))
    if args.record:
        record(tallies)
    sys.exit(any(tally.faults for tally in tallies))


def record(tallies: list[Tally]) -> None:
    """Replace the recorded rows of these parts."""
    here = environment()
    origin = {"created": datetime.now(UTC).date(), "device": here["device"], "revision": here["revision"]}
    found = ["; ".join(tally.faults.values()) for tally in tallies]
    new = table(tallies).assign(found=found, **origin).set_index("what")
    old = new.iloc[:0]
    if RECORD.exists():
        sealed(SEAL, RECORD.name)
        old = pd.read_csv(RECORD, index_col="what")
    names = [part.what for part in PARTS if part.what in {*new.index, *old.index}]
    pd.concat([new, old.drop(new.index, errors="ignore")]).loc[names].to_csv(RECORD)
    seal(SEAL, {}, RECORD.name)


if __name__ == "__main__":
    main()
