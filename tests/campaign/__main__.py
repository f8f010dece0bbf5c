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

PARTS = (*kills.PARTS, *damage.PARTS, *limits.PARTS, *crowds.PARTS, *commands.PARTS)

RESULTS = Path(__file__).parents[2] / "results"


def main() -> None:
    """Run what is asked for; faults are told with their seeds, and make the status 1."""
    given = arguments().parse_args()
    counted = []
    for part in PARTS:
        if given.only in part.what:
            trials = max(1, round(given.share * part.trials))
            counted.append(run(part, given.seed, trials))
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
