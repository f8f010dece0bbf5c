"""Figures of images in noise: what was found in, Axes out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from sameloss.images import ImageSource
from sameloss.statistics.bootstrap import Interval
from sameloss.studies.drawing import MARKERS
from sameloss.studies.local_signal_images.backgrounds import Scene, composed
from sameloss.studies.local_signal_images.claims import ImageResults, over_seeds
from sameloss.studies.local_signal_images.experiment import ACCURACY, ACTIVE, BEFORE, CHANCE, GCV, NETWORK
from sameloss.studies.local_signal_images.published import NOISES, NTK, WRN, long_table
from sameloss.studies.local_signal_images.tables import SHOWN, shown_in, surroundings

LOOK = {name: (f"C{at}", MARKERS[at]) for at, name in enumerate(SHOWN)}
"""Colour and marker of what predicts, the same in all figures."""

GAP = 1
"""Pixels between example images."""


def mosaic(rows: Sequence[Sequence[Float[Tensor, "side side"]]]) -> Float[np.ndarray, "height width"]:
    """Return images of one size side by side, with gaps that are not a number."""
    padded = [
        torch.cat([torch.nn.functional.pad(own, (0, GAP, 0, GAP), value=torch.nan) for own in row], 1)
        for row in rows
    ]
    return torch.cat(padded)[:-GAP, :-GAP].numpy()


def examples(source: ImageSource, scenes: Sequence[Scene], ax: Axes, seed: int = 0) -> Axes:
    """Draw one image on its background: a row a placement, a column a strength of noise."""
    images = source.load()
    placements = list(dict.fromkeys(scene.placement for scene in scenes))
    noises = sorted({scene.noise for scene in scenes})
    side, shrunk = scenes[0].side, scenes[0].shrunk
    made = [
        [composed(images, Scene(place, side, noise, shrunk), 1, seed).x[0].mean(0) for noise in noises]
        for place in placements
    ]
    ax.imshow(mosaic(made), cmap="gray")
    middles = [(side + GAP) * at + side / 2 for at in range(max(len(noises), len(placements)))]
    ax.set_xticks(middles[: len(noises)], [f"σ = {noise:g}" for noise in noises])
    ax.set_yticks(middles[: len(placements)], placements)
    ax.tick_params(length=0)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax


def accuracy(found: ImageResults, placement: str, ax: Axes) -> Axes:
    """Draw accuracies against the noise, with 95 % intervals over seeds, and chance."""
    for at, of in enumerate(shown_in(found)):
        own = 100 * found.accuracies(of, placement)
        if own.empty:
            continue
        shift = 0.008 * (at - 2) * own.columns.max()
        _series(ax, own.columns.to_numpy() + shift, [over_seeds(own[n].to_numpy()) for n in own], of)
    ax.axhline(100 * found.accuracies(CHANCE, placement).mean().mean(), color="0.5", ls=":", lw=1)
    least = found.table[found.table.measure == ACCURACY].value.min()
    ax.set(title=placement, xlabel="noise of the background, σ", ylabel="accuracy (%)")
    ax.set_ylim(100 * least - 2, 101)  # the same in all panels
    return ax


def _series(ax: Axes, x: Float[np.ndarray, " point"], values: list[Interval], of: str) -> None:
    colour, marker = LOOK[of]
    ax.vlines(x, [own.low for own in values], [own.high for own in values], color=colour, lw=1)
    ax.plot(x, [own.value for own in values], color=colour, marker=marker, ms=5, label=SHOWN[of])


def kept(found: ImageResults, ax: Axes, *, above_chance: bool = False) -> Axes:
    """Draw what each keeps of its accuracy at most noise, by placement and size, with 95 % intervals."""
    places = surroundings(found)
    for at, of in enumerate(shown_in(found)):
        own = [over_seeds(found.kept(of, *place, above_chance=above_chance)) for place in places]
        y = -np.arange(len(places)) + 0.3 - 0.15 * at
        colour, marker = LOOK[of]
        ax.hlines(y, [i.low for i in own], [i.high for i in own], color=colour, lw=1.5)
        ax.plot([i.value for i in own], y, marker, color=colour, ms=5, label=SHOWN[of])
    names = [f"{placement}\n{size}" for placement, size in places]
    ax.set_yticks(-np.arange(len(places)), names)
    ax.set(xlabel=f"kept of the accuracy{' above chance' if above_chance else ''} (%)")
    return ax


def activity(found: ImageResults, noise: float, ax: Axes) -> Axes:
    """Draw the share of active neurons by layer, before and after training, with 95 % intervals."""
    own = found.at(found.placement)
    own = own[own.noise == noise]
    for at, (measure, name) in enumerate(((BEFORE, "before training"), (ACTIVE, "after training"))):
        shares = 100 * own[own.measure == measure].pivot_table(index="seed", columns="of", values="value")
        x = np.arange(1, shares.shape[1] + 1)
        values = [over_seeds(shares[layer].to_numpy()) for layer in shares]
        ax.vlines(x, [i.low for i in values], [i.high for i in values], color=f"C{at}", lw=1)
        ax.plot(x, [i.value for i in values], color=f"C{at}", marker=MARKERS[at], ms=5, label=name)
    ax.set(title=f"σ = {noise:g}", xlabel="layer", ylabel="active neurons (%)", ylim=(0, None))
    ax.set_xticks(x)
    return ax


def lazy(found: ImageResults, ax: Axes) -> Axes:
    """Draw the accuracy against the scale of the output, and that of the tangent kernel."""
    if found.lazy.empty:
        return _left_out(ax)
    own = 100 * found.lazy_accuracies()
    values = [over_seeds(own[scale].to_numpy()) for scale in own]
    ax.vlines(own.columns, [i.low for i in values], [i.high for i in values], color="C0", lw=1)
    ax.plot(own.columns, [i.value for i in values], color="C0", marker=MARKERS[0], label="network")
    noise = float(found.lazy.noise.iloc[0])
    kernel = over_seeds(100 * found.accuracies(GCV, found.placement)[noise].to_numpy())
    colour, _ = LOOK[GCV]
    ax.axhline(kernel.value, color=colour, ls="--", lw=1.5, label=SHOWN[GCV])
    limit = over_seeds(100 * found.lazy.groupby("seed").limit.first().to_numpy())
    ax.axhline(limit.value, color="0.4", ls=":", lw=1.5, label="linearised network, as long in training")
    ax.axhspan(kernel.low, kernel.high, color=colour, alpha=0.15, lw=0)
    ax.set(xscale="log", xlabel="scale of the output, α", ylabel="accuracy (%)", title=f"σ = {noise:g}")
    ax.set_xticks(own.columns, [f"{scale:g}" for scale in own.columns])
    ax.minorticks_off()
    return ax


def width(found: ImageResults, ax: Axes) -> Axes:
    """Draw the accuracy of networks and of their kernels against the width, with 95 % intervals."""
    if found.widths.empty:
        return _left_out(ax)
    for of in (NETWORK, GCV):
        own = 100 * found.by_width(of)
        _series(ax, own.columns.to_numpy(float), [over_seeds(own[n].to_numpy()) for n in own], of)
    noise = float(found.widths.noise.iloc[0])
    ax.set(xscale="log", xlabel="channels of the last layer", ylabel="accuracy (%)", title=f"σ = {noise:g}")
    ax.set_xticks(own.columns, [str(channels) for channels in own.columns])
    ax.minorticks_off()
    return ax


def _left_out(ax: Axes) -> Axes:
    """Say that a preset has nothing to draw."""
    ax.text(0.5, 0.5, "not part of this preset", ha="center", va="center", transform=ax.transAxes)
    ax.set_axis_off()
    return ax


def published(size: str, ax: Axes) -> Axes:
    """Draw Table B.1: accuracies of WRN and NTK by noise, a line a placement."""
    table: pd.DataFrame = long_table()
    table = table[table["size"] == size]
    for at, model in enumerate((WRN, NTK)):
        for line, (placement, own) in enumerate(table[table.model == model].groupby("placement", sort=False)):
            ax.plot(
                NOISES,
                own.accuracy,
                color=f"C{at}",
                marker=MARKERS[line],
                ls=("-", "--", ":")[line],
                ms=5,
                label=f"{model}, {placement}",
            )
    ax.set(title=size, xlabel="noise of the background, σ", ylabel="accuracy (%)")
    return ax
