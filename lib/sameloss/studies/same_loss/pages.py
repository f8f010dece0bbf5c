"""The pages of this study: what each may set, which groups it compares, and what else it reads."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from sameloss.errors import ParameterError
from sameloss.models.encoder import EncoderShape
from sameloss.store.store import Run
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.same_loss.claims import CLAIMS, TOPICS, ArmClaim
from sameloss.studies.same_loss.estimators import estimator_runs
from sameloss.studies.same_loss.groups import (
    ARMS,
    COOLED,
    EVERYTHING,
    EVERYWHERE,
    HMM,
    MAIN,
    NOISY,
    OPT,
    RECORDED,
    SEARCHED,
    UNTREATED,
    Arm,
    Group,
    lstms,
    protocol_runs,
    readings,
)
from sameloss.studies.same_loss.languages import language_runs, search_runs
from sameloss.studies.same_loss.rate_search import rate_runs
from sameloss.studies.same_loss.recorded import evidence_on
from sameloss.studies.same_loss.results import Results, collect, label_budget_runs
from sameloss.studies.same_loss.settings import PARAMETERS, PRESETS, Settings, Shown, finished, preset_of
from sameloss.studies.verdict import Judged, Topic, verdict_table


@dataclass
class ComparisonPage(Page[Settings]):
    """A page that compares groups of models; the results of each are gathered once."""

    _found: dict[Arm, Results] = field(default_factory=dict)

    @property
    def listed(self) -> tuple[Arm, ...]:
        """Return what the page compares by default."""
        return ARMS.get(self.name, ())

    @cached_property
    def arms(self) -> list[Arm]:
        """Return what the page compares, as it shows it.

        A page about all sizes that is asked for one of them shows ordinary training of that one alone.
        """
        alone = MAIN in self.listed and self.config.shown.size is not None
        return self.present([MAIN] if alone else self.listed)

    def present(self, arms: Iterable[Arm]) -> list[Arm]:
        """Return those of the arms that the preset does not leave out, as the page shows them.

        What a page was asked for in the place of ordinary training is shown, whatever the preset compares.
        """
        kept = (arm for arm in arms if not arm.left_out(self.config))
        return list(dict.fromkeys(arm.of(self.config.shown) for arm in kept))

    def others(self, *arms: Arm) -> list[Arm]:
        """Return those of the arms that the page compares beside its main one."""
        main = MAIN.of(self.config.shown)
        return [arm for arm in self.present(arms) if arm in self.arms and arm != main]

    @property
    def group(self) -> Group:
        """Return the page's main group: ordinary training, or what was asked for in its place."""
        return MAIN.group(self.config)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the downstream tasks that the page shows."""
        task = self.config.shown.task
        return self.config.domain.tasks if task is None else (task,)

    def of(self, arm: Arm) -> Results:
        """Return the results of an arm."""
        arm = arm.of(self.config.shown)
        if arm not in self._found:
            self._found[arm] = collect(self.store, arm.group(self.config))
        return self._found[arm]

    def runs(self) -> list[Run]:
        """Return what all arms and everything beside them read."""
        compared = [run for arm in self.arms for run in arm.group(self.config).runs()]
        return [*compared, *BESIDE.get(self.name, lambda page: ())(self)]

    def claims(self) -> list[ArmClaim]:
        """Return the claims of this page that are about what it shows.

        A claim is about a language and an algorithm; a page that was asked for others does not judge it.
        """
        pages = {self.name, *QUOTED.get(self.name, ())}
        return [claim for claim in CLAIMS if claim.page in pages and self._shows(claim)]

    def _shows(self, claim: ArmClaim) -> bool:
        if meant := self._meant(claim):
            return set(meant) <= set(self.arms)
        return set(claim.arms) <= set(self.listed) and self.config.shown.size is None

    def _meant(self, claim: ArmClaim) -> list[Arm]:
        """Return the arms that a claim is about, less those that the preset leaves out, unless asked for."""
        meant = {arm.of(Shown()): arm.left_out(self.config) for arm in claim.arms}
        return [arm for arm, left_out in meant.items() if not left_out or arm in self.arms]

    def verdicts(self) -> pd.DataFrame:
        """Return paper beside ours, one row a claim."""
        judged = []
        for claim in self.claims():
            results = [self.of(arm) for arm in self._meant(claim)]
            task = claim.task_name(claim.arms[0].of(Shown()).group(self.config))
            judged.append(Judged(claim, claim.compute(results), task))
        return verdict_table(judged, self.config.evaluation.tolerance)

    @property
    def topics(self) -> tuple[Topic[ArmClaim], ...]:
        """Return the questions that the claims are about."""
        return TOPICS

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """Return the page's verdicts beside those of every record."""
        return evidence_on(verdicts, self.config)

    @property
    def about(self) -> str:
        """Return preset and sizes."""
        return f"preset {self.config.name}, size {', '.join(self.group.sizes)}"


@dataclass
class EncoderPage(ComparisonPage):
    """A page about maps from one model to another that only transformers have."""

    def __post_init__(self) -> None:
        """Refuse sizes of another kind before anything is trained.

        Raises:
            ParameterError: for an LSTM's size.

        """
        for size in lstms(self.group):
            shapes = self.group.domain.shapes.items()
            known = [name for name, shape in shapes if isinstance(shape, EncoderShape)]
            raise ParameterError(
                f"Size {size} is an LSTM, and {self.name} is about maps that only transformers have; "
                f"choose one of {', '.join(known)}."
            )


class WholeStudy(ComparisonPage):
    """A page on which every claim of the study is judged."""

    @property
    def listed(self) -> tuple[Arm, ...]:
        """Return all groups that some page compares, or a record has."""
        return EVERYTHING + RECORDED

    def claims(self) -> list[ArmClaim]:
        """Return all claims."""
        return [claim for claim in CLAIMS if self._shows(claim)]

    def runs(self) -> list[Run]:
        """Return what all comparisons read."""
        return [run for part in self.parts().values() for run in part]

    def parts(self) -> dict[str, list[Run]]:
        """Return the search of rates, and then what each comparison reads: see `Page.parts`."""
        searched = [run for arm in self.present(SEARCHED) for run in rate_runs(arm.group(self.config))]
        parts: dict[str, list[Run]] = {"learning rates": searched} if searched else {}
        for arm in self.present(self.listed):
            parts.setdefault(arm.group(self.config).about, []).extend(self.read_by(arm))
        return parts

    def read_by(self, arm: Arm) -> list[Run]:
        """Return what a group is compared by: sizes under every protocol, the main group in all ways."""
        group, shown = arm.group(self.config), self.config.shown
        sizes = _read(self, arm) if arm in {other.of(shown) for other in EVERYWHERE + RECORDED} else []
        main = arm == MAIN.of(shown)
        beside = [*group.measured("enlargement").values(), *label_budget_runs(group)] if main else []
        return [*group.runs(), *sizes, *beside]


def _also(kind: str) -> Callable[[ComparisonPage], Iterable[Run]]:
    """Return the runs of a measurement of the main group."""
    return lambda page: page.group.measured(kind).values()


def _read(page: ComparisonPage, arm: Arm) -> list[Run]:
    group = arm.group(page.config)
    return protocol_runs(group, readings(group))


def _measures(page: ComparisonPage, arms: Iterable[Arm]) -> list[Run]:
    return [run for arm in arms for run in arm.group(page.config).measured("measures").values()]


BESIDE: dict[str, Callable[[ComparisonPage], Iterable[Run]]] = {
    "01_introduction": lambda page: _read(page, MAIN),
    "02_existence": lambda page: [
        *protocol_runs(page.group),
        *(run for other in page.others(HMM, OPT) for run in _read(page, other)),
        *page.group.measured("finetuning").values(),
        *search_runs(page.group),
        *label_budget_runs(page.group),
    ],
    "04_flatness": lambda page: [
        *_also("gap")(page),
        *(() if lstms(page.group) else _also("enlargement")(page)),
    ],
    "a1_datasets": lambda page: [*language_runs(page.config), page.group.corpus],
    "b1_trace": lambda page: estimator_runs(page.group),
    "b2_enlargement": _also("enlargement"),
    "a4_algorithms": lambda page: [
        *_measures(page, page.present(COOLED)),
        *(run for arm in (UNTREATED, NOISY) for run in label_budget_runs(arm.group(page.config))),
    ],
    "d_practice": lambda page: _measures(page, page.arms),
}
"""What a page reads beside its comparisons."""


QUOTED = {"01_introduction": ("02_existence", "04_flatness", "a4_algorithms")}
"""Pages whose claims another page quotes."""


def _plan(names: str, page: type[ComparisonPage] = ComparisonPage, **defaults: Any) -> Plan[Settings]:
    return Plan(page, names, defaults)


_SHOWN = "preset size task language algorithm strength"
_GRAMMAR = "grammar length_limit"
_HERE = "max_hours workers device artifacts"
JUDGED = "saturated_share tolerance"
TRAINED = "max_hours workers processes micro_batch device artifacts"

PLANS: dict[str, Plan[Settings]] = {
    "01_introduction": _plan(f"preset seeds {JUDGED} {TRAINED}"),
    "02_existence": _plan(
        f"{_SHOWN} labels steps seeds probe_seeds {_GRAMMAR} corpus test_sentences {JUDGED} {TRAINED}"
    ),
    "04_flatness": _plan(
        f"{_SHOWN} steps seeds probe_seeds trace_sentences {_GRAMMAR} corpus test_sentences {JUDGED} "
        f"{TRAINED}"
    ),
    "a1_datasets": _plan(f"preset sentences {_GRAMMAR} opt opt_corpus glue {_HERE}"),
    "a2_conditionals": _plan(f"preset sentences {_GRAMMAR} {_HERE}", sentences=2000),
    "a3_models": _plan(f"preset size seeds {TRAINED}"),
    "a4_algorithms": _plan(f"preset size task steps seeds probe_seeds {JUDGED} {TRAINED}"),
    "b1_trace": _plan(f"preset size steps seeds {_GRAMMAR} corpus {TRAINED}", EncoderPage),
    "b2_enlargement": _plan(
        f"preset size steps seeds trace_sentences {_GRAMMAR} corpus {JUDGED} {TRAINED}", EncoderPage
    ),
    "d_practice": _plan(f"preset size task steps seeds {JUDGED} {TRAINED}"),
    "e_mask_rate": _plan(f"preset task steps seeds {JUDGED} {TRAINED}"),
}

STUDY = Study(PRESETS, PLANS, preset_of, PARAMETERS, finished)
