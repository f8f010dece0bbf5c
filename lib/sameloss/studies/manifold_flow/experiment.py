"""The configuration of this study and its stored runs: SGD and Adam beside their flows."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.func import vmap

from sameloss.errors import ManifoldError, ParameterError
from sameloss.languages import HMMSpec, LanguageSpec
from sameloss.runs.stage import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Run, Store
from sameloss.studies.manifold_flow import theory
from sameloss.studies.manifold_flow.theory import SGD, Adam, LogBilinear, Population, PowerSum, onto_manifold
from sameloss.studies.parameters import PRESETS as PRESET_NAMES
from sameloss.studies.parameters import Config, param

# How much is run along the minimisers, and the tiny languages it is run on.


@dataclass(frozen=True)
class FlowConfig(Config):
    """Rates, batches and lengths of the runs of Section 3; times are rate² × steps / batch."""

    key_name: ClassVar[str] = "FlowSettings"

    learning_rate: float = param(
        "the largest of SGD with batch size 1; each next is half; None: 0.2", 0.2, kind=float, example="0.1"
    )
    halvings: int = 3
    batches: tuple[int, ...] = (1, 4, 8)
    relative_rates: tuple[float, ...] = (1.0, 2.0, 2.0)  # of each batch, to those of batch 1
    replicas: int = param(  # of batch B, this over its root
        "independent runs of SGD at each rate; None: the preset's", 300, most=100_000
    )
    horizon: float = 6.0
    finite_rate: float = 0.5  # not small, with ever larger batches
    finite_batches: tuple[int, ...] = (1, 4, 16, 64)
    adam_rates: tuple[float, ...] = (0.02, 0.01, 0.005)
    adam_forgetting: float = 0.1  # 1 - β2, over the rate
    adam_batch: int = 4
    adam_epsilon: float = 0.02
    adam_replicas: int = 40
    adam_horizon: float = 0.6  # of Adam beside its flow
    end_horizon: float = 6.0  # of Adam to its end
    flat_horizon: float = 64.0  # of the flows to the flattest points
    landscape_steps: int = 8000

    def rates(self, batch: int) -> list[float]:
        """Return a batch's learning rates, largest first."""
        largest = self.learning_rate * self.relative_rates[self.batches.index(batch)]
        return [largest / 2**k for k in range(self.halvings + 1)]

    def replicas_of(self, batch: int) -> int:
        """Return how many replicas: a larger batch scatters less."""
        return max(8, int(self.replicas / batch**0.5))


FLOW_LANGUAGE = HMMSpec(
    states=2,
    words=3,
    length=2,
    blocks=1,
    transition_concentration=0.1,
    emission_concentration=0.3,
    smoothing=0.1,
    seed=2,
)
"""Two tokens of three words: six masked sentences, on which Theorem 3.3 can be watched."""

ZEROS_LANGUAGE = replace(
    FLOW_LANGUAGE, states=4, words=4, blocks=2, transition_concentration=0.3, emission_concentration=0.5,
    smoothing=0.0,
)  # fmt: skip
"""Half of its conditionals are zero: a word tells the block of the other."""

SMOOTH_LANGUAGE = replace(ZEROS_LANGUAGE, smoothing=FLOW_LANGUAGE.smoothing)
"""The same without zeros."""


PRESETS = {name: FlowConfig(name) for name in PRESET_NAMES} | {
    "smoke": FlowConfig(
        "smoke",
        halvings=2,
        batches=(1, 4),
        relative_rates=(1.0, 2.0),
        replicas=60,
        horizon=2.0,
        finite_batches=(1, 4, 16),
        adam_rates=(0.02, 0.01),
        adam_replicas=16,
        adam_horizon=0.1,
        end_horizon=1.0,
        flat_horizon=4.0,
        landscape_steps=2000,
    ),
    # Without SGD's smallest rates, which take most of its steps. The limit of Adam needs all of its three.
    "laptop": FlowConfig("laptop", halvings=2),
}
"""All but the first two are alike: tiny models need no more than a laptop."""


# The runs on instances of Theorem 3.3: SGD and Adam beside the flows they should follow (Section 3).


@dataclass(frozen=True)
class _OnTheManifold(Run):
    """A run of the log-bilinear model from one minimiser, unbalanced so that it is not flat."""

    language: LanguageSpec
    rank: int
    unbalance: float
    settings: FlowConfig
    seed: int

    def population(self) -> tuple[Population, LogBilinear]:
        """Return everything that can be masked, and the model of it."""
        weights, conditionals = theory.masked_population(self.language.build())
        contexts, words = conditionals.shape
        model = LogBilinear(contexts, words, self.rank)
        return Population(weights, conditionals, model), model

    def start(self) -> Float[Tensor, " parameter"]:
        """Return where all begin."""
        population, model = self.population()
        return model.minimiser(population.conditionals, self.generator("start"), self.unbalance)

    def generator(self, use: str) -> torch.Generator:
        """Return random numbers for one use."""
        return generator_for(use, self.seed)

    def tables(self, report: Report) -> dict[str, pd.DataFrame]:
        """Compute the tables by name."""
        raise NotImplementedError

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Store them."""
        for name, table in self.tables(report).items():
            table.to_csv(folder / f"{name}.csv", index=False)

    def load(self, folder: Path) -> dict[str, pd.DataFrame]:
        """Return the tables by name."""
        return {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}

    def replicas(
        self, algorithm: SGD | Adam, batch: int, count: int, horizon: float, unit: float, use: str
    ) -> tuple[np.ndarray, Float[Tensor, "time replica parameter"]]:
        """Run replicas on labels drawn for one use; return times, which are steps × unit, and parameters."""
        (population, _), start, steps = self.population(), self.start(), _steps(horizon, unit)
        labels = theory.sampled_labels(population, batch, count, self.generator(use))
        variance = population.fisher(start).diagonal() / batch
        seen = theory.replicate(population, start, algorithm, labels, steps, variance)
        return unit * np.array(steps), seen.theta


FLOW_TOLERANCE = 1e-6  # of the flows of the sharpness, whose velocity is barely smooth near its kinks
ROUNDING = 0.05  # of the kinks of the sharpness, where its flattest point is looked for
FEWEST_STEPS = 4  # of a run that is compared with a flow
TIMES = 13  # at which replicas are looked at, the start among them


@dataclass(frozen=True)
class SGDDrift(_OnTheManifold):
    """SGD at several rates and batches beside the flow of Theorem 3.3, and at a rate that is not small."""

    def tables(self, report: Report) -> dict[str, pd.DataFrame]:
        """Integrate the flow, run all replicas, and estimate the flow's coefficient from each run."""
        s, (population, model) = self.settings, self.population()
        fine = torch.linspace(0, 3 * s.horizon, 91, dtype=torch.float64)
        flow = theory.projected_flow(population, self.start(), theory.trace_potential(), fine)
        curve = CubicSpline(fine, flow.along(population, torch.trace))
        trajectories, coefficients = [], []
        for batch in s.batches:
            for rate in s.rates(batch):
                table, traces = self._sgd(rate, batch, s.replicas_of(batch))
                trajectories.append(table.assign(batch=batch, rate=rate))
                for measured, values in traces.items():
                    found = coefficient(curve, table.time.to_numpy(), values)
                    coefficients.append({"batch": batch, "rate": rate, "measured": measured, **found})
                report(len(trajectories) / (2 + len(s.batches) * (s.halvings + 1)), f"rate {rate:g}")
        # Gradient descent on the whole population: the same steps without noise.
        steps, labels = _steps(s.horizon, s.learning_rate**2), theory.exact_labels(population, 1)
        still = theory.replicate(population, self.start(), SGD(s.learning_rate), labels, steps).theta[:, 0]
        control = {
            "time": s.learning_rate**2 * np.array(steps),
            "trace": model.trace(still, population.weights),
        }
        return {
            "flow": pd.DataFrame({"time": fine, "trace": curve(fine)}),
            "trajectories": pd.concat(trajectories),
            "coefficients": pd.DataFrame(coefficients),
            "control": pd.DataFrame(control),
            "finite": self._finite(),
        }

    def _sgd(
        self, rate: float, batch: int, count: int, *, nearby: bool = True
    ) -> tuple[pd.DataFrame, dict[str, Tensor]]:
        """Return means and standard deviations over replicas, and each one's trace, also close by on Γ."""
        population, model = self.population()
        unit, use = rate**2 / batch, f"SGD {rate:g} {batch}"
        times, theta = self.replicas(SGD(rate), batch, count, self.settings.horizon, unit, use)
        points = {"iterate": theta, "minimiser": onto_manifold(population, theta) if nearby else theta}
        traces = {name: model.trace(at, population.weights) for name, at in points.items()}
        columns = {"time": times, "kl": population.kl(theta).mean(1), "replicas": count}
        for name, trace in traces.items():
            columns |= {name: trace.mean(1), f"{name}_sd": trace.std(1)}
        return pd.DataFrame(columns), traces

    def _finite(self) -> pd.DataFrame:
        """Return SGD at one large rate and ever larger batches, with the two flows it might follow."""
        s, (population, _) = self.settings, self.population()
        times = torch.linspace(0, s.horizon, TIMES, dtype=torch.float64)
        parts = [
            self._sgd(s.finite_rate, batch, s.replicas // 2, nearby=False)[0].assign(batch=batch)
            for batch in s.finite_batches
        ]
        table = pd.concat(parts)
        potentials = {
            "vanishing": theory.trace_potential(),
            "finite": theory.finite_rate_potential(s.finite_rate),
        }
        for name, potential in potentials.items():
            flow = theory.projected_flow(population, self.start(), potential, times)
            table[name] = CubicSpline(times, flow.along(population, torch.trace))(table.time)
        return table

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        s = self.settings
        steps = sum(s.horizon * batch / rate**2 for batch in s.batches for rate in s.rates(batch))
        return 3 + steps * (2e-4 + 3e-7 * s.replicas)


def _steps(horizon: float, unit: float) -> list[int]:
    """Return steps at about equal times, fewer where there are not as many."""
    if horizon < FEWEST_STEPS * unit:
        raise ParameterError(
            f"A learning rate whose square over the batch size is {unit:g} leaves fewer than {FEWEST_STEPS} "
            f"steps in the time {horizon:g} of the flow; choose a smaller learning_rate."
        )
    return sorted({round(time / unit) for time in np.linspace(0, horizon, TIMES)})


def coefficient(
    curve: CubicSpline, times: np.ndarray, values: Tensor, known: float = 0.25
) -> dict[str, float]:
    r"""Estimate c such that the flow of $c\,\mathrm{Tr}\,H$ passes through the replicas' mean trace.

    A flow with another coefficient is the same flow in another time, here by least squares over all
    times. The standard error is that of the mean of the replicas' linearised estimates.

    Args:
        curve: the quantity along the flow of coefficient `known`.
        times: at which replicas are looked at.
        values: the quantity, one row a time and one column a replica.
        known: the coefficient of the curve.

    """
    seen = values.numpy()
    mean = seen.mean(1)

    def misfit(stretch: float) -> float:
        return float(((curve(stretch * times) - mean) ** 2).sum())

    bounds = (0.0, float(curve.x[-1] / times[-1]))
    stretch = minimize_scalar(misfit, bounds=bounds, method="bounded", options={"xatol": 1e-7}).x
    slope = times * curve(stretch * times, 1) / known
    estimates = slope @ (seen - mean[:, None]) / (slope @ slope)
    error = float(estimates.std(ddof=1) / len(estimates) ** 0.5)
    return {"coefficient": float(known * stretch), "standard_error": error}


@dataclass(frozen=True)
class AdamDrift(_OnTheManifold):
    """Adam beside its own flow, and where it and SGD end beside the flattest points by two measures."""

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
            found = coefficient(CubicSpline(fine, flows[0].trace), table.time.to_numpy(), trace, 0.5)
            coefficients.append({"rate": rate, **found})
            report(0.2 * len(trajectories), f"Adam, rate {rate:g}")
        table, ends, _ = self._adam(s.adam_rates[0], s.end_horizon)
        unit = s.learning_rate**2 / s.adam_batch
        sgd, _, _ = self._measured(SGD(s.learning_rate), 4 * s.horizon, unit)
        trajectories += [table.assign(algorithm="Adam, to its end"), sgd.assign(algorithm="SGD, to its end")]
        far = torch.linspace(0, s.flat_horizon**0.5, 49, dtype=torch.float64).square()
        flows.append(self._flow("trace", start, theory.trace_potential(), far))
        # The minimiser is that of the sharpness but for rounded kinks; from afar it would take long.
        flows.append(self._flow("sharpness", ends[0], theory.adam_potential(1, ROUNDING), far[far <= 20]))
        return {
            "flows": pd.concat(flows),
            "trajectories": pd.concat(trajectories),
            "coefficients": pd.DataFrame(coefficients),
        }

    def _flow(
        self,
        name: str,
        start: Tensor,
        potential: theory.Potential,
        times: Tensor,
        metric: theory.Metric | None = None,
    ) -> pd.DataFrame:
        population, _ = self.population()
        flow = theory.projected_flow(population, start, potential, times, metric, FLOW_TOLERANCE)
        measures = {"trace": torch.trace, "sharpness": theory.adam_sharpness}
        values = {measure: flow.along(population, of) for measure, of in measures.items()}
        return pd.DataFrame({"flow": name, "time": times, **values})

    def _adam(self, rate: float, horizon: float) -> tuple[pd.DataFrame, Tensor, Tensor]:
        """Run Adam with a memory that grows as the rate falls, but shrinks in the time of the flow."""
        s = self.settings
        algorithm = Adam(rate, beta2=1 - s.adam_forgetting * rate, epsilon=s.adam_epsilon)
        return self._measured(algorithm, horizon, rate**2)

    def _measured(
        self, algorithm: SGD | Adam, horizon: float, unit: float
    ) -> tuple[pd.DataFrame, Tensor, Tensor]:
        """Return means with standard errors, each replica's last minimiser close by, and all traces."""
        s, (population, model) = self.settings, self.population()
        seen = self.replicas(algorithm, s.adam_batch, s.adam_replicas, horizon, unit, f"{algorithm}")
        times, close = seen[0], onto_manifold(population, seen[1])
        sharpness = vmap(vmap(lambda theta: theory.adam_sharpness(population.fisher(theta))))(close)
        trace = model.trace(close, population.weights)
        columns = {"time": times, "rate": algorithm.rate}
        for name, values in (("trace", trace), ("sharpness", sharpness)):
            columns |= {name: values.mean(1), f"{name}_se": values.std(1) / s.adam_replicas**0.5}
        return pd.DataFrame(columns), close[-1], trace

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        s = self.settings
        times = [(s.adam_horizon, rate) for rate in s.adam_rates] + [(s.end_horizon, s.adam_rates[0])]
        steps = sum(horizon / rate**2 for horizon, rate in times)
        return 3 + steps * (2e-4 + 3e-7 * s.adam_replicas)


@dataclass(frozen=True)
class ZeroConditionals(Tabled):
    """Gradient flow on the exact loss of languages with and without zeros among their conditionals."""

    languages: tuple[LanguageSpec, ...]
    seed: int
    decades: int = 6

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Follow each from one random start, with an implicit method."""
        pd.concat(map(self._descent, self.languages)).to_csv(folder / TABLE, index=False)

    def _descent(self, spec: LanguageSpec) -> pd.DataFrame:
        """Return one row a time: kl (nats), norm of the parameters, largest spread of logits."""
        weights, conditionals = theory.masked_population(spec.build())
        contexts, words = conditionals.shape
        model = LogBilinear(contexts, words, rank=words)
        population = Population(weights, conditionals, model)
        generator = generator_for("zeros", self.seed)
        start = 0.5 * torch.randn(model.parameters, dtype=torch.float64, generator=generator)
        times = np.logspace(0, self.decades, 2 * self.decades + 1)
        solved = solve_ivp(
            lambda _, theta: -population.gradient(torch.from_numpy(theta)).numpy(),
            (0.0, times[-1]),
            start.numpy(),
            method="BDF",
            jac=lambda _, theta: -population.hessian(torch.from_numpy(theta)).numpy(),
            t_eval=times,
            rtol=1e-6,
            atol=1e-9,
        )
        if not solved.success:
            raise ManifoldError(f"The gradient flow has no solution up to {times[-1]:g} ({solved.message}).")
        theta = torch.from_numpy(solved.y.T.copy())
        logits = model(theta)
        return pd.DataFrame(
            {
                "zeros": int((conditionals == 0).sum()),
                "time": times,
                "kl": population.kl(theta),
                "norm": theta.norm(dim=-1),
                "spread": (logits.amax(-1) - logits.amin(-1)).amax(-1),
            }
        )


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
        """Return the one context with its two words, and the model."""
        words = torch.tensor([[self.probability, 1 - self.probability]], dtype=torch.float64)
        return Population(torch.ones(1, dtype=torch.float64), words, PowerSum())

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Follow one replica from each start."""
        population, parts = self.population(), []
        seen = np.unique(np.r_[0:40, np.linspace(40, self.steps, 800).astype(int)]).tolist()
        generator = generator_for("landscape", self.seed)
        labels = theory.sampled_labels(population, self.batch, len(self.starts), generator)
        starts = torch.tensor(self.starts, dtype=torch.float64)
        paths = theory.replicate(population, starts, SGD(self.rate), labels, seen).theta
        for name, theta in zip(self.names, paths.unbind(1), strict=True):
            close = onto_manifold(population, theta)
            trace = PowerSum().trace(close, self.probability)
            columns = {"x": theta[:, 0], "y": theta[:, 1], "kl": population.kl(theta), "trace": trace}
            columns |= {"near_x": close[:, 0], "near_y": close[:, 1]}
            parts.append(pd.DataFrame({"model": name, "step": seen, **columns}))
        pd.concat(parts).to_csv(folder / "path.csv", index=False)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row a step looked at: the parameters, kl (nats), and trace at the minimiser close by."""
        return pd.read_csv(folder / "path.csv")
