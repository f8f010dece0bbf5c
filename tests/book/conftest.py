"""A tiny book in a repository of its own, and the store that tests of notebooks share."""

import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from tiny_book import FILES, PAGE, build, git, notebook, write

from sameloss.store.location import HOME

ROOT = Path(__file__).parents[2]


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A clean repository of a tiny book, in which the test runs; its library is its folder `lib`."""
    monkeypatch.setenv(HOME, str(tmp_path))
    monkeypatch.setattr("sameloss.book.record.source_checkout", lambda: tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    PAGE.parent.mkdir()
    write(PAGE, notebook())
    monkeypatch.setattr("sameloss.book.notebooks.SOURCE", tmp_path / "lib")
    monkeypatch.setattr(
        "sameloss.book.execute.source_revision", lambda: git("describe", "--always", "--dirty")
    )
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        git(*words)
    return tmp_path


@pytest.fixture(scope="session")
def smoke_store(shared):
    """One store for all tests that run notebooks."""
    folder = shared / "smoke"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def html(shared):
    """Build the committed notebooks, apart from what `make book` has built; warnings are errors."""
    folder = shared / "book"
    with FileLock(shared / "book.lock"):
        if not (folder / "_build" / "html" / "index.html").exists():
            _build_committed(folder)
    return folder / "_build" / "html"


def _build_committed(folder):
    for name in ("_static", "chapters", "images"):
        shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
    for name in ("_config.yml", "_toc.yml", "intro.md", "references.bib", "constraints.txt", "README.md"):
        shutil.copy(ROOT / name, folder)
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    assert done.stdout.strip().endswith("index.html")
