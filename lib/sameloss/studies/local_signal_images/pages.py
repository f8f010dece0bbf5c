"""The page of this study: the runs it reads, and their tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import pandas as pd

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

    def tables(self) -> dict[str, pd.DataFrame]:
        tables = {name: map(self._table, runs) for name, runs in self.config.runs().items() if runs}
        return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}

    def _table(self, run: Any) -> pd.DataFrame:
        scene = run.scene
        size = f"{run.source.shape[-1] // scene.shrunk}-on-{scene.side}"  # as in Table B.1
        about = {"size": size, "placement": scene.placement, "noise": scene.noise, "seed": run.seed}
        return self.store.get(run).assign(**about)

    def read(self, tables: Mapping[str, pd.DataFrame], config: ImageConfig) -> ImageResults:
        return ImageResults(tables["images"], tables.get("lazy", pd.DataFrame()), config.theirs)

    @cached_property
    def checks(self) -> pd.DataFrame:
        return checks()


STUDY = Study(PRESETS, {"ii3_images": PageSpec(ImagesPage, recorded=True)})
