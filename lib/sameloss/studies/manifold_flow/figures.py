"""Figures of Section 3: a tidy frame in, Axes out."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from sameloss.studies.drawing import KL_LABEL, MARKERS, Style
from sameloss.studies.manifold_flow.theory import Population, PowerSum

RATE = "learning rate η"

TIME = "rescaled time η² k / B"


def matrices(named: dict[str, Float[Tensor, "row column"]]) -> list[Axes]:
    """Draw square matrices side by side on one scale, compressed so that small entries show."""
    most = max(float(matrix.abs().max()) for matrix in named.values())
    _, axes = plt.subplots(1, len(named), figsize=(3.4 * len(named), 3.3))
    for (name, matrix), ax in zip(named.items(), axes, strict=True):
        values = (matrix / most).numpy()
        drawn = ax.imshow(np.sign(values) * np.sqrt(np.abs(values)), cmap="vlag", vmin=-1, vmax=1)
        ax.set(title=name, xlabel="parameter", ylabel="parameter" if ax is axes[0] else "")
        ax.grid(visible=False)
    ticks = np.array([-1.0, -0.25, 0.0, 0.25, 1.0])
    bar = ax.figure.colorbar(drawn, ax=axes, shrink=0.8, ticks=np.sign(ticks) * np.sqrt(np.abs(ticks)))
    bar.ax.set_yticklabels([f"{tick * most:.2g}" for tick in ticks])
    return list(axes)


def distance_from_saturation(rays: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the relative distance of covariance and Hessian against KL, one line a ray."""
    for _, ray in rays.groupby("ray"):
        ax.plot(ray.kl, ray.distance, "o-", ms=3, lw=1, color="C0", alpha=0.6)
    reference = rays.kl.sort_values()
    scale = (rays.distance / rays.kl**0.5).median()
    ax.plot(reference, scale * reference**0.5, "--", color="0.35", lw=1.2, label="slope ½")
    ax.set(xscale="log", yscale="log", xlabel=KL_LABEL, ylabel="relative distance of Σ and ∇²L")
    ax.legend()
    return ax


def logits_against_kl(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the largest spread of the logits as KL falls, for languages with and without zeros."""
    for index, (zeros, part) in enumerate(table.groupby("zeros", sort=False)):
        name = f"{zeros} conditionals are zero" if zeros else "none is zero"
        ax.plot(part.kl, part.spread, marker=MARKERS[index], ms=5, color=f"C{index}", label=name)
    ax.set(
        xscale="log",
        xlim=(2, 1e-17),
        xlabel=KL_LABEL,
        ylabel="largest difference of logits",
    )
    ax.legend()
    return ax


def drift(
    trajectories: pd.DataFrame, flow: pd.DataFrame, batch: int, ax: Axes, measured: str = "minimiser"
) -> Axes:
    """Draw mean traces with their standard deviation over replicas, one colour a rate, and the flow."""
    part = trajectories[trajectories.batch == batch]
    rates = sorted(part.rate.unique(), reverse=True)
    colours = sns.color_palette("viridis_r", len(rates) + 1)[1:]
    for rate, colour, marker in zip(rates, colours, MARKERS, strict=False):
        run = part[part.rate == rate]
        ax.plot(run.time, run[measured], marker=marker, ms=4, lw=1, color=colour, label=f"η = {rate:g}")
        spread = run[f"{measured}_sd"]
        ax.fill_between(
            run.time, run[measured] - spread, run[measured] + spread, color=colour, alpha=0.18, lw=0
        )
    shown = flow[flow.time <= part.time.max()]
    ax.plot(shown.time, shown.trace, color="black", lw=1.8, label="flow, ¼ Tr")
    ax.set(xlabel=TIME, ylabel="trace of the Hessian", title=f"batch size {batch}")
    ax.legend(fontsize="small")
    return ax


def coefficients(table: pd.DataFrame, limits: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the coefficient that fits each rate, and its limit at rate zero with its interval."""
    for index, (batch, part) in enumerate(table[table.measured == "minimiser"].groupby("batch")):
        style: Style = {"color": f"C{index}", "marker": MARKERS[index], "ms": 5, "capsize": 3}
        ax.errorbar(
            part.rate, part.coefficient, 1.96 * part.standard_error, lw=1, label=f"B = {batch}", **style
        )
        limit = limits[limits.batch == batch].iloc[0]
        at = -0.05 * table.rate.max() * (index + 1)
        ax.errorbar(at, limit.coefficient, 1.96 * limit.standard_error, mec="black", **style)
    ax.axhline(0.25, color="0.35", ls="--", lw=1.2, label="¼")
    ax.axvline(0, color="0.8", lw=1, zorder=0)
    ax.set(xlabel=f"{RATE} (left of 0: limits)", ylabel="coefficient × B")
    ax.legend()
    return ax


def gaps(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw distances from the flow against the rate, with a line of slope one."""
    for index, (batch, part) in enumerate(table.groupby("batch")):
        style: Style = {"color": f"C{index}", "marker": MARKERS[index], "ms": 5, "capsize": 3, "lw": 1}
        ax.errorbar(part.rate, part.gap, 1.96 * part.gap_se, label=f"B = {batch}", **style)
    first = table[table.batch == table.batch.min()].sort_values("rate")
    ax.plot(
        first.rate, first.gap.iloc[0] * first.rate / first.rate.iloc[0], "--", color="0.35", label="slope 1"
    )
    ax.set(xscale="log", yscale="log", xlabel=RATE, ylabel="mean distance from the flow")
    rates = sorted(table.rate.unique())
    ax.set_xticks(rates, [f"{rate:g}" for rate in rates])
    ax.xaxis.set_minor_formatter(plt.NullFormatter())
    ax.legend()
    return ax


def finite_rate(finite: pd.DataFrame, rate: float, ax: Axes) -> Axes:
    """Draw SGD at one large rate and several batches between the two flows it might follow."""
    batches = sorted(finite.batch.unique())
    for batch, colour, marker in zip(
        batches, sns.color_palette("viridis", len(batches)), MARKERS, strict=False
    ):
        part = finite[finite.batch == batch]
        style: Style = {"marker": marker, "ms": 4, "lw": 1, "color": colour}
        ax.errorbar(
            part.time,
            part.iterate,
            1.96 * part.iterate_sd / part.replicas**0.5,
            label=f"B = {batch}",
            **style,
        )
    ax.plot(part.time, part.vanishing, color="black", lw=1.8, label="flow, ¼ Tr")
    ax.plot(part.time, part.finite, color="C3", ls="--", lw=2, label=f"flow for η = {rate:g}")
    ax.set(xlabel=TIME, ylabel="trace of the Hessian")
    ax.legend(fontsize="small")
    return ax


def adam_along_flow(adam: dict[str, pd.DataFrame], quantity: str, label: str, ax: Axes) -> Axes:
    """Draw a quantity of Adam's replicas beside that of Adam's own flow."""
    seen = adam["trajectories"].query("algorithm == 'Adam'")
    for index, (rate, part) in enumerate(seen.groupby("rate", sort=False)):
        style: Style = {"marker": MARKERS[index], "color": f"C{index + 1}", "ms": 5, "lw": 0}
        ax.errorbar(
            part.time, part[quantity], 1.96 * part[f"{quantity}_se"], label=f"Adam, η = {rate:g}", **style
        )
    own = adam["flows"].query("flow == 'Adam'")
    ax.plot(own.time, own[quantity], color="black", lw=1.8, label="Adam's flow")
    ax.set(xlabel="rescaled time η² k", ylabel=label)
    ax.legend()
    return ax


def two_measures(adam: dict[str, pd.DataFrame], ax: Axes) -> Axes:
    """Draw where SGD and Adam go in the plane of trace and Tr Diag(H)^½, and the flattest points by each."""
    flow = adam["flows"].query("flow == 'trace'")
    ax.plot(flow.trace, flow.sharpness, color="black", lw=1.2, label="flow, ¼ Tr")
    for index, name in enumerate(("SGD", "Adam")):
        seen = adam["trajectories"].query(f"algorithm == '{name}, to its end'")
        ax.plot(seen.trace, seen.sharpness, marker=MARKERS[index], ms=5, lw=1, color=f"C{index}", label=name)
    for index, name in enumerate(("trace", "sharpness")):
        end = adam["flows"].query(f"flow == '{name}'").iloc[-1]
        shown = "Tr H" if name == "trace" else "Tr Diag(H)^½"
        style: Style = {"marker": "*", "ms": 14, "ls": "none", "mec": "black", "color": f"C{index}"}
        ax.plot(end.trace, end.sharpness, label=f"least {shown}", **style)
    ax.set(xlabel="trace of the Hessian", ylabel="Tr Diag(H)^½")
    ax.legend()
    return ax


def landscape(path: pd.DataFrame, population: Population, ax: Axes) -> Axes:
    """Draw KL over the plane of two parameters, the minimisers coloured by trace, and paths of SGD."""
    x, y = np.linspace(-0.15, 1.55, 40), np.linspace(-0.3, 1.5, 40)
    grid = torch.as_tensor(np.stack(np.meshgrid(x, y), -1))
    levels = np.logspace(-5, 0.5, 12)
    ax.contourf(
        x, y, population.kl(grid).clamp(min=levels[0]), levels=levels, norm="log", cmap="Greys", alpha=0.55
    )
    curve = manifold_of(population)
    drawn = ax.scatter(curve.x, curve.y, c=curve.trace, s=14, cmap="plasma", vmax=1.7, zorder=3)
    ax.figure.colorbar(drawn, ax=ax, label="trace of the Hessian on Γ", shrink=0.85, extend="max")
    for index, (name, part) in enumerate(path.groupby("model", sort=False)):
        colour = ("C0", "C2")[index]
        ax.plot(part.x, part.y, color=colour, lw=0.7, alpha=0.8, zorder=2, label=f"SGD, {name} model")
        for row, marker in ((part.iloc[0], "o"), (part.iloc[-1], "*")):
            ax.plot(
                row.x,
                row.y,
                marker=marker,
                ms=6 if marker == "o" else 13,
                color=colour,
                mec="black",
                zorder=4,
            )
    ax.axhline(0, color="C2", lw=1, ls=":", zorder=1)
    ax.set(xlabel="θ₁", ylabel="θ₂", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), aspect="equal")
    ax.grid(visible=False)
    ax.legend(loc=(0.02, 0.3), fontsize="small")
    return ax


def manifold_of(population: Population, points: int = 120) -> pd.DataFrame:
    """Return minimisers of the two-parameter model θ₁³ + θ₂³ and the trace of the Hessian there."""
    logit = float((population.conditionals[0, 0] / population.conditionals[0, 1]).log())
    angle = torch.linspace(-0.35, torch.pi / 2 + 0.35, points, dtype=torch.float64)
    radius = (logit / (angle.cos() ** 3 + angle.sin() ** 3)) ** (1 / 3)
    x, y = radius * angle.cos(), radius * angle.sin()
    trace = PowerSum().trace(torch.stack([x, y], -1), float(population.conditionals[0, 0]))
    return pd.DataFrame({"x": x, "y": y, "trace": trace})


def trace_along_manifold(path: pd.DataFrame, population: Population, ax: Axes) -> Axes:
    """Draw the trace along the minimisers, and where SGD starts and ends on either model."""
    curve = manifold_of(population)
    ax.plot(curve.y, curve.trace, color="0.35", lw=1.5, label="minimisers of the large model")
    for index, (name, part) in enumerate(path.groupby("model", sort=False)):
        colour = ("C0", "C2")[index]
        late = part[part.step >= 40]
        ax.plot(late.near_y, late.trace, color=colour, lw=4, alpha=0.5)
        ax.plot(part.near_y.iloc[-1], part.trace.iloc[-1], "*", ms=14, color=colour, mec="black",
                label=f"end of SGD, {name} model")  # fmt: skip
    ax.set(xlabel="θ₂ on Γ", ylabel="trace of the Hessian on Γ", xlim=(-0.1, 1.15), ylim=(1.1, 1.75))
    ax.legend(fontsize="small")
    return ax
