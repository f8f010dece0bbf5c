"""The encoder against HuggingFace's implementation of the same function."""

import pytest
import torch
from transformers import RobertaPreLayerNormConfig, RobertaPreLayerNormForMaskedLM

from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder, EncoderShape

FIRST_POSITION = 2  # RoBERTa's positions start behind its padding index, 1


def huggingface_twin(model, shape, words, max_length):
    config = RobertaPreLayerNormConfig(
        vocab_size=words + 1,
        hidden_size=shape.d_model,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.d_inter,
        max_position_embeddings=max_length + FIRST_POSITION,
        type_vocab_size=1,
        pad_token_id=1,
        layer_norm_eps=1e-12,
    )
    twin = RobertaPreLayerNormForMaskedLM(config).eval()
    twin.load_state_dict(converted(model, twin.state_dict()))
    return twin


def converted(model, target):
    """Rename our weights to HuggingFace's; the parts that we do not have are zero."""
    ours, base = model.state_dict(), "roberta_prelayernorm."
    new = {name: torch.zeros_like(value) for name, value in target.items()}
    new[base + "embeddings.word_embeddings.weight"] = ours["word.weight"]
    new[base + "embeddings.position_embeddings.weight"][FIRST_POSITION:] = ours["position.weight"]
    renamed = {
        base + "embeddings.LayerNorm": "embedding_norm",
        base + "LayerNorm": "final_norm",
        "lm_head.dense": "head_dense",
        "lm_head.layer_norm": "head_norm",
    }
    for layer in range(len(model.blocks)):
        theirs, mine = f"{base}encoder.layer.{layer}.", f"blocks.{layer}."
        renamed |= {
            theirs + "attention.LayerNorm": mine + "attention_norm",
            theirs + "attention.output.dense": mine + "attention.out",
            theirs + "intermediate.LayerNorm": mine + "mlp_norm",
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
    new["lm_head.decoder.weight"] = ours["word.weight"]
    for bias in ("lm_head.bias", "lm_head.decoder.bias"):
        new[bias] = torch.cat([torch.zeros(1), ours["head_bias"]])
    return {name: value for name, value in new.items() if name in target}


@pytest.mark.parametrize("ragged", [False, True])
def test_outputs_equal_huggingface(ragged):
    shape, words, length = EncoderShape(32, 4, 3, 64), 11, 7
    model = Encoder(shape, words, length, seed=0)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    twin = huggingface_twin(model, shape, words, length)
    tokens = torch.randint(0, words + 1, (5, length), generator=generator)
    lengths = torch.tensor([7, 3, 5, 7, 1]) if ragged else None
    inside = torch.arange(length) < (lengths if ragged else torch.full((5,), length))[:, None]
    places = (torch.arange(length) + FIRST_POSITION).expand(5, -1)
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
