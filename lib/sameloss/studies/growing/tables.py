"""Tables of growing, and sentences on them."""

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from sameloss.statistics.bootstrap import Interval, seed_interval
from sameloss.statistics.estimate import Estimate
from sameloss.statistics.prediction import mean_correlation, rank_correlation, transition
from sameloss.studies.growing.results import MEASURES, Grown
from sameloss.studies.growing.settings import GrowingSettings

Seeds = Float[np.ndarray, " seed"]


def operator_table(grown: Grown) -> pd.DataFrame:
    """Return each operator's mean KL (nats) right after growing, early and at the end, the best first."""
    rows = [
        {
            "operator": operator.name,
            "layers": str(operator.layers(grown.settings.shape.layers, grown.settings.added)),
            "KL at first": grown.kl[:, 0, at].mean(),
            f"after {grown.steps[grown.early]}": grown.kl[:, grown.early, at].mean(),
            "at the end": grown.final[:, at].mean(),
            "standard_error": Estimate.of(torch.from_numpy(grown.final[:, at])).standard_error,
        }
        for at, operator in enumerate(grown.operators)
    ]
    return pd.DataFrame(rows).sort_values("at the end", ignore_index=True)


def choice_table(grown: Grown) -> pd.DataFrame:
    """Return what each way to choose ends with (Table 5.1): KL over the best operator's, in nats."""
    best = grown.final.min(1)
    finals: dict[str, Seeds] = {
        f"LAG@{grown.settings.lag}": grown.chosen(),
        "LAG@0": grown.chosen(0),
        "last layers once more, on top": grown.final[:, grown.at(grown.settings.last)],
        "random layers on top": grown.final[:, grown.at(grown.settings.random_top)],
        "by lot": grown.final.mean(1),
        "not grown": grown.not_grown[:, -1],
        "from nothing, equal FLOPs": grown.scratch[:, -1],
    }
    spread = grown.final.max(1) - best
    rows = []
    for choice, final in finals.items():
        over = seed_interval(final - best)
        rows.append({"choice": choice, "KL": over.value, "low": over.low, "high": over.high,
                     "relative regret": float(((final - best) / spread).mean())})  # fmt: skip
    return pd.DataFrame(rows)


PUBLISHED_CHOICES = pd.DataFrame(
    [
        ("oracle", 1.7461, 0.0, 2.1254, 0.0),
        ("LAG@200, LAG@2000", 1.7461, 0.0, 2.1268, 0.0895),
        ("LAG@0", 1.7875, 0.7986, 2.1398, 0.9202),
        ("last layers once more, on top", 1.7747, 0.5517, 2.1357, 0.6582),
        ("random layers on top", 1.7875, 0.7986, 2.1398, 0.9202),
    ],
    columns=["choice", "BERT loss", "BERT relative regret", "UL2 loss", "UL2 relative regret"],
)
"""Tables 5.1 and 5.2 of the thesis; one trial an operator."""


def correlation_table(grown: Grown) -> pd.DataFrame:
    """Return rank correlations with the final KL: initial and early, over all operators and within."""
    groups = {"all": None, "copies": grown.of("duplicate"), "random": grown.of("random")}
    groups["the thesis' (copies and random)"] = grown.of("duplicate", "random")
    rows = [
        {"operators": name, "KL": when, **mean_correlation(grown.correlations(look, among))._asdict()}
        for name, among in groups.items()
        for when, look in (("at first", 0), (f"after {grown.steps[grown.early]} steps", grown.early))
    ]
    return pd.DataFrame(rows)


def landscape_table(grown: Grown) -> pd.DataFrame:
    """Return rank correlations of the final KL with the landscape where an operator puts the model."""
    rows = []
    for measure, name in MEASURES.items():
        pairs = zip(grown.landscape[measure], grown.final, strict=True)
        found = mean_correlation(np.array([rank_correlation(own, final) for own, final in pairs]))
        rows.append({"at growth": name, **found._asdict()})
    return pd.DataFrame(rows)


def flops_table(settings: GrowingSettings) -> pd.DataFrame:
    """Return what training takes, in FLOPs, and over that of one grown model from the shallow one on."""
    words, length = settings.language.words, settings.language.max_length
    shapes, batch = (settings.shape, settings.deep), settings.optimisation.batch
    shallow, deep = (shape.flops(words, length) * batch for shape in shapes)
    others = len(settings.operators) - 1
    steps = {
        "the shallow model": shallow * settings.optimisation.steps,
        "one grown model, to the end": deep * settings.steps,
        f"LAG@{settings.lag}: all others, until one is chosen": deep * others * settings.lag,
        "oracle: all others, to the end": deep * others * settings.steps,
    }
    table = pd.DataFrame({"what": steps.keys(), "FLOPs": steps.values()})
    share = 100 * table.FLOPs / (deep * settings.steps)
    return table.assign(FLOPs=table.FLOPs.map("{:.2g}".format), **{"over one grown model (%)": share})


def transition_in_words(grown: Grown) -> str:
    """Say where looks begin to agree with each other and not with those before."""
    at, gain = transition(grown.mean_self_correlation())
    share = 100 * grown.steps[at] / grown.settings.steps
    return (
        f"Looks agree with each other more than with those before from step {grown.steps[at]} on "
        f"({share:.1f} % of the steps after growing), by {gain:.2f} in the mean correlation"
    )


def headroom_in_words(headroom: Interval) -> str:
    """Say whether depth gains anything, on which all other claims rest."""
    share, *ends = (100 * (1 - np.exp(-end)) for end in headroom)
    found = f"{share:.0f} % ({ends[0]:.0f} to {ends[1]:.0f})"
    if headroom.low > 0:
        return f"{found}: there is depth to gain, so operators can be compared"
    return f"{found}: depth gains nothing that is told from zero, so what depends on it is not testable here"
