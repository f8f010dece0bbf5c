"""The studies of the book: every folder of `sameloss.studies` that has pages."""

import pkgutil
from importlib import import_module
from typing import Any

from sameloss import studies
from sameloss.errors import ParameterError
from sameloss.studies.page import Page, Study


def all_studies() -> dict[str, Study[Any]]:
    """Return the studies by name: what `STUDY` is in the module `pages` of each folder, and of the book."""
    return {name: import_module(name).STUDY for name in _modules()}


def _modules() -> list[str]:
    folders = [found.name for found in pkgutil.iter_modules(studies.__path__) if found.ispkg]
    return [f"{studies.__name__}.{name}.pages" for name in folders] + ["sameloss.book.pages"]


def study_of(page: str) -> Study[Any]:
    """Return the study that a page belongs to.

    Raises:
        ParameterError: where there is no such page.

    """
    for study in all_studies().values():
        if page in study.plans:
            return study
    names = [name for study in all_studies().values() for name in study.plans]
    raise ParameterError(f"No study has a page {page!r}; pages are {', '.join(sorted(names))}.")


def open_page(page: str, **given: Any) -> Page[Any]:
    """Return a page at work, from its name and parameters: see `Study.open`."""
    return study_of(page).open(page, given)
