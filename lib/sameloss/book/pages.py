"""All studies of the book, and the pages about all of them."""

import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pandas as pd

from sameloss import studies
from sameloss.book.cells import studies_in_cells
from sameloss.errors import ParameterError
from sameloss.store.store import Run
from sameloss.studies.page import LAST, Page, PageSpec, Study
from sameloss.studies.parameters import MAX_HOURS, Config, Parameter


def all_studies() -> dict[str, Study[Any]]:
    """All studies: `STUDY` of `sameloss.studies.*.pages` and of this module; chapters with experiments."""
    folders = [module.name for module in pkgutil.iter_modules(studies.__path__) if module.ispkg]
    names = [f"{studies.__name__}.{name}.pages" for name in folders]
    in_modules = {name: import_module(name).STUDY for name in names if find_spec(name)}
    return in_modules | studies_in_cells() | {__name__: STUDY}


def study_of(page: str) -> Study[Any]:
    """The study of a page.

    Raises:
        ParameterError: if there is no such page.

    """
    by_page = {name: study for study in all_studies().values() for name in study.specs}
    if page not in by_page:
        raise ParameterError(f"No study has a page {page!r}; pages are {', '.join(sorted(by_page))}.")
    return by_page[page]


def open_page(page: str, **given: Any) -> Page[Any]:
    """Open a page by name: see `Study.open`."""
    return study_of(page).open(page, given)


@dataclass
class BookPage(Page[Config]):
    """A page about all pages of all studies with its preset."""

    @cached_property
    def pages(self) -> list[Page[Any]]:
        return [
            study.open(name, {"preset": self.config.name}, self.store)
            for study in all_studies().values()
            for name in study.specs
            if study is not STUDY and self.config.name in study.presets
        ]

    @property
    def judging(self) -> list[Page[Any]]:
        """Pages that judge claims of Part II."""
        return [page for page in self.pages if page.topics]

    def runs(self) -> list[Run]:
        """All runs of the book at this preset."""
        return [run for page in self.pages for run in page.runs()]


def all_statements(pages: Iterable[Page[Any]]) -> pd.DataFrame:
    """Judgements of the lemmas and theorems of several pages, with their `page`."""
    tables = [page.statements().assign(page=page.name) for page in pages]
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


PRESETS = {name: Config(name) for name in MAX_HOURS}

STUDY = Study(
    PRESETS,
    {name: PageSpec(BookPage, f"preset {LAST}") for name in ("verdicts", "costs")},
    parameters={
        "preset": Parameter(f"auto, {', '.join(PRESETS)}", default="auto", choices=("auto", *PRESETS))
    },
)
