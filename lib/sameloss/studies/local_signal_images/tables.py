"""Tables of images in noise, and sentences on them."""

import numpy as np
import pandas as pd

from sameloss.statistics.bootstrap import Interval
from sameloss.studies.local_signal_images.claims import ImageResults, judged, over_seeds
from sameloss.studies.local_signal_images.experiment import (
    ACCURACY,
    AFTER,
    BEST,
    CHANCE,
    GCV,
    LINEARISED,
    NETWORK,
    PIXELS,
    RIDGE,
    TRAINED,
)
from sameloss.studies.local_signal_images.published import TABLE_3_1, kept_table, long_table
from sameloss.studies.verdict import verdict_table

SHOWN = {
    NETWORK: "network",
    GCV: "NTK",
    BEST: "NTK, best λ",
    LINEARISED: "linearised network",
    AFTER: "NTK, trained",
    PIXELS: "linear in pixels",
}
"""What predicts, as tables and figures call it."""


def written(found: Interval) -> str:
    """Write a number with its interval.

    >>> written(Interval(91.04, 90.0, 92.06)), written(Interval(float("nan"), 0, 0))
    ('91.0 (90.0 to 92.1)', '–')
    """
    return "–" if np.isnan(found.value) else f"{found.value:.1f} ({found.low:.1f} to {found.high:.1f})"


def shown_in(found: ImageResults) -> list[str]:
    """Return what predicts in these results, in the order of tables and figures."""
    known = set(found.table.of)
    return [of for of in SHOWN if of in known]


def surroundings(found: ImageResults) -> list[tuple[str, str]]:
    """Return the placements and sizes that are measured."""
    about = found.table[["placement", "size"]].drop_duplicates()
    return list(about.itertuples(index=False, name=None))


def accuracy_table(found: ImageResults) -> pd.DataFrame:
    """Return accuracies (%) by noise at the page's placement, means over seeds with 95 % intervals."""
    rows = []
    for of in [*shown_in(found), CHANCE]:
        own = 100 * found.accuracies(of, found.placement)
        cells = {f"σ = {noise:g}": written(over_seeds(own[noise].to_numpy())) for noise in own}
        rows.append({"accuracy (%)": SHOWN.get(of, of), **cells})
    return pd.DataFrame(rows)


def sample_table(found: ImageResults) -> pd.DataFrame:
    """Return accuracies on the sample (%), and λ over the kernel's mean eigenvalue (median of seeds)."""
    own = found.at(found.placement)
    rows = []
    for name, measure, of, factor in (
        ("network, own sample (%)", TRAINED, NETWORK, 100),
        ("linearised, own sample (%)", TRAINED, LINEARISED, 100),
        ("λ of the NTK", RIDGE, GCV, 1),
        ("λ of the trained NTK", RIDGE, AFTER, 1),
    ):
        values = own[(own.measure == measure) & (own.of == of)].groupby("noise").value.median()
        if len(values):
            rows.append({"": name, **{f"σ = {noise:g}": f"{factor * v:.3g}" for noise, v in values.items()}})
    return pd.DataFrame(rows)


def kept_by(found: ImageResults, *, above_chance: bool = False) -> pd.DataFrame:
    """Return what each keeps at most noise (%), by placement and size, means with 95 % intervals."""
    rows = []
    for placement, size in surroundings(found):
        row = {"placement": placement, "size": size}
        for of in shown_in(found):
            own = found.kept(of, placement, size, above_chance=above_chance)
            row[SHOWN[of]] = written(over_seeds(own))
        rows.append(row)
    return pd.DataFrame(rows)


def activity_table(found: ImageResults) -> pd.DataFrame:
    """Return by how many points the share of active neurons falls in training, by layer and noise."""
    rows = []
    for noise in found.noises(found.placement):
        fall = found.fall(noise)
        cells = {f"layer {at + 1}": written(over_seeds(fall[:, at])) for at in range(fall.shape[1])}
        rows.append({"σ": f"{noise:g}", **cells})
    return pd.DataFrame(rows)


def lazy_table(found: ImageResults) -> pd.DataFrame:
    """Return accuracies (%) and how far parameters moved (% of their norm) by scale of the output."""
    if found.lazy.empty:
        return pd.DataFrame()
    means = found.lazy.groupby("scale")
    table = pd.DataFrame(
        {
            "α": [f"{scale:g}" for scale in means.groups],
            "accuracy (%)": [written(over_seeds(100 * own[ACCURACY].to_numpy())) for _, own in means],
            "own sample (%)": [f"{100 * own[TRAINED].mean():.1f}" for _, own in means],
            "moved (%)": [f"{100 * own.moved.mean():.3g}" for _, own in means],
        }
    )
    limit = over_seeds(100 * found.lazy.groupby("seed").limit.first().to_numpy())
    return pd.concat([table, pd.DataFrame([{"α": "linearised", "accuracy (%)": written(limit)}])]).fillna("–")


def width_table(found: ImageResults) -> pd.DataFrame:
    """Return accuracies (%) of networks and their kernels by width, and of networks on their own sample."""
    network, kernel = (100 * found.by_width(of) for of in (NETWORK, GCV))
    own = 100 * found.by_width(NETWORK, TRAINED)
    return pd.DataFrame(
        {
            "channels": width,
            "network (%)": written(over_seeds(network[width].to_numpy())),
            "NTK (%)": written(over_seeds(kernel[width].to_numpy())),
            "above it (points)": written(over_seeds(found.above_kernel[width].to_numpy())),
            "own sample (%)": f"{own[width].mean():.1f}",
        }
        for width in network
    )


def published_table() -> pd.DataFrame:
    """Return Table B.1, with what is kept at most noise, raw and above chance (%)."""
    wide = long_table().pivot_table(index=["size", "model", "placement"], columns="noise", values="accuracy")
    wide.columns = pd.Index([f"σ = {noise:g}" for noise in wide])
    return wide.reset_index().merge(kept_table())


def table_3_1() -> pd.DataFrame:
    """Return Table 3.1: of the accuracy without noise, what is kept at most noise (%)."""
    return pd.DataFrame(TABLE_3_1).rename(columns={"name": "images", "network": "WRN", "kernel": "NTK"})


def by_seed(found: ImageResults) -> pd.DataFrame:
    """Return every number that was measured of a seed."""
    return found.table


def in_words(found: ImageResults) -> str:
    """Return what the chapter shows in a few sentences, counter-findings first."""
    verdicts = verdict_table(judged(found))
    against = verdicts[verdicts.verdict == "contradicted"].claim
    counts = ", ".join(f"{verdict} ({count})" for verdict, count in verdicts.verdict.value_counts().items())
    begin = "Contradicted: " + "; ".join(against) + "." if len(against) else "No claim is contradicted here."
    about = (_ends_in_words, _kept_in_words, _controls_in_words, _lazy_in_words, _width_in_words)
    return " ".join([begin, f"The claims, by verdict: {counts}.", *(say(found) for say in about)]).strip()


def _ends_in_words(found: ImageResults) -> str:
    kernel = found.kernel
    first, last = (100 * found.accuracies(of, found.placement).mean() for of in (NETWORK, kernel))
    ends = first.index[0], first.index[-1]
    said = [
        f"at σ = {noise:g} the network has {first[noise]:.1f} %, its kernel {last[noise]:.1f} %"
        for noise in ends
    ]
    return f"At a {found.placement}, " + ", and ".join(said) + "."


def _kept_in_words(found: ImageResults) -> str:
    raw, above = (
        [
            over_seeds(found.kept(of, found.placement, above_chance=chance)).value
            for of in (NETWORK, found.kernel)
        ]
        for chance in (False, True)
    )
    return (
        f"So the network keeps {raw[0]:.0f} % and its kernel {raw[1]:.0f} %; of what is above chance, "
        f"{above[0]:.0f} % and {above[1]:.0f} %."
    )


NEAR_CHANCE = 0.1
"""An accuracy so little above the more frequent class is near chance."""


def _controls_in_words(found: ImageResults) -> str:
    """Say where a linear model keeps more than the kernel does, and where nothing is left to be kept."""
    said = []
    for placement, size in surroundings(found):
        ends = [_mean_at_most_noise(found, of, placement, size) for of in (NETWORK, found.kernel)]
        if max(ends) - _mean_at_most_noise(found, CHANCE, placement, size) < NEAR_CHANCE:
            said.append(f"At {size} in a {placement}, network and kernel both end near chance.")
            continue
        linear, kernel = (over_seeds(found.kept(of, placement, size)).value for of in (PIXELS, found.kernel))
        if linear > kernel:
            said.append(
                f"At {size} in a {placement}, a model linear in pixels keeps {linear:.0f} %, more than the "
                f"kernel with {kernel:.0f} %: there keeping accuracy takes no features."
            )
    return " ".join(said)


def _mean_at_most_noise(found: ImageResults, of: str, placement: str, size: str) -> float:
    return float(found.accuracies(of, placement, size).iloc[:, -1].mean())


def _lazy_in_words(found: ImageResults) -> str:
    if found.lazy.empty:
        return ""
    own = 100 * found.lazy_accuracies().mean()
    limit, noise = 100 * found.lazy.limit.mean(), found.lazy.noise.iloc[0]
    kernel = 100 * found.accuracies(GCV, found.placement)[noise].mean()
    return (
        f"In lazy training the network goes from {own.iloc[0]:.1f} % at α = {own.index[0]:g} to "
        f"{own.iloc[-1]:.1f} % at α = {own.index[-1]:g}; the linearised network has {limit:.1f} % after the "
        f"same training, and the solved kernel {kernel:.1f} %."
    )


def _width_in_words(found: ImageResults) -> str:
    above = found.above_kernel.mean()
    if above.empty:
        return ""
    return (
        f"A network of {above.index[0]} channels is {above.iloc[0]:.1f} points above its kernel, one of "
        f"{above.index[-1]} channels {above.iloc[-1]:.1f} points."
    )
