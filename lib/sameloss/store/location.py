"""Where the book and its artifacts are."""

from pathlib import Path


def default_artifacts() -> Path:
    """Return `artifacts` in the book's folder, so that every way to run shares it."""
    return book_root() / "artifacts"


def book_root() -> Path:
    """Return the nearest folder with a `_config.yml`, from here upwards; here, where there is none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / "_config.yml").exists()), here)
