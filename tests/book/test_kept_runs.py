"""What `results/` keeps of the default's runs is what the code finds now.

Some runs of every kind are compared: as this checkout has computed them at this revision, or else computed
anew. On a processor of the same kind they are the same to the last bit. Elsewhere training makes other
models of the rounding; what is measured of those is of the same size, which is all that is asked of it here
(and nothing of histories: when a cool-down ends is chance). That the code of every kind of run is what it
was, `test_results.py` tells in small.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from stores import SECONDS

from sameloss.book.pages import open_page
from sameloss.runs.checkpoints import HISTORY
from sameloss.store.location import committed_hash, default_artifacts, source_revision
from sameloss.store.record import kept_runs, read_lines
from sameloss.store.store import LEFT_OUT, Store, with_ancestors

ROOT = Path(__file__).parents[2]

KINDS = sorted(folder.name for folder in kept_runs().root.iterdir())

SOON = 10.0
"""The effort of a run and all it reads, in seconds; what takes longer is the quickest of its kind."""

ALIKE = 4.0
"""The factor by which a column's numbers may differ in size: they do by up to 3 between processors."""

pytestmark = pytest.mark.book


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The whole book at its default, with a store that has what is kept."""
    return open_page("costs", preset="laptop", artifacts=str(tmp_path_factory.mktemp("empty")))


def effort(run):
    return sum(one.effort for one in with_ancestors([run]))


def setting(run):
    """Return which fields of a run and of its parts are not at their defaults, and those that are words."""

    def shape(value):
        if isinstance(value, dict):
            known = "run" in value and "key" in value  # another run
            return value["run"] if known else {name: shape(own) for name, own in value.items()}
        return value if isinstance(value, str) else type(value).__name__

    return json.dumps(shape(run.canonical()), sort_keys=True)


def chosen(runs, kind):
    """Return the quickest run of every setting, if it is quick, and that of all settings."""
    by_setting = defaultdict(list)
    for run in runs:
        by_setting[setting(run)].append(run)
    quickest = sorted((min(own, key=effort) for own in by_setting.values()), key=effort)
    return quickest[:1] + [run for run in quickest[1:] if effort(run) <= SOON]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_is_found_again(book, shared, kind, monkeypatch):
    """Also on a machine by whose clock everything takes ten times as long."""
    clock = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: 10 * clock())
    kept = [run for run in with_ancestors(book.runs()) if run.kind == kind and book.store.has(run)]
    own, anew = Store(default_artifacts()), Store(shared / "anew")
    for run in chosen(kept, kind):
        current = own.has(run) and own.manifest(run)["revision"] == source_revision()
        store = own if current else anew
        store.compute(run)
        manifest = book.store.manifest(run)
        for name in set(manifest["files"]) - set(manifest.get(LEFT_OUT, ())) - {HISTORY}:
            assert_alike(*(read(name, of.files(run) / name) for of in (book.store, store)))


def read(name, file):
    """Return the columns of a table but for measured times, or the arrays of an archive."""
    found = pd.read_csv(file) if name.endswith(".csv") else np.load(file)
    return {name: np.asarray(found[name]) for name in found if name not in SECONDS}


def assert_alike(kept, found):
    """Compare names, words, and the sizes of numbers, of which one in a column may be anything.

    What was kept may hold more than is stored today: what nothing reads any longer.
    """
    assert found.keys() <= kept.keys()
    for name, others in found.items():
        values = kept[name]
        if values.dtype.kind in "fiub":
            both = [np.abs(np.nan_to_num(of.astype(float))) for of in (values, others)]
            assert any(close(*map(size, both)) for size in (np.median, np.mean)), name
        else:
            assert set(values.astype(str)) == set(others.astype(str)), name


def close(kept, found):
    return max(kept, found) <= ALIKE * min(kept, found) or max(kept, found) < 1e-9


def test_nothing_of_the_default_takes_long_that_is_not_kept(book):
    """A changed schema, or a new run: `make notebooks` keeps it."""
    seconds = sum(run.effort for run in book.store.missing(book.runs()))
    assert seconds < 120


def test_all_of_it_is_of_committed_source():
    """That of a commit in this history, if it is whole, with the library that ran."""
    manifests = [m.manifest for path in kept_runs().root.glob("*/*") for m in read_lines(path).values()]
    sources = {(manifest["revision"], manifest.get("source")) for manifest in manifests}
    assert sources
    assert not any(revision.endswith("dirty") for revision, _ in sources)
    if not (ROOT / ".git" / "shallow").exists():
        hashes = {revision: committed_hash(ROOT, revision) for revision, source in sources if source}
        assert {(revision, hashes.get(revision)) for revision, _ in sources} == sources


@pytest.mark.parametrize("preset", ["laptop-long", "workstation"])
def test_in_a_fresh_clone_a_record_computes_nothing_and_changes_no_file(preset, tmp_path):
    clone = tmp_path / "clone"
    git = ("git", "-C", clone)
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, clone], check=True)
    command = [sys.executable, "-m", "sameloss.book.build", "record", "--preset", preset]
    of_clone = {"cwd": clone, "env": os.environ | {"PYTHONPATH": str(clone / "lib")}, "check": True}
    said = subprocess.run([*command, "--finished"], capture_output=True, text=True, **of_clone).stdout
    assert not subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True).stdout
    assert not re.findall(r"^Record of (\w+), preset .* left\.$", said, re.MULTILINE)
    assert "runs are left" not in said
    assert re.search(r"^(Record of .* complete|.*: finished)\.$", said, re.MULTILINE)
