"""The page of this study: the runs it reads, and their tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import pandas as pd

from sameloss.runs.stage import stacked
from sameloss.store.store import Run
from sameloss.studies.local_signal_images.claims import STATEMENTS, TOPICS, ImageResults, checks
from sameloss.studies.local_signal_images.experiment import PRESETS, ImageConfig
from sameloss.studies.page import Page, PageSpec, Study


@dataclass
class ImagesPage(Page[ImageConfig]):
    """The page on images in noise."""

    topics, exact = TOPICS, STATEMENTS

    def runs(self) -> list[Run]:
        return list(chain(*self.config.runs().values()))

    @cached_property
    def results(self) -> ImageResults:
        tables = {name: self._table(runs) for name, runs in self.config.runs().items() if runs}
        return ImageResults(tables["images"], tables.get("lazy", pd.DataFrame()), self.config.theirs)

    def _table(self, runs: Sequence[Any]) -> pd.DataFrame:
        about = pd.DataFrame(
            {
                "size": f"{run.source.shape[-1] // run.scene.shrunk}-on-{run.scene.side}",  # as in Table B.1
                "placement": run.scene.placement,
                "noise": run.scene.noise,
                "seed": run.seed,
            }
            for run in runs
        )
        return stacked(self.store, runs).join(about, on="run").drop(columns="run")

    @cached_property
    def checks(self) -> pd.DataFrame:
        return checks()


STUDY = Study(PRESETS, {"ii3_images": PageSpec(ImagesPage, record="laptop-long")})
