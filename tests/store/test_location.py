"""Where the book is, and its artifacts."""

from sameloss.store.location import book_root, default_artifacts


def test_the_book_is_found_from_any_folder_in_it(tmp_path, monkeypatch):
    (tmp_path / "_config.yml").touch()
    inside = tmp_path / "chapters" / "deep"
    inside.mkdir(parents=True)
    for folder in (tmp_path, inside):
        monkeypatch.chdir(folder)
        assert book_root() == tmp_path
        assert default_artifacts() == tmp_path / "artifacts"


def test_outside_of_a_book_artifacts_are_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert book_root() == tmp_path
