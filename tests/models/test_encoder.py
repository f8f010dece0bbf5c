"""The encoder's own properties; test_export.py compares it with HuggingFace's implementations."""

import inspect

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder, EncoderShape


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


@pytest.mark.parametrize("wrong", ["d_model", "heads", "layers", "d_inter"])
@pytest.mark.parametrize("count", [0, -1])
def test_a_shape_has_something_of_everything(wrong, count):
    with pytest.raises(ParameterError, match=f"^{wrong} must be a whole number, at least 1; got {count}"):
        EncoderShape(**{"d_model": 8, "heads": 2, "layers": 1, "d_inter": 16, wrong: count})
