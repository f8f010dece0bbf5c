"""Runs killed at a random time or file change and then resumed, and processes that compute the same run."""

import time
from collections.abc import Callable
from pathlib import Path

from toy_runs import Squaring

from campaign.children import Child, die_before_change
from campaign.parts import Part, Trial
from campaign.victims import (
    CANDIDATES,
    CORPUS,
    MEMBER,
    PROBING,
    TRAINING,
    Files,
    check_whole,
    compute,
    undisturbed,
)
from sameloss.store.store import Run, Store

KILLS = 5
"""Kills of one computation, at most."""


def at_random_moments(run: Run, trial: Trial, moved: bool = False) -> None:
    """Kill a computation repeatedly, optionally moving its store in between, then complete it."""
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
    """Kill a computation before a random file change, perhaps again after it resumed, then complete it."""
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
    """Complete a run and its parents, and compare the store with an undisturbed one.

    `what` describes the fault in the message.
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
    Part("probes, before a change", 40, lambda trial: before_a_change(PROBING, trial)),
    Part("commit of four files, before a change", 250, lambda trial: before_a_change(Files(), trial)),
    Part(
        "training, its store moved in between",
        30,
        lambda trial: at_random_moments(TRAINING, trial, moved=True),
    ),
)


# Concurrent processes


def computed_by_several(run: Run, trial: Trial) -> None:
    """Compute a run in two to four processes, perhaps killing one; the others end with the same result."""
    root, seconds = trial.folder / "store", undisturbed(run).seconds
    children = [_delayed(trial, lambda: compute(run, root)) for _ in range(trial.rng.randint(2, 4))]
    if trial.rng.random() < 0.5:
        doomed = children.pop(trial.rng.randrange(len(children)))
        trial.kills += doomed.kill_after(trial.rng.uniform(0, seconds))
    for child in children:
        trial.check(child.wait().fault is None, str(child.fault))
    check_whole(trial, run, root)


def computed_once(trial: Trial) -> None:
    """Request a run from two to four processes; its notes show a single computation."""
    notes, root = trial.folder / "notes", trial.folder / "store"
    run = Squaring(3, notes=str(notes))
    children = [_delayed(trial, lambda: Store(root).get(run)) for _ in range(trial.rng.randint(2, 4))]
    for child in children:
        trial.check(child.wait().fault is None, str(child.fault))
    computed = len(notes.read_text().splitlines())
    trial.check(computed == 1, f"computed {computed} times")


def _delayed(trial: Trial, work: Callable[[], object]) -> Child:
    delay = trial.rng.uniform(0, 0.02)

    def delayed() -> None:
        time.sleep(delay)
        work()

    return Child(delayed, trial.folder)


CONCURRENT = (
    Part("two to four processes, one run", 60, computed_once),
    Part(
        "two to four processes, one training, one killed",
        40,
        lambda trial: computed_by_several(TRAINING, trial),
    ),
    Part(
        "two to four processes, weights of candidates", 20, lambda trial: computed_by_several(MEMBER, trial)
    ),
)
