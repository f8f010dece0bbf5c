"""A causal language model of `transformers` that may write only some of its tokens."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from sameloss.errors import LanguageError


class RestrictedModel:
    """The next-token distribution over the allowed tokens and the end token: its columns.

    Column w - 1 is word w; the last column is the end. Only the rows of the output layer that are
    needed are multiplied. Tokens and results are on the CPU, wherever the model is. Float64 models
    need an attention that computes in float64: `sdpa`, the default of `transformers`, does; `eager`
    rounds its softmax to float32.
    """

    def __init__(self, model: PreTrainedModel, allowed: Sequence[int], end: int) -> None:
        """Take a causal language model whose logits are linear in its last hidden state.

        Raises:
            LanguageError: for token ids the model does not have, or another output layer.

        """
        self.model, self.ids = model.eval(), torch.tensor([*allowed, end])
        if len(self.ids.unique()) < len(self.ids):
            raise LanguageError("The allowed tokens and the end token are different tokens.")
        self.check_ids(self.ids)
        head = model.get_output_embeddings()
        self.weight = head.weight.detach()[self.ids]
        self.bias = None if head.bias is None else head.bias.detach()[self.ids]
        self._check_head()

    def check_ids(self, ids: Int[Tensor, " token"]) -> None:
        """Refuse token ids that the model does not have.

        Raises:
            LanguageError: naming some of them.

        """
        size = self.model.config.vocab_size
        if not len(ids) or int(ids.min()) < 0 or int(ids.max()) >= size:
            raise LanguageError(f"Token ids of this model lie in 0..{size - 1}; got {ids.tolist()[:5]}...")

    @torch.no_grad()
    def _check_head(self) -> None:
        few = self.ids[None, :2]
        expected = self.model(few.to(self.weight.device)).logits[0, -1].cpu()[self.ids].log_softmax(-1)
        ours = self.log_probs(few, None)[0][0, -1].to(expected)
        if not torch.allclose(ours, expected, rtol=1e-2, atol=1e-2):
            raise LanguageError("The model's logits must be a linear map of its last hidden state.")

    @property
    def numbers_per_token(self) -> int:
        """Return roughly how many numbers a forward pass holds for each token it reads."""
        config = self.model.config
        return (2 * config.num_hidden_layers + 8) * config.hidden_size + len(self.ids)

    def log_probs(
        self, tokens: Int[Tensor, "row step"], cache: Cache | None
    ) -> tuple[Float[Tensor, "row step _column"], Cache]:
        """Read token ids after what is cached, and predict what follows each.

        Args:
            tokens: token ids of the model.
            cache: keys and values of the tokens before, which it takes over; None at the start.

        Returns:
            The log probability of each column after each token (float64, nats), and the longer cache.
            At the beginning of a sentence the end has -inf: no sentence is empty.

        """
        device = self.weight.device
        output = self.model.base_model(input_ids=tokens.to(device), past_key_values=cache, use_cache=True)
        logits = nn.functional.linear(output.last_hidden_state, self.weight, self.bias).double()
        if cache is None:
            logits[:, 0, -1] = -torch.inf
        return logits.log_softmax(-1).cpu(), output.past_key_values
