"""Kills: at a random moment, or just before a chosen change of a file; then all is computed to its end."""

from pathlib import Path

from campaign.children import Child, die_before_change
from campaign.parts import Part, Trial
from campaign.victims import (
    CANDIDATES,
    CORPUS,
    MEMBER,
    PROBING,
    TRACE,
    TRAINING,
    Files,
    check_whole,
    compute,
    undisturbed,
)
from sameloss.store.store import Run

KILLS = 5
"""At most, of one store, before it may come to its end."""


def at_random_moments(run: Run, trial: Trial, moved: bool = False) -> None:
    """Kill a computation again and again, perhaps moving its store between; then let it end."""
    root = trial.folder / "store"
    for _ in range(KILLS):
        if not _killed(run, trial, root):
            break
        trial.kills += 1
        if moved and root.exists():
            root = root.rename(trial.folder / _odd_name(trial))
    to_the_end(run, trial, root)


def _killed(run: Run, trial: Trial, root: Path) -> bool:
    child = Child(lambda: compute(run, root), trial.folder)
    killed = child.kill_after(trial.rng.uniform(0, 1.1 * undisturbed(run).seconds))
    trial.check(child.fault is None, str(child.fault))
    return killed


def _odd_name(trial: Trial) -> str:
    return "".join(trial.rng.choice("ä ß'\"-.x%{}$") for _ in range(12)) + "x"


def before_a_change(run: Run, trial: Trial) -> None:
    """Kill a computation before some change of the folder, and what goes on perhaps before another."""
    root, most = trial.folder / "store", undisturbed(run).changes
    for _ in range(trial.rng.choice((1, 1, 2))):
        number = trial.rng.randint(1, most)

        def doomed(number: int = number) -> None:
            die_before_change(number)
            compute(run, root)

        child = Child(doomed, trial.folder).wait()
        trial.check(child.fault is None, str(child.fault))
        trial.kills += child.killed
    to_the_end(run, trial, root)


def to_the_end(run: Run, trial: Trial, root: Path, what: str = "") -> None:
    """Compute what is missing, undisturbed, and compare it with what never was disturbed.

    Args:
        run: what is computed, with all that it reads.
        trial: in which this is done.
        root: of the store.
        what: was done to it, for the message.

    """
    child = Child(lambda: compute(run, root), trial.folder).wait()
    trial.check(child.fault is None, f"{what} {child.fault}")
    check_whole(trial, run, root, what)


PARTS = (
    Part("training, killed at random moments", 60, lambda trial: at_random_moments(TRAINING, trial)),
    Part("candidates of growing, at random moments", 40, lambda trial: at_random_moments(CANDIDATES, trial)),
    Part("corpus of six shards, at random moments", 40, lambda trial: at_random_moments(CORPUS, trial)),
    Part("probing and all it reads, at random moments", 30, lambda trial: at_random_moments(PROBING, trial)),
    Part("training, before a change", 150, lambda trial: before_a_change(TRAINING, trial)),
    Part("weights taken from candidates, before a change", 60, lambda trial: before_a_change(MEMBER, trial)),
    Part("trace, before a change", 40, lambda trial: before_a_change(TRACE, trial)),
    Part("commit of four files, before a change", 250, lambda trial: before_a_change(Files(), trial)),
    Part(
        "training, its store moved in between",
        30,
        lambda trial: at_random_moments(TRAINING, trial, moved=True),
    ),
)
