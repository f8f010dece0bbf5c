"""The pages that are about all studies: the verdicts, and the costs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sameloss.book.studies import all_studies
from sameloss.store.store import Run
from sameloss.studies.config import Config
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.parameters import MAX_HOURS, Parameter


@dataclass
class BookPage(Page[Config]):
    """A page that reads everything: every page of every study that has its preset."""

    @cached_property
    def pages(self) -> list[Page[Any]]:
        """Return all other pages."""
        return [
            plan.page(name, study.resolve({"preset": self.config.name}), self.store)
            for study in all_studies().values()
            for name, plan in study.plans.items()
            if study is not STUDY and self.config.name in study.presets
        ]

    @property
    def judging(self) -> list[Page[Any]]:
        """Return the pages that judge claims of Part II."""
        return [page for page in self.pages if page.topics]

    def runs(self) -> list[Run]:
        """Return all runs of the book at this preset."""
        return [run for page in self.pages for run in page.runs()]


PRESETS = {name: Config(name) for name in MAX_HOURS}

_PARAMETERS = "preset max_hours workers device artifacts"
_PRESET = Parameter(f"auto, {', '.join(PRESETS)}", default="auto", choices=("auto", *PRESETS))

STUDY = Study(
    PRESETS,
    {name: Plan(BookPage, _PARAMETERS) for name in ("verdicts", "costs")},
    parameters={"preset": _PRESET},
)
