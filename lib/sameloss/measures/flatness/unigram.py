"""A model whose Hessian is known by hand: the example of every measure in this folder."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sameloss.languages.language import MASK
from sameloss.languages.masking import Batch


class Unigram(nn.Module):
    r"""A model that predicts the same words behind every mask, f = softmax(b), b one parameter a word.

    Where the true conditionals are f, the Hessian of its loss is $\mathrm{diag} f - f f^\top$. For f =
    (1/2, 1/4, 1/4) its eigenvalues are 3/8, 1/4 and 0, and its trace is 5/8.
    """

    def __init__(self, probabilities: Sequence[float]) -> None:
        """Take f, positive and known up to a factor: its logarithms are the parameters."""
        super().__init__()
        self.bias = nn.Parameter(torch.tensor(probabilities, dtype=torch.float64).log())

    def forward(
        self,
        masked: Int[Tensor, "batch seq"],
        positions: Int[Tensor, " batch"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch word"]:
        """Return log f for every sentence, whatever stands in it."""
        return torch.zeros(len(masked), len(self.bias), device=masked.device) + self.bias


def one_word_sentences(targets: Sequence[int]) -> Batch:
    """Return masked sentences of one token each.

    Args:
        targets: the words behind the masks, counted from 0.

    """
    masked = torch.full((len(targets), 1), MASK)
    return Batch(masked, torch.zeros(len(targets), dtype=torch.long), torch.tensor(targets), None)
