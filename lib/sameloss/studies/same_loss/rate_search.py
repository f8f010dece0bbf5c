"""The learning rate of each size: looked at on the KL alone, in short trainings of a seed of their own."""

from dataclasses import replace

import pandas as pd

from sameloss.store.store import Run, Store
from sameloss.studies.same_loss.groups import MEASUREMENTS, Group
from sameloss.studies.same_loss.results import wide

SEED = 100
"""Of these trainings; comparisons have the first ones."""

SHORTER = 4
"""As many times shorter than ordinary training they are, each to a rate of zero."""


def rate_runs(group: Group) -> list[Run]:
    """Return the measurements of saturation of every size at every rate that the preset tries."""
    return list(_tried(group).values())


def best_rates(table: pd.DataFrame) -> dict[str, float]:
    """Return, for each size of a table from `rate_table`, the multiple with the smallest KL."""
    best = table.loc[table.groupby("size", sort=False).kl.idxmin()]
    return dict(zip(best["size"], best.times, strict=True))


def rate_table(store: Store, group: Group) -> pd.DataFrame:
    """Return one row a size and rate: `rate`, `times` the preset's, `kl` with its standard error, `share`.

    The KL is in nats a masked token; the share is that of all there is to learn that is unlearnt.
    """
    rows = []
    for (size, times), run in _tried(group).items():
        (last,) = wide(store.get(run).assign(size=size, seed=SEED)).itertuples()
        rate = _at(group, times).pretraining(size, SEED).optimisation.lr
        kl = {"kl": last.kl_mean, "kl_se": last.kl_standard_error, "share": last.kl_mean / last.context_mean}
        rows.append({"language": group.language, "size": size, "times": times, "rate": rate, **kl})
    return pd.DataFrame(rows)


def _tried(group: Group) -> dict[tuple[str, float], Run]:
    """Return the measurements by size and multiple of the preset's rate."""
    return {
        (size, times): MEASUREMENTS["saturation"](tried, tried.pretraining(size, SEED))
        for times in group.settings.training.rates_tried
        for tried in [_at(group, times)]
        for size in group.sizes
    }


def _at(group: Group, times: float) -> Group:
    """Return a group of short trainings at a multiple of the preset's rate, of which only the end is kept."""
    settings, multiples = group.settings, dict.fromkeys(group.sizes, times)
    domains = {**settings.domains, group.language: replace(group.domain, tuned=multiples)}
    short = replace(settings, domains=domains, training=replace(settings.training, checkpoints=(1.0,)))
    return replace(group, settings=short, length=group.length // SHORTER)
