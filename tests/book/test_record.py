"""A record can be traced to committed source."""

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from toy_runs import Squaring

from sameloss.book import record as module
from sameloss.book.record import keep, record, refuse_uncommitted_runs, take
from sameloss.store.store import MANIFEST, Store


def test_a_tree_with_changes_is_refused_before_anything_is_computed(book):
    Path("lib/a.py").write_text("new")
    with pytest.raises(SystemExit, match=r"^lib/a\.py not committed; commit or remove"):
        record("smoke")
    assert not Path("artifacts").exists()


def test_runs_of_uncommitted_source_are_refused_with_their_number(tmp_path):
    store, runs = Store(tmp_path / "artifacts"), [Squaring(3, Squaring(1)), Squaring(4), Squaring(5)]
    for run in runs[:2]:
        store.compute(run)
        change(store, run, "abc1234")
    change(store, Squaring(1), "abc1234")
    refuse_uncommitted_runs(store, runs)
    for run in (Squaring(1), Squaring(4)):
        change(store, run, "abc1234-dirty")
    with pytest.raises(
        SystemExit, match=r"^2 finished runs come from source that was not committed; remove "
    ) as caught:
        refuse_uncommitted_runs(store, runs)
    assert "\n" not in str(caught.value)


def change(store, run, revision):
    """Let a run be of another revision."""
    changed = {**store.manifest(run), "revision": revision}
    (store.folder(run) / MANIFEST).write_text(json.dumps(changed, indent=1))


def test_the_advice_lists_those_folders_alone(tmp_path):
    store = Store(tmp_path / "artifacts")
    for run, revision in ((Squaring(1), "abc"), (Squaring(2), "abc-dirty")):
        store.compute(run)
        change(store, run, revision)
    with pytest.raises(SystemExit) as caught:
        refuse_uncommitted_runs(store, [Squaring(1), Squaring(2)])
    command = re.search("`(.*)`", str(caught.value))[1]
    listed = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout.split()
    assert listed == [str(store.folder(Squaring(2)) / MANIFEST)]


def test_what_is_kept_is_taken_elsewhere(tmp_path, monkeypatch, capsys):
    """And nothing is kept whose source nobody can look up."""
    monkeypatch.chdir(tmp_path)
    runs = [Squaring(3, Squaring(1)), Squaring(4)]
    stores = {place: Store(tmp_path / place, recorded=True) for place in ("here", "there")}

    def opened(place):
        return lambda name, preset: SimpleNamespace(store=stores[place], runs=lambda: runs)

    stores["here"].compute(runs[0])
    monkeypatch.setattr(module, "open_page", opened("here"))
    change(stores["here"], runs[0], "abc-dirty")
    with pytest.raises(SystemExit, match="not committed"):
        keep("laptop")
    for run in (runs[0], Squaring(1)):
        change(stores["here"], run, "abc")
    keep("laptop")
    monkeypatch.setattr(module, "open_page", opened("there"))
    take("laptop")
    assert [stores["there"].has(run) for run in runs] == [True, False]
    assert stores["there"].manifest(runs[0]) == stores["here"].manifest(runs[0])
    said = capsys.readouterr().out
    assert said == "Recorded in results/laptop/runs: 2 runs.\nTaken from results/laptop/runs: 2 runs.\n"
