"""The runs that measure the languages of this study (Appendix A.1), and the search for one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from sameloss.languages import HierarchySpec, LanguageSpec, TeacherSpec
from sameloss.languages.entropy import context_information
from sameloss.languages.paper import PAPER_HMM_SHAPE, PAPER_SHAPE
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.probing import BaselineProbing
from sameloss.runs.sampling import Calibration, LabelledSampling, LanguageMeasurement
from sameloss.store.store import Run, Store
from sameloss.studies.same_loss.groups import MEASUREMENTS, Group
from sameloss.studies.same_loss.results import wide
from sameloss.studies.same_loss.settings import PAPER, Evaluation, Settings

# Published facts that are no claims.

ENTROPY = {"PCFG": 3.196, "HMM": 3.758, "OPT": 1.865}
"""Masked entropy of the paper's languages, nats a token: the best possible loss (Section 2.3)."""

MEAN_LENGTH = {"PCFG": 17.0, "HMM": 16.0, "OPT": 16.0}
"""Mean tokens of a sentence, from the numbers of tokens and sentences (App. A.1).

For the HMM the paper prints 1.6e7 tokens in 1e7 sentences of 16 tokens: a slip for 1.6e8.
"""


# The runs that measure the languages of this study themselves (Appendix A.1).

MOST_OF_A_REAL_OPT = 100
"""Sentences on which a real OPT is measured, at most: it scores 2,000 candidates for each."""

MOST_CALIBRATING = 5000
"""Sentences of each step of a calibration, at most."""


def opt_name(settings: Settings) -> str:
    """Return the honest name of the autoregressive language."""
    spec = settings.domains["OPT"].language
    return "OPT stand-in" if isinstance(spec, TeacherSpec) else str(getattr(spec, "model", "OPT"))


def measurements(settings: Settings) -> dict[str, LanguageMeasurement]:
    """Return the measurements of the preset's languages and of the calibrated ones, by name."""
    domains = settings.domains
    chosen = {"PCFG": domains["PCFG"], "HMM": domains["HMM"], opt_name(settings): domains["OPT"]}
    for name in ("PCFG", "HMM"):
        if domains[name].language != PAPER[name].language:
            chosen[f"{name}, paper's shape"] = PAPER[name]
    return {
        name: LanguageMeasurement(d.language, d.tasks, _sentences(settings, d.language), 0)
        for name, d in chosen.items()
    }


def _sentences(settings: Settings, language: LanguageSpec) -> int:
    """Return on how many sentences a language is measured: few where each costs a minute."""
    wanted = settings.evaluation.language_sentences
    real = language is settings.domains["OPT"].language and not isinstance(language, TeacherSpec)
    return min(wanted, MOST_OF_A_REAL_OPT) if real else wanted


def calibrations(settings: Settings) -> dict[str, Calibration]:
    """Return the searches that gave the paper's shapes their published entropy."""
    sentences = min(settings.evaluation.language_sentences, MOST_CALIBRATING)
    pcfg = (PAPER_SHAPE, ENTROPY["PCFG"], MEAN_LENGTH["PCFG"], (0.05, 1.0))
    hmm = (PAPER_HMM_SHAPE, ENTROPY["HMM"], None, (0.05, 1.0))
    return {"PCFG": Calibration(*pcfg, sentences, 0), "HMM": Calibration(*hmm, sentences, 0)}


def language_runs(settings: Settings) -> list[Run]:
    """Return what is measured of languages alone."""
    return [*measurements(settings).values(), *calibrations(settings).values()]


# The search for languages that discriminate: context tells much of a token, tokens little of what is hidden.
#
# On other languages nothing can be seen: where bare tokens are read as well as any model, no model is better
# than another. The search looks at languages, at bare tokens, and at how close models come; it looks at no
# accuracy of a model, at no difference between sizes and at no trace.

CANDIDATES = tuple(
    HierarchySpec(levels=3, symbols=symbols, rules=rules, smoothing=0.03, seed=seed)
    for symbols, rules in ((3, 2), (4, 2), (4, 3), (5, 3))
    for seed in range(20)
)
"""Random hierarchies of eight tokens in the order in which they are looked at: the cheapest to learn
first."""


@dataclass(frozen=True)
class Criteria:
    """What a language has to have."""

    context: float = 0.5  # nats that the other tokens tell about a masked one, at least
    headroom: float = 20.0  # points by which a probe of bare tokens misses a perfect one, at least
    tasks: int = 2  # in which it does
    sizes: int = 3  # that end saturated with every seed; all, where a preset has fewer


class Appraisal(NamedTuple):
    """What a language is like before anything was trained on it."""

    context: float  # nats
    one_hot: dict[str, float]  # accuracy (%) of the probe of bare tokens, by task

    def meets(self, criteria: Criteria) -> bool:
        """Tell whether models are worth training."""
        roomy = [task for task, accuracy in self.one_hot.items() if 100 - accuracy >= criteria.headroom]
        return self.context >= criteria.context and len(roomy) >= criteria.tasks


def appraisal_runs(
    spec: LanguageSpec, tasks: tuple[str, ...], evaluation: Evaluation
) -> tuple[HeldOutConditionals, BaselineProbing]:
    """Return the runs that an appraisal reads: sentences with conditionals, and the probe of bare tokens."""
    downstream = replace(evaluation.downstream, tasks=tasks, probe_seeds=1)
    probing = BaselineProbing("one-hot tokens", LabelledSampling(spec, downstream), evaluation.optimal_probe)
    return HeldOutConditionals(spec, evaluation.saturation_sentences, 0), probing


def appraised(store: Store, spec: LanguageSpec, tasks: tuple[str, ...], evaluation: Evaluation) -> Appraisal:
    """Measure a language's context, and how well its bare tokens are read."""
    held_out, probing = appraisal_runs(spec, tasks, evaluation)
    accuracies = 100 * store.get(probing).correct.mean((0, 1, 2))
    context = context_information(spec.build(), *store.get(held_out))
    return Appraisal(context.mean, dict(zip(tasks, accuracies.tolist(), strict=True)))


def saturated_sizes(store: Store, group: Group, spec: LanguageSpec, enough: int) -> int:
    """Train a group's models on a language; count the sizes that end saturated with every seed.

    It stops where too few sizes are left to make enough.
    """
    own = replace(group.domain, language=spec)
    settings = replace(group.settings, domains={**group.settings.domains, group.language: own})
    moved, good = replace(group, settings=settings), 0
    for left, size in reversed(list(enumerate(reversed(group.sizes)))):
        good += all(_saturated(store, moved, size, seed) for seed in range(group.seeds))
        if good + left < enough:
            break
    return good


def _saturated(store: Store, group: Group, size: str, seed: int) -> bool:
    """Tell whether a model ends saturated."""
    run = MEASUREMENTS["saturation"](group, group.pretraining(size, seed))
    (last,) = wide(store.get(run).assign(size=size, seed=seed)).tail(1).itertuples()
    return last.kl_mean <= group.settings.evaluation.saturated_share * last.context_mean


def looked_at(language: LanguageSpec) -> tuple[LanguageSpec, ...]:
    """Return the candidates up to a language, if it is one of them."""
    return CANDIDATES[: CANDIDATES.index(language) + 1] if language in CANDIDATES else ()


def search_runs(group: Group) -> list[Run]:
    """Return what the search for a group's language read before it trained anything."""
    evaluation = group.settings.evaluation
    specs = looked_at(group.domain.language)
    return [run for spec in specs for run in appraisal_runs(spec, group.tasks, evaluation)]


def search(
    candidates: Iterable[LanguageSpec],
    appraise: Callable[[Any], Appraisal],
    saturating: Callable[[Any], int],
    criteria: Criteria,
) -> pd.DataFrame:
    """Look at languages one by one up to the first that meets all criteria.

    Args:
        candidates: in the order in which they are looked at.
        appraise: measures one.
        saturating: trains models on one, and returns how many sizes end saturated; asked only where the
            appraisal meets its criteria.
        criteria: what is looked for.

    Returns:
        One row a language that was looked at: `candidate`, `context` (nats), the accuracy of bare tokens in
        each task (%), `sizes` that end saturated (NaN where nothing was trained) and `found`.

    """
    rows = []
    for spec in candidates:
        seen = appraise(spec)
        sizes = saturating(spec) if seen.meets(criteria) else float("nan")
        found = sizes >= criteria.sizes
        about = {"candidate": spec, "context": seen.context, **seen.one_hot}
        rows.append({**about, "sizes": sizes, "found": found})
        if found:
            break
    return pd.DataFrame(rows)


def repeated(store: Store, group: Group) -> pd.DataFrame:
    """Repeat the search that found a group's language, up to it; no row where it was not found by one."""
    criteria = Criteria(sizes=min(Criteria.sizes, len(group.sizes)))
    appraise = partial(appraised, store, tasks=group.tasks, evaluation=group.settings.evaluation)
    saturating = partial(saturated_sizes, store, group, enough=criteria.sizes)
    return search(looked_at(group.domain.language), appraise, saturating, criteria)
