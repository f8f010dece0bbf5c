"""The search for languages that discriminate: context tells much of a token, tokens little of what is hidden.

On other languages nothing can be seen: where bare tokens are read as well as any model, no model is better
than another. The search looks at languages, at bare tokens, and at how close models come; it looks at no
accuracy of a model, at no difference between sizes and at no trace.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd

from sameloss.languages import HierarchySpec, LanguageSpec
from sameloss.languages.entropy import context_information
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.probing import BaselineProbing
from sameloss.runs.sampling import LabelledSampling
from sameloss.store.store import Store
from sameloss.studies.same_loss.results import Results, final
from sameloss.studies.same_loss.settings import Evaluation

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
    sizes: int = 3  # that end saturated with every seed


class Appraisal(NamedTuple):
    """What a language is like before anything was trained on it."""

    context: float  # nats
    one_hot: dict[str, float]  # accuracy (%) of the probe of bare tokens, by task

    def meets(self, criteria: Criteria) -> bool:
        """Tell whether models are worth training."""
        roomy = [task for task, accuracy in self.one_hot.items() if 100 - accuracy >= criteria.headroom]
        return self.context >= criteria.context and len(roomy) >= criteria.tasks


def appraised(store: Store, spec: LanguageSpec, tasks: tuple[str, ...], evaluation: Evaluation) -> Appraisal:
    """Measure a language's context, and how well its bare tokens are read."""
    language = spec.build()
    held_out = store.get(HeldOutConditionals(spec, evaluation.saturation_sentences, 0))
    downstream = replace(evaluation.downstream, tasks=tasks, probe_seeds=1)
    probing = BaselineProbing("one-hot tokens", LabelledSampling(spec, downstream), evaluation.optimal_probe)
    accuracies = 100 * store.get(probing).correct.mean((0, 1, 2))
    return Appraisal(
        context_information(language, *held_out).mean, dict(zip(tasks, accuracies.tolist(), strict=True))
    )


def saturated_sizes(results: Results) -> int:
    """Count the sizes that end saturated with every seed."""
    return int(final(results).groupby("size").saturated.all().sum())


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
        each task (%), `saturated` (sizes; NaN where nothing was trained) and `found`, true at most in the
        last.

    """
    rows = []
    for spec in candidates:
        seen = appraise(spec)
        sizes = saturating(spec) if seen.meets(criteria) else float("nan")
        found = sizes >= criteria.sizes
        rows.append(
            {"candidate": spec, "context": seen.context, **seen.one_hot, "saturated": sizes, "found": found}
        )
        if found:
            break
    return pd.DataFrame(rows)
