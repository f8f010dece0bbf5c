"""Growing in depth: maps of layers against the thesis' examples (Section 5.2.1), functions, gradients."""

from inspect import unwrap

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
def test_copies_and_random_layers_change_the_function(layers, filling):
    model = trained()
    assert (predictions(grow(model, layers, filling, generator())) - predictions(model)).abs().max() > 1e-6


@pytest.mark.parametrize("filling", PRESERVING)
def test_preserving_fillings_are_refused_for_post_ln(filling):
    """Because the function would change."""
    model = trained("post")
    with pytest.raises(ParameterError, match=rf"^Filling {filling} preserves the function of a pre-LN"):
        grow(model, MAPS[0], filling, generator())
    assert (predictions(_grown(model, MAPS[0], filling, generator())) - predictions(model)).abs().max() > 1e-3


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_are_where_the_map_says(norm):
    model = trained(norm)
    grown = grow(model, LayerMap((0, 1, 0, 1), (False, False, True, True)), "duplicate")
    for at, source in enumerate([0, 1, 0, 1]):
        for name, value in model.blocks[source].state_dict().items():
            torch.testing.assert_close(grown.blocks[at].state_dict()[name], value, rtol=0, atol=0)
    assert grown.shape == EncoderShape(4, 2, 4, 8)
    assert grown.norm == norm
    torch.testing.assert_close(grown.word.weight, model.word.weight, rtol=0, atol=0)


def test_random_layers_are_as_initialised_and_old_ones_stay():
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
    """In a layer of zeros only output biases have a gradient."""
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


def test_a_map_of_another_number_of_layers_is_refused():
    with pytest.raises(ParameterError, match="of 3 layers; this one has 2"):
        grow(trained(), repeated(3, 1, 0, 1), "duplicate")


def test_an_unknown_filling_is_refused():
    """Where types are not checked at run time, too."""
    with pytest.raises(ParameterError, match=r"^Unknown filling 'foo'; choose one of duplicate, random, sil"):
        unwrap(grow)(trained(), MAPS[0], "foo")


# --- Maps of layers ---


@pytest.mark.parametrize(
    ("block", "printed", "new"),
    [
        (1, [1, 2, 2, 3, 3, 4, 4, 5, 6], [2, 4, 6]),
        (3, [1, 2, 3, 4, 2, 3, 4, 5, 6], [4, 5, 6]),
    ],
)
def test_the_four_printed_examples(block, printed, new):
    """L = 6, k = 3, i = 2; duplicated and random layers stand at the same places."""
    layers = repeated(6, 3, index=2 - 1, block=block)
    assert [source + 1 for source in layers.sources] == printed
    assert [at for at, added in enumerate(layers.new) if added] == new


def test_the_thesis_has_thirty_operators():
    """Fifteen maps, each with copied and with random layers (Section 5.3.1)."""
    maps = grid(12, 4, every=2)
    assert list(maps) == [(i, b) for i in (0, 2, 4, 6, 8) for b in (1, 2, 4)]


def test_adaptive_stacking_tries_as_many_as_published():
    """Stages 2 to 6 of BERT-LARGE (Section 5.4.2)."""
    tried = [len(grid(layers, 4, every=1 if layers <= 12 else 2)) for layers in (4, 8, 12, 16, 20)]
    assert tried == [3, 15, 27, 21, 27]


@pytest.mark.parametrize(("layers", "added"), [(1, 1), (4, 2), (6, 3), (6, 6)])
def test_every_map_keeps_each_layer_once_and_adds_the_right_number(layers, added):
    for grown in grid(layers, added).values():
        assert sum(grown.new) == added
        assert [s for s, new in zip(grown.sources, grown.new, strict=True) if not new] == [*range(layers)]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: repeated(6, 3, 4, 1), r"^The first of 3 out of 6 layers is 0 to 3 \(.*from 1\); got 4\.$"),
        (lambda: repeated(6, 3, -1, 1), "got -1"),
        (lambda: repeated(6, 3, 0, 2), r"^A block size divides the 3 added layers; got 2\.$"),
        (lambda: repeated(6, 7, 0, 1), r"^From 6 layers 1 to 6 can be added; got 7\.$"),
        (lambda: repeated(6, 0, 0, 1), "got 0"),
        *(
            (lambda sources=sources, new=new: LayerMap(sources, new), "^A map keeps the layers 0, 1, ... of")
            for sources, new in [
                ((0, 2, 2, 1), (False, False, False, True)),
                ((1, 0), (False, False)),
                ((0, 1, 5), (False, False, True)),
                ((0, 1, -1), (False, False, True)),
                ((0, 1), (False, False, True)),
            ]
        ),
    ],
)
def test_invalid_maps_are_refused(make, sentence):
    with pytest.raises(ParameterError, match=sentence):
        make()
