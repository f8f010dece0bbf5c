"""The location of the book, its records and its artifacts, and source revisions."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from toy_runs import Squaring

from sameloss.errors import ParameterError, StoreError
from sameloss.store import location
from sameloss.store.location import (
    HOME,
    book_root,
    default_artifacts,
    results_folder,
    revision,
    source_hash,
    source_revision,
    uncommitted,
)
from sameloss.store.provenance import uncommitted_runs
from sameloss.store.store import Store

CHECKOUT = Path(location.__file__).parents[3]


def a_book(folder):
    (folder / "chapters").mkdir(parents=True)
    (folder / "_config.yml").touch()
    return folder


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """An empty working folder, and the library installed elsewhere."""
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.setattr(location, "SOURCE", tmp_path / "lib" / "site-packages" / "sameloss")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_book_is_the_checkout_of_the_library_from_every_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(HOME, raising=False)
    for folder in (tmp_path, a_book(tmp_path / "another"), CHECKOUT / "chapters"):
        monkeypatch.chdir(folder)
        assert book_root() == CHECKOUT
        assert default_artifacts() == CHECKOUT / "artifacts"
        assert results_folder() == CHECKOUT / "results"


def test_an_installed_library_finds_the_book_in_a_parent_folder(apart, monkeypatch):
    book = a_book(apart / "book")
    for folder in (book, book / "chapters"):
        monkeypatch.chdir(folder)
        assert book_root() == book
        assert default_artifacts() == book / "artifacts"


def test_the_environment_variable_takes_precedence(apart, monkeypatch):
    book, other = a_book(apart / "book"), a_book(apart / "other")
    monkeypatch.chdir(other)
    monkeypatch.setenv(HOME, "../book")
    assert book_root() == book


def test_an_environment_variable_without_a_book_is_an_error(apart, monkeypatch):
    monkeypatch.setenv(HOME, str(apart))
    with pytest.raises(ParameterError, match=f"^{HOME} must be the book's folder, .*; got {apart}.$"):
        book_root()


@pytest.mark.parametrize("named", ["~nosuchuser/book", "loop", "n" * 300, "closed/book", "file"])
def test_a_home_that_cannot_be_looked_into_is_the_same_error(apart, monkeypatch, named):
    (apart / "loop").symlink_to(apart / "loop")
    (apart / "file").touch()
    a_book(apart / "closed" / "book")
    (apart / "closed").chmod(0)
    if named == "closed/book" and os.access(apart / "closed", os.X_OK):
        named = "/proc/1/root/nothing"  # to root all folders are open
    monkeypatch.setenv(HOME, named)
    try:
        with pytest.raises(ParameterError, match=f"^{HOME} must be the book's folder, .*; got {named}.$"):
            book_root()
    finally:
        (apart / "closed").chmod(0o755)


def test_a_parent_that_cannot_be_looked_into_is_no_book(apart, monkeypatch):
    def refused(*_, **__):
        raise PermissionError

    monkeypatch.setattr(os, "stat", refused)
    assert book_root() is None


def test_without_a_book_artifacts_are_in_the_working_folder_and_records_nowhere(apart):
    (apart / "_config.yml").touch()  # of another project
    assert book_root() is None
    assert default_artifacts() == apart / "artifacts"
    with pytest.raises(ParameterError, match=f"^No book was found from here, .*; set {HOME} to its folder.$"):
        results_folder()


# Revisions, and uncommitted files


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git repository of a book with one commit, whose library is the imported one."""
    root = tmp_path / "book"
    for name in ("_config.yml", "chapters/a.py", "lib/sameloss/a.py", "notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("old")
    (root / ".gitignore").write_text("*.pyc\n")
    commit(root)
    imported_from(root / "lib" / "sameloss", monkeypatch)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):  # which could declare every folder safe
        monkeypatch.setenv(name, os.devnull)
    yield root
    forget()


def imported_from(folder, monkeypatch):
    """Import the library from a folder."""
    monkeypatch.setattr(location, "SOURCE", folder)
    forget()


def forget():
    """What a new process would not know."""
    source_revision.cache_clear()
    source_hash.cache_clear()


def commit(root):
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        git(root, *words)


def git(folder, *words):
    name = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", "-C", folder, *name, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def head(folder):
    return git(folder, "rev-parse", "HEAD")


def test_a_revision_is_that_of_git_and_marked_dirty_after_a_change(checkout):
    assert revision(checkout) == source_revision() == head(checkout)
    (checkout / "lib/sameloss/a.py").write_text("new")
    assert revision(checkout) == f"{head(checkout)}-dirty"


def test_uncommitted_covers_changes_everywhere_and_new_files_in_given_folders(checkout):
    assert uncommitted(checkout, "lib") == []
    for name in ("notes.txt", "new.txt", "lib/b.py", "lib/c.pyc"):
        (checkout / name).write_text("new")
    assert uncommitted(checkout) == ["notes.txt"]
    assert uncommitted(checkout, "lib", "chapters") == ["notes.txt", "lib/b.py"]
    git(checkout, "add", "lib/b.py")
    assert uncommitted(checkout) == ["lib/b.py", "notes.txt"]  # staged


def untracked(checkout):
    (checkout / "lib/sameloss/new.py").write_text("new")


def ignored(checkout):
    (checkout / ".git/info/exclude").write_text("mine/\n")
    (checkout / "lib/sameloss/mine").mkdir()
    (checkout / "lib/sameloss/mine/new.py").write_text("new")


def overlooked(flag):
    def state(checkout):
        git(checkout, "update-index", flag, "lib/sameloss/a.py")
        (checkout / "lib/sameloss/a.py").write_text("new")

    return state


STATES = [untracked, ignored, overlooked("--assume-unchanged"), overlooked("--skip-worktree")]


@pytest.mark.parametrize("state", STATES)
def test_source_that_git_does_not_see_is_not_committed(checkout, state):
    state(checkout)
    forget()
    assert source_revision() == f"{head(checkout)}-dirty"
    assert uncommitted(checkout, "lib")


def test_a_run_of_source_that_was_committed_later_is_not_of_its_commit(checkout, monkeypatch):
    """The hash finds it even where the mark of the revision is missing."""
    store = Store(checkout / "artifacts")
    store.compute(Squaring(3))
    assert uncommitted_runs(store, [Squaring(3)]) == []
    untracked(checkout)
    forget()
    monkeypatch.setattr("sameloss.store.store.source_revision", lambda: head(checkout))
    store.compute(Squaring(4))
    commit(checkout)
    assert uncommitted_runs(store, [Squaring(3), Squaring(4)]) == [Squaring(4)]


def test_neither_tags_nor_variables_of_a_hook_name_the_revision(checkout, tmp_path, monkeypatch):
    git(checkout, "tag", "-a", "v-dirty", "-m", "a name that moves")
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("other")
    commit(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    found = source_revision()
    monkeypatch.delenv("GIT_DIR")  # which the next command would heed
    assert found == head(checkout)


def test_a_shallow_clone_is_at_the_same_revision(checkout, tmp_path, monkeypatch):
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{checkout}", "shallow")
    imported_from(tmp_path / "shallow/lib/sameloss", monkeypatch)
    assert source_revision() == head(checkout)
    assert uncommitted(tmp_path / "shallow", "lib") == []


def no_git(checkout, monkeypatch):
    (checkout / "bin").mkdir()
    monkeypatch.setenv("PATH", str(checkout / "bin"))
    return "git cannot be run"


def of_another_user(checkout, monkeypatch):
    if os.getuid() != 0:
        pytest.skip("Only root can give files away.")
    (checkout / "lib/sameloss/a.py").write_text("new")
    for path in (checkout, *checkout.rglob("*")):
        os.chown(path, 65534, 65534)
    return "detected dubious ownership"


def a_copy(checkout, monkeypatch):
    shutil.rmtree(checkout / ".git")
    return "not a git repository"


def a_copy_in_anothers_repository(checkout, monkeypatch):
    shutil.rmtree(checkout / ".git")
    commit(checkout.parent)
    return f"{checkout} has no git repository of its own; it lies in that of {checkout.parent}."


def a_git(program):
    """A git of the given shell commands before all others."""

    def state(checkout, monkeypatch):
        (checkout / "bin").mkdir()
        (checkout / "bin/git").write_text(f"#!/bin/sh\n{program}\n")
        (checkout / "bin/git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}")
        if "sleep" in program:  # others are given the time that a busy machine takes
            monkeypatch.setattr(location, "PATIENCE", 0.5)
        return SAID[program]

    return state


SAID = {
    "exit 0": "git says nothing",
    "exec sleep 60": "timed out",
    r"printf '\377'": "no git repository of its own",
}
"""What is said of a git that is silent, that hangs, or whose words are not UTF-8."""

UNKNOWN = [no_git, of_another_user, a_copy, a_copy_in_anothers_repository, *map(a_git, SAID)]


@pytest.mark.parametrize("state", UNKNOWN)
def test_without_an_answer_of_git_the_revision_is_unknown(checkout, monkeypatch, state):
    said = state(checkout, monkeypatch)
    forget()
    assert source_revision() == "unknown"
    for ask in (revision, uncommitted):
        with pytest.raises(StoreError, match=said) as caught:
            ask(checkout)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["sameloss", ".venv/lib/python3.11/site-packages/sameloss", "lib/sameloss"])
def test_the_revision_of_another_project_is_not_that_of_the_library(checkout, tmp_path, monkeypatch, place):
    project = tmp_path / "project"
    shutil.copytree(checkout / "lib" / "sameloss", project / place)
    commit(project)
    imported_from(project / place, monkeypatch)
    assert source_revision() == "unknown"


def test_without_git_a_run_has_an_unknown_revision(checkout, monkeypatch):
    no_git(checkout, monkeypatch)
    store = Store(checkout / "artifacts")
    assert store.get(Squaring(3)) == 9
    assert store.manifest(Squaring(3))["revision"] == "unknown"


def test_the_revision_of_a_run_is_the_one_at_its_start(checkout, monkeypatch):
    before, compute = head(checkout), Squaring.compute

    def edited_meanwhile(self, *given):
        (checkout / "lib/sameloss/a.py").write_text("new")
        compute(self, *given)

    monkeypatch.setattr(Squaring, "compute", edited_meanwhile)
    store = Store(checkout / "artifacts")
    store.get(Squaring(3))
    assert store.manifest(Squaring(3))["revision"] == before
