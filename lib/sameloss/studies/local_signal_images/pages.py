"""The page of this study: which runs it reads, and what they found."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.local_signal_images.claims import STATEMENTS, TOPICS, ImageResults, checks
from sameloss.studies.local_signal_images.experiment import PRESETS, ImageConfig, Trial
from sameloss.studies.page import Page, Plan, Study

COLUMNS = {
    "images": ("size", "placement", "noise", "seed", "measure", "of", "value"),
    "lazy": ("seed", "noise", "scale", "accuracy", "own accuracy", "moved"),
    "widths": ("width", "noise", "seed", "measure", "of", "value"),
}
"""Of each table: what is told of a run, and of what was found that which an empty table has, too."""


@dataclass
class ImagesPage(Page[ImageConfig]):
    """The page on images in noise."""

    topics, exact = TOPICS, STATEMENTS

    def runs(self) -> list[Run]:
        """Return all of them, each once."""
        return list(dict.fromkeys(chain(*self.config.runs().values())))

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return what was measured of networks and kernels, in lazy training, and by width."""
        return {
            name: pd.concat([self._table(run, COLUMNS[name]) for run in runs], ignore_index=True)
            if runs
            else pd.DataFrame(columns=[*COLUMNS[name]])
            for name, runs in self.config.runs().items()
        }

    def _table(self, run: Trial, columns: tuple[str, ...]) -> pd.DataFrame:
        scene = run.scene
        about = {
            "size": f"{run.source.shape[-1] // scene.shrunk}-on-{scene.side}",  # as Table B.1 calls it
            "placement": scene.placement,
            "noise": scene.noise,
            "width": run.network.features,
            "seed": run.seed,
        }
        return self.store.get(run).assign(**{name: about[name] for name in columns if name in about})

    def read(self, tables: Mapping[str, pd.DataFrame], config: ImageConfig) -> ImageResults:
        """Return what tables say."""
        return ImageResults(tables["images"], tables["lazy"], tables["widths"], config.theirs)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the printed tables."""
        return checks()


STUDY = Study(PRESETS, {"ii3_images": Plan(ImagesPage, recorded=True)})
