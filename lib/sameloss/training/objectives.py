"""What training minimises: sampled or exact labels, an adversary, a penalty; and the algorithms by name."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_counts, check_not_negative, check_positive
from sameloss.errors import ParameterError
from sameloss.languages import Language, Sentences
from sameloss.languages.masking import Batch
from sameloss.models.bilstm import without_cudnn
from sameloss.models.masked_model import MaskedLanguageModel, Norm

# The masked loss, on sampled labels or on the exact conditionals.
#
# Its targets are q + s (e_y - q), where q = Pr(. | x_-t) is the exact conditional, y the word that stood at
# the mask and s the label noise. Ordinary training has s = 1. With s = 0 the targets are the exact
# conditionals (soft labels). Any other s scales the noise of the labels and nothing else, because the mean
# of e_y is q.


class Losses(NamedTuple):
    """What is minimised, and the masked loss in it, in nats a masked token."""

    total: Float[Tensor, ""]
    masked: Float[Tensor, ""]


BatchLoss = Callable[[nn.Module, Batch], Losses]
"""The losses of a model on a part of a batch; what it draws at random, it draws in the order of its calls."""


def plain_loss(model: nn.Module, batch: Batch) -> Losses:
    """Return the mean cross-entropy of the words behind the masks (Section 2.1)."""
    logits = model(batch.masked, batch.positions, batch.lengths)
    loss = F.cross_entropy(logits, batch.targets)
    return Losses(loss, loss)


def noisy_targets(language: Language, batch: Batch, noise: float) -> Float[Tensor, "batch word"]:
    """Return q + s (e_y - q) for each masked word, s being the noise; the language is asked unless s = 1."""
    words = F.one_hot(batch.targets, language.words).double()
    if noise == 1:
        return words
    truth = true_conditionals(language, batch)
    return truth + noise * (words - truth)


def true_conditionals(language: Language, batch: Batch) -> Float[Tensor, "batch word"]:
    """Return Pr(. | what is not masked) at the masked position of each sentence."""
    rows = torch.arange(len(batch.targets), device=batch.targets.device)
    lengths = batch.lengths
    if lengths is None:
        lengths = torch.full_like(batch.targets, batch.masked.shape[1])
    return language.conditionals(Sentences(batch.masked, lengths))[rows, batch.positions]


# The adversary of App. A.4: a representation that is made bad for the downstream tasks.


class TaskExamples(NamedTuple):
    """Sentences of the downstream tasks, and their classes as 0/1 columns, all tasks side by side."""

    sentences: Sentences
    classes: Float[Tensor, "example class"]

    def rows(self, index: slice | Tensor) -> "TaskExamples":
        """Return some of the examples."""
        return TaskExamples(self.sentences.rows(index), self.classes[index])


@dataclass(frozen=True)
class Adversary:
    """The settings of an adversary; part of a run's key."""

    weight: float  # lambda of App. A.4
    sentences: int = 128  # of D1, and of D2
    ridge: float = 0.1  # of the linear head, in units of the mean squared norm of D1's features

    def __post_init__(self) -> None:
        """Refuse what is no adversary."""
        check_counts(self, "sentences")
        check_positive(self, "weight", "ridge")

    def term(
        self, generator: torch.Generator, examples: TaskExamples | None
    ) -> Callable[[nn.Module, Tensor], Float[Tensor, ""]]:
        """Draw the downstream sentences of a step, and return what is then added to the masked loss.

        Args:
            generator: of the draw.
            examples: what D1 and D2 are drawn from, without an example in both.

        Raises:
            ParameterError: where there are fewer than 2 `sentences` examples.

        """
        available = 0 if examples is None else len(examples.classes)
        if examples is None or available < 2 * self.sentences:
            raise ParameterError(
                f"The adversary needs 2 x {self.sentences} downstream sentences; there are {available}. "
                "Give it fewer (sentences), or the tasks more."
            )
        order = torch.randperm(available, generator=generator).split(self.sentences)
        first, second = (examples.rows(part) for part in order[:2])

        def gain(model: nn.Module, _: Tensor) -> Tensor:
            whole = cast(MaskedLanguageModel, model)  # other objectives than the plain one wrap no model
            return -self.weight * transfer_loss(whole, first, second, self.ridge)

        return gain


def transfer_loss(
    model: MaskedLanguageModel, first: TaskExamples, second: TaskExamples, ridge: float
) -> Float[Tensor, ""]:
    r"""Return the loss on D2 of the linear head that is best on D1, a function of the representation.

    The head is a ridge regression on the concatenated features of all tokens and a constant, so it
    has a closed form and its gradient is exact (App. A.4). With H1, H2 the features, Y1, Y2 the
    classes and K = H1 H1^T,

    $$\ell = \tfrac1{|D_2|}\lVert H_2 H_1^\top (K + \alpha I)^{-1} Y_1 - Y_2\rVert^2,\quad
    \alpha = \text{ridge}\cdot\mathrm{Tr} K / |D_1| .$$

    The ridge follows the features' scale: shrinking the representation gains the adversary nothing.
    """
    split = [len(first.classes), len(second.classes)]
    sentences = Sentences.joined([first.sentences, second.sentences])
    h1, h2 = token_features(model, sentences).split(split)
    with torch.autocast(h1.device.type, enabled=False):  # a GPU solves nothing in bfloat16
        kernel = h1 @ h1.T
        alpha = ridge * kernel.diagonal().mean()
        head = torch.linalg.solve(kernel + alpha * torch.eye(len(h1)).to(kernel), first.classes.to(kernel))
        return (h2 @ (h1.T @ head) - second.classes.to(kernel)).square().sum(1).mean()


def token_features(model: MaskedLanguageModel, sentences: Sentences) -> Float[Tensor, "example feature"]:
    """Return what a probe reads, the features of all tokens side by side, and a last column of ones.

    They can be differentiated with respect to the model's parameters.
    """
    device = next(model.parameters()).device
    tokens, lengths = (field.to(device) for field in sentences)
    inside = torch.arange(tokens.shape[1], device=device) < lengths[:, None]
    h = model.features(tokens.long(), None if inside.all() else lengths) * inside[..., None]
    return F.pad(h.flatten(1), (0, 1), value=1.0)


def one_hot_classes(
    labels: Int[Tensor, "example task"], classes: tuple[int, ...]
) -> Float[Tensor, "example class"]:
    """Return the classes of all tasks as 0/1 columns side by side."""
    return torch.cat([F.one_hot(labels[:, k], count) for k, count in enumerate(classes)], 1).float()


# A penalty on the Fisher trace of a batch: flatness as an explicit regulariser.


@dataclass(frozen=True)
class TracePenalty:
    """The settings of a penalty; part of a run's key. A negative weight rewards sharpness.

    Along plain SGD it should be of the logarithm: a force that grows with the trace ran away in some
    seeds, as a reward and as a penalty.
    """

    weight: float  # mu, of the Fisher trace
    logarithm: bool = False  # or of its logarithm

    def __post_init__(self) -> None:
        """Refuse what is no penalty."""
        if not (isfinite(self.weight) and self.weight):
            raise ParameterError(
                f"A trace penalty's weight must be a number other than 0; got {self.weight}."
            )

    def term(self, generator: torch.Generator) -> Callable[[nn.Module, Tensor], Float[Tensor, ""]]:
        """Return what a step adds to the masked loss; each call draws signs from the generator."""

        def penalty(model: nn.Module, logits: Tensor) -> Tensor:
            signs = random_signs(logits.shape, generator).to(logits)
            with torch.autocast(logits.device.type, enabled=False):  # it differentiates, in full precision
                trace = fisher_trace_along(model, logits, signs)
                return self.weight * (trace.log() if self.logarithm else trace)

        return penalty


def fisher_trace_along(
    model: nn.Module, logits: Float[Tensor, "batch word"], signs: Float[Tensor, "batch word"]
) -> Float[Tensor, ""]:
    r"""Estimate the mean Fisher trace of a batch from one backward pass, differentiably (Appendix B).

    With random signs $\epsilon$, $v = \sqrt f\odot\epsilon - f\,(\sqrt f\cdot\epsilon)$ has the
    covariance diag f - f f^T, and independent v of mean zero do not mix:
    $\mathbb E\lVert\sum_i J_i^\top v_i\rVert^2$ is the sum of the traces of J_i^T (diag f_i - f_i f_i^T) J_i.
    Nothing is held constant, so the gradient is that of the trace.
    """
    f = logits.softmax(-1)
    root = f.sqrt() * signs
    v = root - f * root.sum(-1, keepdim=True)
    gradients = torch.autograd.grad(logits, list(model.parameters()), v, create_graph=True)
    return sum((g.square().sum() for g in gradients), logits.new_zeros(())) / len(logits)


def random_signs(shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "..."]:
    """Return +1 and -1, equally likely."""
    return torch.randint(0, 2, shape, generator=generator) * 2.0 - 1


# What a pre-training minimises: the masked loss, and terms that are added to it.

Term = Callable[[nn.Module, Tensor], Float[Tensor, ""]]
"""What is added to the masked loss: a function of the model and of its logits on a part of a batch."""


@dataclass(frozen=True)
class Objective:
    """The settings of an objective; part of a run's key."""

    label_noise: float = 1.0
    mask_rate: float | None = None  # share of masked tokens; None: exactly one a sentence
    adversary: Adversary | None = None
    trace_penalty: TracePenalty | None = None
    exact_steps: int = 0  # at the start, without label noise: a quick way to saturation

    def __post_init__(self) -> None:
        """Refuse what is no objective."""
        check_not_negative(self, "label_noise")
        if self.mask_rate is not None and not 0 < self.mask_rate < 1:
            raise ParameterError(f"mask_rate must lie between 0 and 1; got {self.mask_rate}.")
        check_counts(self, "exact_steps", least=0)

    def at(self, step: int) -> "Objective":
        """Return what step 0, 1, ... minimises.

        >>> Objective(exact_steps=2).at(1).label_noise, Objective(exact_steps=2).at(2).label_noise
        (0.0, 1.0)
        """
        return replace(self, label_noise=0.0) if step < self.exact_steps else self

    def terms(self, generator: torch.Generator, examples: TaskExamples | None) -> list[Term]:
        """Return what a step adds to the masked loss, in the order of the sum."""
        terms: list[Term] = []
        if self.trace_penalty is not None:
            terms.append(self.trace_penalty.term(generator))
        if self.adversary is not None:
            terms.append(self.adversary.term(generator, examples))
        return terms


ORDINARY = Objective()
"""Sampled labels, one mask, nothing else."""


def loss_of(
    objective: Objective,
    generator: torch.Generator,
    language: Language,
    examples: TaskExamples | None = None,
) -> BatchLoss:
    """Return the loss of one step.

    Args:
        objective: its settings.
        generator: of the adversary's sentences and of the penalty's directions.
        language: whose exact conditionals are the targets where `label_noise` is not 1.
        examples: what an adversary draws from.

    """
    terms = objective.terms(generator, examples)
    if objective.label_noise == 1 and not terms:
        return plain_loss
    # A gradient is differentiated by the penalty alone.
    context = without_cudnn if objective.trace_penalty else nullcontext

    def loss(model: nn.Module, batch: Batch) -> Losses:
        with context():
            logits = model(batch.masked, batch.positions, batch.lengths)
        # In full precision exact targets keep their digits.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        targets = noisy_targets(language, batch, objective.label_noise).to(logits)
        masked = F.cross_entropy(logits, targets)
        return Losses(sum((term(model, logits) for term in terms), masked), masked)

    return loss


# The training algorithms by name: what each changes of ordinary pre-training (Section 2.3, App. A.4).


@dataclass(frozen=True)
class Recipe:
    """What an algorithm changes in the pre-training of a preset."""

    objective: Objective = ORDINARY
    optimisation: dict[str, Any] = field(default_factory=dict)  # fields of `Optimisation`
    norm: Norm = "pre"
    dropout: float = 0.0


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


def recipe(name: str, strength: float | None = None) -> Recipe:
    """Return what an algorithm changes, at its default strength or another.

    Raises:
        ParameterError: for an unknown algorithm, a strength of one that has none, or one out of its range.

    """
    if name not in ALGORITHMS:
        raise ParameterError(f"Unknown algorithm {name!r}; choose one of {', '.join(ALGORITHMS)}.")
    algorithm = ALGORITHMS[name]
    if strength is not None and algorithm.strength is None:
        strong = ", ".join(k for k, a in ALGORITHMS.items() if a.strength is not None)
        raise ParameterError(f"Algorithm {name} has no strength; those that have are {strong}.")
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
