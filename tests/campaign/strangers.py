"""What others do to a checkout, a store or a record: nothing false is believed, nothing of theirs changed."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from hostile import ENTRIES, KINDS, hostile_folder

from campaign.children import Child
from campaign.kills import to_the_end
from campaign.limits import PREFIX, as_nobody, may_be_nobody
from campaign.parts import Part, Trial
from campaign.victims import CORPUS, HELD_OUT, LABELLED, LISTS, PROBING, TRAINING, Files, compute, undisturbed
from sameloss.errors import LanguageError
from sameloss.store import location
from sameloss.store.record import Record
from sameloss.store.store import MANIFEST, SCRATCH, Run, Store, sha256

# Source that git does not see


def git(folder: Path, *words: str) -> str:
    name = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", "-C", folder, *name, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


SOURCE = "lib/sameloss/a.py"


def _flagged(flag: str):
    return lambda root: git(root, "update-index", flag, SOURCE)


UNSEEN = {
    "nothing": lambda root: None,
    "assumed unchanged": _flagged("--assume-unchanged"),
    "not in the work tree": _flagged("--skip-worktree"),
    "a tag": lambda root: git(root, "tag", "-a", "v1-dirty", "-m", "movable"),
    "ignored": lambda root: (root / ".git/info/exclude").write_text("*.py\n"),
    "another repository": lambda root: os.environ.update(GIT_DIR=str(_another(root) / ".git")),
    "another index": lambda root: os.environ.update(GIT_INDEX_FILE=str(root / "none")),
}
"""What git is told."""

EDITS = {
    None: lambda root: None,
    "changed": lambda root: (root / SOURCE).write_text("new"),
    "a new module": lambda root: (root / "lib/sameloss/b.py").write_text("new"),
    "a new package": lambda root: _written(root / "lib/sameloss/mine/b.py"),
    "deleted": lambda root: (root / SOURCE).unlink(),
    "renamed": lambda root: (root / SOURCE).rename(root / "lib/sameloss/c.py"),
}


def _written(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("old")


def _another(root: Path) -> Path:
    other = root.parent / "other"
    _written(other / "file")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "other"]):
        git(other, *words)
    return other


def unseen_source(trial: Trial) -> None:
    """The revision of a library is its commit only if its files are those of the commit."""
    root = trial.folder / "book"
    for name in ("_config.yml", "chapters/a.py", SOURCE):
        _written(root / name)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        git(root, *words)
    head = git(root, "rev-parse", "HEAD")
    told, edit = trial.rng.choice(sorted(UNSEEN)), trial.rng.choice(list(EDITS))

    def work() -> None:
        UNSEEN[told](root)
        EDITS[edit](root)
        location.SOURCE = root / "lib" / "sameloss"
        location.source_revision.cache_clear()
        found = location.source_revision()
        assert found == (f"{head}{location.UNCOMMITTED}" if edit else head), f"{told}, {edit}: {found}"

    fault = Child(work, trial.folder).wait().fault
    trial.check(fault is None, str(fault))


# Altered records


def _number(text: str, trial: Trial) -> str:
    """Another digit somewhere."""
    at = trial.rng.choice([found.start() for found in re.finditer(r"\d", text)])
    return text[:at] + str((int(text[at]) + trial.rng.randint(1, 9)) % 10) + text[at + 1 :]


def _without_a_row(text: str, trial: Trial) -> str:
    """A table without one of its rows, or a file without its first character, in valid JSON."""
    line = json.loads(text.splitlines()[0])
    name = trial.rng.choice(sorted(line["files"]))
    content = line["files"][name]
    if isinstance(content, str):
        rows = content.splitlines(keepends=True)
        del rows[trial.rng.randrange(len(rows))]
        line["files"][name] = "".join(rows)
    else:
        line["files"][name] = {"base64": ""}
    return "\n".join([json.dumps(line), *text.splitlines()[1:], ""])


def _in_manifest(key: str, value: object):
    def alter(text: str, trial: Trial) -> str:
        line = json.loads(text.splitlines()[0])
        line["manifest"][key] = value
        return "\n".join([json.dumps(line, separators=(",", ":")), *text.splitlines()[1:], ""])

    return alter


ALTERATIONS = {
    "a digit": _number,
    "a row": _without_a_row,
    "the revision": _in_manifest("revision", "deadbeef"),
    "no device": _in_manifest("device", None),
    "a list": lambda text, trial: f"[{text.strip()}]\n",
    "cut": lambda text, trial: text[: trial.rng.randrange(1, len(text))],
    "twice": lambda text, trial: text + text,
    "merged": lambda text, trial: f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n",
    "empty": lambda text, trial: "",
    "a character": lambda text, trial: text.replace(trial.rng.choice(sorted(set(text))), "\ufffd", 1),
    "another key": lambda text, trial: text.replace('"key":"', '"key":"0', 1),
    "nested": lambda text, trial: "[" * 100_000 + "\n",
}


def altered_record(trial: Trial) -> None:
    """A record that is not as it was written is refused in one sentence, which names its file.

    Where a key was altered the run is not recorded, and is computed.
    """
    run = trial.rng.choice((Files(), HELD_OUT, LABELLED, LISTS))
    record = Record(trial.folder / "runs")
    record.add(Store(undisturbed(run).store), [run])
    path = record.root / run.kind / f"{run.key[0]}.jsonl"
    before, how = path.read_text(), trial.rng.choice(list(ALTERATIONS))
    altered = ALTERATIONS[how](before, trial)
    path.write_text(altered)
    root = trial.folder / "store"
    fault = Child(lambda: Store(root, Record(record.root)).get(run), trial.folder).wait().fault
    if fault is None:
        trial.check(
            altered == before or (root / run.kind / run.key).is_dir(), f"{run.kind}: {how} is believed"
        )
        return
    said = fault.splitlines()[-1]
    trial.check(said.startswith(f"{PREFIX}{path} is not what was recorded"), f"{run.kind}: {how}: {fault}")


# Links


def links(trial: Trial) -> None:
    """Nothing behind a link is changed, and the result is whole or one sentence says what is in the way."""
    run, precious = trial.rng.choice((Files(), CORPUS, TRAINING, LABELLED)), trial.folder / "precious"
    for name in ("thesis.txt", "d/x", MANIFEST, "resume.pt", "0.txt"):
        _written(precious / name)
    hashed = {path: sha256(path) for path in precious.rglob("*") if path.is_file()}
    root = trial.folder / "store"
    if finished := trial.rng.random() < 0.5:
        shutil.copytree(undisturbed(run).store, root)
    result = root / run.kind / run.key
    partial = result.with_name(f"{run.key}.partial")
    places = [result, result.with_name(f"{run.key}.lock"), result.parent]
    places += sorted(result.rglob("*")) if finished else [partial, partial / SCRATCH]
    place = trial.rng.choice(places)
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    targets = [precious, precious / "thesis.txt", precious / "d", trial.folder / "nowhere", place]
    place.symlink_to(target := trial.rng.choice(targets))
    what = f"{run.kind}: {place.relative_to(root)} -> {target.name}"
    fault = Child(lambda: compute(run, root), trial.folder).wait().fault
    trial.check(fault is None or fault.splitlines()[-1].startswith(PREFIX), f"{what}: {fault}")
    found = {path: sha256(path) for path in precious.rglob("*") if path.is_file()}
    trial.check(hashed.items() <= found.items(), f"{what}: what is behind it was changed")
    place.unlink() if place.is_symlink() else None
    to_the_end(run, trial, root, what)


# Hostile folders


def hostile_model(trial: Trial) -> None:
    """No code of a folder runs at any entry, even if the reader answers yes."""
    kind, entry = trial.rng.choice(list(KINDS)), trial.rng.choice(list(ENTRIES))
    mark = trial.folder / "mark"

    def work() -> None:
        sys.stdin = io.StringIO("y\n" * 100)
        os.environ["HF_MODULES_CACHE"] = str(trial.folder / "modules")
        hostile_folder(kind, trial.folder / "model", mark)
        try:
            ENTRIES[entry](str(trial.folder / "model"), str(trial.folder / "store"))
        except LanguageError as error:
            assert "\n" not in str(error)  # noqa: PT017

    fault = Child(work, trial.folder).wait().fault
    trial.check(fault is None, f"{kind}, {entry}: {fault}")
    trial.check(not mark.exists(), f"{kind}, {entry}: its code ran")


# A second user, and a clock that goes back


def second_user(trial: Trial) -> None:
    """Another user reads what one has finished, whatever the modes, or is told in one sentence."""
    run: Run = trial.rng.choice((Files(), CORPUS, TRAINING, PROBING))
    root = trial.folder / "store"
    trial.folder.chmod(0o755)
    umask = trial.rng.choice((0o000, 0o002, 0o022, 0o027, 0o077))

    def first() -> None:
        os.umask(umask)
        compute(run, root)

    trial.check((fault := Child(first, trial.folder).wait().fault) is None, str(fault))
    notes = trial.folder / "notes"
    notes.mkdir(mode=0o777)
    notes.chmod(0o777)
    fault = Child(as_nobody(lambda: compute(run, root)), notes).wait().fault
    readable = not umask & 0o005
    said = fault is None or (not readable and fault.splitlines()[-1].startswith(PREFIX))
    trial.check(said, f"{run.kind}, umask {umask:03o}: {fault}")
    to_the_end(run, trial, root)


def clock_goes_back(trial: Trial) -> None:
    """What was interrupted before the clock was set back resumes as it does else."""
    run, root = trial.rng.choice((TRAINING, CORPUS, PROBING)), trial.folder / "store"
    days = trial.rng.uniform(0.01, 4000)
    child = Child(lambda: compute(run, root), trial.folder)
    trial.kills += child.kill_after(trial.rng.uniform(0, 1.1 * undisturbed(run).seconds))
    for path in [root, *root.rglob("*")] if root.exists() else []:
        os.utime(path, (time.time() + 86400 * days,) * 2, follow_symlinks=False)
    to_the_end(run, trial, root, f"{run.kind}, {days:.1f} days")


PARTS = (
    Part("source that git does not see", 80, unseen_source),
    Part("a record, altered", 200, altered_record),
    Part("links in a store", 200, links),
    Part("a model folder that wants to run code", 60, hostile_model),
    Part("a second user of a store", 40, second_user, needs=may_be_nobody),
    Part("a clock that goes back", 40, clock_goes_back),
)
