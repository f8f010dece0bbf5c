"""Growing in depth: what stays the same function, what does not, and what gradients do then."""

import inspect

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import PRESERVING, LayerMap, _grown, deepen, grid, grow, repeated

SHAPE, WORDS, LENGTH = EncoderShape(4, 2, 2, 8), 5, 6
MAPS = [*grid(2, 2).values(), *grid(2, 1).values(), LayerMap((0, 1, 1, 0), (False, False, True, True))]


def generator():
    return torch.Generator().manual_seed(7)


def trained(norm="pre"):
    """Return a float64 encoder, all of whose parameters are away from their initial values."""
    model = Encoder(SHAPE, WORDS, LENGTH, seed=0, norm=norm).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator()).double())
    return model


TOKENS = torch.tensor([[1, 2, 0, 3, 4, 5], [0, 2, 3, 3, 0, 0], [5, 4, 3, 0, 1, 1]])
POSITIONS = torch.tensor([2, 0, 3])


def predictions(model, lengths=None):
    return model(TOKENS, POSITIONS, lengths)


@pytest.mark.parametrize("lengths", [None, torch.tensor([6, 4, 5])])
@pytest.mark.parametrize("filling", PRESERVING)
@pytest.mark.parametrize("layers", MAPS, ids=str)
def test_silent_and_muted_layers_preserve_a_pre_ln_function(layers, filling, lengths):
    model = trained()
    grown = grow(model, layers, filling, generator())
    torch.testing.assert_close(predictions(grown, lengths), predictions(model, lengths), rtol=0, atol=1e-12)


@pytest.mark.parametrize("filling", ["duplicate", "random"])
@pytest.mark.parametrize("layers", MAPS, ids=str)
def test_copies_and_random_layers_do_not(layers, filling):
    model = trained()
    assert (predictions(grow(model, layers, filling, generator())) - predictions(model)).abs().max() > 1e-6


@pytest.mark.parametrize("filling", PRESERVING)
def test_on_post_ln_they_would_not_preserve_and_are_refused(filling):
    """What would come out there differs, which is why."""
    model = trained("post")
    with pytest.raises(ParameterError, match=rf"^Filling {filling} preserves the function of a pre-LN"):
        grow(model, MAPS[0], filling, generator())
    assert (predictions(_grown(model, MAPS[0], filling, generator())) - predictions(model)).abs().max() > 1e-3


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_stand_where_the_map_says(norm):
    model = trained(norm)
    grown = grow(model, LayerMap((0, 1, 0, 1), (False, False, True, True)), "duplicate")
    for at, source in enumerate([0, 1, 0, 1]):
        for name, value in model.blocks[source].state_dict().items():
            torch.testing.assert_close(grown.blocks[at].state_dict()[name], value, rtol=0, atol=0)
    assert grown.shape == EncoderShape(4, 2, 4, 8)
    assert grown.norm == norm
    torch.testing.assert_close(grown.word.weight, model.word.weight, rtol=0, atol=0)


def test_random_layers_are_drawn_as_before_training_and_kept_ones_stay():
    model = trained()
    grown = grow(model, repeated(2, 2, 0, 1), "random", generator())
    new, old = grown.blocks[1], grown.blocks[2]
    assert torch.equal(new.attention_norm.weight, torch.ones(4).double())
    assert not new.mlp_in.bias.any()
    assert 0.01 < new.mlp_in.weight.std() < 0.04
    assert torch.equal(old.mlp_in.weight, model.blocks[1].mlp_in.weight)
    assert not torch.equal(grown.blocks[3].mlp_in.weight, new.mlp_in.weight)


@pytest.mark.parametrize("filling", ["duplicate", "random", "silent", "muted"])
def test_no_two_layers_share_memory_and_the_shallow_model_stays(filling):
    model = trained()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    grown = grow(model, MAPS[0], filling, generator())
    addresses = [parameter.data_ptr() for parameter in (*grown.parameters(), *model.parameters())]
    assert len(set(addresses)) == len(addresses)
    with torch.no_grad():
        for parameter in grown.parameters():
            parameter.zero_()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("filling", PRESERVING)
def test_preserving_layers_are_moved_by_gradients_and_layers_of_zeros_are_not(filling):
    """Of a layer of zeros only output biases have a gradient: a point that training never leaves."""
    model = trained()
    for grown, moved in (
        (grow(model, repeated(2, 1, 1, 1), filling, generator()), True),
        (deepen(model, 3), False),
    ):
        torch.nn.functional.cross_entropy(predictions(grown), torch.tensor([0, 1, 2])).backward()
        outputs = (grown.blocks[2].attention.out.weight, grown.blocks[2].mlp_out.weight)
        assert all(bool(weight.grad.abs().max() > 1e-6) is moved for weight in outputs)


def test_the_same_generator_draws_the_same_layers():
    first, again = (grow(trained(), MAPS[0], "random", generator()).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)


@pytest.mark.parametrize(
    ("ask", "error", "sentence"),
    [
        (lambda m: grow(m, repeated(3, 1, 0, 1), "duplicate"), ParameterError, "of 3 layers; this one has 2"),
        (
            lambda m: inspect.unwrap(grow)(m, MAPS[0], "noisy"),
            ParameterError,
            "Unknown filling 'noisy'; choose one of duplicate, ra",
        ),
        (
            lambda m: grow(m, MAPS[0], "random"),
            ParameterError,
            "Filling random draws weights; give it a generator",
        ),
    ],
)
def test_what_cannot_grow_is_refused_in_one_sentence(ask, error, sentence):
    with pytest.raises(error, match=sentence):
        ask(trained())
