"""What the book consists of, by its table of contents."""

from pathlib import Path

import yaml


def toc_files() -> list[Path]:
    """Return the book's files in the order of `_toc.yml`, the front page first."""
    toc = yaml.safe_load(Path("_toc.yml").read_text())
    names = [toc["root"]] + [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [next(p for s in (".ipynb", ".md") if (p := Path(name + s)).exists()) for name in names]


def notebooks() -> list[Path]:
    """Return the chapters that are notebooks."""
    return [path for path in toc_files() if path.suffix == ".ipynb"]
