"""AdamW's moments follow their layers when a model grows."""

import inspect

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import LayerMap, grow, repeated
from sameloss.training.ensembles import Moments, grown_moments, moments_of
from sameloss.training.loop import Optimisation, make_optimiser, pretrain

SETTINGS = Optimisation(steps=3, batch=2, lr=0.01)
LAYERS = repeated(2, 1, index=1, block=1)
BATCH = Batch(torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.tensor([0, 1]), torch.tensor([2, 0]), None)


@pytest.fixture
def trained():
    """Return an encoder of two layers after three steps, and its moments."""
    model = Encoder(EncoderShape(4, 2, 2, 8), words=3, max_length=3, seed=0)
    optimiser = make_optimiser(model, SETTINGS)
    list(pretrain(model, optimiser, lambda step: BATCH, SETTINGS))
    return model, optimiser


def test_they_are_the_optimisers_own_by_name(trained):
    model, optimiser = trained
    found = moments_of(model, optimiser)
    assert set(found) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        state = optimiser.state[parameter]
        assert found[name].steps == 3
        assert torch.equal(found[name].mean, state["exp_avg"])
        assert torch.equal(found[name].square, state["exp_avg_sq"])
        assert found[name].mean.data_ptr() != state["exp_avg"].data_ptr()


def test_before_the_first_step_there_are_none(trained):
    model, _ = trained
    found = moments_of(model, make_optimiser(model, SETTINGS))
    assert all(not any(field.any() for field in moments) for moments in found.values())


@pytest.mark.parametrize("filling", ["duplicate", "random", "silent", "muted"])
def test_moments_follow_their_layers(trained, filling):
    own = moments_of(*trained)
    grown = grown_moments(own, LAYERS, filling)
    model = grow(trained[0], LAYERS, filling, torch.Generator())
    assert {name: found.mean.shape for name, found in grown.items()} == {
        name: parameter.shape for name, parameter in model.named_parameters()
    }
    for at, source in ((0, 0), (1, 1)):
        for name in ("mlp_in.weight", "attention.out.weight", "mlp_norm.bias"):
            kept, before = grown[f"blocks.{at}.{name}"], own[f"blocks.{source}.{name}"]
            assert all(torch.equal(*pair) for pair in zip(kept, before, strict=True))
    copied = {"duplicate": ("mlp_in", "mlp_out"), "muted": ("mlp_in",)}.get(filling, ())
    for name in ("mlp_in", "mlp_out"):
        new, source = grown[f"blocks.2.{name}.weight"], own[f"blocks.1.{name}.weight"]
        if name in copied:
            assert all(torch.equal(*pair) for pair in zip(new, source, strict=True))
            assert new.mean.data_ptr() != source.mean.data_ptr()
        else:
            assert not any(field.any() for field in new)
    assert torch.equal(grown["word.weight"].mean, own["word.weight"].mean)


def test_a_reset_forgets_everything_and_stale_moments_keep_the_number_of_steps(trained):
    own = moments_of(*trained)
    for moments in grown_moments(own, LAYERS, "duplicate", "reset").values():
        assert not any(field.any() for field in moments)
    stale = grown_moments(own, LAYERS, "random", "stale")
    assert {float(moments.steps) for moments in stale.values()} == {3.0}
    assert not stale["blocks.2.mlp_in.weight"].mean.any()
    assert stale["blocks.1.mlp_in.weight"].mean.any()


def test_an_unknown_way_is_refused(trained):
    with pytest.raises(ParameterError, match="state 'lost'; choose one of mapped, reset, stale"):
        inspect.unwrap(grown_moments)(
            moments_of(*trained), LayerMap((0, 1, 1), (False, False, True)), "duplicate", "lost"
        )


def test_there_is_a_form_before_the_first_step():
    assert [tuple(field.shape) for field in Moments.none(torch.ones(2, 3))] == [(), (2, 3), (2, 3)]
