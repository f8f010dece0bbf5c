"""The adversary of App. A.4: a representation that is made bad for the downstream tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_counts, check_positive
from sameloss.errors import ParameterError
from sameloss.languages import Sentences
from sameloss.models.masked_model import MaskedLanguageModel


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
        first, second = self._two_parts(generator, examples)

        def gain(model: nn.Module, _: Tensor) -> Tensor:
            whole = cast(MaskedLanguageModel, model)  # other objectives than the plain one wrap no model
            return -self.weight * transfer_loss(whole, first, second, self.ridge)

        return gain

    def _two_parts(
        self, generator: torch.Generator, examples: TaskExamples | None
    ) -> tuple[TaskExamples, TaskExamples]:
        available = 0 if examples is None else len(examples.classes)
        if examples is None or available < 2 * self.sentences:
            raise ParameterError(
                f"The adversary needs 2 x {self.sentences} downstream sentences; there are {available}. "
                "Give it fewer (sentences), or the tasks more."
            )
        first, second, *_ = torch.randperm(available, generator=generator).split(self.sentences)
        return examples.rows(first), examples.rows(second)


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
