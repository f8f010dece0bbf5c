"""HuggingFace's language models, called as the models of this book are."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from sameloss.errors import ModelError


class HuggingFaceModel(nn.Module):
    """A masked or causal language model of `transformers`, whose token ids are our words: 0 is [MASK].

    A masked one predicts the word behind the mask; a causal one the word after `positions`.
    """

    def __init__(self, model: PreTrainedModel, words: int) -> None:
        """Wrap a model as it comes.

        Args:
            model: returns an output with `logits`, (batch, seq, vocabulary).
            words: ids 1 to `words` are words; further ids of the vocabulary are never predicted.

        Raises:
            ModelError: where the model's vocabulary lacks some of the words.

        """
        super().__init__()
        if model.config.vocab_size <= words:
            raise ModelError(
                f"The model's vocabulary has {model.config.vocab_size} ids, too few for [MASK] and "
                f"{words} words; it needs at least {words + 1}."
            )
        self.model, self.words = model, words

    def forward(
        self,
        masked: Int[Tensor, "batch seq"],
        positions: Int[Tensor, " batch"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch word"]:
        """Return the logits of the words at one position of each sentence."""
        inside = None
        if lengths is not None:
            inside = (torch.arange(masked.shape[1], device=masked.device) < lengths[:, None]).long()
        logits = getattr(self.model(input_ids=masked, attention_mask=inside), "logits", None)
        if (
            logits is None
            or logits.ndim != 3
            or logits.shape[:2] != masked.shape
            or logits.shape[2] <= self.words
        ):
            returned = "no logits" if logits is None else f"logits of shape {tuple(logits.shape)}"
            raise ModelError(
                f"The model returned {returned} for tokens of shape {tuple(masked.shape)}; it needs a head "
                f"that predicts one of {self.words} words at every token."
            )
        return logits[torch.arange(len(masked), device=masked.device), positions, 1 : self.words + 1]
