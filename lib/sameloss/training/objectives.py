"""What a pre-training minimises: sampled or exact labels, with or without an adversary or a penalty.

Every objective starts from the masked loss. Its targets are q + s (e_y - q), where q = Pr(. | x_-t)
is the exact conditional, y the word that stood there and s the `label_noise`: 1 is ordinary training,
0 trains on the exact conditionals (soft labels), anything else scales the noise of the labels alone,
because the mean of e_y is q.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.errors import ParameterError
from sameloss.languages import Language, Sentences
from sameloss.languages.masking import Batch
from sameloss.models.lstm_autograd import without_cudnn


@dataclass(frozen=True)
class Objective:
    """The settings of an objective; part of a run's key."""

    label_noise: float = 1.0
    mask_rate: float | None = None  # share of masked tokens; None: exactly one a sentence
    adversary: float = 0.0  # lambda of App. A.4
    adversary_sentences: int = 128  # of D1, and of D2
    ridge: float = 0.1  # of the adversary's head, in units of the mean squared norm of D1's features
    trace_penalty: float = 0.0  # weight of the Fisher trace

    def __post_init__(self) -> None:
        """Refuse what is no objective."""
        for name in ("label_noise", "adversary", "trace_penalty"):
            if getattr(self, name) < 0:
                raise ParameterError(f"{name} must not be negative; got {getattr(self, name)}.")
        if self.mask_rate is not None and not 0 < self.mask_rate < 1:
            raise ParameterError(f"mask_rate must lie between 0 and 1; got {self.mask_rate}.")


ORDINARY = Objective()
"""Sampled labels, one mask, nothing else."""


class Losses(NamedTuple):
    """What is minimised, and the masked loss in it, in nats a masked token."""

    total: Float[Tensor, ""]
    masked: Float[Tensor, ""]


Loss = Callable[[nn.Module, Batch], Losses]
"""The loss of a part of a batch; what it draws at random, it draws in the order of its calls."""


def plain_loss(model: nn.Module, batch: Batch) -> Losses:
    """Return the mean cross-entropy of the words behind the masks (Section 2.1)."""
    logits = model(batch.masked, batch.positions, batch.lengths)
    loss = F.cross_entropy(logits, batch.targets)
    return Losses(loss, loss)


class Labelled(NamedTuple):
    """Sentences of the downstream tasks, and their classes as 0/1 columns, all tasks side by side."""

    sentences: Sentences
    classes: Float[Tensor, "example class"]


def loss_of(
    objective: Objective,
    generator: torch.Generator,
    language: Language | None = None,
    downstream: Labelled | None = None,
) -> Loss:
    """Return the loss of one step.

    Args:
        objective: its settings.
        generator: of the adversary's sentences and of the penalty's directions.
        language: whose exact conditionals are the targets, where `label_noise` is not 1.
        downstream: what the adversary draws from.

    """
    if objective == Objective(mask_rate=objective.mask_rate):
        return plain_loss
    first, second = _two_parts(objective, generator, downstream)

    def loss(model: nn.Module, batch: Batch) -> Losses:
        with without_cudnn() if objective.trace_penalty else nullcontext():
            logits = model(batch.masked, batch.positions, batch.lengths)
        logits = logits.to(
            torch.promote_types(logits.dtype, torch.float32)
        )  # exact targets keep their digits
        masked = total = F.cross_entropy(logits, _targets(objective, batch, language).to(logits))
        if objective.trace_penalty:
            signs = random_signs(logits.shape, generator).to(logits)
            with torch.autocast(logits.device.type, enabled=False):  # it differentiates, in full precision
                total = total + objective.trace_penalty * fisher_trace_along(model, logits, signs)
        if objective.adversary:
            total = total - objective.adversary * transfer_loss(model, first, second, objective.ridge)
        return Losses(total, masked)

    return loss


def _targets(objective: Objective, batch: Batch, language: Language | None) -> Float[Tensor, "batch word"]:
    """Return q + s (e_y - q); where s = 1 nothing else is needed."""
    words = F.one_hot(batch.targets, language.words).double()
    if objective.label_noise == 1:
        return words
    truth = true_conditionals(language, batch)
    return truth + objective.label_noise * (words - truth)


def true_conditionals(language: Language, batch: Batch) -> Float[Tensor, "batch word"]:
    """Return Pr(. | what is not masked) at the masked position of each sentence."""
    rows = torch.arange(len(batch.targets), device=batch.targets.device)
    lengths = batch.lengths
    if lengths is None:
        lengths = torch.full_like(batch.targets, batch.masked.shape[1])
    return language.conditionals(Sentences(batch.masked, lengths))[rows, batch.positions]


def _two_parts(
    objective: Objective, generator: torch.Generator, downstream: Labelled | None
) -> tuple[Labelled | None, Labelled | None]:
    """Draw two disjoint sets, D1 and D2, from the downstream sentences."""
    if not objective.adversary:
        return None, None
    examples, size = len(downstream.classes), objective.adversary_sentences
    if examples < 2 * size:
        raise ParameterError(
            f"The adversary needs 2 x {size} downstream sentences; there are {examples}. Give it fewer "
            "(adversary_sentences), or the tasks more."
        )
    drawn = torch.randperm(examples, generator=generator)[: 2 * size].split(size)
    return tuple(Labelled(downstream.sentences.rows(rows), downstream.classes[rows]) for rows in drawn)


def transfer_loss(model: nn.Module, first: Labelled, second: Labelled, ridge: float) -> Float[Tensor, ""]:
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


def token_features(model: nn.Module, sentences: Sentences) -> Float[Tensor, "example feature"]:
    """Return what a probe reads, and a last column of ones; differentiable."""
    device = next(model.parameters()).device
    tokens, lengths = (field.to(device) for field in sentences)
    inside = torch.arange(tokens.shape[1], device=device) < lengths[:, None]
    h = model.features(tokens.long(), None if inside.all() else lengths) * inside[..., None]
    return F.pad(h.flatten(1), (0, 1), value=1.0)


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
    return sum(g.square().sum() for g in gradients) / len(logits)


def random_signs(shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "..."]:
    """Return +1 and -1, equally likely."""
    return torch.randint(0, 2, shape, generator=generator) * 2.0 - 1


def one_hot_classes(
    labels: Int[Tensor, "example task"], classes: tuple[int, ...]
) -> Float[Tensor, "example class"]:
    """Return the classes of all tasks as 0/1 columns side by side."""
    return torch.cat([F.one_hot(labels[:, k], count) for k, count in enumerate(classes)], 1).float()
