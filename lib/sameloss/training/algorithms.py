"""The training algorithms by name: what each changes of ordinary pre-training (Section 2.3, App. A.4)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sameloss.errors import ParameterError
from sameloss.models.masked_model import Norm
from sameloss.training.objectives import ORDINARY, Adversary, Objective, TracePenalty


@dataclass(frozen=True)
class Recipe:
    """What an algorithm changes in the pre-training of a preset."""

    objective: Objective = ORDINARY
    optimisation: dict[str, Any] = field(default_factory=dict)  # fields of `Optimisation`
    norm: Norm = "pre"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a dropout rate that is none."""
        if not 0 <= self.dropout < 1:
            raise ParameterError(f"A dropout rate lies in [0, 1); got {self.dropout:g}.")


@dataclass(frozen=True)
class Algorithm:
    """An algorithm, and the number that says how strong it is."""

    summary: str
    recipe: Callable[[float], Recipe]
    strength: float | None = None  # the default; None: it has no such number
    symbol: str = ""  # what the strength is


def _treatment(objective: Objective, **optimisation: Any) -> Recipe:
    """Return plain SGD at a constant rate, which goes on from a saturated model."""
    constant = {"optimiser": "sgd", "schedule": "constant", "warmup": 0.0, "lr": 0.3}
    return Recipe(objective, constant | optimisation)


EXACT = Objective(label_noise=0.0)
"""The exact conditionals as labels: no label noise."""


NO_TREATMENT = ("sgd-noise", 0.0)
"""Name and strength of what goes on from a saturated point as all treatments do, and does nothing to it."""


def _penalised(weight: float) -> Objective:
    return replace(EXACT, trace_penalty=TracePenalty(weight, logarithm=True) if weight else None)


ALGORITHMS: dict[str, Algorithm] = {
    "adamw": Algorithm("AdamW on sampled labels, linear decay: ordinary training", lambda _: Recipe()),
    "adversarial": Algorithm(
        "AdamW on the masked loss minus λ times the downstream loss of the best linear head (App. A.4)",
        lambda weight: Recipe(Objective(adversary=Adversary(weight) if weight else None)),
        0.003,
        "λ",
    ),
    "sgd-noise": Algorithm(
        "from a saturated model, plain SGD at a constant rate, label noise scaled by s",
        lambda scale: _treatment(Objective(label_noise=scale)),
        1.0,
        "s",
    ),
    "penalty-after": Algorithm(
        "from a saturated model, SGD without label noise plus μ times the log Fisher trace, batches of 64",
        lambda weight: _treatment(_penalised(weight), batch=64),
        2e-3,
        "μ",
    ),
    "sharpen-after": Algorithm(
        "from a saturated model, SGD without label noise minus μ times the log Fisher trace, batches of 64",
        lambda weight: _treatment(_penalised(-weight), batch=64),
        2e-3,
        "μ",
    ),
    "sam": Algorithm(
        "AdamW on the gradient a radius uphill: sharpness-aware minimisation",
        lambda radius: Recipe(optimisation={"sam_radius": radius}),
        0.05,
        "radius",
    ),
    "trace-penalty": Algorithm(
        "AdamW on the masked loss plus μ times the Fisher trace",
        lambda weight: Recipe(Objective(trace_penalty=TracePenalty(weight) if weight else None)),
        1e-4,
        "μ",
    ),
    "dropout": Algorithm("AdamW with dropout", lambda rate: Recipe(dropout=rate), 0.1, "rate"),
    "weight-decay": Algorithm(
        "AdamW with decoupled weight decay",
        lambda decay: Recipe(optimisation={"weight_decay": decay}),
        0.01,
        "decay",
    ),
    "mask-rate": Algorithm(
        "AdamW, each token masked with a probability (App. E)",
        lambda rate: Recipe(Objective(mask_rate=rate)),
        0.15,
        "rate",
    ),
    "post-ln": Algorithm(
        "AdamW, LayerNorm behind each residual sum (App. B.1)", lambda _: Recipe(norm="post")
    ),
}


def check_algorithm(name: str, strength: float | None) -> None:
    """Refuse an unknown algorithm, and a strength for an algorithm that has none.

    Raises:
        ParameterError: with what is valid.

    """
    if name not in ALGORITHMS:
        raise ParameterError(f"Unknown algorithm {name!r}; choose one of {', '.join(ALGORITHMS)}.")
    if strength is not None and ALGORITHMS[name].strength is None:
        strong = ", ".join(k for k, a in ALGORITHMS.items() if a.strength is not None)
        raise ParameterError(f"Algorithm {name} has no strength; those that have are {strong}.")
    if strength is not None:
        ALGORITHMS[name].recipe(strength)  # refuses what is out of its range


def recipe(name: str, strength: float | None = None) -> Recipe:
    """Return what an algorithm changes, at its default strength or another."""
    check_algorithm(name, strength)
    algorithm = ALGORITHMS[name]
    chosen = algorithm.strength if strength is None else strength
    return algorithm.recipe(0.0 if chosen is None else chosen)  # an algorithm without strength reads none


def label(name: str, strength: float | None = None) -> str:
    """Return the name of an algorithm, with its strength where it has one.

    >>> label("adversarial", 0.3), label("post-ln")
    ('adversarial, λ = 0.3', 'post-ln')
    """
    algorithm = ALGORITHMS[name]
    strength = algorithm.strength if strength is None else strength
    strong = [] if strength is None else [f"{algorithm.symbol} = {strength:g}"]
    return ", ".join([name, *strong])
