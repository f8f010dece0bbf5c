"""A record can be traced to committed source."""

import re
import shlex
import shutil
from pathlib import Path

import nbformat
import pytest
from quick_workers import quick_workers
from tiny_book import PAGE, SQUARE, git, notebook, write
from toy_pages import page_of
from toy_runs import Failing, Squaring

from sameloss.book import record as module
from sameloss.book.notebooks import EXECUTED, Execution, fingerprints, notebooks
from sameloss.book.page import Chapter
from sameloss.book.pages import open_page
from sameloss.book.part_one import CHAPTERS
from sameloss.book.record import (
    FRONT_FIGURE,
    adopt,
    compute,
    front_figure,
    left_in_words,
    record,
    recorded_pages,
    require_committed_runs,
)
from sameloss.errors import ModelError, ParameterError, StoreError
from sameloss.store.record import Record, kept_runs
from sameloss.store.store import Store, write_manifest


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
    require_committed_runs(store, runs)
    for run, revision in ((Squaring(1), "abc1234-dirty"), (Squaring(4), "unknown")):
        change(store, run, revision)
    with pytest.raises(
        SystemExit, match=r"^2 finished runs come from source that was not committed or is unknown; remove "
    ) as caught:
        require_committed_runs(store, runs)
    assert "\n" not in str(caught.value)


def change(store, run, revision):
    """Let a run be of another revision."""
    write_manifest(store.folder(run), store.manifest(run) | {"revision": revision, "source": None})


def test_the_advice_lists_those_folders_alone(tmp_path):
    store = Store(tmp_path / "artifacts")
    revisions = ("abc", "abc-dirty", "unknown")
    runs = [Squaring(number, notes=str(tmp_path / "dirty")) for number in range(len(revisions))]
    for run, revision in zip(runs, revisions, strict=True):
        store.compute(run)
        change(store, run, revision)
    with pytest.raises(SystemExit) as caught:
        require_committed_runs(store, runs)
    command, flag, *listed = shlex.split(re.search("`(.*)`", str(caught.value))[1])
    assert (command, flag) == ("rm", "-r")
    assert listed == [str(store.folder(run)) for run in runs[1:]]


@pytest.fixture
def recorded(book, notes, monkeypatch):
    """Record pages in a clean tree, with a store of that name; return how often a square was computed."""

    def record_with(name, runs, **how):
        store = Store(book / name, kept_runs())
        monkeypatch.setattr(module, "recorded_pages", lambda preset: list(runs))
        monkeypatch.setattr(module, "_open", lambda page, *asked: page_of(store, runs[page], page))
        with quick_workers():
            record("toy", **how)
        return len(Path(notes).read_text().splitlines())

    monkeypatch.setattr(Chapter, "announce", lambda page: "")
    monkeypatch.setattr(module, "uncommitted_runs", lambda store, runs: [])  # of the repository at hand
    return record_with


@pytest.fixture
def notes(tmp_path):
    """A file of one line a computation."""
    (tmp_path / "notes").touch()
    return str(tmp_path / "notes")


def runs_of(notes, second=Squaring):
    """Return the runs of two pages, the second with a run of another kind."""
    return {"first": [Squaring(2, Squaring(1, notes=notes), notes)], "second": [second(3, notes=notes)]}


def test_a_record_that_broke_off_goes_on_elsewhere(recorded, notes):
    """What its finished pages found is in the pool, and an empty store computes the rest alone."""
    with pytest.raises(ModelError, match="made to fail"):
        recorded("here", runs_of(notes, Failing))
    assert recorded("elsewhere", runs_of(notes)) == 3
    found = [kept_runs().get(run) for runs in runs_of(notes).values() for run in runs]
    assert found == [5, 9]


def test_a_whole_record_is_a_fixed_point(recorded, notes, book):
    """With an empty store nothing is computed, and no file of the tree or the store changes."""
    recorded("here", runs_of(notes))
    before = contents(book)
    assert recorded("elsewhere", runs_of(notes)) == 3
    assert contents(book) == before


def test_a_shallow_clone_has_the_record_without_its_commits(recorded, notes, monkeypatch):
    recorded("here", runs_of(notes))
    monkeypatch.setattr(module, "uncommitted_runs", lambda store, runs: list(runs))
    assert recorded("elsewhere", runs_of(notes)) == 3


def contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {path: path.read_bytes() for path in files if path.suffix != ".lock"}


def test_a_record_goes_on_before_it_is_committed(recorded, notes):
    """Its own lines are no reason to refuse, also where git knows their file; other changes are."""
    recorded("here", {"first": [Squaring(1, notes=notes)]})
    git("add", ".")
    git("commit", "-q", "-m", "lines")
    (path,) = kept_runs().root.glob("*/*")
    line = path.read_text()
    path.unlink()
    assert recorded("here", {"first": [Squaring(1, notes=notes)]}) == 1
    assert path.read_text() == line


def test_what_is_left_is_said_and_nothing_done(recorded, capsys, notes):
    assert recorded("here", runs_of(notes), dry_run=True) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = ("first, preset toy: 0 of 2", "second, preset toy: 0 of 1")
    for line, count in zip(lines, counts, strict=True):
        assert re.fullmatch(rf"Record of {count} runs, about [\d.]+ \w+ left\.", line)
    assert not kept_runs().root.exists()
    assert not Path("here").exists()


def test_what_is_left_is_said_by_the_clock(book, monkeypatch):
    """What an earlier page reads is not counted again."""
    monkeypatch.setattr(module, "reference_seconds", lambda run: 1800.0)
    monkeypatch.setattr("sameloss.book.costs.usable_workers", lambda: 2)
    store, shared = Store(book / "artifacts"), Squaring(1)
    runs = {"first": [Squaring(2, shared)], "second": [Squaring(3, shared), shared], "third": [shared]}
    pages = [page_of(store, own, name) for name, own in runs.items()]
    says = "Record of {}, preset toy: {} runs, {}."
    assert list(left_in_words(pages)) == [
        says.format("first", "0 of 2", "about 30.0 minutes left"),
        says.format("second", "0 of 1", "about 15.0 minutes left"),
        says.format("third", "0 of 0", "complete"),
    ]
    store.compute(Squaring(2, shared))
    assert next(left_in_words(pages)) == says.format("first", "2 of 2", "complete")


@pytest.mark.parametrize("minutes", [1e-300, 9.0, 1e300])
def test_a_timer_is_set_whatever_the_minutes(monkeypatch, minutes):
    timers = []
    monkeypatch.setattr(module.signal, "setitimer", lambda which, seconds: timers.append(seconds))
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    module._stop_after(minutes)
    assert 0.001 <= timers[0] <= 2**31


def test_what_the_pool_has_is_not_left(recorded, capsys, notes):
    recorded("here", runs_of(notes) | {"second": []})
    capsys.readouterr()
    assert recorded("elsewhere", runs_of(notes), dry_run=True) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Record of first, preset toy: 2 of 2 runs, complete."
    assert second.startswith("Record of second, preset toy: 0 of 1 runs, about ")
    assert not Path("elsewhere").exists()


def test_losses_are_recorded_but_those_of_part_i(recorded, monkeypatch, book):
    """Which take megabytes."""
    kept = {}
    monkeypatch.setattr(Record, "add", lambda self, store, runs, *, lazy: kept.update({runs[0].number: lazy}))
    recorded("here", {CHAPTERS[0]: [Squaring(1)], "ii5_growing": [Squaring(2)]})
    assert kept == {1: False, 2: True}


def test_every_page_with_a_record_is_listed_with_it():
    assert recorded_pages("pretrained") == list(CHAPTERS)
    assert recorded_pages("workstation") == [*CHAPTERS, "02_confirmation", "04_interventions"]
    assert {"ii2_stability", "ii5_growing"} <= set(recorded_pages("laptop-long"))
    assert not set(CHAPTERS) & set(recorded_pages("laptop-long"))


def test_runs_of_unknown_source_are_refused_before_anything_is_computed(book, monkeypatch):
    """Those of the last page, too."""
    pages = {name: page_of(Store(book / "store"), [Squaring(at)], name) for at, name in enumerate("ab")}
    pages["b"].store.compute(Squaring(1))
    change(pages["b"].store, Squaring(1), "unknown")
    monkeypatch.setattr(module, "recorded_pages", lambda preset: tuple(pages))
    monkeypatch.setattr(module, "_open", lambda name, *_: pages[name])
    monkeypatch.setattr(Chapter, "announce", lambda page: "")
    with pytest.raises(SystemExit, match=r"^1 finished runs come from source that was not committed or is"):
        record("toy")
    assert not pages["a"].store.has(Squaring(0))


def test_what_would_be_refused_after_an_execution_is_refused_before(book, monkeypatch):
    page = page_of(Store(book / "artifacts"), [Squaring(1)])
    monkeypatch.setattr(module, "open_page", lambda name, preset: page)
    page.store.compute(Squaring(1))
    change(page.store, Squaring(1), "abc")
    adopt(check=True)
    change(page.store, Squaring(1), "abc-dirty")
    with pytest.raises(SystemExit, match=r"^1 finished runs"):
        adopt(check=True)
    Path("lib/a.py").write_text("new")
    with pytest.raises(SystemExit, match=r"^lib/a\.py not committed"):
        adopt(check=True)


@pytest.mark.parametrize("command", [adopt, record])
def test_where_git_fails_nothing_counts_as_committed(book, monkeypatch, command):
    """Git's own sentence is said, and nothing is opened."""
    monkeypatch.setattr(module, "open_page", lambda *_, **__: pytest.fail("a page was opened"))
    shutil.rmtree(".git")
    with pytest.raises(StoreError, match=r"^The revision of the source is not known: fatal: not a git repo"):
        command(**{"preset": "laptop-long"} if command is record else {})


@pytest.mark.parametrize("command", [adopt, record])
def test_the_library_of_another_checkout_is_refused(book, monkeypatch, command):
    monkeypatch.setattr("sameloss.book.record.source_checkout", lambda: book.parent)
    with pytest.raises(SystemExit, match=r"^The library that runs is \S+, not this folder's"):
        command(**{"preset": "laptop-long"} if command is record else {})


def test_what_is_finished_of_a_part_is_kept_without_more(recorded, notes, book):
    """Though the rest is not."""
    Store(book / "here").compute(Squaring(1, notes=notes))
    assert recorded("here", runs_of(notes), finished=True) == 1
    assert recorded("elsewhere", runs_of(notes)) == 3


def test_a_preset_or_page_that_has_no_record_is_refused_with_those_that_have():
    for wrong, valid in (({"preset": "laptop long"}, "laptop-long"), ({"page": "b1_trace"}, "ii5_growing")):
        with pytest.raises(ParameterError, match=valid) as caught:
            record(**{"preset": "laptop-long", "page": None, "dry_run": True} | wrong)
        assert "\n" not in str(caught.value)


# Only executions of what is committed become the committed ones.


def write_copy(made=None, **other):
    """Write an executed copy, as from the present revision but for what is said to be other."""
    made = made or notebook("43")
    facts = {
        "preset": "laptop",
        "fingerprint": fingerprints([PAGE], "laptop")[PAGE],
        "revision": git("rev-parse", "HEAD"),
    }
    Execution(**{**facts, **other}).write(made)
    write(EXECUTED / PAGE, made)


def refused(match):
    committed = PAGE.read_bytes()
    with pytest.raises(SystemExit, match=match) as caught:
        adopt()
    assert "\n" not in str(caught.value)
    assert PAGE.read_bytes() == committed


@pytest.fixture
def page(book, monkeypatch):
    """The page of all runs of the tiny book: one is computed, another is not."""
    store = Store(book / "_build" / "artifacts")
    page = page_of(store, [Squaring(3, Squaring(1)), Squaring(4)])
    monkeypatch.setattr(module, "open_page", lambda name, preset: page)
    store.compute(Squaring(3, Squaring(1)))
    for run in (Squaring(1), Squaring(3, Squaring(1))):
        change(store, run, "abc")
    return page


def test_runs_are_recorded_with_the_notebooks(page, capsys):
    write_copy()
    adopt()
    assert capsys.readouterr().out == "Recorded in results/runs: 2 runs.\n"
    assert [kept_runs().has(run) for run in page.runs()] == [True, False]
    assert kept_runs().manifest(page.runs()[0]) == page.store.manifest(page.runs()[0])


def test_nothing_is_recorded_whose_source_nobody_can_look_up(page):
    write_copy()
    change(page.store, Squaring(1), "abc-dirty")
    refused(r"^1 finished runs come from source that was not committed")
    assert not kept_runs().root.exists()


def test_an_executed_notebook_becomes_the_committed_one_without_traces(book, page):
    made = notebook("43")
    made.metadata.papermill = {"output_path": str(book)}
    made.cells[2].outputs.append(nbformat.v4.new_output("stream", name="stderr", text=str(book)))
    write_copy(made)
    adopt()
    assert str(book) not in PAGE.read_text()
    adopted = nbformat.read(PAGE, as_version=4)
    assert adopted.cells[2].outputs[0].data["text/plain"] == "'43'"
    assert sorted(adopted.metadata) == ["kernelspec", "language_info"]
    assert PAGE.read_text().endswith("}\n")
    assert FRONT_FIGURE.read_bytes() == SQUARE.encode()


def test_a_changed_file_is_refused(book):
    write_copy()
    Path("intro.md").write_text("# New")
    refused("^intro.md not committed; commit or remove the change, then run this again.$")


def test_where_git_fails_everything_is_refused_with_its_own_sentence(book):
    write_copy()
    shutil.rmtree(".git")
    with pytest.raises(StoreError, match=r"^The revision of the source is not known: fatal: not a git repo"):
        adopt()


def test_one_page_is_executed_and_adopted_alone(page, monkeypatch):
    opened = []
    monkeypatch.setattr(module, "open_page", lambda name, preset: opened.append(name) or page)
    write_copy()
    adopt(page=PAGE.stem)
    assert opened == [PAGE.stem]
    with pytest.raises(SystemExit, match=r"^Unknown page '03_saturation'; choose one of 02_confirmation"):
        notebooks("03_saturation")


def test_a_page_of_the_contents_without_a_notebook_is_named(book):
    PAGE.unlink()
    with pytest.raises(
        SystemExit, match=r"^_toc.yml names chapters/02_confirmation, of which there is neither"
    ):
        notebooks()


@pytest.mark.parametrize("name", ["lib/b.py", "chapters/b.py"])
def test_a_new_file_that_may_decide_a_result_is_refused(book, name):
    write_copy()
    Path(name).touch()
    Path("lib/c.py").touch()
    refused(r"^\S+ and .* more not committed" if name != "lib/b.py" else "^lib/b.py and 1 more not committed")


def test_new_files_elsewhere_are_none_of_its_business(book, page):
    write_copy()
    Path("notes.txt").touch()
    adopt()


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (
            {"revision": "abc1234"},
            f"^{PAGE} was executed at revision abc1234 with preset laptop, not as it is",
        ),
        ({"preset": "smoke"}, "with preset smoke, not as it is at the present .* with preset laptop"),
        ({"fingerprint": "of a new file that was removed again"}, "run `make notebooks`"),
    ],
)
def test_another_execution_is_refused(book, page, other, sentence):
    write_copy(**other)
    refused(sentence)


def test_no_execution_is_refused(book, page):
    refused(f"^{PAGE} was not executed; run `make notebooks`.$")


def test_a_front_chapter_without_its_figure_is_refused():
    with pytest.raises(SystemExit, match="no figure named fig-existence"):
        front_figure(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))


# All runs of some chapters in one pool.


READS = {"a": [Squaring(2), Squaring(3)], "b": [Squaring(3, Squaring(4))]}


@pytest.fixture
def store(home, monkeypatch):
    monkeypatch.setattr(module, "open_page", opened)
    return Store(home / "artifacts")


def opened(name, preset, max_hours=None):
    """Open a page that reads some of the runs, or all of them, at a preset that the book knows."""
    values = open_page("costs", preset=preset, max_hours=max_hours).values
    every = [run for runs in READS.values() for run in runs]
    read = READS.get(name, every if name == "costs" else [])
    return page_of(Store("artifacts", kept_runs()), read, name, **values)


def test_what_the_chapters_read_is_computed_and_no_more(store, capsys):
    compute("smoke", ["a", "notation"])  # a page that reads no runs
    assert all(map(store.has, READS["a"]))
    assert not any(map(store.has, READS["b"]))
    assert "preset smoke" in capsys.readouterr().out
    compute("smoke")
    assert all(map(store.has, READS["b"]))


def test_what_is_recorded_is_computed_only_if_asked_for(store, home):
    other = Store(home / "other")
    other.compute(READS["a"][0])
    assert kept_runs().add(other, READS["a"]) == 1
    compute("smoke", ["a"])
    assert [store.has(run) for run in READS["a"]] == [False, True]
    compute("smoke", ["a"], anew=True)
    assert all(map(store.has, READS["a"]))


def test_more_than_the_hours_that_are_given_is_refused(store):
    with pytest.raises(ParameterError, match="above max_hours = 1e-12"):
        compute("smoke", ["a"], max_hours=1e-12)
    compute("smoke", ["a"], max_hours=1e6)


def test_an_unknown_preset_is_one_sentence(store):
    with pytest.raises(ParameterError, match="Unknown preset 'smal'; choose one of "):
        compute("smal")
