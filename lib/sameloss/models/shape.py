"""What a family of models says of each of its sizes: how it is built, and what it takes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Literal

import torch

from sameloss.errors import ParameterError
from sameloss.models.masked_model import MaskedLanguageModel

Norm = Literal["pre", "post"]

Option = Literal["post-LN", "dropout", "bfloat16", "compilation"]
"""What a training can ask for beyond the plain one, and not every family of models has."""


class Shape(ABC):
    """A size of a family of models.

    A family is a frozen dataclass of this kind: its fields are part of a run's key, and whoever trains its
    models, or counts what that takes, needs to know no more of it than this class says.
    """

    family: ClassVar[str]
    """The family's name, with its article."""

    options: ClassVar[frozenset[Option]] = frozenset()
    """Which of the options the family has."""

    d_model: int
    layers: int

    @abstractmethod
    def build(
        self,
        words: int,
        max_length: int,
        seed: int | None = None,
        norm: Norm = "pre",
        dropout: float = 0.0,
    ) -> MaskedLanguageModel:
        """Return a new model.

        Args:
            words: vocabulary size c, [MASK] not counted.
            max_length: number of learned positions.
            seed: of the initial weights; where it is None, they are left as PyTorch makes them.
            norm: whether LayerNorms stand before the parts of a block, or behind their residual sums.
            dropout: share of what the blocks' parts add that is dropped in training.

        Raises:
            ParameterError: where `norm` or `dropout` asks for what the family lacks.

        """

    @property
    @abstractmethod
    def matrix_parameters(self) -> int:
        """Return the number of parameters that multiply every token: the matrices of all blocks."""

    @abstractmethod
    def flops(self, words: int, length: float) -> float:
        """Return the floating-point operations of a training step on one sentence with one mask.

        Args:
            words: vocabulary size c.
            length: tokens of the sentence; a mean length where a mean is wanted.

        """

    @abstractmethod
    def activations(self, length: int) -> int:
        """Return roughly how many numbers a token of a sentence leaves for the backward pass."""

    def parameter_count(self, words: int, max_length: int) -> int:
        """Return the number of parameters of a model of this shape, without making their values."""
        with torch.device("meta"):
            return self.build(words, max_length).parameter_count

    def check_options(self, asked: Iterable[Option]) -> None:
        """Refuse options that the family lacks.

        Raises:
            ParameterError: with their names.

        """
        lacking = [option for option in asked if option not in self.options]
        if lacking:
            raise ParameterError(
                f"{self.family} cannot be trained with {' or '.join(lacking)}; choose another family's size."
            )


def asked_of_model(norm: Norm, dropout: float) -> list[Option]:
    """Return the options that a model is built with."""
    asked: dict[Option, bool] = {"post-LN": norm == "post", "dropout": dropout > 0}
    return [option for option, wanted in asked.items() if wanted]
