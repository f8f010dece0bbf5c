"""The studies of the book, every folder of `sameloss.studies` that has pages; the pages about them all."""

import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import pandas as pd

from sameloss import studies
from sameloss.errors import ParameterError
from sameloss.store.store import Run
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.parameters import MAX_HOURS, Config, Parameter


def all_studies() -> dict[str, Study[Any]]:
    """Return the studies by name: what `STUDY` is in the module `pages` of each folder, and of the book."""
    folders = [found.name for found in pkgutil.iter_modules(studies.__path__) if found.ispkg]
    names = [f"{studies.__name__}.{name}.pages" for name in folders]
    return {name: import_module(name).STUDY for name in names} | {__name__: STUDY}


def study_of(page: str) -> Study[Any]:
    """Return the study that a page belongs to.

    Raises:
        ParameterError: where there is no such page.

    """
    by_page = {name: study for study in all_studies().values() for name in study.plans}
    if page not in by_page:
        raise ParameterError(f"No study has a page {page!r}; pages are {', '.join(sorted(by_page))}.")
    return by_page[page]


def open_page(page: str, **given: Any) -> Page[Any]:
    """Return a page at work, from its name and parameters: see `Study.open`."""
    return study_of(page).open(page, given)


@dataclass
class BookPage(Page[Config]):
    """A page that reads everything: every page of every study that has its preset."""

    @cached_property
    def pages(self) -> list[Page[Any]]:
        """Return all other pages."""
        return [
            study.page(name, {"preset": self.config.name}, self.store)
            for study in all_studies().values()
            for name in study.plans
            if study is not STUDY and self.config.name in study.presets
        ]

    @property
    def judging(self) -> list[Page[Any]]:
        """Return the pages that judge claims of Part II."""
        return [page for page in self.pages if page.topics]

    def runs(self) -> list[Run]:
        """Return all runs of the book at this preset."""
        return [run for page in self.pages for run in page.runs()]


def all_statements(pages: Iterable[Page[Any]]) -> pd.DataFrame:
    """Return one row a lemma or theorem of some pages, with its verdict and its page."""
    tables = [page.statements().assign(page=page.name) for page in pages]
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


PRESETS = {name: Config(name) for name in MAX_HOURS}

STUDY = Study(
    PRESETS,
    {name: Plan(BookPage, "preset max_hours workers device artifacts") for name in ("verdicts", "costs")},
    parameters={
        "preset": Parameter(f"auto, {', '.join(PRESETS)}", default="auto", choices=("auto", *PRESETS))
    },
)
