"""The table of contents."""

from pathlib import Path

from sameloss.book.contents import notebooks, toc_files


def test_files_come_in_the_order_of_the_contents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("chapters").mkdir()
    for name in ("intro.md", "chapters/b.ipynb", "chapters/a.md", "chapters/c.ipynb", "chapters/c.py"):
        Path(name).touch()
    parts = "".join(f"  - chapters:\n      - file: chapters/{name}\n" for name in "bac")
    Path("_toc.yml").write_text(f"root: intro\nparts:\n{parts}")
    assert list(map(str, toc_files())) == [
        "intro.md",
        "chapters/b.ipynb",
        "chapters/a.md",
        "chapters/c.ipynb",
    ]
    assert list(map(str, notebooks())) == ["chapters/b.ipynb", "chapters/c.ipynb"]
