"""Where the book is, its records and its artifacts."""

from pathlib import Path

import pytest

from sameloss.errors import ParameterError
from sameloss.store import location
from sameloss.store.location import HOME, book_root, default_artifacts, results_folder

CHECKOUT = Path(location.__file__).parents[3]


def a_book(folder):
    (folder / "chapters").mkdir(parents=True)
    (folder / "_config.yml").touch()
    return folder


@pytest.fixture
def apart(tmp_path, monkeypatch):
    """A folder with a book in it, and the library installed elsewhere."""
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.setattr(location, "SOURCE", tmp_path / "lib" / "site-packages" / "sameloss")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_book_is_the_librarys_checkout_from_every_folder(tmp_path, monkeypatch):
    monkeypatch.delenv(HOME, raising=False)
    for folder in (tmp_path, a_book(tmp_path / "another"), CHECKOUT / "chapters"):
        monkeypatch.chdir(folder)
        assert book_root() == CHECKOUT
        assert default_artifacts() == CHECKOUT / "artifacts"
        assert results_folder() == CHECKOUT / "results"


def test_an_installed_library_finds_the_book_upwards_from_here(apart, monkeypatch):
    book = a_book(apart / "book")
    for folder in (book, book / "chapters"):
        monkeypatch.chdir(folder)
        assert book_root() == book
        assert default_artifacts() == book / "artifacts"


def test_the_variable_comes_first(apart, monkeypatch):
    book, other = a_book(apart / "book"), a_book(apart / "other")
    monkeypatch.chdir(other)
    monkeypatch.setenv(HOME, "../book")
    assert book_root() == book


def test_a_variable_that_names_no_book_is_refused(apart, monkeypatch):
    monkeypatch.setenv(HOME, str(apart))
    with pytest.raises(ParameterError, match=f"^{HOME} must be the book's folder, .*; got {apart}.$"):
        book_root()


def test_where_no_book_is_found_artifacts_are_here_and_records_nowhere(apart):
    (apart / "_config.yml").touch()  # of something else
    assert book_root() is None
    assert default_artifacts() == apart / "artifacts"
    with pytest.raises(ParameterError, match=f"^No book was found from here, .*; set {HOME} to its folder.$"):
        results_folder()
