"""Tables, figures and sentences of the chapter on images in noise."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from sameloss.images import ImageSource
from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.local_signal_images.claims import TABLE_B_1, TOPICS, ImageResults, by_seed, over_seeds
from sameloss.studies.local_signal_images.experiment import Measure, Model
from sameloss.studies.local_signal_images.theory import Scene, draw_sample
from sameloss.studies.verdict import verdict_table

# Labels of predictors in tables and figures.
SHOWN = {
    Model.NETWORK: "network",
    Model.GCV: "NTK",
    Model.BEST: "NTK, best λ",
    Model.LINEARISED: "linearised network",
    Model.AFTER: "NTK, trained",
    Model.PIXELS: "linear in pixels",
}

# Colours and markers of predictors, the same in all figures.
LOOK = {name: (f"C{at}", MARKERS[at]) for at, name in enumerate(SHOWN)}


def shown_in(results: ImageResults) -> list[str]:
    """The predictors in these results, in the order of tables and figures."""
    known = set(results.table.of)
    return [of for of in SHOWN if of in known]


def surroundings(results: ImageResults) -> list[tuple[str, str]]:
    """The pairs of placement and size in these results."""
    about = results.table[["placement", "size"]].drop_duplicates()
    return list(about.itertuples(index=False, name=None))


# Tables


def written(values: ArrayLike, digits: int = 1) -> str:
    """Format the mean over seeds with its interval.

    >>> written([1.0, 2.0, 3.0]), written([])
    ('2.0 (-0.2 to 4.6)', '–')
    """
    mean, low, high = over_seeds(values)
    return "–" if np.isnan(mean) else f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def means(
    tables: Mapping[str, pd.DataFrame], name: str, columns: str = "{}", digits: int = 1
) -> pd.DataFrame:
    """Format means over seeds with 95 % intervals, a row per table.

    Args:
        tables: with a row per seed, by their label; empty tables are left out.
        name: of the column of labels.
        columns: format of the names of all other columns.
        digits: decimals.

    """
    rows = [
        {name: label, **{columns.format(column): written(table[column], digits) for column in table}}
        for label, table in tables.items()
        if len(table)
    ]
    return pd.DataFrame(rows).fillna("–")


def accuracy_table(results: ImageResults) -> pd.DataFrame:
    """Test accuracies (%) by noise at the page's placement, and accuracies on the training set."""
    here, names = results.at(results.placement), [*shown_in(results), Model.CHANCE]
    tables = {SHOWN.get(of, of): results.accuracies(of, results.placement) for of in names}
    for of in (Model.NETWORK, Model.LINEARISED):
        tables[f"{SHOWN[of]}, own sample"] = 100 * by_seed(here, "noise", Measure.TRAINED, of)
    return means(tables, "accuracy (%)", "σ = {:g}")


def ridge_table(results: ImageResults) -> pd.DataFrame:
    """λ over the mean eigenvalue of the kernel by noise, median over seeds."""
    here = results.at(results.placement)
    ridges = {SHOWN[of]: by_seed(here, "noise", Measure.RIDGE, of) for of in (Model.GCV, Model.AFTER)}
    table = pd.DataFrame({name: ridge.median() for name, ridge in ridges.items() if len(ridge)}).T
    return table.map("{:.3g}".format).rename(columns="σ = {:g}".format).reset_index(names="λ (median)")


def kept_table(results: ImageResults, *, above_chance: bool = False) -> pd.DataFrame:
    """Accuracy kept at most noise (%), by placement and size."""
    tables = {
        f"{place}, {size}": pd.DataFrame(
            {SHOWN[of]: results.kept(of, place, size, above_chance=above_chance) for of in shown_in(results)}
        )
        for place, size in surroundings(results)
    }
    return means(tables, "above chance (%)" if above_chance else "kept (%)")


def activity_table(results: ImageResults) -> pd.DataFrame:
    """Decrease of active neurons in training (percentage points), by noise and layer."""
    return means({f"{noise:g}": results.fall(noise) for noise in results.noises}, "σ")


def lazy_table(results: ImageResults) -> pd.DataFrame:
    """Accuracies (%) and distance moved by the parameters (% of their norm), by scale of the output."""
    named = {"accuracy (%)": Measure.ACCURACY, "own sample (%)": Measure.TRAINED, "moved (%)": "moved"}
    return means({name: results.of_lazy(measure) for name, measure in named.items()}, "", "α = {:g}", 2)


def width_table(results: ImageResults) -> pd.DataFrame:
    """Accuracies (%) of networks and their kernels by width."""
    tables = {
        "network (%)": results.by_width(Model.NETWORK),
        "NTK (%)": results.by_width(Model.GCV),
        "above it (points)": results.above_kernel,
        "own sample (%)": results.by_width(Model.NETWORK, Measure.TRAINED),
    }
    return means(tables, "", "{} channels")


CHANCE_B_1 = 60.0  # percentage of animals, the larger class of CIFAR-2


def table_b_1() -> pd.DataFrame:
    """Table B.1 with the accuracy kept at most noise, raw and above chance (%)."""
    least, *_, most = (TABLE_B_1[noise] for noise in TABLE_B_1)
    kept = {
        "kept": 100 * (most / least),
        "kept above chance": 100 * ((most - CHANCE_B_1) / (least - CHANCE_B_1)),
    }
    return TABLE_B_1.rename(columns="σ = {:g}".format).assign(**kept).reset_index()


# Figures; intervals are 95 % over seeds


def examples(source: ImageSource, scenes: Sequence[Scene], ax: Axes) -> Axes:
    """Draw one image on its background, a row per placement and a column per noise."""
    images, (side, shrunk) = source.load(), (scenes[0].side, scenes[0].shrunk)
    placements = list(dict.fromkeys(scene.placement for scene in scenes))
    noises = sorted({scene.noise for scene in scenes})

    def framed(place: str, noise: float) -> np.ndarray:
        pixels = draw_sample(images, Scene(place, side, noise, shrunk), 1, 0).x[0].mean(0)
        return np.pad(pixels, (0, 1), constant_values=np.nan)

    mosaic = np.block([[framed(place, noise) for noise in noises] for place in placements])
    ax.imshow(mosaic, cmap="gray")
    middles = (side + 1) * np.arange(max(len(noises), len(placements))) + side / 2
    ax.set_xticks(middles[: len(noises)], [f"σ = {noise:g}" for noise in noises])
    ax.set_yticks(middles[: len(placements)], placements)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.set_frame_on(False)
    return ax


def _line(ax: Axes, table: pd.DataFrame, label: str, look: tuple[str, str], shift: float = 0.0) -> None:
    """Draw the means over seeds with their intervals, against the columns."""
    if table.empty:
        return
    mean, low, high = np.transpose([over_seeds(table[column]) for column in table])
    colour, marker = look
    x = table.columns.to_numpy(float) + shift
    ax.vlines(x, low, high, color=colour, lw=1)
    ax.plot(x, mean, color=colour, marker=marker, ms=5, label=label)


def accuracy(results: ImageResults, placement: str, ax: Axes) -> Axes:
    """Draw accuracies against the noise; dotted: chance."""
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
    """Draw the accuracy kept at most noise, by placement and size."""
    places = surroundings(results)
    for at, of in enumerate(shown_in(results)):
        intervals = [over_seeds(results.kept(of, *place, above_chance=above_chance)) for place in places]
        mean, low, high = np.transpose(intervals)
        y = -np.arange(len(places)) + 0.3 - 0.15 * at
        colour, marker = LOOK[of]
        ax.hlines(y, low, high, color=colour, lw=1.5)
        ax.plot(mean, y, marker, color=colour, ms=5, label=SHOWN[of])
    ax.set_yticks(-np.arange(len(places)), [f"{placement}\n{size}" for placement, size in places])
    ax.set(xlabel=f"kept of the accuracy{' above chance' if above_chance else ''} (%)")
    return ax


def activity(results: ImageResults, noise: float, ax: Axes) -> Axes:
    """Draw the percentage of active neurons by layer, before and after training."""
    for at, measure in enumerate((Measure.BEFORE, Measure.ACTIVE)):
        active = results.active(measure, noise)
        active.columns = pd.RangeIndex(1, active.shape[1] + 1)
        _line(ax, active, ("before training", "after training")[at], (f"C{at}", MARKERS[at]))
    ax.set(title=f"σ = {noise:g}", xlabel="layer", ylabel="active neurons (%)", ylim=(0, None))
    ax.set_xticks(active.columns)
    return ax


def _log_axis(ax: Axes, columns: pd.Index, noise: float, xlabel: str) -> Axes:
    ax.set(xscale="log", xlabel=xlabel, ylabel="accuracy (%)", title=f"σ = {noise:g}")
    ax.set_xticks(columns, [f"{at:g}" for at in columns])
    ax.minorticks_off()
    return ax


def lazy(results: ImageResults, ax: Axes) -> Axes:
    """Draw the accuracy against the scale of the output, beside that of the tangent kernel."""
    if results.lazy.empty:
        ax.set_title("not part of this preset")
        return ax
    accuracies, noise = results.of_lazy(), results.lazy.noise.iloc[0]
    _line(ax, accuracies, "network", LOOK[Model.NETWORK])
    kernel, colour = over_seeds(results.accuracies(Model.GCV, results.placement)[noise]), LOOK[Model.GCV][0]
    ax.axhline(kernel.value, color=colour, ls="--", lw=1.5, label=SHOWN[Model.GCV])
    ax.axhspan(kernel.low, kernel.high, color=colour, alpha=0.15, lw=0)
    limit = 100 * results.lazy.groupby("seed").limit.first().mean()
    ax.axhline(limit, color="0.4", ls=":", lw=1.5, label="linearised network, as long in training")
    return _log_axis(ax, accuracies.columns, noise, "scale of the output, α")


def width(results: ImageResults, ax: Axes) -> Axes:
    """Draw accuracies of networks and of their kernels against the width."""
    if results.widths.empty:
        ax.set_title("not part of this preset")
        return ax
    for of in (Model.NETWORK, Model.GCV):
        accuracies = results.by_width(of)
        _line(ax, accuracies, SHOWN[of], LOOK[of])
    return _log_axis(ax, accuracies.columns, results.widths.noise.iloc[0], "channels of the last layer")


def published(size: str, ax: Axes) -> Axes:
    """Draw the accuracies of Table B.1 against the noise, a line per model and placement."""
    for at, (model, table) in enumerate(TABLE_B_1.loc[size].groupby("model", sort=False)):
        for line, (placement, accuracies) in enumerate(table.loc[model].iterrows()):
            look: Style = {"color": f"C{at}", "marker": MARKERS[line], "ls": ("-", "--", ":")[line], "ms": 5}
            ax.plot(accuracies, label=f"{model}, {placement}", **look)
    ax.set(title=size, xlabel="noise of the background, σ", ylabel="accuracy (%)")
    return ax


# Summary

NEAR_CHANCE = 10.0  # accuracies less than this (percentage points) above chance are near chance


def in_words(results: ImageResults) -> str:
    """Summarise the chapter in a few sentences, contradicted claims first."""
    verdicts = verdict_table(TOPICS, results)
    against = verdicts[verdicts.verdict == "contradicted"].claim
    place, compared = results.placement, (Model.NETWORK, results.kernel)
    network, kernel = (results.accuracies(of, place).mean() for of in compared)
    levels = (
        f"at σ = {noise:g} the network has {network[noise]:.1f} %, its kernel {kernel[noise]:.1f} %"
        for noise in network.index[[0, -1]]
    )
    kept = [results.kept(of, place, above_chance=above).mean() for above in (False, True) for of in compared]
    sentences = [
        "Contradicted: " + "; ".join(against) + "." if len(against) else "No claim is contradicted here.",
        f"At a {place}, " + ", and ".join(levels) + ".",
        "So the network keeps {:.0f} % and its kernel {:.0f} %; of what is above chance, {:.0f} % and "
        "{:.0f} %.".format(*kept),
    ]
    sentences += [_at_the_end(results, place, size) for place, size in surroundings(results)]
    return " ".join(filter(None, sentences))


def _at_the_end(results: ImageResults, place: str, size: str) -> str:
    """Say where network and kernel end near chance, or a linear model keeps more than the kernel."""
    network, kernel, chance = (
        results.accuracies(of, place, size).iloc[:, -1].mean()
        for of in (Model.NETWORK, results.kernel, Model.CHANCE)
    )
    linear, solved = (
        over_seeds(results.kept(of, place, size)).value for of in (Model.PIXELS, results.kernel)
    )
    if max(network, kernel) - chance < NEAR_CHANCE:
        return f"At {size} in a {place}, network and kernel both end near chance."
    if linear > solved:
        return (
            f"At {size} in a {place}, a model linear in pixels keeps {linear:.0f} %, more than the "
            f"kernel with {solved:.0f} %: there keeping accuracy takes no features."
        )
    return ""
