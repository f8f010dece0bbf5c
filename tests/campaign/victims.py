"""The runs of a campaign, their undisturbed results, and the comparison of a store with these."""

import atexit
import shutil
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from toy_runs import TINY

from campaign.children import Child, at_each_change
from campaign.parts import Trial
from sameloss.measures.downstream import OptimalProbe
from sameloss.models.encoder import EncoderShape
from sameloss.runs.measurements import Probing
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling, Downstream, HeldOutConditionals, LabelledSampling
from sameloss.store.store import MANIFEST, Run, Store, sha256, with_ancestors
from sameloss.studies.decision_lists.experiment import Steps, TaskShape, list_sgd
from sameloss.studies.growing.experiment import Candidates, GrowthBase, Member, Operator
from sameloss.training import corpus
from sameloss.training.loop import Optimisation

SHARD = 700
"""Sentences per shard, so that a tiny corpus has several."""

SHAPE = EncoderShape(8, 2, 1, 16)

SETTINGS = Optimisation(steps=40, batch=16, lr=1e-2)

CORPUS = CorpusSampling(TINY, 4000, seed=0)

TRAINING = Pretraining(CORPUS, SHAPE, SETTINGS, 0, checkpoints=(10, 40), micro_batch=16, resume_every=7)

LABELLED = LabelledSampling(TINY, Downstream(("root",), "likelihood", 60, 60, 1, 0))

PROBING = Probing(TRAINING, (10, 40), LABELLED, OptimalProbe())


HELD_OUT = HeldOutConditionals(TINY, 40, 0)

CANDIDATES = Candidates(
    GrowthBase(CORPUS, SHAPE, SETTINGS, 0, checkpoints=(40,), micro_batch=16, resume_every=7),
    (Operator(0, 1, "duplicate"), Operator(0, 1, "silent"), Operator(0, 1, "random")),
    added=1,
    steps=30,
    looks=(0, 1, 10, 30),
    carried="mapped",
    held_out=HELD_OUT,
)

MEMBER = Member(CANDIDATES, 1)


@dataclass(frozen=True)
class Files(Run):
    """A run that writes four files."""

    name: str = ""

    def compute(self, folder: Path, store: Store, report) -> None:
        for number in range(4):
            (folder / f"{number}.txt").write_text(f"{self.name} {number}\n" * 100)
        report(1.0, "written")

    def load(self, folder: Path) -> str:
        return (folder / "3.txt").read_text()


LISTS = list_sgd(TaskShape(12, 3, 3), 30.0, Steps(0.1, 8, 4, 2), 20, 0)


def compute(run: Run, root: Path) -> None:
    """Compute a run and its ancestors, as a page does."""
    corpus.SHARD = SHARD
    store = Store(root)
    for each in with_ancestors([run]):
        store.get(each)


def temporary_folder() -> Path:
    """A folder that exists until this process ends."""
    folder = mkdtemp(prefix="campaign-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@dataclass(frozen=True)
class Undisturbed:
    """The results of a run and its ancestors without faults."""

    store: Path
    files: dict[str, dict[str, str]]  # hashes, by folder in the store and by name
    seconds: float
    changes: int  # of files and folders


@cache
def undisturbed(run: Run) -> Undisturbed:
    """Compute a run twice, which must agree, the second time counting file changes."""
    first, second = temporary_folder(), temporary_folder()
    begun = time.monotonic()
    _without_fault(lambda: compute(run, first / "store"), first)
    seconds = time.monotonic() - begun
    _without_fault(lambda: _count_changes(run, second), second)
    files = hashes(run, first / "store")
    assert files == hashes(run, second / "store"), f"{run.kind} is not reproducible"
    return Undisturbed(first / "store", files, seconds, int((second / "changes").read_text()))


def _without_fault(work, notes: Path) -> None:
    fault = Child(work, notes).wait().fault
    assert fault is None, fault


def _count_changes(run: Run, folder: Path) -> None:
    counts = [0]
    at_each_change(counts.append)
    compute(run, folder / "store")
    (folder / "changes").write_text(str(counts[-1]))


def hashes(run: Run, root: Path) -> dict[str, dict[str, str]]:
    """Hashes of all files of a run and its ancestors, except manifests."""
    folders = [root / each.kind / each.key for each in with_ancestors([run])]
    return {
        f"{folder.parent.name}/{folder.name}": {
            str(path.relative_to(folder)): sha256(path) if path.is_file() else "a folder"
            for path in sorted(folder.rglob("*"))
            if path.name != MANIFEST
        }
        for folder in folders
    }


def check_whole(trial: Trial, run: Run, root: Path, what: str = "") -> None:
    """Check that a store holds the undisturbed results, bit for bit, and no leftovers."""
    found, wanted = hashes(run, root), undisturbed(run).files
    wrong = [name for name in wanted if found[name] != wanted[name]]
    trial.check(not wrong, f"{what} not as undisturbed: {wrong}, {[found[name] for name in wrong]}")
    left = [path for path in root.rglob("*") if path.name.endswith((".partial", ".tmp"))]
    trial.check(not left, f"{what} left over: {left}")
