"""Tables and figures of Section 3."""

from math import log
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm
from torch import Tensor

from sameloss.studies.drawing import KL_LABEL, MARKERS, Style
from sameloss.studies.manifold_flow.experiment import SGDDrift
from sameloss.studies.manifold_flow.statements import relative_distance
from sameloss.studies.manifold_flow.theory import Population, PowerSum
from sameloss.studies.statement import Judgement

RATE, TIME, TRACE = "learning rate η", "rescaled time η² k / B", "trace of the Hessian"
SHARPNESS = "Tr Diag(H)^½"
MODEL_COLOURS = {"large": "C0", "small": "C2"}


def ray_table(run: SGDDrift, directions: int = 8) -> pd.DataFrame:
    """Follow random rays from the start on Γ: `ray`, `kl` (nats), `distance` of covariance and Hessian."""
    population, _ = run.population()
    start, generator = run.start(), run.generator("rays")
    rows = []
    for ray in range(directions):
        direction = torch.randn(len(start), dtype=torch.float64, generator=generator)
        for step in np.logspace(-5, 0, 11):
            theta = start + step * direction / direction.norm()
            distance = relative_distance(population.covariance(theta), population.hessian(theta))
            rows.append({"ray": ray, "kl": float(population.kl(theta)), "distance": distance})
    return pd.DataFrame(rows)


def distances_near(rays: pd.DataFrame, kl: float) -> tuple[float, float]:
    """Smallest and largest distance over rays, each at the point whose KL is closest to `kl`."""
    nearest = (np.log(rays.kl) - log(kl)).abs().groupby(rays.ray).idxmin()
    distances = rays.distance[nearest]
    return float(distances.min()), float(distances.max())


def order_of(gaps: pd.DataFrame, quantity: str = "gap") -> tuple[float, float]:
    """Slope of log gap against log rate at the two smallest rates, and its 95 % half-width."""
    small = gaps.sort_values("rate").head(2)
    rates, values = np.log(small.rate), np.log(small[quantity])
    error = np.linalg.norm(small.gap_se / small.gap) / np.ptp(rates) if quantity == "gap" else np.nan
    return float(values.diff().iloc[-1] / np.ptp(rates)), float(1.96 * error)


def conclusion(verdicts: pd.DataFrame, limits: pd.DataFrame, moved: float, beside: float) -> str:
    """What the page found, what it did not, and how sure it is.

    Args:
        verdicts: of all statements.
        limits: the coefficients at a vanishing rate, from `coefficient_limits`.
        moved: change of the trace without noise.
        beside: from `adam_beside_trace_flow`.

    """
    first, by = limits.iloc[0], verdicts.set_index("id").verdict
    said = "as the theorem says" if by["thm33"] == Judgement.HOLDS else "but not as the theorem says"
    where = {"thm33-finite": "at a learning rate that is not small", "thm33-adam": "for Adam"}
    refuted = [text for name, text in where.items() if by[name] in (Judgement.CORRECTED, Judgement.FAILS)]
    against = f"The theorem's flow does not hold {' or '.join(refuted)}"
    unsure = "These runs do not refute the theorem's flow at a large learning rate or for Adam"
    counts, side = by.value_counts(), "below" if beside < 0 else "above"
    return rf"""
**Found.** SGD drifts along the minimisers {said}: its coefficient extrapolates to
{first.coefficient:.3f} ± {1.96 * first.standard_error:.3f} (95 % interval; the theorem has 0.25), and without
label noise the trace moves by {moved:.0e}.

**Not found.** {against if refuted else unsure}: at equal trace, Adam ends with a
$\mathrm{{Tr}}(\mathrm{{Diag}}(H)^{{1/2}})$ {100 * abs(beside):.0f} % {side} the theorem's flow. Of the
{len(by)} statements judged below, {counts.get(Judgement.HOLDS, 0)} hold as printed and
{counts.get(Judgement.CORRECTED, 0)} only as corrected.

**How sure.** The interval covers the scatter between replicas of SGD on one tiny model. Nothing here shows
that a language model trains for the order of $1/\eta^2$ steps that a visible drift takes.
"""


def _root(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * np.abs(x) ** 0.5


def _square(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * x**2


def matrices(named: dict[str, Float[Tensor, "row column"]]) -> None:
    """Draw square matrices side by side on one scale, compressed so that small entries are visible."""
    most = max(float(matrix.abs().max()) for matrix in named.values())
    norm = FuncNorm((_root, _square), -most, most)  # no lambdas: figures are pickled
    _, axes = plt.subplots(1, len(named), figsize=(3.4 * len(named), 3.3))
    for (name, matrix), ax in zip(named.items(), axes, strict=True):
        image = ax.imshow(matrix.numpy(), cmap="vlag", norm=norm)
        ax.set(title=name, xlabel="parameter", ylabel="parameter" if ax is axes[0] else "")
        ax.grid(visible=False)
    ticks = most * np.array([-1.0, -0.25, 0.0, 0.25, 1.0])
    axes[0].figure.colorbar(image, ax=axes, shrink=0.8, ticks=ticks, format="{x:.2g}")


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


def distance_from_saturation(rays: pd.DataFrame, ax: Axes) -> None:
    """Draw the relative distance of covariance and Hessian against KL, one line per ray."""
    for _, ray in rays.groupby("ray"):
        ax.plot(ray.kl, ray.distance, "o-", ms=3, lw=1, color="C0", alpha=0.6)
    kl, scale = rays.kl.sort_values(), (rays.distance / rays.kl**0.5).median()
    ax.plot(kl, scale * kl**0.5, "--", color="0.35", lw=1.2, label="slope ½")
    ax.set(xscale="log", yscale="log", xlabel=KL_LABEL, ylabel="relative distance of Σ and ∇²L")
    ax.legend()


def logits_against_kl(table: pd.DataFrame, ax: Axes) -> None:
    """Draw the largest spread of logits as KL falls, for languages with and without zeros."""
    names = [f"{count} conditionals are zero" if count else "none is zero" for count in table.zeros]
    _errorbars(table.assign(zeros=names), "zeros", "{}", ("kl", "spread"), ax)
    ax.set(xscale="log", xlim=(2, 1e-17), xlabel=KL_LABEL, ylabel="largest difference of logits")
    ax.legend()


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
    ax.set(xlabel=f"{RATE} (left of 0: limits)", ylabel="coefficient × B")
    ax.legend()


def gaps(table: pd.DataFrame, ax: Axes) -> None:
    """Draw distances from the flow against the rate, with a line of slope one."""
    _errorbars(table, "batch", "B = {}", ("rate", "gap", "gap_se"), ax)
    first = table[table.batch == table.batch.min()].sort_values("rate")
    line = first.gap.iloc[0] * first.rate / first.rate.iloc[0]
    ax.plot(first.rate, line, "--", color="0.35", label="slope 1")
    ax.set(xscale="log", yscale="log", xlabel=RATE, ylabel="mean distance from the flow")
    rates = sorted(table.rate.unique())
    ax.set_xticks(rates, [f"{rate:g}" for rate in rates])
    ax.xaxis.set_minor_formatter(plt.NullFormatter())
    ax.legend()


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


def adam_along_flow(adam: dict[str, pd.DataFrame], quantity: str, label: str, ax: Axes) -> None:
    """Draw a quantity of Adam's replicas and of Adam's flow."""
    columns, table = ("time", quantity, f"{quantity}_se"), adam["trajectories"].query("algorithm == 'Adam'")
    colours = ["C1", "C2", "C3"]
    _errorbars(table, "rate", "Adam, η = {:g}", columns, ax, colours, lw=0, capsize=0, elinewidth=1)
    flow = adam["flows"].query("flow == 'Adam'")
    ax.plot(flow.time, flow[quantity], color="black", lw=1.8, label="Adam's flow")
    ax.set(xlabel="rescaled time η² k", ylabel=label)
    ax.legend()


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
    ax.legend(loc=(0.02, 0.3), fontsize="small")


def manifold_of(population: Population, points: int = 120) -> pd.DataFrame:
    """Minimisers of the two-parameter model θ₁³ + θ₂³, with the trace of the Hessian."""
    q = float(population.conditionals[0, 0])
    angle = torch.linspace(-0.35, torch.pi / 2 + 0.35, points, dtype=torch.float64)
    radius = (log(q / (1 - q)) / (angle.cos() ** 3 + angle.sin() ** 3)) ** (1 / 3)
    x, y = radius * angle.cos(), radius * angle.sin()
    return pd.DataFrame({"x": x, "y": y, "trace": PowerSum().trace(torch.stack([x, y], -1), q)})


def trace_along_manifold(path: pd.DataFrame, population: Population, ax: Axes) -> None:
    """Draw the trace along the minimisers, and where SGD starts and ends on either model."""
    curve = manifold_of(population)
    ax.plot(curve.y, curve.trace, color="0.35", lw=1.5, label="minimisers of the large model")
    for name, part in path.groupby("model", sort=False):
        late, end, colour = part[part.step >= 40], part.iloc[-1], MODEL_COLOURS[name]
        ax.plot(late.near_y, late.trace, color=colour, lw=4, alpha=0.5)
        star: Style = {"ms": 14, "color": colour, "mec": "black"}
        ax.plot(end.near_y, end.trace, "*", label=f"end of SGD, {name} model", **star)
    ax.set(xlabel="θ₂ on Γ", ylabel="trace of the Hessian on Γ", xlim=(-0.1, 1.15), ylim=(1.1, 1.75))
    ax.legend(fontsize="small")
