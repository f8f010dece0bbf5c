"""The pages that are about all studies: the verdicts, and the costs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sameloss.book.studies import all_studies
from sameloss.store.store import Run
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.same_loss import pages as same_loss
from sameloss.studies.same_loss.pages import ComparisonPage, WholeStudy


@dataclass
class EveryStudy(WholeStudy):
    """A page that reads everything: all claims of the main study, and every page of every study."""

    @cached_property
    def pages(self) -> list[Page[Any]]:
        """Return every page of every study that has the preset of this one."""
        return [
            plan.page(name, self._settings_of(study), self.store)
            for study in all_studies().values()
            for name, plan in study.plans.items()
            if study is not STUDY and self.config.name in study.presets
        ]

    @property
    def part_two(self) -> list[Page[Any]]:
        """Return the pages of other studies that judge claims."""
        return [page for page in self.pages if page.topics and not isinstance(page, ComparisonPage)]

    def _settings_of(self, study: Study[Any]) -> Any:
        own = study is same_loss.STUDY
        return self.config if own else study.resolve({"preset": self.config.name})

    def runs(self) -> list[Run]:
        """Return all runs of the book at this preset."""
        return [*super().runs(), *(run for page in self.pages for run in page.runs())]


PLANS = {
    name: Plan(EveryStudy, f"preset seeds {same_loss.JUDGED} {same_loss.TRAINED}")
    for name in ("verdicts", "costs")
}

STUDY = Study(same_loss.PRESETS, PLANS, same_loss.preset_of, same_loss.PARAMETERS, same_loss.finished)
