"""Several processes that want one run at the same time; some are killed."""

import time
from pathlib import Path

from toy_runs import Squaring

from campaign.children import Child
from campaign.parts import Part, Trial
from campaign.victims import MEMBER, TRAINING, check_whole, compute, undisturbed
from sameloss.store.store import Run, Store


def of_a_run(run: Run, trial: Trial) -> None:
    """Let two to four processes compute a run, and perhaps kill one; the others end with the same."""
    root, seconds = trial.folder / "store", undisturbed(run).seconds
    children = [_late(trial, lambda: compute(run, root)) for _ in range(trial.rng.randint(2, 4))]
    if trial.rng.random() < 0.5:
        doomed = children.pop(trial.rng.randrange(len(children)))
        trial.kills += doomed.kill_after(trial.rng.uniform(0, seconds))
    for child in children:
        trial.check(child.wait().fault is None, str(child.fault))
    check_whole(trial, run, root)


def computed_once(trial: Trial) -> None:
    """Let two to four processes want a run that notes each computation: there is one note."""
    notes = trial.folder / "notes"
    run = Squaring(3, notes=str(notes))
    root = trial.folder / "store"
    children = [_late(trial, lambda: Store(root).get(run)) for _ in range(trial.rng.randint(2, 4))]
    for child in children:
        trial.check(child.wait().fault is None, str(child.fault))
    computed = len(notes.read_text().splitlines())
    trial.check(computed == 1, f"computed {computed} times")


def _late(trial: Trial, work) -> Child:
    delay = trial.rng.uniform(0, 0.02)

    def wait_and_work() -> None:
        time.sleep(delay)
        work()

    return Child(wait_and_work, Path(trial.folder))


PARTS = (
    Part("two to four processes, one run", 60, computed_once),
    Part("two to four processes, one training, one killed", 40, lambda trial: of_a_run(TRAINING, trial)),
    Part("two to four processes, weights of candidates", 20, lambda trial: of_a_run(MEMBER, trial)),
)
