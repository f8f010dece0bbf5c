"""Training objectives: masked loss, label noise, adversary, trace penalty; and the algorithms by name."""

from collections.abc import Callable, Sequence
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

# The masked loss.
#
# Its targets are q + s (e_y - q), where q = Pr(. | x_-t) is the exact conditional, y the masked word and s
# the label noise. Ordinary training has s = 1; s = 0 gives the exact conditionals (soft labels). Since e_y
# has the mean q, s scales the noise of the labels and nothing else.


class Losses(NamedTuple):
    """The objective, and the masked loss contained in it, in nats per masked token."""

    total: Float[Tensor, ""]
    masked: Float[Tensor, ""]


Term = Callable[[nn.Module, Tensor], Float[Tensor, ""]]
"""A term added to the masked loss: a function of the model and its logits on a micro-batch."""

BatchLoss = Callable[[nn.Module, Batch], Losses]
"""The losses of a model on a micro-batch; successive calls may draw from one random stream."""


def plain_loss(model: nn.Module, batch: Batch) -> Losses:
    """Mean cross-entropy of the masked words (Section 2.1)."""
    logits = model(batch.masked, batch.positions, batch.lengths)
    loss = F.cross_entropy(logits, batch.targets)
    return Losses(loss, loss)


def noisy_targets(language: Language, batch: Batch, noise: float) -> Float[Tensor, "batch word"]:
    """Compute q + s (e_y - q) for each masked word, where s is the noise and q = Pr(. | unmasked tokens)."""
    words = F.one_hot(batch.targets, language.words).double()
    if noise == 1:
        return words
    lengths = batch.lengths
    if lengths is None:
        lengths = torch.full_like(batch.targets, batch.masked.shape[1])
    conditionals = language.conditionals(Sentences(batch.masked, lengths))
    truth = conditionals[torch.arange(len(words), device=words.device), batch.positions]
    return truth + noise * (words - truth)


# The adversary of App. A.4, which makes the representation bad for the downstream tasks.


class TaskExamples(NamedTuple):
    """Sentences of the downstream tasks, and their classes as concatenated one-hot vectors."""

    sentences: Sentences
    classes: Float[Tensor, "example class"]

    @classmethod
    def labelled(
        cls, sentences: Sentences, labels: Int[Tensor, "example task"], classes: Sequence[int]
    ) -> "TaskExamples":
        """Encode the labels of tasks with the given numbers of classes."""
        one_hot = [F.one_hot(labels[:, task], count) for task, count in enumerate(classes)]
        return cls(sentences, torch.cat(one_hot, 1).float())

    def rows(self, index: slice | Tensor) -> "TaskExamples":
        """Select some of the examples."""
        return TaskExamples(self.sentences.rows(index), self.classes[index])


@dataclass(frozen=True)
class Adversary:
    """The settings of an adversary; part of a run's key."""

    weight: float  # lambda of App. A.4
    sentences: int = 128  # in D1 and in D2
    ridge: float = 0.1  # of the linear head, relative to the mean squared norm of D1's features

    def __post_init__(self) -> None:
        check_counts(self, "sentences")
        check_positive(self, "weight", "ridge")

    def term(self, generator: torch.Generator, examples: TaskExamples | None) -> Term:
        """Draw disjoint D1 and D2 for a step, and return the adversary's term of the objective.

        Raises:
            ParameterError: if there are fewer than 2 `sentences` examples.

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
            unwrapped = cast(MaskedLanguageModel, model)  # only ordinary training wraps the model
            return -self.weight * transfer_loss(unwrapped, first, second, self.ridge)

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
    """Compute the input of a probe, differentiably: concatenated features of all tokens, and a constant 1."""
    tokens, lengths = sentences = sentences.to(next(model.parameters()).device)
    inside = sentences.inside
    h = model.features(tokens.long(), None if inside.all() else lengths) * inside[..., None]
    return F.pad(h.flatten(1), (0, 1), value=1.0)


# A penalty on the Fisher trace: flatness as an explicit regulariser.


@dataclass(frozen=True)
class TracePenalty:
    """The settings of a penalty; part of a run's key. A negative weight rewards sharpness.

    With plain SGD the logarithm should be penalised: the gradient of the trace itself grows with the trace,
    and some seeds diverged, with either sign of the weight.
    """

    weight: float  # mu
    logarithm: bool = False  # whether log Tr F is penalised instead of Tr F

    def __post_init__(self) -> None:
        if not (isfinite(self.weight) and self.weight):
            raise ParameterError(f"A trace penalty's weight must be finite and not 0; got {self.weight}.")

    def term(self, generator: torch.Generator) -> Term:
        """Return the penalty, which draws new signs from the generator in each call."""

        def penalty(model: nn.Module, logits: Tensor) -> Tensor:
            signs = random_signs(logits.shape, generator).to(logits)
            with torch.autocast(logits.device.type, enabled=False):  # second derivatives in full precision
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
    """Draw +1 and -1 with equal probability."""
    return torch.randint(0, 2, shape, generator=generator) * 2.0 - 1


# The objective: the masked loss plus terms.


@dataclass(frozen=True)
class Objective:
    """The settings of an objective; part of a run's key."""

    label_noise: float = 1.0
    mask_rate: float | None = None  # fraction of masked tokens; None: one token per sentence
    adversary: Adversary | None = None
    trace_penalty: TracePenalty | None = None

    def __post_init__(self) -> None:
        check_not_negative(self, "label_noise")
        if self.mask_rate is not None and not 0 < self.mask_rate < 1:
            raise ParameterError(f"mask_rate must lie between 0 and 1; got {self.mask_rate}.")

    @property
    def plain(self) -> bool:
        """Whether the loss is that of sampled labels alone."""
        return self.label_noise == 1 and self.trace_penalty is None and self.adversary is None


ORDINARY = Objective()
"""The masked loss with sampled labels and one mask per sentence."""


def loss_of(
    objective: Objective, generator: torch.Generator, language: Language, examples: TaskExamples | None = None
) -> BatchLoss:
    """Make the loss function of one step.

    Args:
        objective: its settings.
        generator: for the adversary's sentences and the penalty's signs.
        language: provides exact conditionals if `label_noise` is not 1.
        examples: what an adversary draws from.

    """
    if objective.plain:
        return plain_loss
    terms: list[Term] = []
    if objective.trace_penalty is not None:
        terms.append(objective.trace_penalty.term(generator))
    if objective.adversary is not None:
        terms.append(objective.adversary.term(generator, examples))
    context = without_cudnn if objective.trace_penalty else nullcontext  # cuDNN lacks second derivatives

    def loss(model: nn.Module, batch: Batch) -> Losses:
        with context():
            logits = model(batch.masked, batch.positions, batch.lengths)
        # In bfloat16, exact targets would be rounded.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        targets = noisy_targets(language, batch, objective.label_noise).to(logits)
        masked = F.cross_entropy(logits, targets)
        return Losses(sum((term(model, logits) for term in terms), masked), masked)

    return loss


# The training algorithms by name (Section 2.3, App. A.4).


@dataclass(frozen=True)
class Recipe:
    """How an algorithm changes ordinary pre-training."""

    objective: Objective = ORDINARY
    optimisation: dict[str, Any] = field(default_factory=dict)  # fields of `Optimisation`
    norm: Norm = "pre"
    dropout: float = 0.0


@dataclass(frozen=True)
class Algorithm:
    """An algorithm, and the parameter that sets its strength."""

    summary: str
    recipe: Callable[[float], Recipe]
    strength: float | None = None  # the default; None: the algorithm has no such parameter
    symbol: str = ""  # of the strength


def _treatment(objective: Objective, **optimisation: Any) -> Recipe:
    """Plain SGD at a constant rate, starting from a saturated model."""
    constant = {"optimiser": "sgd", "schedule": "constant", "warmup": 0.0, "lr": 0.3}
    return Recipe(objective, constant | optimisation)


EXACT = Objective(label_noise=0.0)
"""The exact conditionals as labels."""


NO_TREATMENT = ("sgd-noise", 0.0)
"""Name and strength of the control of treatments of a saturated model: the same SGD without label noise."""


def _penalised(weight: float) -> Objective:
    return replace(EXACT, trace_penalty=TracePenalty(weight, logarithm=True))


ALGORITHMS: dict[str, Algorithm] = {
    "adamw": Algorithm(
        "AdamW, linear decay: the baseline (on exact conditionals, unless a preset says otherwise)",
        lambda _: Recipe(),
    ),
    "adversarial": Algorithm(
        "AdamW on the masked loss minus λ times the downstream loss of the best linear head (App. A.4)",
        lambda weight: Recipe(Objective(adversary=Adversary(weight))),
        0.003,
        "λ",
    ),
    "sgd-noise": Algorithm(
        "from a trained model, plain SGD at a constant rate, label noise scaled by s",
        lambda scale: _treatment(Objective(label_noise=scale)),
        1.0,
        "s",
    ),
    "penalty-after": Algorithm(
        "from a trained model, SGD without label noise plus μ times the log Fisher trace, batches of 64",
        lambda weight: _treatment(_penalised(weight), batch=64),
        2e-3,
        "μ",
    ),
    "sharpen-after": Algorithm(
        "from a trained model, SGD without label noise minus μ times the log Fisher trace, batches of 64",
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
        lambda weight: Recipe(Objective(trace_penalty=TracePenalty(weight))),
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
    """Look up an algorithm, at its default strength or another; see `ALGORITHMS`."""
    algorithm = ALGORITHMS[name]
    return algorithm.recipe(cast(float, algorithm.strength if strength is None else strength))


def label(name: str, strength: float | None = None) -> str:
    """Name of an algorithm, with its strength if it has one.

    >>> label("adversarial", 0.3), label("post-ln")
    ('adversarial, λ = 0.3', 'post-ln')
    """
    algorithm = ALGORITHMS[name]
    strength = algorithm.strength if strength is None else strength
    return name if strength is None else f"{name}, {algorithm.symbol} = {strength:g}"
