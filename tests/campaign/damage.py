"""Damaged files of every kind of run, which are computed again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaign.kills import to_the_end
from campaign.parts import Part, Trial
from campaign.victims import (
    CANDIDATES,
    CORPUS,
    HELD_OUT,
    LABELLED,
    LISTS,
    MEMBER,
    PROBING,
    TRAINING,
    Files,
    undisturbed,
)
from sameloss.store.store import LEFT_OUT, MANIFEST, SCRATCH, write_manifest

RUNS = (Files(), CORPUS, TRAINING, LABELLED, PROBING, HELD_OUT, CANDIDATES, MEMBER, LISTS)


def _deleted(path: Path, _: Trial) -> None:
    path.unlink()


def _emptied(path: Path, _: Trial) -> None:
    path.write_bytes(b"")


def _cut(path: Path, trial: Trial) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: trial.rng.randrange(len(content))])


def _byte_flipped(path: Path, trial: Trial) -> None:
    content = bytearray(path.read_bytes())
    content[trial.rng.randrange(len(content))] ^= trial.rng.randint(1, 255)
    path.write_bytes(content)


def _lengthened(path: Path, trial: Trial) -> None:
    path.write_bytes(path.read_bytes() + trial.rng.randbytes(7))


def _a_folder(path: Path, _: Trial) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").touch()


def _a_dangling_link(path: Path, _: Trial) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _anothers(path: Path, trial: Trial) -> None:
    others = [p for p in path.parents[2].rglob("*") if p.is_file() and p.read_bytes() != path.read_bytes()]
    shutil.copy(trial.rng.choice(sorted(others)), path)


DAMAGES: tuple[Callable[[Path, Trial], None], ...] = (
    _deleted,
    _emptied,
    _cut,
    _byte_flipped,
    _lengthened,
    _a_folder,
    _a_dangling_link,
    _anothers,
)

NO_MANIFESTS = ("null", "[]", "5", '"x"', "{}", '{"files": null}', '{"files": []}', "[" * 100_000, "{" * 9)


def a_file(trial: Trial) -> None:
    """Damage one file of a result; it is computed again."""
    run = trial.rng.choice(RUNS)
    root = shutil.copytree(undisturbed(run).store, trial.folder / "store")
    path = trial.rng.choice(sorted(p for p in root.rglob("*") if p.is_file() and p.suffix != ".lock"))
    damage = trial.rng.choice(DAMAGES)
    damage(path, trial)
    to_the_end(run, trial, root, f"{run.kind}: {path.relative_to(root)} {damage.__name__}")


def a_manifest(trial: Trial) -> None:
    """Replace a manifest by something that is none, or by a wrong one."""
    run = trial.rng.choice(RUNS)
    root = shutil.copytree(undisturbed(run).store, trial.folder / "store")
    path = trial.rng.choice(sorted(root.rglob(MANIFEST)))
    kind = trial.rng.choice((*NO_MANIFESTS, "no files", "one less", "all left out", "another run's"))
    if kind in NO_MANIFESTS:
        path.write_text(kind)
    else:
        write_manifest(path.parent, _untrue(json.loads(path.read_text()), kind))
    to_the_end(run, trial, root, f"{run.kind}: {path.relative_to(root)}, {kind[:20]}")


def _untrue(manifest: dict[str, Any], kind: str) -> dict[str, Any]:
    files = manifest["files"]
    if kind == "another run's":
        return manifest | {"parameters": {"run": "Another", "schema": 1}}
    if kind == "all left out":
        return manifest | {LEFT_OUT: list(files)}
    return manifest | {"files": {} if kind == "no files" else dict(list(files.items())[1:])}


STRANGERS = {
    "junk": "junk.bin",
    "a folder of junk": "junk/x",
    "a file for a folder": SCRATCH,
    "a junk state": f"{SCRATCH}/resume.pt",
}
"""Files in the folder of a computation, by what they are."""


def something_in_the_way(trial: Trial) -> None:
    """Compute a run whose folder holds a foreign file."""
    run, what = trial.rng.choice(RUNS), trial.rng.choice(("a file", *STRANGERS))
    root = trial.folder / "store"
    path = root / run.kind / f"{run.key}.partial" / STRANGERS.get(what, "")
    path.parent.mkdir(parents=True)
    path.write_bytes(trial.rng.randbytes(100))
    to_the_end(run, trial, root, f"{run.kind}: {what}")


PARTS = (
    Part("a file of a result, damaged", 200, a_file),
    Part("a manifest that is none or untrue", 80, a_manifest),
    Part("something in the way of a computation", 40, something_in_the_way),
)
