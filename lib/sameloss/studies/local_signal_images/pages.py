"""The page of this study: what it may set, which runs it reads, and what they found."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.evidence import Source, beside_records
from sameloss.studies.local_signal_images.backgrounds import Scene
from sameloss.studies.local_signal_images.claims import (
    OF_WIDTHS,
    PAGE,
    STATEMENTS,
    TOPICS,
    ImageClaim,
    ImageResults,
    checks,
    judged,
)
from sameloss.studies.local_signal_images.experiment import (
    PRESETS,
    ImageComparison,
    ImageConfig,
    LazyTraining,
)
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.recorded import recorded
from sameloss.studies.statement import statement_table
from sameloss.studies.verdict import Topic, verdict_table


@dataclass
class ImagesPage(Page[ImageConfig]):
    """The page on images in noise."""

    @property
    def seeds(self) -> int:
        """Return the number of seeds of samples, backgrounds and trainings."""
        return self.config.seeds

    @property
    def comparisons(self) -> list[tuple[Scene, ImageComparison]]:
        """Return networks beside their kernels, with what surrounds their images."""
        s = self.config
        return [(scene, s.comparison(scene, seed)) for scene in s.scenes for seed in s.all_seeds]

    @property
    def lazy_trainings(self) -> list[LazyTraining]:
        """Return networks in lazy training."""
        s = self.config
        return [s.lazy_training(seed) for seed in s.all_seeds] if s.lazy else []

    @property
    def of_widths(self) -> list[ImageComparison]:
        """Return networks of several widths beside their kernels."""
        return [run for seed in self.config.all_seeds for run in self.config.of_widths(seed)]

    def runs(self) -> list[Run]:
        """Return all of them, each once."""
        compared = [run for _, run in self.comparisons]
        return list(dict.fromkeys([*compared, *self.lazy_trainings, *self.of_widths]))

    @cached_property
    def found(self) -> ImageResults:
        """Return what was measured."""
        tables = [
            self.store.get(run).assign(
                size=size_in_words(run), placement=scene.placement, noise=scene.noise, seed=run.seed
            )
            for scene, run in self.comparisons
        ]
        lazy = [
            self.store.get(run).assign(seed=run.seed, noise=run.scene.noise) for run in self.lazy_trainings
        ]
        none = pd.DataFrame(columns=["seed", "scale", "noise"])
        table, lazy_table = pd.concat(tables, ignore_index=True), pd.concat(lazy) if lazy else none
        return ImageResults(table, lazy_table, self.config.theirs, self._widths())

    def _widths(self) -> pd.DataFrame:
        tables = [
            self.store.get(run).assign(width=run.network.features, noise=run.scene.noise, seed=run.seed)
            for run in self.of_widths
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*OF_WIDTHS])

    def record_tables(self) -> dict[str, pd.DataFrame]:
        """Return what claims are judged by: what a record keeps."""
        return {"images": self.found.table, "lazy": self.found.lazy, "widths": self.found.widths}

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """Return the page's verdicts, and those of every record, judged as this page is."""
        own, tolerance = Source(self.config.name, self.seeds), self.config.tolerance
        return beside_records(
            own, verdicts, self.name, lambda preset: verdict_table(judged(found_by_record(preset)), tolerance)
        )

    @property
    def topics(self) -> tuple[Topic[ImageClaim], ...]:
        """Return the questions that the claims are about."""
        return TOPICS

    def verdicts(self) -> pd.DataFrame:
        """Return the thesis beside ours, one row a claim."""
        return verdict_table(judged(self.found), self.config.tolerance)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the printed tables."""
        return checks()

    def statements(self) -> pd.DataFrame:
        """Return what the thesis says of its tables, judged."""
        return statement_table(STATEMENTS, self.checks)


def size_in_words(run: ImageComparison) -> str:
    """Return the sizes of image and background as Table B.1 calls them: 16-on-32."""
    return f"{run.source.shape[-1] // run.scene.shrunk}-on-{run.scene.side}"


def found_by_record(preset: str) -> ImageResults:
    """Return what a record says of images."""
    table, lazy, widths = (recorded(name, preset, PAGE) for name in ("images", "lazy", "widths"))
    return ImageResults(table, lazy, PRESETS[preset].theirs, widths)


STUDY = Study(PRESETS, {"ii3_images": Plan(ImagesPage, recorded=True)})
