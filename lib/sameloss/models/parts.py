"""Which part of a model a parameter belongs to, read off its name: ours and HuggingFace's."""

import re

GROUPS = {
    "LayerNorm": r"norm\d?\.(weight|bias)$|\bln_\w+\.",
    "position": r"position|\bwpe\b",
    "word embedding": r"^word\b|word_embeddings|embed_tokens|token_type|tok_embeddings|\bwte\b|^shared\b",
    "head": r"^head|lm_head|^cls\.|predictions|^vocab_|^decoder\.\w+$",
    "LSTM": r"lstm|(weight|bias)_[ih]h",
    "attention": r"attention|attn",
    "MLP": r"mlp|ffn|feed_?forward|intermediate|output\.dense|densereludense|fc1|fc2|linear[12]\b",
}
"""Groups of parameters by a pattern in the name; the first that matches decides."""

DEPTH = re.compile(r"(?:blocks?|layers?|\bh)\.(\d+)\.")


def depth(layer: str) -> tuple[int, int]:
    """Return what orders the names that `parameter_layer` gives.

    >>> sorted(["head", "layer 10", "embedding", "layer 2"], key=depth)
    ['embedding', 'layer 2', 'layer 10', 'head']
    """
    kind, _, number = layer.partition(" ")
    return ("embedding", "layer", "head").index(kind), int(number or 0)


def parameter_group(name: str) -> str:
    """Return the group that a parameter belongs to, one of `GROUPS`, or other.

    >>> parameter_group("blocks.0.attention.qkv.weight")
    'attention'
    >>> parameter_group("bert.encoder.layer.1.attention.output.LayerNorm.bias")
    'LayerNorm'
    """
    lower = name.lower()
    return next((group for group, pattern in GROUPS.items() if re.search(pattern, lower)), "other")


def parameter_layer(name: str) -> str:
    """Return the depth of a parameter: embedding, layer 1, layer 2, ..., head.

    A tied embedding counts as embedding. What follows the last block counts as head.

    >>> [parameter_layer(n) for n in ("word.weight", "blocks.1.mlp_in.bias", "final_norm.weight")]
    ['embedding', 'layer 2', 'head']
    """
    depth = DEPTH.search(name)
    if depth:
        return f"layer {int(depth[1]) + 1}"
    return "embedding" if re.search(r"^word|position|embed|\bw[tp]e\b|^shared\b", name.lower()) else "head"
