"""The encoder against HuggingFace's implementations of the same functions."""

import inspect
from dataclasses import dataclass

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormForMaskedLM,
)

from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder, EncoderShape


@dataclass
class Peer:
    """HuggingFace's names for one kind of LayerNorm."""

    config: type
    model: type
    base: str
    first_position: int  # RoBERTa's positions start behind its padding index, 1
    renamed: dict[str, str]  # outside the blocks: their module to ours
    block_norms: tuple[str, str]
    bias: str


PEERS = {
    "pre": Peer(
        RobertaPreLayerNormConfig,
        RobertaPreLayerNormForMaskedLM,
        "roberta_prelayernorm.",
        2,
        {
            "roberta_prelayernorm.LayerNorm": "final_norm",
            "lm_head.dense": "head_dense",
            "lm_head.layer_norm": "head_norm",
        },
        ("attention.LayerNorm", "intermediate.LayerNorm"),
        "lm_head.bias",
    ),
    "post": Peer(
        BertConfig,
        BertForMaskedLM,
        "bert.",
        0,
        {
            "cls.predictions.transform.dense": "head_dense",
            "cls.predictions.transform.LayerNorm": "head_norm",
        },
        ("attention.output.LayerNorm", "output.LayerNorm"),
        "cls.predictions.bias",
    ),
}


def huggingface_twin(model, words, max_length):
    shape, peer = model.shape, PEERS[model.norm]
    config = peer.config(
        vocab_size=words + 1,
        hidden_size=shape.d_model,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.d_inter,
        max_position_embeddings=max_length + peer.first_position,
        type_vocab_size=1,
        pad_token_id=1,
        layer_norm_eps=1e-12,
    )
    twin = peer.model(config).eval()
    twin.load_state_dict(converted(model, twin.state_dict(), peer))
    return twin


def converted(model, target, peer):
    """Rename our weights to HuggingFace's; the parts that we do not have are zero."""
    ours = model.state_dict()
    new = {name: torch.zeros_like(value) for name, value in target.items()}
    new[peer.base + "embeddings.word_embeddings.weight"] = ours["word.weight"]
    new[peer.base + "embeddings.position_embeddings.weight"][peer.first_position :] = ours["position.weight"]
    renamed = peer.renamed | {peer.base + "embeddings.LayerNorm": "embedding_norm"}
    for layer in range(len(model.blocks)):
        theirs, mine = f"{peer.base}encoder.layer.{layer}.", f"blocks.{layer}."
        renamed |= {
            theirs + peer.block_norms[0]: mine + "attention_norm",
            theirs + "attention.output.dense": mine + "attention.out",
            theirs + peer.block_norms[1]: mine + "mlp_norm",
            theirs + "intermediate.dense": mine + "mlp_in",
            theirs + "output.dense": mine + "mlp_out",
        }
        for kind in ("weight", "bias"):
            parts = ours[f"{mine}attention.qkv.{kind}"].chunk(3)
            for name, part in zip(("query", "key", "value"), parts, strict=True):
                new[f"{theirs}attention.self.{name}.{kind}"] = part
    for theirs, mine in renamed.items():
        for kind in ("weight", "bias"):
            new[f"{theirs}.{kind}"] = ours[f"{mine}.{kind}"]
    decoder = peer.bias.replace("bias", "decoder")
    new[f"{decoder}.weight"] = ours["word.weight"]
    for bias in (peer.bias, f"{decoder}.bias"):
        new[bias] = torch.cat([torch.zeros(1), ours["head_bias"]])
    return {name: value for name, value in new.items() if name in target}


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("ragged", [False, True])
def test_outputs_equal_huggingface(ragged, norm):
    shape, words, length = EncoderShape(32, 4, 3, 64), 11, 7
    model = Encoder(shape, words, length, seed=0, norm=norm)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    twin = huggingface_twin(model, words, length)
    tokens = torch.randint(0, words + 1, (5, length), generator=generator)
    lengths = torch.tensor([7, 3, 5, 7, 1]) if ragged else None
    inside = torch.arange(length) < (lengths if ragged else torch.full((5,), length))[:, None]
    places = (torch.arange(length) + PEERS[norm].first_position).expand(5, -1)
    with torch.no_grad():
        theirs = twin(tokens, attention_mask=inside.long(), position_ids=places).logits[..., 1:]
        ours = model.head(model.features(tokens, lengths))
    torch.testing.assert_close(ours[inside], theirs[inside], rtol=1e-5, atol=1e-5)


def test_padding_does_not_matter(tiny_model):
    short = torch.tensor([[1, 2]])
    padded = torch.tensor([[1, 2, 3, 3]])
    features = tiny_model.features(padded, torch.tensor([2]))[:, :2]
    torch.testing.assert_close(features, tiny_model.features(short))


def test_forward_reads_the_masked_position(tiny_model):
    masked, positions = torch.tensor([[1, 0, 2], [0, 3, 3]]), torch.tensor([1, 0])
    logits = tiny_model.head(tiny_model.features(masked))
    expected = torch.stack([logits[0, 1], logits[1, 0]])
    torch.testing.assert_close(tiny_model(masked, positions), expected)


def test_seed_decides_the_initial_weights():
    make = lambda seed: Encoder(EncoderShape(8, 1, 1, 16), 5, 4, seed).state_dict()  # noqa: E731
    assert all(torch.equal(a, b) for a, b in zip(make(1).values(), make(1).values(), strict=True))
    assert not torch.equal(make(1)["word.weight"], make(2)["word.weight"])


def test_heads_must_divide_the_width():
    with pytest.raises(ParameterError, match="heads = 3 does not divide d_model = 8"):
        EncoderShape(8, 3, 1, 16)


def test_an_unknown_norm_is_refused():
    model = Encoder.__new__(Encoder)
    with pytest.raises(ParameterError, match="Unknown norm 'middle'; choose pre or post"):
        inspect.unwrap(Encoder.__init__)(model, EncoderShape(8, 2, 1, 16), 5, 4, norm="middle")


def test_norms_have_the_same_parameters_but_for_the_final_one():
    pre, post = (Encoder(EncoderShape(8, 2, 1, 16), 5, 4, 0, norm).state_dict() for norm in ("pre", "post"))
    assert pre.keys() - post.keys() == {"final_norm.weight", "final_norm.bias"}
    assert all(torch.equal(post[name], pre[name]) for name in post)


def test_initial_weights_are_those_of_earlier_checkpoints():
    """A run is known by its seed: the order in which the parameters draw must not change."""
    weights = Encoder(EncoderShape(32, 2, 2, 128), 16, 8, seed=3).state_dict()
    expected = {
        "word": -0.0015328858,
        "position": 0.00096638076,
        "blocks.0.attention.qkv": -0.010900698,
        "blocks.0.attention.out": 0.0049526170,
        "blocks.0.mlp_in": -0.045376379,
        "blocks.0.mlp_out": 0.067104936,
        "head_dense": -0.00055730221,
    }
    first = {name: weights[f"{name}.weight"][0, 0].item() for name in expected}
    assert first == pytest.approx(expected, rel=1e-6)
