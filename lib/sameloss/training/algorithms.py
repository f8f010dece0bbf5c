"""The training algorithms by name: what each changes of ordinary pre-training (Section 2.3, App. A.4)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sameloss.errors import ParameterError
from sameloss.models.masked_model import Norm
from sameloss.training.objectives import ORDINARY, Adversary, Objective, TracePenalty

Length = Literal["ordinary", "saturating", "treated"]
"""How long a training is: as the ordinary ones, or by a factor that a preset gives where it makes the
saturated point, or goes on from it."""


@dataclass(frozen=True)
class Recipe:
    """What an algorithm changes in the pre-training of a preset."""

    objective: Objective = ORDINARY
    optimisation: dict[str, Any] = field(default_factory=dict)  # fields of `Optimisation`
    norm: Norm = "pre"
    dropout: float = 0.0
    origin: str | None = None  # the algorithm whose last checkpoint this one starts from
    length: Length = "ordinary"

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


CONSTANT_SGD = {"optimiser": "sgd", "schedule": "constant"}


def _from_saturation(objective: Objective, **optimisation: Any) -> Recipe:
    """Return plain SGD at a constant rate that goes on after exact labels, a saturated point."""
    changed = {**CONSTANT_SGD, "warmup": 0.0, "lr": 0.3, **optimisation}
    return Recipe(objective, changed, origin="soft", length="treated")


EXACT = Objective(label_noise=0.0)
"""The exact conditionals as labels: no label noise."""


NO_TREATMENT = ("sgd-noise", 0.0)
"""Name and strength of what goes on from a saturated point as all treatments do, and does nothing to it."""


def _penalised(weight: float) -> Objective:
    return replace(EXACT, trace_penalty=TracePenalty(weight, logarithm=True) if weight else None)


ALGORITHMS: dict[str, Algorithm] = {
    "adamw": Algorithm("AdamW on sampled labels, linear decay: ordinary training", lambda _: Recipe()),
    "sgd": Algorithm(
        "plain SGD, 12 % warm-up, then a constant rate (Figure 3)",
        lambda lr: Recipe(optimisation={**CONSTANT_SGD, "warmup": 0.12, "lr": lr}),
        0.5,
        "learning rate",
    ),
    "adversarial": Algorithm(
        "AdamW on the masked loss minus λ times the downstream loss of the best linear head (App. A.4)",
        lambda weight: Recipe(Objective(adversary=Adversary(weight) if weight else None)),
        0.003,
        "λ",
    ),
    "soft": Algorithm(
        "AdamW on the exact conditionals, no label noise, up to a saturated point",
        lambda _: Recipe(EXACT, length="saturating"),
    ),
    "sgd-after": Algorithm(
        "from the end of AdamW, plain SGD at a constant rate",
        lambda lr: Recipe(optimisation={**CONSTANT_SGD, "warmup": 0.0, "lr": lr}, origin="adamw"),
        0.1,
        "learning rate",
    ),
    "sgd-noise": Algorithm(
        "after exact labels, plain SGD at a constant rate, label noise scaled by s",
        lambda scale: _from_saturation(Objective(label_noise=scale)),
        1.0,
        "s",
    ),
    "noise-rate": Algorithm(
        "the same with s = 1, at another rate",
        lambda lr: _from_saturation(ORDINARY, lr=lr),
        0.1,
        "learning rate",
    ),
    "noise-batch": Algorithm(
        "the same with s = 1, of other batches",
        lambda batch: _from_saturation(ORDINARY, batch=round(batch)),
        128,
        "batch",
    ),
    "sam-after": Algorithm(
        "after exact labels, SGD without label noise on the gradient a radius uphill",
        lambda radius: _from_saturation(EXACT, sam_radius=radius),
        0.1,
        "radius",
    ),
    "penalty-after": Algorithm(
        "after exact labels, SGD without label noise plus μ times the log Fisher trace, batches of 64",
        lambda weight: _from_saturation(_penalised(weight), batch=64),
        2e-3,
        "μ",
    ),
    "sharpen-after": Algorithm(
        "after exact labels, SGD without label noise minus μ times the log Fisher trace, batches of 64",
        lambda weight: _from_saturation(_penalised(-weight), batch=64),
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


def label(name: str, strength: float | None = None, *, cooled: bool = False) -> str:
    """Return the name of an algorithm, with its strength where it has one, and whether it is cooled.

    >>> label("adversarial", 0.3), label("soft", cooled=True)
    ('adversarial, λ = 0.3', 'soft, cooled')
    """
    algorithm = ALGORITHMS[name]
    strength = algorithm.strength if strength is None else strength
    strong = [] if strength is None else [f"{algorithm.symbol} = {strength:g}"]
    return ", ".join([name, *strong, *(["cooled"] if cooled else [])])
