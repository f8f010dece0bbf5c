"""Run the campaign, and write what it found to `results/`: `make campaign`, or a part of it.

python -m campaign [--seed 0] [--share 0.1] [--only training] [--record]
"""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from campaign import commands, crowds, damage, kills, limits
from campaign.parts import Counted, run, table
from sameloss.store.environment import environment
from sameloss.store.revision import uncommitted

PARTS = (*kills.PARTS, *damage.PARTS, *limits.PARTS, *crowds.PARTS, *commands.PARTS)

ROOT = Path(__file__).parents[2]

RESULTS = ROOT / "results"


def main() -> None:
    """Run what is asked for; faults are told with their seeds, and make the status 1."""
    parser = arguments()
    given = parser.parse_args()
    parts = [part for part in PARTS if given.only in part.what]
    if not parts:
        parser.error(f"no part has {given.only!r} in its name; parts are {', '.join(p.what for p in PARTS)}")
    if given.record and (len(parts) < len(PARTS) or given.share < 1 or uncommitted(ROOT)):
        parser.error("what is recorded is a whole campaign of a clean tree")
    counted = []
    for part in parts:
        counted.append(run(part, given.seed, max(1, round(given.share * part.trials))))
        print(table(counted[-1:]).to_string(index=False, header=False), flush=True)
    print(table(counted).to_string(index=False))
    if given.record:
        record(counted, given.seed)
    sys.exit(any(c.faults for c in counted))


def arguments() -> argparse.ArgumentParser:
    """Return what may be said on the command line."""
    parser = argparse.ArgumentParser(prog="python -m campaign")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials of every part")
    parser.add_argument("--only", default="", help="parts that have this in their names")
    parser.add_argument("--record", action="store_true", help="write the counts to results/")
    return parser


def record(counted: list[Counted], seed: str) -> None:
    """Write the counts, and where they come from."""
    table(counted).to_csv(RESULTS / "campaign.csv", index=False)
    origin = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "seed": seed, **environment()}
    faults = {own: said for c in counted for own, said in c.faults.items()}
    (RESULTS / "campaign.json").write_text(json.dumps(origin | {"faults": faults}, indent=1) + "\n")


if __name__ == "__main__":
    main()
