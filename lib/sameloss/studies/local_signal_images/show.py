"""Tables, figures and sentences of the chapter on images in noise."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from sameloss.images import ImageSource
from sameloss.statistics.intervals import seed_interval
from sameloss.studies.drawing import MARKERS, interval_line
from sameloss.studies.local_signal_images.claims import TABLE_B_1, TOPICS, ImageResults
from sameloss.studies.local_signal_images.experiment import Measure, Model
from sameloss.studies.local_signal_images.theory import Scene, draw_sample
from sameloss.studies.verdict import Verdict, verdict_table

# Labels of predictors in figures.
SHOWN = {
    Model.NETWORK: "network",
    Model.GCV: "NTK",
    Model.BEST: "NTK, best λ",
    Model.LINEARISED: "linearised network",
    Model.AFTER: "NTK, trained",
    Model.PIXELS: "linear in pixels",
}

# Indices of their colours and markers, the same in all figures.
LOOK = {name: at for at, name in enumerate(SHOWN)}


def shown_in(results: ImageResults) -> list[str]:
    """The predictors in these results, in the order of figures."""
    known = set(results.table.of)
    return [of for of in SHOWN if of in known]


CHANCE_B_1 = 60.0  # percentage of animals, the larger class of CIFAR-2


def table_b_1() -> pd.DataFrame:
    """Table B.1 with the accuracy kept at most noise, raw and above chance (%)."""
    least, most = TABLE_B_1[0.0], TABLE_B_1[2.0]
    above = 100 * (most - CHANCE_B_1) / (least - CHANCE_B_1)
    kept = {"kept": 100 * most / least, "kept above chance": above}
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

    ax.imshow(np.block([[framed(place, noise) for noise in noises] for place in placements]), cmap="gray")
    middles = (side + 1) * np.arange(max(len(noises), len(placements))) + side / 2
    ax.set_xticks(middles[: len(noises)], [f"σ = {noise:g}" for noise in noises])
    ax.set_yticks(middles[: len(placements)], placements)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.set_frame_on(False)
    return ax


def _line(ax: Axes, table: pd.DataFrame, label: str, at: int, shift: float = 0.0) -> None:
    """Draw the means over seeds with their intervals, against the columns."""
    if not table.empty:
        means = [seed_interval(table[column]) for column in table]
        interval_line(ax, table.columns.to_numpy(float) + shift, means, at, label, ms=5)


def accuracy(results: ImageResults, placement: str, ax: Axes) -> Axes:
    """Draw accuracies against the noise at the page's size; dotted: chance."""
    place = placement, results.places[0][1]
    chance = results.accuracies(Model.CHANCE, *place)
    for at, of in enumerate(shown_in(results)):
        shift = 0.008 * (at - 2) * chance.columns.max()
        _line(ax, results.accuracies(of, *place), SHOWN[of], LOOK[of], shift)
    ax.axhline(chance.mean().mean(), color="0.5", ls=":", lw=1)
    least = results.table[results.table.measure == Measure.ACCURACY].value.min()
    ax.set(title=placement, xlabel="noise of the background, σ", ylabel="accuracy (%)")
    ax.set_ylim(100 * least - 2, 101)  # the same in all panels
    return ax


def kept(results: ImageResults, ax: Axes, *, above_chance: bool = False) -> Axes:
    """Draw the accuracy kept at most noise, by placement and size."""
    y = -np.arange(len(results.places))
    for at, of in enumerate(shown_in(results)):
        kept = (results.kept(of, *place, above_chance=above_chance) for place in results.places)
        mean, low, high = np.transpose([seed_interval(values) for values in kept])
        height, colour = y + 0.3 - 0.15 * at, f"C{LOOK[of]}"
        ax.hlines(height, low, high, color=colour, lw=1.5)
        ax.plot(mean, height, MARKERS[LOOK[of]], color=colour, ms=5, label=SHOWN[of])
    ax.set_yticks(y, ["\n".join(place) for place in results.places])
    ax.set(xlabel=f"kept of the accuracy{' above chance' if above_chance else ''} (%)")
    return ax


def activity(results: ImageResults, noise: float, ax: Axes) -> Axes:
    """Draw the percentage of active neurons by layer, before and after training."""
    for at, measure in enumerate((Measure.BEFORE, Measure.ACTIVE)):
        active = results.active(measure, noise)
        active.columns = pd.RangeIndex(1, active.shape[1] + 1)
        _line(ax, active, ("before training", "after training")[at], at)
    ax.set(title=f"σ = {noise:g}", xlabel="layer", ylabel="active neurons (%)", ylim=(0, 100))
    ax.set_xticks(active.columns)
    return ax


def lazy(results: ImageResults, ax: Axes) -> Axes:
    """Draw the accuracy against the scale of the output, beside that of the tangent kernel."""
    if results.lazy.empty:
        ax.set_title("not part of this preset")
        return ax
    accuracies = results.of_lazy()
    _line(ax, accuracies, "network", LOOK[Model.NETWORK])
    kernel, colour = seed_interval(results.lazy_kernel), f"C{LOOK[Model.GCV]}"
    ax.axhline(kernel.value, color=colour, ls="--", lw=1.5, label=SHOWN[Model.GCV])
    ax.axhspan(kernel.low, kernel.high, color=colour, alpha=0.15, lw=0)
    limit = results.of_lazy("limit").mean().iloc[0]
    ax.axhline(limit, color="0.4", ls=":", lw=1.5, label=SHOWN[Model.LINEARISED])
    title = f"σ = {results.lazy.noise.iloc[0]:g}"
    ax.set(xscale="log", xlabel="scale of the output, α", ylabel="accuracy (%)", title=title)
    ax.set_xticks(accuracies.columns, [f"{at:g}" for at in accuracies])
    ax.minorticks_off()
    return ax


# Sentences: what figures show, and what the page found. "Clearly" is where an interval excludes zero.


def accuracy_finding(results: ImageResults) -> str:
    """Accuracies of the network and its kernel without noise and at most noise."""
    (n0, *_, n1), (k0, *_, k1) = (results.accuracies(of).mean() for of in (Model.NETWORK, results.kernel))
    return (
        f"From σ = {results.noises[0]:g} to {results.noises[-1]:g}, accuracy goes from {n0:.0f} to "
        f"{n1:.0f} % for the network, from {k0:.0f} to {k1:.0f} % for its kernel."
    )


def kept_finding(results: ImageResults) -> str:
    """In how many settings the network keeps more of its accuracy than its kernel."""
    more = [
        seed_interval(results.kept(Model.NETWORK, *place) - results.kept(results.kernel, *place))
        for place in results.places
    ]
    ahead, clearly = sum(value > 0 for value, _, _ in more), sum(low > 0 for _, low, _ in more)
    return (
        f"The network keeps more of its accuracy than its kernel in {ahead} of {len(more)} settings, "
        f"clearly in {clearly or 'none'}."
    )


def activity_finding(results: ImageResults) -> str:
    """The layers in which training lowers the share of active neurons, at most noise and without."""
    parts = []
    for noise in (results.noises[-1], results.noises[0]):
        falls = results.fall(noise)
        names = [layer for layer in falls if seed_interval(falls[layer]).low > 0]
        parts.append(f"in {', '.join(names) or 'no layer'} at σ = {noise:g}")
    return f"Training clearly lowers the share of active neurons {' and '.join(parts)}."


def lazy_finding(results: ImageResults) -> str:
    """Accuracy where parameters hardly move, beside the linearised network and the kernel."""
    if results.lazy.empty:
        return "This preset has no lazy training."
    lazy, limit = results.of_lazy().mean(), results.of_lazy("limit").mean().iloc[0]
    return (
        f"Accuracy is {lazy.iloc[0]:.0f} % at α = {lazy.index[0]:g} and {lazy.iloc[-1]:.0f} % at α = "
        f"{lazy.index[-1]:g}; the linearised network has {limit:.0f} %, the solved kernel "
        f"{results.lazy_kernel.mean():.0f} %."
    )


def lazy_in_words(results: ImageResults) -> str:
    """How far parameters move at each scale, and how well the network fits its sample there."""
    moved, own = (results.of_lazy(of).mean() for of in ("moved", Measure.TRAINED))
    parts = (
        f"by {moved[at]:.1f} % at α = {at:g} (accuracy on the training sample {own[at]:.0f} %)"
        for at in own.index
    )
    return f"Relative to their norm, parameters move {', '.join(parts)}."


def in_words(record: ImageResults) -> str:
    """What the recorded seeds show, and what they contradict."""
    (raw, raw_kernel), (above, above_kernel) = (
        [seed_interval(record.kept(of, above_chance=chance)).value for of in (Model.NETWORK, record.kernel)]
        for chance in (False, True)
    )
    judged = verdict_table(TOPICS, record)
    against = judged[judged.verdict == Verdict.CONTRADICTED].claim
    return (
        f"**Found.** Over the recorded seeds, at a {record.places[0][0]}, the network keeps {raw:.0f} % of "
        f"its accuracy under noise and its kernel {raw_kernel:.0f} %; above chance {above:.0f} and "
        f"{above_kernel:.0f} %.\n\n"
        f"**Not found.** Predictions that the record contradicts: {'; '.join(against) or 'none'}."
    )
