"""Tables, figures and sentences of the chapter on images in noise."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from sameloss.images import ImageSource
from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.local_signal_images.claims import (
    CHANCE_B_1,
    TABLE_B_1,
    TOPICS,
    ImageResults,
    by_seed,
    over_seeds,
)
from sameloss.studies.local_signal_images.experiment import Measure, Model
from sameloss.studies.local_signal_images.theory import Scene, composed
from sameloss.studies.verdict import verdict_table

SHOWN = {
    Model.NETWORK: "network",
    Model.GCV: "NTK",
    Model.BEST: "NTK, best λ",
    Model.LINEARISED: "linearised network",
    Model.AFTER: "NTK, trained",
    Model.PIXELS: "linear in pixels",
}
"""What predicts, as tables and figures call it."""

LOOK = {name: (f"C{at}", MARKERS[at]) for at, name in enumerate(SHOWN)}
"""Colour and marker of what predicts, the same in all figures."""


def shown_in(results: ImageResults) -> list[str]:
    """Return what predicts in these results, in the order of tables and figures."""
    known = set(results.table.of)
    return [of for of in SHOWN if of in known]


def surroundings(results: ImageResults) -> list[tuple[str, str]]:
    """Return the placements and sizes that are measured."""
    about = results.table[["placement", "size"]].drop_duplicates()
    return list(about.itertuples(index=False, name=None))


# Tables.


def written(values: ArrayLike, digits: int = 1) -> str:
    """Write the mean over seeds with its interval.

    >>> written([1.0, 2.0, 3.0]), written([])
    ('2.0 (-0.2 to 4.6)', '–')
    """
    mean, low, high = over_seeds(values)
    return "–" if np.isnan(mean) else f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def means(
    tables: Mapping[str, pd.DataFrame], name: str, columns: str = "{}", digits: int = 1
) -> pd.DataFrame:
    """Return means over seeds with 95 % intervals, of the columns of tables that have a row a seed.

    Args:
        tables: by the name of their row; empty ones are left out.
        name: of the rows.
        columns: how columns are written.
        digits: behind the point.

    """
    rows = [
        {name: row, **{columns.format(column): written(table[column], digits) for column in table}}
        for row, table in tables.items()
        if len(table)
    ]
    return pd.DataFrame(rows).fillna("–")


def accuracy_table(results: ImageResults) -> pd.DataFrame:
    """Return accuracies (%) by noise at the page's placement, and those on the sample."""
    here = results.at(results.placement)
    tables = {
        SHOWN.get(of, of): results.accuracies(of, results.placement)
        for of in [*shown_in(results), Model.CHANCE]
    }
    for of in (Model.NETWORK, Model.LINEARISED):
        tables[f"{SHOWN[of]}, own sample"] = 100 * by_seed(here, "noise", Measure.TRAINED, of)
    return means(tables, "accuracy (%)", "σ = {:g}")


def ridge_table(results: ImageResults) -> pd.DataFrame:
    """Return λ over the kernel's mean eigenvalue by noise, the median of seeds."""
    here = results.at(results.placement)
    ridges = {SHOWN[of]: by_seed(here, "noise", Measure.RIDGE, of) for of in (Model.GCV, Model.AFTER)}
    medians = {name: ridge.median() for name, ridge in ridges.items() if len(ridge)}
    table = pd.DataFrame(medians).T.map("{:.3g}".format)
    return table.rename(columns="σ = {:g}".format).reset_index(names="λ (median)")


def kept_table(results: ImageResults, *, above_chance: bool = False) -> pd.DataFrame:
    """Return what each keeps at most noise (%), by placement and size."""
    tables = {
        f"{place}, {size}": pd.DataFrame(
            {SHOWN[of]: results.kept(of, place, size, above_chance=above_chance) for of in shown_in(results)}
        )
        for place, size in surroundings(results)
    }
    return means(tables, "above chance (%)" if above_chance else "kept (%)")


def activity_table(results: ImageResults) -> pd.DataFrame:
    """Return by how many points the share of active neurons falls in training, by layer and noise."""
    return means({f"{noise:g}": results.fall(noise) for noise in results.noises}, "σ")


def lazy_table(results: ImageResults) -> pd.DataFrame:
    """Return accuracies (%) and how far parameters moved (% of their norm) by scale of the output."""
    named = {"accuracy (%)": Measure.ACCURACY, "own sample (%)": Measure.TRAINED, "moved (%)": "moved"}
    return means({name: results.of_lazy(measure) for name, measure in named.items()}, "", "α = {:g}", 2)


def width_table(results: ImageResults) -> pd.DataFrame:
    """Return accuracies (%) of networks and their kernels by width, and of networks on their own sample."""
    tables = {
        "network (%)": results.by_width(Model.NETWORK),
        "NTK (%)": results.by_width(Model.GCV),
        "above it (points)": results.above_kernel,
        "own sample (%)": results.by_width(Model.NETWORK, Measure.TRAINED),
    }
    return means(tables, "", "{} channels")


def table_b_1() -> pd.DataFrame:
    """Return Table B.1, with what is kept at most noise, raw and above chance (%)."""
    least, *_, most = (TABLE_B_1[noise] for noise in TABLE_B_1)
    kept = {"kept": most / least, "kept above chance": (most - CHANCE_B_1) / (least - CHANCE_B_1)}
    table = TABLE_B_1.rename(columns="σ = {:g}".format).assign(**{name: 100 * k for name, k in kept.items()})
    return table.reset_index()


# Figures: results in, Axes out; intervals are of 95 % over seeds.


def examples(source: ImageSource, scenes: Sequence[Scene], ax: Axes) -> Axes:
    """Draw one image on its background: a row a placement, a column a strength of noise."""
    images, (side, shrunk) = source.load(), (scenes[0].side, scenes[0].shrunk)
    placements = list(dict.fromkeys(scene.placement for scene in scenes))
    noises = sorted({scene.noise for scene in scenes})
    rows = [
        [composed(images, Scene(place, side, noise, shrunk), 1, 0).x[0].mean(0) for noise in noises]
        for place in placements
    ]
    ax.imshow(
        np.block([[np.pad(x, (0, 1), constant_values=np.nan) for x in row] for row in rows]), cmap="gray"
    )
    middles = (side + 1) * np.arange(max(len(noises), len(placements))) + side / 2
    ax.set_xticks(middles[: len(noises)], [f"σ = {noise:g}" for noise in noises])
    ax.set_yticks(middles[: len(placements)], placements)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.set_frame_on(False)
    return ax


def _line(ax: Axes, accuracies: pd.DataFrame, label: str, look: tuple[str, str], shift: float = 0.0) -> None:
    """Draw means of columns at their places, with their intervals."""
    if accuracies.empty:
        return
    mean, low, high = np.transpose([over_seeds(accuracies[column]) for column in accuracies])
    colour, marker = look
    x = accuracies.columns.to_numpy(float) + shift
    ax.vlines(x, low, high, color=colour, lw=1)
    ax.plot(x, mean, color=colour, marker=marker, ms=5, label=label)


def accuracy(results: ImageResults, placement: str, ax: Axes) -> Axes:
    """Draw accuracies against the noise, and chance."""
    chance = results.accuracies(Model.CHANCE, placement)
    for at, of in enumerate(shown_in(results)):
        shift = 0.008 * (at - 2) * chance.columns.max()
        _line(ax, results.accuracies(of, placement), SHOWN[of], LOOK[of], shift)
    ax.axhline(chance.mean().mean(), color="0.5", ls=":", lw=1)
    least = results.table[results.table.measure == Measure.ACCURACY].value.min()
    ax.set(title=placement, xlabel="noise of the background, σ", ylabel="accuracy (%)")
    ax.set_ylim(100 * least - 2, 101)  # the same in all panels
    return ax


def kept(results: ImageResults, ax: Axes, *, above_chance: bool = False) -> Axes:
    """Draw what each keeps of its accuracy at most noise, by placement and size."""
    places = surroundings(results)
    for at, of in enumerate(shown_in(results)):
        shares = [over_seeds(results.kept(of, *place, above_chance=above_chance)) for place in places]
        mean, low, high = np.transpose(shares)
        y = -np.arange(len(places)) + 0.3 - 0.15 * at
        colour, marker = LOOK[of]
        ax.hlines(y, low, high, color=colour, lw=1.5)
        ax.plot(mean, y, marker, color=colour, ms=5, label=SHOWN[of])
    ax.set_yticks(-np.arange(len(places)), [f"{placement}\n{size}" for placement, size in places])
    ax.set(xlabel=f"kept of the accuracy{' above chance' if above_chance else ''} (%)")
    return ax


def activity(results: ImageResults, noise: float, ax: Axes) -> Axes:
    """Draw the share of active neurons by layer, before and after training."""
    for at, (measure, name) in enumerate(
        ((Measure.BEFORE, "before training"), (Measure.ACTIVE, "after training"))
    ):
        shares = results.active(measure, noise)
        shares.columns = pd.RangeIndex(1, shares.shape[1] + 1)
        _line(ax, shares, name, (f"C{at}", MARKERS[at]))
    ax.set(title=f"σ = {noise:g}", xlabel="layer", ylabel="active neurons (%)", ylim=(0, None))
    ax.set_xticks(shares.columns)
    return ax


def _log_axis(ax: Axes, columns: pd.Index, noise: float, xlabel: str) -> Axes:
    ax.set(xscale="log", xlabel=xlabel, ylabel="accuracy (%)", title=f"σ = {noise:g}")
    ax.set_xticks(columns, [f"{at:g}" for at in columns])
    ax.minorticks_off()
    return ax


def lazy(results: ImageResults, ax: Axes) -> Axes:
    """Draw the accuracy against the scale of the output, and that of the tangent kernel."""
    if results.lazy.empty:
        ax.set_title("not part of this preset")
        return ax
    accuracies, noise = results.of_lazy(), results.lazy.noise.iloc[0]
    _line(ax, accuracies, "network", LOOK[Model.NETWORK])
    kernel = over_seeds(results.accuracies(Model.GCV, results.placement)[noise])
    ax.axhline(kernel.value, color=LOOK[Model.GCV][0], ls="--", lw=1.5, label=SHOWN[Model.GCV])
    ax.axhspan(kernel.low, kernel.high, color=LOOK[Model.GCV][0], alpha=0.15, lw=0)
    limit = 100 * results.lazy.groupby("seed").limit.first().mean()
    ax.axhline(limit, color="0.4", ls=":", lw=1.5, label="linearised network, as long in training")
    return _log_axis(ax, accuracies.columns, noise, "scale of the output, α")


def width(results: ImageResults, ax: Axes) -> Axes:
    """Draw the accuracy of networks and of their kernels against the width."""
    if results.widths.empty:
        ax.set_title("not part of this preset")
        return ax
    for of in (Model.NETWORK, Model.GCV):
        _line(ax, results.by_width(of), SHOWN[of], LOOK[of])
    noise = results.widths.noise.iloc[0]
    return _log_axis(ax, results.by_width(Model.NETWORK).columns, noise, "channels of the last layer")


def published(size: str, ax: Axes) -> Axes:
    """Draw Table B.1: accuracies of WRN and NTK by noise, a line a placement."""
    for at, (model, table) in enumerate(TABLE_B_1.loc[size].groupby("model", sort=False)):
        for line, (placement, accuracies) in enumerate(table.loc[model].iterrows()):
            look: Style = {"color": f"C{at}", "marker": MARKERS[line], "ls": ("-", "--", ":")[line], "ms": 5}
            ax.plot(accuracies, label=f"{model}, {placement}", **look)
    ax.set(title=size, xlabel="noise of the background, σ", ylabel="accuracy (%)")
    return ax


# What the page found, in words.


NEAR_CHANCE = 10.0
"""Points: an accuracy so little above the more frequent class is near chance."""


def in_words(results: ImageResults) -> str:
    """Return what the chapter shows in a few sentences, counter-findings first."""
    verdicts = verdict_table(TOPICS, results)
    against = verdicts[verdicts.verdict == "contradicted"].claim
    compared = Model.NETWORK, results.kernel
    network, kernel = (results.accuracies(of, results.placement).mean() for of in compared)
    levels = (
        f"at σ = {noise:g} the network has {network[noise]:.1f} %, its kernel {kernel[noise]:.1f} %"
        for noise in (network.index[0], network.index[-1])
    )
    kept = [
        results.kept(of, results.placement, above_chance=above).mean()
        for above in (False, True)
        for of in compared
    ]
    said = [
        "Contradicted: " + "; ".join(against) + "." if len(against) else "No claim is contradicted here.",
        f"At a {results.placement}, " + ", and ".join(levels) + ".",
        "So the network keeps {:.0f} % and its kernel {:.0f} %; of what is above chance, {:.0f} % and "
        "{:.0f} %.".format(*kept),
    ]
    for place, size in surroundings(results):
        *ends, chance = (
            results.accuracies(of, place, size).iloc[:, -1].mean() for of in (*compared, Model.CHANCE)
        )
        linear, solved = (
            over_seeds(results.kept(of, place, size)).value for of in (Model.PIXELS, results.kernel)
        )
        if max(ends) - chance < NEAR_CHANCE:
            said.append(f"At {size} in a {place}, network and kernel both end near chance.")
        elif linear > solved:
            said.append(
                f"At {size} in a {place}, a model linear in pixels keeps {linear:.0f} %, more than the "
                f"kernel with {solved:.0f} %: there keeping accuracy takes no features."
            )
    return " ".join(said)
