"""Reparametrisations keep every logit and change the parameters, in float64."""

import pytest
import torch

from sameloss.models import reparametrise
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.reparametrise import REPARAMETRISATIONS, SCALINGS, rescale

TOKENS = torch.tensor([[0, 1, 2, 3, 1], [3, 0, 1, 3, 3], [2, 2, 0, 1, 2]])
POSITIONS = torch.tensor([0, 1, 2])

everyone = pytest.mark.parametrize("name", REPARAMETRISATIONS)


def perturbed(norm):
    """Two layers of three heads of width two; no parameter at its initial 0 or 1."""
    model = Encoder(EncoderShape(6, 3, 2, 8), words=3, max_length=5, seed=0, norm=norm).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator).double())
    return model


@pytest.fixture
def model():
    return perturbed("pre")


def changed_parts(before, after):
    pairs = zip(before.named_parameters(), after.parameters(), strict=True)
    return {name for (name, old), new in pairs if not torch.equal(old, new)}


@torch.no_grad()
def logits(first, second, lengths):
    return [model(TOKENS, POSITIONS, lengths) for model in (first, second)]


@everyone
@pytest.mark.parametrize("lengths", [None, torch.tensor([5, 2, 3])])
def test_logits_are_preserved(model, name, lengths):
    changed = REPARAMETRISATIONS[name](model, torch.Generator().manual_seed(0))
    torch.testing.assert_close(*logits(changed, model, lengths), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in REPARAMETRISATIONS if "LayerNorm" not in name])
def test_logits_of_a_post_ln_encoder_are_preserved(name):
    model = perturbed("post")
    changed = REPARAMETRISATIONS[name](model, torch.Generator().manual_seed(0))
    torch.testing.assert_close(*logits(changed, model, None), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "ours"),
    {
        "LayerNorm gains × 2": "attention_norm mlp_norm attention.qkv.weight mlp_in.weight",
        "queries × 2": "attention.qkv",
        "values × 2": "attention.qkv attention.out.weight",
        "embedding × 2": "word position head_norm",
        "heads rotated": "attention.qkv attention.out.weight",
        "neurons permuted": "mlp_in mlp_out.weight",
    }.items(),
)
def test_only_its_parameters_change(model, name, ours):
    changed = REPARAMETRISATIONS[name](model, torch.Generator().manual_seed(0))
    expected = {part for part, _ in model.named_parameters() if any(our in part for our in ours.split())}
    assert changed_parts(model, changed) == expected


@everyone
def test_the_input_is_untouched(model, name):
    before = {part: value.clone() for part, value in model.state_dict().items()}
    changed = REPARAMETRISATIONS[name](model.float(), torch.Generator().manual_seed(0))
    assert {p.dtype for p in changed.parameters()} == {torch.float32}
    assert all(p.requires_grad for p in changed.parameters())
    for part, value in model.state_dict().items():
        torch.testing.assert_close(value, before[part].float(), rtol=0, atol=0)


@pytest.mark.parametrize("name", SCALINGS)
def test_the_inverse_factors_undo_it(model, name):
    inverse = {
        pattern: tuple(1 / factor for factor in by_part) for pattern, by_part in SCALINGS[name].items()
    }
    assert not changed_parts(model, rescale(inverse, rescale(SCALINGS[name], model)))


def test_rotations_are_orthogonal_and_differ_by_head(model):
    changed = reparametrise.rotate_heads(model, torch.Generator().manual_seed(0))
    for old, new in zip(model.blocks, changed.blocks, strict=True):
        before, after = (b.attention.qkv.weight.data.view(3, 3, 2, 6) for b in (old, new))
        # R = W' W^+; queries and keys share theirs, values and other heads have another.
        rotation = after @ torch.linalg.pinv(before)
        identity = torch.eye(2).double().expand(3, 3, 2, 2)
        torch.testing.assert_close(rotation @ rotation.mT, identity, rtol=0, atol=1e-9)
        torch.testing.assert_close(rotation[0], rotation[1], rtol=0, atol=1e-9)
        different = torch.cat([rotation[0], rotation[2]])
        assert torch.pdist(different.flatten(1)).min() > 1e-3


def test_rotations_are_uniform():
    """Entries of an orthogonal matrix of width w have mean 0, variance 1 / w."""
    drawn = reparametrise._rotations(4000, 3, torch.Generator().manual_seed(0))
    assert drawn.mean(0).abs().max() < 4 * (1 / 3 / 4000) ** 0.5
    torch.testing.assert_close(drawn.square().mean(0), torch.full((3, 3), 1 / 3).double(), rtol=0, atol=0.02)


@pytest.mark.parametrize("name", ["heads rotated", "neurons permuted"])
def test_the_generator_decides(model, name):
    draw = lambda seed: REPARAMETRISATIONS[name](model, torch.Generator().manual_seed(seed))  # noqa: E731
    assert not changed_parts(draw(0), draw(0))
    assert changed_parts(draw(0), draw(1))
