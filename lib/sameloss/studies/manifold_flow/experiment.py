"""Settings and stored runs: SGD and Adam compared with their flows."""

from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.func import vmap

from sameloss.errors import ParameterError
from sameloss.languages import HMMSpec, LanguageSpec
from sameloss.seeds import generator_for
from sameloss.store.store import Folder, Report, Run, Store
from sameloss.studies.manifold_flow import theory
from sameloss.studies.manifold_flow.theory import SGD, Adam, LogBilinear, Population, PowerSum, onto_manifold

# Settings and languages


@dataclass(frozen=True)
class FlowSettings:
    """Learning rates, batch sizes and lengths of the runs of Section 3; times are rate² × steps / batch."""

    learning_rate: float = 0.2  # the largest of SGD with batch size 1; each next is half
    halvings: int = 3
    batches: tuple[int, ...] = (1, 4, 8)
    relative_rates: tuple[float, ...] = (1.0, 2.0, 2.0)  # of each batch size, to those of batch size 1
    replicas: int = 300  # independent runs of SGD at each rate
    horizon: float = 6.0
    finite_rate: float = 0.5  # a large rate, with increasing batch sizes
    finite_batches: tuple[int, ...] = (1, 4, 16, 64)
    adam_rates: tuple[float, ...] = (0.02, 0.01, 0.005)
    adam_forgetting: float = 0.1  # (1 - β2) / rate
    adam_batch: int = 4
    adam_epsilon: float = 0.02
    adam_replicas: int = 40
    adam_horizon: float = 0.6  # of Adam beside its flow
    end_horizon: float = 6.0  # of Adam to its end
    flat_horizon: float = 64.0  # of the flows to the flattest points
    landscape_steps: int = 8000

    def rates(self, batch: int) -> list[float]:
        """Learning rates of a batch size, largest first."""
        largest = self.learning_rate * self.relative_rates[self.batches.index(batch)]
        return [largest / 2**k for k in range(self.halvings + 1)]

    def replicas_of(self, batch: int) -> int:
        """Number of replicas at a batch size: larger batches scatter less."""
        return max(8, int(self.replicas / batch**0.5))


FLOW_LANGUAGE = HMMSpec(
    states=2, words=3, length=2, blocks=1, transition_concentration=0.1, emission_concentration=0.3,
    smoothing=0.1, seed=2,
)  # fmt: skip
"""Two tokens of three words: six masked sentences, small enough to verify Theorem 3.3."""

ZEROS_LANGUAGE = replace(
    FLOW_LANGUAGE, states=4, words=4, blocks=2, transition_concentration=0.3, emission_concentration=0.5,
    smoothing=0.0,
)  # fmt: skip
"""Half of its conditionals are zero: each word reveals the block of the other."""

# SGD and Adam beside the flows that Theorem 3.3 predicts (Section 3)


@dataclass(frozen=True)
class _OnTheManifold(Run):
    """Runs of the log-bilinear model from one minimiser, unbalanced so that it is not flat."""

    language: LanguageSpec
    rank: int
    unbalance: float
    settings: FlowSettings
    seed: int

    names: ClassVar[tuple[str, ...]]
    """Names of the tables."""

    def population(self) -> tuple[Population, LogBilinear]:
        """All masked sentences with the model, and the model."""
        weights, conditionals = theory.masked_population(self.language.build())
        contexts, words = conditionals.shape
        model = LogBilinear(contexts, words, self.rank)
        return Population(weights, conditionals, model), model

    def start(self) -> Float[Tensor, " parameter"]:
        """The minimiser where all runs begin."""
        population, model = self.population()
        return model.minimiser(population.conditionals, self.generator("start"), self.unbalance)

    def generator(self, use: str) -> torch.Generator:
        return generator_for(use, self.seed)

    def tables(self, report: Report) -> dict[str, pd.DataFrame]:
        """Compute the tables that the run stores, by name."""
        raise NotImplementedError

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        for name, table in self.tables(report).items():
            table.to_csv(folder / f"{name}.csv", index=False)

    def load(self, folder: Folder) -> dict[str, pd.DataFrame]:
        return {name: pd.read_csv(folder / f"{name}.csv") for name in self.names}

    def replicas(
        self, algorithm: SGD | Adam, batch: int, count: int, horizon: float, unit: float, use: str
    ) -> tuple[np.ndarray, Float[Tensor, "time replica parameter"]]:
        """Run replicas; return times, in units of `unit` per step, and parameters."""
        (population, _), start, steps = self.population(), self.start(), _steps(horizon, unit)
        labels = theory.sampled_labels(population, batch, count, self.generator(use))
        variance = population.fisher(start).diagonal() / batch
        state = algorithm.begin(variance, count) if isinstance(algorithm, Adam) else ()
        return unit * np.array(steps), theory.replicate(population, start, algorithm, labels, steps, state)


FLOW_TOLERANCE = 1e-6  # for flows of the sharpness, whose velocity is hardly smooth near its kinks
ROUNDING = 0.05  # of the kinks of the sharpness, when its flattest point is computed
FEWEST_STEPS = 4  # of a run that is compared with a flow
TIMES = 13  # at which replicas are evaluated, including the start


@dataclass(frozen=True)
class SGDDrift(_OnTheManifold):
    """SGD at several rates and batch sizes beside the flow of Theorem 3.3, and at a large rate."""

    names = ("coefficients", "control", "finite", "flow", "trajectories")

    def tables(self, report: Report) -> dict[str, pd.DataFrame]:
        """Integrate the flow, run all replicas, and estimate the flow's coefficient from each run."""
        s, (population, model) = self.settings, self.population()
        fine = torch.linspace(0, 3 * s.horizon, 91, dtype=torch.float64)
        curve = self._flow_trace(theory.trace_potential, fine)
        runs = [(batch, rate) for batch in s.batches for rate in s.rates(batch)]
        trajectories, coefficients = [], []
        for done, (batch, rate) in enumerate(runs, 1):
            table, traces = self._sgd(rate, batch, s.replicas_of(batch))
            trajectories.append(table.assign(batch=batch, rate=rate))
            for measured, values in traces.items():
                fit = coefficient(curve, table.time.to_numpy(), values)
                coefficients.append({"batch": batch, "rate": rate, "measured": measured, **fit})
            report(done / (2 + len(runs)), f"rate {rate:g}")
        # Gradient descent on the whole population: the same steps without noise.
        steps, labels = _steps(s.horizon, s.learning_rate**2), theory.exact_labels(population, 1)
        still = theory.replicate(population, self.start(), SGD(s.learning_rate), labels, steps)[:, 0]
        times = s.learning_rate**2 * np.array(steps)
        control = {"time": times, "trace": model.trace(still, population.weights)}
        return {
            "flow": pd.DataFrame({"time": fine, "trace": curve(fine)}),
            "trajectories": pd.concat(trajectories),
            "coefficients": pd.DataFrame(coefficients),
            "control": pd.DataFrame(control),
            "finite": self._finite(),
        }

    def _flow_trace(self, potential: theory.Potential, times: Tensor) -> CubicSpline:
        """The trace along a flow as a function of time."""
        population, _ = self.population()
        flow = theory.projected_flow(population, self.start(), potential, times)
        return CubicSpline(times, population.along(flow, torch.trace))

    def _sgd(
        self, rate: float, batch: int, count: int, *, nearby: bool = True
    ) -> tuple[pd.DataFrame, dict[str, Tensor]]:
        """Means and standard deviations over replicas, and all traces, at iterates and nearby minimisers."""
        population, model = self.population()
        unit, use = rate**2 / batch, f"SGD {rate:g} {batch}"
        times, theta = self.replicas(SGD(rate), batch, count, self.settings.horizon, unit, use)
        points = {"iterate": theta, "minimiser": onto_manifold(population, theta) if nearby else theta}
        traces = {name: model.trace(at, population.weights) for name, at in points.items()}
        columns: dict[str, Any] = {"time": times}
        for name, trace in traces.items():
            columns |= {name: trace.mean(1), f"{name}_sd": trace.std(1)}
        return pd.DataFrame(columns | {"kl": population.kl(theta).mean(1), "replicas": count}), traces

    def _finite(self) -> pd.DataFrame:
        """SGD at one large rate and increasing batch sizes, with the two flows that it might follow."""
        s = self.settings
        times = torch.linspace(0, s.horizon, TIMES, dtype=torch.float64)
        parts = [
            self._sgd(s.finite_rate, batch, s.replicas // 2, nearby=False)[0].assign(batch=batch)
            for batch in s.finite_batches
        ]
        table, finite = pd.concat(parts), theory.finite_rate_potential(s.finite_rate)
        table["vanishing"] = self._flow_trace(theory.trace_potential, times)(table.time)
        table["finite"] = self._flow_trace(finite, times)(table.time)
        return table


def _steps(horizon: float, unit: float) -> list[int]:
    """Numbers of steps at `TIMES` equal times from 0 to the horizon, each once; a step takes `unit`."""
    if horizon < FEWEST_STEPS * unit:
        raise ParameterError(
            f"A learning rate whose square over the batch size is {unit:g} leaves fewer than {FEWEST_STEPS} "
            f"steps in the time {horizon:g} of the flow; choose a smaller rate, lr."
        )
    return sorted({round(time / unit) for time in np.linspace(0, horizon, TIMES)})


def coefficient(
    curve: CubicSpline, times: np.ndarray, values: Tensor, known: float = 0.25
) -> dict[str, float]:
    r"""Estimate c such that the flow of $c\,\mathrm{Tr}\,H$ passes through the replicas' mean trace.

    A flow with another coefficient is the same flow on another time scale, which is fitted by least squares
    over all times. The standard error is that of the mean of the replicas' linearised estimates.

    Args:
        curve: the quantity along the flow of coefficient `known`.
        times: at which replicas are evaluated.
        values: the quantity, times in rows and replicas in columns.
        known: the coefficient of the curve.

    """
    traces = values.numpy()
    mean = traces.mean(1)

    def misfit(stretch: float) -> float:
        return float(((curve(stretch * times) - mean) ** 2).sum())

    bounds = (0.0, float(curve.x[-1] / times[-1]))
    stretch = minimize_scalar(misfit, bounds=bounds, method="bounded", options={"xatol": 1e-7}).x
    slope = times * curve(stretch * times, 1) / known
    estimates = slope @ (traces - mean[:, None]) / (slope @ slope)
    error = float(estimates.std(ddof=1) / len(estimates) ** 0.5)
    return {"coefficient": float(known * stretch), "standard_error": error}


@dataclass(frozen=True)
class AdamDrift(_OnTheManifold):
    """Adam beside its own flow, and the ends of Adam and SGD beside the flattest points by two measures."""

    names = ("coefficients", "flows", "trajectories")

    def tables(self, report: Report) -> dict[str, pd.DataFrame]:
        """Run Adam along its flow and to the end, SGD to its end, and the flows to the flattest points."""
        s, start = self.settings, self.start()
        fine = torch.linspace(0, 1.5 * s.adam_horizon, 73, dtype=torch.float64)
        potential = theory.adam_potential(s.adam_batch, s.adam_epsilon)
        metric = theory.adam_metric(s.adam_batch, s.adam_epsilon)
        flows = [self._flow("Adam", start, potential, fine, metric)]
        trajectories, coefficients = [], []
        for rate in s.adam_rates:
            table, _, trace = self._adam(rate, s.adam_horizon)
            trajectories.append(table.assign(algorithm="Adam"))
            fit = coefficient(CubicSpline(fine, flows[0].trace), table.time.to_numpy(), trace, 0.5)
            coefficients.append({"rate": rate, **fit})
            report(0.2 * len(trajectories), f"Adam, rate {rate:g}")
        table, ends, _ = self._adam(s.adam_rates[0], s.end_horizon)
        unit = s.learning_rate**2 / s.adam_batch
        sgd, _, _ = self._measured(SGD(s.learning_rate), 4 * s.horizon, unit)
        trajectories += [table.assign(algorithm="Adam, to its end"), sgd.assign(algorithm="SGD, to its end")]
        far = torch.linspace(0, s.flat_horizon**0.5, 49, dtype=torch.float64).square()
        flows.append(self._flow("trace", start, theory.trace_potential, far))
        # This flow ends at the flattest point by the sharpness, but for rounded kinks; it begins close by.
        flows.append(self._flow("sharpness", ends[0], theory.adam_potential(1, ROUNDING), far[far <= 20]))
        return {
            "flows": pd.concat(flows),
            "trajectories": pd.concat(trajectories),
            "coefficients": pd.DataFrame(coefficients),
        }

    def _flow(
        self, name: str, start: Tensor, potential: theory.Potential, times: Tensor,
        metric: theory.Metric | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        """Trace and sharpness along a flow, a row per time."""
        population, _ = self.population()
        flow = theory.projected_flow(population, start, potential, times, metric, FLOW_TOLERANCE)
        measures = {"trace": torch.trace, "sharpness": theory.adam_sharpness}
        values = {measure: population.along(flow, of) for measure, of in measures.items()}
        return pd.DataFrame({"flow": name, "time": times, **values})

    def _adam(self, rate: float, horizon: float) -> tuple[pd.DataFrame, Tensor, Tensor]:
        """Run Adam with a memory that, as the rate falls, grows in steps but shrinks in flow time."""
        s = self.settings
        algorithm = Adam(rate, beta2=1 - s.adam_forgetting * rate, epsilon=s.adam_epsilon)
        return self._measured(algorithm, horizon, rate**2)

    def _measured(
        self, algorithm: SGD | Adam, horizon: float, unit: float
    ) -> tuple[pd.DataFrame, Tensor, Tensor]:
        """Means with standard errors, each replica's last nearby minimiser, and all traces."""
        s, (population, model) = self.settings, self.population()
        times, theta = self.replicas(algorithm, s.adam_batch, s.adam_replicas, horizon, unit, f"{algorithm}")
        close = onto_manifold(population, theta)
        sharpness = vmap(vmap(lambda theta: theory.adam_sharpness(population.fisher(theta))))(close)
        trace = model.trace(close, population.weights)
        columns = {"time": times, "rate": algorithm.rate}
        for name, values in (("trace", trace), ("sharpness", sharpness)):
            columns |= {name: values.mean(1), f"{name}_se": values.std(1) / s.adam_replicas**0.5}
        return pd.DataFrame(columns), close[-1], trace


@dataclass(frozen=True)
class Landscape(Run):
    """SGD on a loss of two parameters, and on the smaller model that has only the first (Figure 4)."""

    probability: float  # of the first of two words
    starts: tuple[tuple[float, float], ...]
    names: tuple[str, ...]
    rate: float
    batch: int
    steps: int
    seed: int

    def population(self) -> Population:
        """The single context with its two words, and the model."""
        words = torch.tensor([[self.probability, 1 - self.probability]], dtype=torch.float64)
        return Population(torch.ones(1, dtype=torch.float64), words, PowerSum())

    def minimisers(self) -> pd.DataFrame:
        """Points (x, y) with the least loss, and the trace of the Hessian there."""
        angle = torch.linspace(-0.35, torch.pi / 2 + 0.35, 120, dtype=torch.float64)
        logit = log(self.probability / (1 - self.probability))
        radius = (logit / (angle.cos() ** 3 + angle.sin() ** 3)) ** (1 / 3)
        points = radius[:, None] * torch.stack([angle.cos(), angle.sin()], -1)
        x, y = points.T
        return pd.DataFrame({"x": x, "y": y, "trace": PowerSum().trace(points, self.probability)})

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Run one replica from each start."""
        population = self.population()
        steps = np.unique(np.r_[0:40, np.linspace(40, self.steps, 800).astype(int)]).tolist()
        generator = generator_for("landscape", self.seed)
        labels = theory.sampled_labels(population, self.batch, len(self.starts), generator)
        starts = torch.tensor(self.starts, dtype=torch.float64)
        paths = theory.replicate(population, starts, SGD(self.rate), labels, steps)
        parts = []
        for name, theta in zip(self.names, paths.unbind(1), strict=True):
            close = onto_manifold(population, theta)
            trace = PowerSum().trace(close, self.probability)
            columns = {"x": theta[:, 0], "y": theta[:, 1], "kl": population.kl(theta), "trace": trace}
            columns |= {"near_x": close[:, 0], "near_y": close[:, 1]}
            parts.append(pd.DataFrame({"model": name, "step": steps, **columns}))
        pd.concat(parts).to_csv(folder / "path.csv", index=False)

    def load(self, folder: Folder) -> pd.DataFrame:
        """One row per step: the parameters, kl (nats), and the nearby minimiser with its trace."""
        return pd.read_csv(folder / "path.csv")
