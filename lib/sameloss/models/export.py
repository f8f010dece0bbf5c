"""Our encoders as HuggingFace models, and HuggingFace models called as ours."""

import re
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, PreTrainedConfig, PreTrainedModel, RobertaPreLayerNormConfig

from sameloss.errors import ModelError
from sameloss.models.encoder import Encoder
from sameloss.models.masked_model import EPSILON

# Export to a folder that `transformers` opens: pre-LN as RoBERTa-PreLayerNorm, post-LN as BERT.
#
# Token ids are unchanged: 0 is [MASK], 1 to c are words. Id c + 1 is added for padding, because these classes
# need a padding id: BERT's default, 0, is our [MASK], and RoBERTa's, 1, is a word, whose positions would
# then be skipped.

NO_WORD = -1e4
"""Output bias of [MASK] and padding: their probability underflows to 0, in float16 too."""

CONFIGS = {
    "pre": (RobertaPreLayerNormConfig, "RobertaPreLayerNormForMaskedLM"),
    "post": (BertConfig, "BertForMaskedLM"),
}
"""Configuration and model classes of `transformers` by `Encoder.norm`."""

NAMES = {
    norm: {
        "word": f"{base}embeddings.word_embeddings",
        "position": f"{base}embeddings.position_embeddings",
        "token_type": f"{base}embeddings.token_type_embeddings",
        "embedding_norm": f"{base}embeddings.LayerNorm",
        "blocks": f"{base}encoder.layer",
        "attention.out": "attention.output.dense",
        "mlp_in": "intermediate.dense",
        "mlp_out": "output.dense",
    }
    for norm, base in (("pre", "roberta_prelayernorm."), ("post", "bert."))
}
NAMES["pre"] |= {
    "attention_norm": "attention.LayerNorm",
    "mlp_norm": "intermediate.LayerNorm",
    "final_norm": "roberta_prelayernorm.LayerNorm",
    "head_dense": "lm_head.dense",
    "head_norm": "lm_head.layer_norm",
    "head_bias": "lm_head.bias",
}
NAMES["post"] |= {
    "attention_norm": "attention.output.LayerNorm",
    "mlp_norm": "output.LayerNorm",
    "head_dense": "cls.predictions.transform.dense",
    "head_norm": "cls.predictions.transform.LayerNorm",
    "head_bias": "cls.predictions.bias",
}
"""Parts of our parameter names, and their names in `transformers`, by `Encoder.norm`."""


def export_model(model: nn.Module, folder: Path) -> None:
    """Save an encoder so that `transformers.AutoModelForMaskedLM.from_pretrained(folder)` opens it.

    The opened model has the same logits for the words 1 to c, in the encoder's precision; pad with id c + 1
    and an attention mask.

    Args:
        model: an `Encoder`, pre- or post-LN.
        folder: created if it does not exist.

    Raises:
        ModelError: if the model is not an `Encoder`.

    """
    if not isinstance(model, Encoder):
        raise ModelError(
            f"transformers has no equivalent of {type(model).__name__}; "
            "an Encoder can be exported, pre-LN or post-LN."
        )
    folder.mkdir(parents=True, exist_ok=True)
    _huggingface_config(model).save_pretrained(folder)
    save_file(_huggingface_weights(model), folder / "model.safetensors", metadata={"format": "pt"})


def _huggingface_config(model: Encoder) -> PreTrainedConfig:
    shape, words = model.shape, len(model.head_bias)
    config, architecture = CONFIGS[model.norm]
    settings: dict[str, Any] = {
        "architectures": [architecture],
        "dtype": model.word.weight.dtype,
        "vocab_size": words + 2,
        "pad_token_id": words + 1,
        "bos_token_id": None,
        "eos_token_id": None,
        "type_vocab_size": 1,
        "max_position_embeddings": _skipped_positions(model) + len(model.position.weight),
        "hidden_size": shape.d_model,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.d_inter,
        "layer_norm_eps": EPSILON,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return config(**settings)


def _huggingface_weights(model: Encoder) -> dict[str, Tensor]:
    """Return the encoder's parameters, on the CPU, under the names of `transformers`."""
    weights = {}
    for name, value in _completed(model).items():
        if "qkv" in name:
            for part, rows in zip(("query", "key", "value"), value.chunk(3), strict=True):
                weights[_renamed(name.replace("qkv", f"self.{part}"), model)] = rows.clone()
        else:
            weights[_renamed(name, model)] = value
    return weights


def _completed(model: Encoder) -> dict[str, Tensor]:
    """Add the parameters that only `transformers` has: padding, a token type, unused positions."""
    state = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    state["word.weight"] = F.pad(state["word.weight"], (0, 0, 0, 1))
    state["position.weight"] = F.pad(state["position.weight"], (0, 0, _skipped_positions(model), 0))
    state["head_bias"] = F.pad(state["head_bias"], (1, 1), value=NO_WORD)
    state["token_type.weight"] = torch.zeros_like(state["word.weight"][:1])
    return state


def _skipped_positions(model: Encoder) -> int:
    """Return the first position: RoBERTa counts positions from the padding id on, BERT from 0."""
    return len(model.head_bias) + 2 if model.norm == "pre" else 0


def _renamed(name: str, model: Encoder) -> str:
    names = NAMES[model.norm]
    return re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], name)


class HuggingFaceModel(nn.Module):
    """A masked or causal language model of `transformers`, called as our models are.

    A masked model predicts the word behind the mask, a causal one the word after `positions`
    (`languages.masking.prefix_batch` makes its input).
    """

    def __init__(self, model: PreTrainedModel, words: int | None = None) -> None:
        """Wrap a model.

        Args:
            model: returns an output with `logits`, (batch, seq, vocabulary).
            words: on our token ids, where 1 to `words` are words and 0 is [MASK]; the logits of other ids
                are dropped. If None, the ids are the model's own and it predicts all of them.

        Raises:
            ModelError: if the vocabulary is smaller.

        """
        super().__init__()
        self.model, self.first = model, 0 if words is None else 1
        self.words = model.config.vocab_size if words is None else words
        if model.config.vocab_size < self.first + self.words:
            raise ModelError(
                f"The model's vocabulary has {model.config.vocab_size} ids, too few for [MASK] and "
                f"{self.words} words; it needs at least {self.first + self.words}."
            )

    def forward(
        self,
        masked: Int[Tensor, "batch seq"],
        positions: Int[Tensor, " batch"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch word"]:
        """Compute the logits of the words at one position of each sentence."""
        inside = None
        if lengths is not None:
            inside = (torch.arange(masked.shape[1], device=masked.device) < lengths[:, None]).long()
        logits = getattr(self.model(input_ids=masked, attention_mask=inside), "logits", None)
        shape: tuple[int, ...] = () if logits is None else tuple(logits.shape)
        if logits is None or shape[:-1] != tuple(masked.shape) or shape[-1] < self.first + self.words:
            returned = f"logits of shape {shape}" if shape else "no logits"
            raise ModelError(
                f"The model returned {returned} for tokens of shape {tuple(masked.shape)}; it needs a head "
                f"that predicts one of {self.words} words at every token."
            )
        ids = slice(self.first, self.first + self.words)
        return logits[torch.arange(len(masked), device=masked.device), positions, ids]
