"""Tables, figures and sentences of the chapter on images in noise."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from sameloss.images import ImageSource
from sameloss.statistics.intervals import Interval
from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.local_signal_images.claims import (
    NTK,
    TABLE_B_1,
    TOPICS,
    WRN,
    ImageResults,
    by_seed,
    over_seeds,
)
from sameloss.studies.local_signal_images.experiment import Measure, Model
from sameloss.studies.local_signal_images.theory import Scene, draw_sample
from sameloss.studies.verdict import Verdict, verdict_table

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


# Sentences: what figures show, and what the page found. "Clearly" is where an interval excludes zero.

NEAR_CHANCE = 10.0  # accuracies less than this (percentage points) above chance are near chance


def accuracy_finding(results: ImageResults) -> str:
    """Accuracies of the network and its kernel without noise and at most noise."""
    least, most = results.noises[0], results.noises[-1]
    (n0, n1), (k0, k1) = (
        results.accuracies(of, results.placement).mean()[[least, most]]
        for of in (Model.NETWORK, results.kernel)
    )
    return (
        f"From σ = {least:g} to {most:g}, accuracy goes from {n0:.0f} to {n1:.0f} % for the network, from "
        f"{k0:.0f} to {k1:.0f} % for its kernel."
    )


def fitted_in_words(results: ImageResults) -> str:
    """How well the network fits its sample without noise and at most noise."""
    own = by_seed(results.at(results.placement), "noise", Measure.TRAINED, Model.NETWORK).mean()
    fitted = " and ".join(f"{100 * own[noise]:.1f} % at σ = {noise:g}" for noise in own.index[[0, -1]])
    return f"On its own sample the network has {fitted}."


def advantages(results: ImageResults) -> list[Interval]:
    """How much more of its accuracy the network keeps than its kernel (points), by placement and size."""
    return [
        over_seeds(results.kept(Model.NETWORK, *place) - results.kept(results.kernel, *place))
        for place in surroundings(results)
    ]


def kept_finding(results: ImageResults) -> str:
    """In how many settings the network keeps more of its accuracy than its kernel."""
    more = advantages(results)
    ahead, clearly = sum(value > 0 for value, _, _ in more), sum(low > 0 for _, low, _ in more)
    return (
        f"The network keeps more of its accuracy than its kernel in {ahead} of {len(more)} settings, "
        f"clearly in {clearly or 'none'}."
    )


def kept_in_words(results: ImageResults) -> str:
    """How much more the network keeps at the page's placement, and where this says little."""
    place = results.placement
    raw, above = (
        written(
            results.kept(Model.NETWORK, place, above_chance=chance)
            - results.kept(results.kernel, place, above_chance=chance)
        )
        for chance in (False, True)
    )
    sentences = [
        f"At a {place} the network keeps {raw} points more than its kernel, and {above} points more of what "
        "is above chance."
        if raw != "–"
        else f"At a {place} network or kernel are hardly above chance without noise, so no share is defined."
    ]
    sentences += [_at_the_end(results, *surrounding) for surrounding in surroundings(results)]
    return " ".join(filter(None, sentences))


def _at_the_end(results: ImageResults, place: str, size: str) -> str:
    """Say where network and kernel end near chance, or a linear model keeps more than the kernel."""
    network, kernel, linear, chance = (
        results.accuracies(of, place, size).iloc[:, -1:].mean().squeeze()
        for of in (Model.NETWORK, results.kernel, Model.PIXELS, Model.CHANCE)
    )
    pixels, solved = (
        over_seeds(results.kept(of, place, size)).value for of in (Model.PIXELS, results.kernel)
    )
    if max(network, kernel) - chance < NEAR_CHANCE:
        return f"At {size} in a {place}, network and kernel both end near chance."
    if pixels > solved and linear - chance >= NEAR_CHANCE:
        return (
            f"At {size} in a {place}, a model linear in pixels keeps {pixels:.0f} %, more than the kernel "
            f"with {solved:.0f} %: there a model needs no features to keep its accuracy."
        )
    return ""


def activity_finding(results: ImageResults) -> str:
    """The layers in which training lowers the share of active neurons, at most noise and without."""
    layers = {}
    for noise in (results.noises[-1], results.noises[0]):
        falls = results.fall(noise)
        layers[noise] = [layer for layer in falls if over_seeds(falls[layer]).low > 0]
    parts = [f"in {', '.join(names) or 'no layer'} at σ = {noise:g}" for noise, names in layers.items()]
    return f"Training clearly lowers the share of active neurons {' and '.join(parts)}."


def lazy_finding(results: ImageResults) -> str:
    """Accuracy where parameters hardly move, beside the linearised network and the kernel."""
    if results.lazy.empty:
        return "This preset has no lazy training."
    lazy, noise = results.of_lazy().mean(), results.lazy.noise.iloc[0]
    limit = 100 * results.lazy.groupby("seed").limit.first().mean()
    kernel = results.accuracies(Model.GCV, results.placement)[noise].mean()
    return (
        f"Accuracy is {lazy.iloc[0]:.0f} % at α = {lazy.index[0]:g} and {lazy.iloc[-1]:.0f} % at α = "
        f"{lazy.index[-1]:g}; the linearised network has {limit:.0f} %, the solved kernel "
        f"{kernel:.0f} %."
    )


def width_finding(results: ImageResults) -> str:
    """Advantage of the narrowest and the widest network over their kernels."""
    if results.widths.empty:
        return "This preset has one width."
    above = results.above_kernel.mean()
    return (
        f"The advantage of the network over its kernel is {above.iloc[0]:+.1f} points with {above.index[0]} "
        f"channels, {above.iloc[-1]:+.1f} with {above.index[-1]}."
    )


def published_finding() -> str:
    """The least that the WRN keeps in Table B.1, and the most that its linearisation does."""
    kept = table_b_1().groupby("model").kept
    return (
        f"In the thesis the WRN keeps at least {kept.min()[WRN]:.1f} % of its accuracy, its linearisation at "
        f"most {kept.max()[NTK]:.1f} %."
    )


def in_words(results: ImageResults, record: ImageResults) -> str:
    """What the page found, what it did not, and how sure it is.

    Args:
        results: of the page.
        record: with more seeds.

    """
    place, compared = record.placement, (Model.NETWORK, Model.GCV, Model.BEST, Model.AFTER)
    raw, above = (
        [over_seeds(record.kept(of, place, above_chance=chance)).value for of in compared]
        for chance in (False, True)
    )
    more = advantages(record)
    clearly = sum(low > 0 for _, low, _ in more)
    verdicts = [verdict_table(TOPICS, of) for of in (results, record)]
    known = [table[table.verdict != Verdict.NOT_TESTABLE].verdict for table in verdicts]
    own, recorded = (f"{(of != Verdict.NOT_DECIDED).sum()} of {len(of)}" for of in known)
    learnt = ": the learnt features alone account for the difference" if above[3] >= above[0] else ""
    against = verdicts[1][verdicts[1].verdict == Verdict.CONTRADICTED].claim
    listed = f": {'; '.join(against)}" if len(against) else ""
    return (
        f"**Found.** Over the recorded seeds, at a {place}, the network keeps {raw[0]:.0f} % of its accuracy "
        f"under noise and its kernel {raw[1]:.0f} %; above chance {above[0]:.0f} and {above[1]:.0f} %, and "
        f"{above[2]:.0f} % with the λ that is best on the test set. The kernel at the trained parameters "
        f"keeps {above[3]:.0f} % above chance{learnt}. The network keeps clearly more in {clearly} of "
        f"{len(more)} settings.\n\n"
        f"**Not found.** The record contradicts {len(against)} of the predictions{listed}.\n\n"
        f"**How sure.** Of the claims that can be tested here, this page's seeds decide {own}, the recorded "
        f"ones {recorded}. All of them are about digits and a small network; the thesis' own data and "
        "network were not run."
    )
