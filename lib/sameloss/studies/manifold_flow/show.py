"""Tables and figures of Section 3."""

from math import log
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.axes import Axes

from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.manifold_flow.experiment import SGDDrift
from sameloss.studies.manifold_flow.theory import Population, PowerSum
from sameloss.studies.statement import Judgement

TIME, TRACE = "rescaled time η² k / B", "trace of the Hessian"
SHARPNESS = "Tr Diag(H)^½"
MODEL_COLOURS = {"large": "C0", "small": "C2"}


def conclusion(verdicts: pd.DataFrame, limits: pd.DataFrame, moved: float, beside: float) -> str:
    """What the page found, and how sure it is.

    Args:
        verdicts: of all statements.
        limits: the coefficients at a vanishing rate, from `coefficient_limits`.
        moved: change of the trace without noise.
        beside: from `adam_beside_trace_flow`.

    """
    first, counts = limits.iloc[0], verdicts.verdict.value_counts()
    return rf"""
SGD's coefficient along the minimisers extrapolates to {first.coefficient:.3f} ±
{1.96 * first.standard_error:.3f} (95 % interval; the theorem has 0.25), and without label noise the trace
moves by {moved:.0e}. At equal trace, the $\mathrm{{Tr}}(\mathrm{{Diag}}(H)^{{1/2}})$ at Adam's end differs by
{100 * beside:+.0f} % from the theorem's flow. Of the {len(verdicts)} statements judged below,
{counts.get(Judgement.HOLDS, 0)} hold as printed and {counts.get(Judgement.CORRECTED, 0)} only as corrected.

The interval covers the scatter between replicas of SGD on one tiny model. Nothing here shows that a language
model trains for the order of $1/\eta^2$ steps that a visible drift takes.
"""


def bartlett(run: SGDDrift, ax: Axes) -> None:
    """Draw entries of the gradient's covariance against those of the Hessian, on Γ and off it."""
    (population, _), start = run.population(), run.start()
    direction = torch.randn(len(start), dtype=torch.float64, generator=run.generator("rays"))
    for index, step in enumerate((1.0, 0.3, 0.0)):
        theta = start + step * direction / direction.norm()
        label = f"KL {float(population.kl(theta)):.1g} nats" if step else "on Γ"
        entries = population.hessian(theta).flatten(), population.covariance(theta).flatten()
        ax.plot(*entries, MARKERS[index], ms=3, color=f"C{index}", label=label)
    ax.axline((0, 0), slope=1, color="0.35", lw=1)
    ax.set(xlabel="entry of the Hessian ∇²L", ylabel="entry of the covariance Σ")
    ax.legend()


def _errorbars(
    table: pd.DataFrame, by: str, label: str, columns: tuple[str, ...], ax: Axes,
    colours: list | None = None, **style: Any,
) -> None:  # fmt: skip
    """Draw x, y and 95 % intervals from standard errors, if any, in one colour per value of `by`."""
    x, y, *error = columns
    shared = {"ms": 5, "lw": 1, "capsize": 3} | style
    for index, (value, part) in enumerate(table.groupby(by, sort=False)):
        bars = 1.96 * part[error[0]] if error else None
        series: Style = {"color": colours[index] if colours else f"C{index}", "marker": MARKERS[index]}
        ax.errorbar(part[x], part[y], bars, label=label.format(value), **(shared | series))


def drift(trajectories: pd.DataFrame, flow: pd.DataFrame, batch: int, ax: Axes) -> None:
    """Draw mean traces with their standard deviation over replicas, one colour per rate, and the flow."""
    part = trajectories[trajectories.batch == batch]
    colours = sns.color_palette("viridis_r", part.rate.nunique() + 1)[1:]  # rates come largest first
    _errorbars(part, "rate", "η = {:g}", ("time", "minimiser"), ax, colours, ms=4)
    for (_, run), colour in zip(part.groupby("rate", sort=False), colours, strict=True):
        ends = run.minimiser - run.minimiser_sd, run.minimiser + run.minimiser_sd
        ax.fill_between(run.time, *ends, color=colour, alpha=0.18, lw=0)
    flow = flow[flow.time <= part.time.max()]
    ax.plot(flow.time, flow.trace, color="black", lw=1.8, label="flow, ¼ Tr")
    ax.set(xlabel=TIME, ylabel=TRACE, title=f"batch size {batch}")
    ax.legend(fontsize="small")


def coefficients(table: pd.DataFrame, limits: pd.DataFrame, ax: Axes) -> None:
    """Draw the coefficient fitted at each rate, and left of zero its limit, with intervals."""
    columns = "rate", "coefficient", "standard_error"
    _errorbars(table[table.measured == "minimiser"], "batch", "B = {}", columns, ax)
    left = limits.assign(rate=-0.05 * table.rate.max() * (limits.index + 1))
    _errorbars(left, "batch", "_", columns, ax, mec="black")
    ax.axhline(0.25, color="0.35", ls="--", lw=1.2, label="¼")
    ax.axvline(0, color="0.8", lw=1, zorder=0)
    ax.set(xlabel="learning rate η (left of 0: limits)", ylabel="coefficient × B")
    ax.legend(loc="upper right", ncols=2, fontsize="small")


def finite_rate(finite: pd.DataFrame, rate: float, ax: Axes) -> None:
    """Draw SGD at one large rate and several batch sizes between the two flows that it might follow."""
    table = finite.assign(error=finite.iterate_sd / finite.replicas**0.5)
    colours = sns.color_palette("viridis", table.batch.nunique())
    _errorbars(table, "batch", "B = {}", ("time", "iterate", "error"), ax, colours, ms=4, capsize=0)
    last = finite[finite.batch == finite.batch.max()]
    ax.plot(last.time, last.vanishing, color="black", lw=1.8, label="flow, ¼ Tr")
    ax.plot(last.time, last.finite, color="C3", ls="--", lw=2, label=f"flow for η = {rate:g}")
    ax.set(xlabel=TIME, ylabel=TRACE)
    ax.legend(fontsize="small")


def two_measures(adam: dict[str, pd.DataFrame], ax: Axes) -> None:
    """Draw paths of SGD and Adam in the plane of trace and Tr Diag(H)^½, and the flattest point by each."""
    flow = adam["flows"].query("flow == 'trace'")
    ax.plot(flow.trace, flow.sharpness, color="black", lw=1.2, label="flow, ¼ Tr")
    for index, name in enumerate(("SGD", "Adam")):
        path = adam["trajectories"].query(f"algorithm == '{name}, to its end'")
        ax.plot(path.trace, path.sharpness, marker=MARKERS[index], ms=5, lw=1, color=f"C{index}", label=name)
    for index, (name, label) in enumerate({"trace": "Tr H", "sharpness": SHARPNESS}.items()):
        end = adam["flows"].query(f"flow == '{name}'").iloc[-1]
        style: Style = {"marker": "*", "ms": 14, "ls": "none", "mec": "black", "color": f"C{index}"}
        ax.plot(end.trace, end.sharpness, label=f"least {label}", **style)
    ax.set(xlabel=TRACE, ylabel=SHARPNESS)
    ax.legend()


def landscape(path: pd.DataFrame, population: Population, ax: Axes) -> None:
    """Draw KL over the plane of two parameters, the minimisers coloured by trace, and paths of SGD."""
    x, y = np.linspace(-0.15, 1.55, 40), np.linspace(-0.3, 1.5, 40)
    grid = torch.as_tensor(np.stack(np.meshgrid(x, y), -1))
    levels = np.logspace(-5, 0.5, 12)
    kl = population.kl(grid).clamp(min=levels[0])
    ax.contourf(x, y, kl, levels=levels, norm="log", cmap="Greys", alpha=0.55)
    curve = manifold_of(population)
    points = ax.scatter(curve.x, curve.y, c=curve.trace, s=14, cmap="plasma", vmax=1.7, zorder=3)
    ax.figure.colorbar(points, ax=ax, label="trace of the Hessian on Γ", shrink=0.85, extend="max")
    for name, part in path.groupby("model", sort=False):
        colour = MODEL_COLOURS[name]
        ax.plot(part.x, part.y, color=colour, lw=0.7, alpha=0.8, zorder=2, label=f"SGD, {name} model")
        for row, marker, size in ((part.iloc[0], "o", 6), (part.iloc[-1], "*", 13)):
            ax.plot(row.x, row.y, marker=marker, ms=size, color=colour, mec="black", zorder=4)
    ax.axhline(0, color="C2", lw=1, ls=":", zorder=1)
    ax.set(xlabel="θ₁", ylabel="θ₂", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), aspect="equal")
    ax.grid(visible=False)
    ax.legend(loc=(0, 0.3), fontsize="small", handlelength=1)


def manifold_of(population: Population) -> pd.DataFrame:
    """Minimisers of the two-parameter model θ₁³ + θ₂³, with the trace of the Hessian."""
    q = float(population.conditionals[0, 0])
    angle = torch.linspace(-0.35, torch.pi / 2 + 0.35, 120, dtype=torch.float64)
    radius = (log(q / (1 - q)) / (angle.cos() ** 3 + angle.sin() ** 3)) ** (1 / 3)
    x, y = radius * angle.cos(), radius * angle.sin()
    return pd.DataFrame({"x": x, "y": y, "trace": PowerSum().trace(torch.stack([x, y], -1), q)})
