"""What a record of Part I keeps in `results/`: the tables of all comparisons that are finished."""

from collections.abc import Callable, Iterable
from functools import partial

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.same_loss.groups import (
    ADAMW,
    ALL_SIZES,
    EVERYWHERE,
    MAIN,
    NOISE,
    PENALTY,
    POST_LN,
    RECORDED,
    SAM,
    SEARCHED,
    TRAINED,
    UNTREATED,
    Arm,
    readings,
)
from sameloss.studies.same_loss.pages import WholeStudy
from sameloss.studies.same_loss.rate_search import rate_runs, rate_table
from sameloss.studies.same_loss.results import Results, by_labels, by_protocol
from sameloss.studies.same_loss.tables import causal
from sameloss.studies.same_loss.tables.comparison import (
    arm_differences,
    arm_table,
    control_table,
    correlation_table,
    matched_table,
    trained_and_untrained,
)
from sameloss.studies.same_loss.tables.labels import accuracy_by_labels

COMPARED = (*TRAINED, SAM, PENALTY, POST_LN)
"""All algorithms at one size and length, AdamW first."""


class StudyRecord(WholeStudy):
    """All comparisons of a preset, of which tables have those that are finished."""

    def present(self, arms: Iterable[Arm]) -> list[Arm]:
        """Return those of the arms that the preset does not leave out and of which every run is there."""
        return [arm for arm in super().present(arms) if self._has(self.read_by(arm))]

    def parts(self) -> dict[str, list[Run]]:
        """Return what a complete record has: see `Page.parts`."""
        return WholeStudy(self.name, self.config, self.store).parts()

    def runs(self) -> list[Run]:
        """Return the runs of the parts that are finished."""
        return [run for part in self.parts().values() if self._has(part) for run in part]

    def _has(self, runs: Iterable[Run]) -> bool:
        return all(map(self.store.has, runs))

    @property
    def seeds(self) -> int:
        """Return the number of pre-training seeds."""
        return self.config.training.seeds

    def record_tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables of what is finished, each checkpoint among them; none that would be empty."""
        tables = {name: table(self) for name, table in TABLES.items()}
        return {name: table for name, table in tables.items() if len(table)}


def checkpoints(page: StudyRecord) -> pd.DataFrame:
    """Return one row a checkpoint of every arm: KL and loss (nats), trace, accuracies (%)."""
    tables = (
        page.of(arm).checkpoints.assign(
            language=arm.language, algorithm=arm.label, steps=page.of(arm).steps[-1]
        )
        for arm in page.arms
    )
    return _stacked(tables).drop_duplicates(ignore_index=True)  # two arms may have a size in common


def differences(page: StudyRecord) -> pd.DataFrame:
    """Return each algorithm minus AdamW, and each label noise minus none, with intervals."""
    over = {ADAMW: COMPARED[1:], NOISE[0]: NOISE[1:]}
    return _stacked(
        arm_differences(page, page.present(arms), page.tasks, reference).assign(reference=reference.label)
        for reference, arms in over.items()
        if page.present([reference])
    )


def control(results: Results) -> pd.DataFrame:
    """Return the effect of size, trained, untrained and net, by protocol and task."""
    return control_table(results, by_protocol(results, readings(results.group)), results.group.tasks)


def accuracies(results: Results) -> pd.DataFrame:
    """Return the accuracy (%) of every size before and after training, by protocol and task."""
    return trained_and_untrained(by_protocol(results, readings(results.group)), results.group.tasks)


def baselines(results: Results) -> pd.DataFrame:
    """Return the accuracy (%) of what no training made, by task."""
    return _stacked(results.baseline_table(task).assign(task=task) for task in results.group.tasks)


def rates(page: StudyRecord) -> pd.DataFrame:
    """Return the KL of every size at every learning rate that was tried: see `rate_table`."""
    groups = [arm.group(page.config) for arm in WholeStudy.present(page, SEARCHED)]
    tried = [group for group in groups if all(map(page.store.has, rate_runs(group)))]
    return _stacked(rate_table(page.store, group) for group in tried)


def _everywhere(table: Callable[[Results], pd.DataFrame], page: StudyRecord) -> pd.DataFrame:
    """Return a table of ordinary training of all sizes, for every language under each other."""
    arms = page.present(EVERYWHERE + RECORDED)
    return _stacked(table(page.of(arm)).assign(language=arm.language) for arm in arms)


def _of_all(
    arms: Iterable[Arm], table: Callable[[StudyRecord], pd.DataFrame], page: StudyRecord
) -> pd.DataFrame:
    """Return a table that needs some arms, an empty one where one of them is not finished."""
    ready = all(page.present([arm]) for arm in arms)
    return table(page) if ready else pd.DataFrame()


def _stacked(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return tables under each other; an empty one of none."""
    return pd.concat([pd.DataFrame(), *tables], ignore_index=True)


_causal = partial(_of_all, (UNTREATED, ALL_SIZES))

TABLES: dict[str, Callable[[StudyRecord], pd.DataFrame]] = {
    "verdicts": StudyRecord.verdicts,
    "checkpoints": checkpoints,
    "algorithms": lambda page: arm_table(page, page.present([*COMPARED, *NOISE]), page.tasks),
    "differences": differences,
    "control": partial(_everywhere, control),
    "accuracies": partial(_everywhere, accuracies),
    "baselines": partial(_everywhere, baselines),
    "correlations": partial(_everywhere, lambda found: correlation_table(found, found.group.tasks)),
    "matched": partial(_everywhere, lambda found: matched_table(found, found.group.tasks)),
    "labels": partial(_of_all, [MAIN], lambda page: accuracy_by_labels(by_labels(page.of(MAIN)), page.tasks)),
    "treated": partial(_causal, lambda page: causal.cooled_table(page, page.tasks)),
    "bought": partial(_causal, lambda page: causal.bought_flatness(page, page.tasks)),
    "doses": partial(_causal, lambda page: causal.dose_table(page, page.tasks)),
    "rates": rates,
}
"""What each table is made by."""
