"""The default teacher of the OPT chapters: a small stand-in for facebook/opt-125m.

transformers takes seconds to import, so it is imported where a teacher is built.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from sameloss.checks import check_counts, check_positive

if TYPE_CHECKING:
    from transformers import OPTConfig, OPTForCausalLM

    from sameloss.languages.autoregressive.autoregressive import AutoregressiveLanguage

STAND_IN_NOTE = (
    "The teacher is a stand-in for facebook/opt-125m: a small transformer of the same architecture "
    "with random weights; to use the real one, give its name or its folder in the parameter `opt`."
)
"""What a page says wherever it shows results of the default teacher."""


@dataclass(frozen=True)
class TeacherSpec:
    """A small random transformer: a stand-in for facebook/opt-125m; part of a run's key.

    It has the architecture of OPT with an output layer of its own, random weights, and start
    tokens that name a topic. `scale` multiplies the usual 1 / sqrt(fan-in) deviation of the inner
    weights: above 1, words depend on their context more sharply. `logit_scale` is the standard
    deviation of the logits, in nats: it sets the entropy.
    """

    words: int = 16
    max_length: int = 8
    topics: int = 3
    d_model: int = 8
    layers: int = 1
    heads: int = 2
    scale: float = 2.0
    logit_scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no transformer."""
        check_counts(self, "words", "max_length", "topics", "d_model", "layers", "heads")
        check_positive(self, "scale", "logit_scale")

    def build(self) -> "AutoregressiveLanguage":
        """Draw the weights, in float64; the global random state stays as it is."""
        from transformers import OPTForCausalLM

        from sameloss.languages.autoregressive.autoregressive import AutoregressiveLanguage

        with torch.random.fork_rng(devices=[]):  # the constructor draws weights we replace
            model = OPTForCausalLM(self._config()).double()
        self._draw(model)
        first = self.topics + 1
        return AutoregressiveLanguage(
            model,
            allowed=range(first, first + self.words),
            starts=range(self.topics),
            prior=[1 / self.topics] * self.topics,
            end=self.topics,
            max_length=self.max_length,
        )

    def _config(self) -> "OPTConfig":
        from transformers import OPTConfig

        return OPTConfig(
            vocab_size=self.topics + 1 + self.words,
            hidden_size=self.d_model,
            word_embed_proj_dim=self.d_model,
            ffn_dim=4 * self.d_model,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            max_position_embeddings=self.max_length + 1,
            tie_word_embeddings=False,  # tied, a random model would repeat its last word
            bos_token_id=0,
            eos_token_id=self.topics,
            pad_token_id=None,
        )

    @torch.no_grad()
    def _draw(self, model: "OPTForCausalLM") -> None:
        generator = torch.Generator().manual_seed(self.seed)
        for name, weight in model.named_parameters():
            if weight.ndim == 1:  # biases and layer norms
                weight.fill_(float("layer_norm.weight" in name))
                continue
            deviation = self.scale / math.sqrt(weight.shape[1])
            if "embed" in name:
                deviation = 1.0
            if name.startswith("lm_head"):
                deviation = self.logit_scale / math.sqrt(self.d_model)
            weight.copy_(deviation * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
