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
    source_revision,
    uncommitted,
)
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
    source_revision.cache_clear()


def imported_from(folder, monkeypatch):
    """Import the library from a folder."""
    monkeypatch.setattr(location, "SOURCE", folder)
    source_revision.cache_clear()


def commit(root):
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        git(root, *words)


def git(folder, *words):
    name = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", "-C", folder, *name, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def head(folder):
    return git(folder, "rev-parse", "--short", "HEAD")


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


UNKNOWN = [no_git, of_another_user, a_copy, a_copy_in_anothers_repository]


@pytest.mark.parametrize("state", UNKNOWN)
def test_without_an_answer_of_git_the_revision_is_unknown(checkout, monkeypatch, state):
    said = state(checkout, monkeypatch)
    source_revision.cache_clear()
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
