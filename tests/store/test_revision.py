"""Revisions of a git repository, and what it has not committed."""

import subprocess

import pytest

from sameloss.store.revision import SOURCE, revision, source_revision, uncommitted


@pytest.fixture
def checkout(tmp_path):
    """A repository of one revision, with two files."""
    for name in ("lib/a.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("old")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        git(tmp_path, *words)
    return tmp_path


def git(folder, *words):
    name = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    done = subprocess.run(["git", "-C", folder, *name, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_revision_is_gits_and_says_that_a_file_has_changed(checkout):
    clean = git(checkout, "rev-parse", "--short", "HEAD")
    assert revision(checkout) == revision(checkout / "lib") == clean
    (checkout / "lib" / "a.py").write_text("new")
    assert revision(checkout) == f"{clean}-dirty"


def test_outside_of_a_repository_nothing_is_known(tmp_path):
    assert revision(tmp_path) == "unknown"
    assert uncommitted(tmp_path, "lib") == []


def test_changes_count_everywhere_and_new_files_where_they_are_asked_for(checkout):
    assert uncommitted(checkout, "lib") == []
    for name in ("notes.txt", "new.txt", "lib/b.py", "lib/c.pyc"):
        (checkout / name).write_text("new")
    assert uncommitted(checkout) == ["notes.txt"]
    assert uncommitted(checkout, "lib", "chapters") == ["notes.txt", "lib/b.py"]
    git(checkout, "add", "lib/b.py")
    assert uncommitted(checkout) == ["lib/b.py", "notes.txt"]  # known to git, not committed


def test_the_sources_revision_is_that_of_the_library():
    assert source_revision() == revision(SOURCE)
    assert (SOURCE / "store" / "revision.py").exists()
