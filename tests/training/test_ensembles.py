"""An ensemble is the ordinary loop, model by model."""

import pytest
import torch
from torch.nn import functional as F

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages import HierarchySpec
from sameloss.languages.masking import mask_batch
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.grow import grow
from sameloss.models.layer_maps import grid
from sameloss.training.ensembles import Ensemble, train_together
from sameloss.training.loop import Optimisation, make_optimiser, pretrain
from sameloss.training.masked_loss import true_conditionals
from sameloss.training.moments import grown_moments, moments_of
from sameloss.training.objectives import Objective, loss_of

SPEC = HierarchySpec(levels=2, symbols=3, rules=2, smoothing=0.05)
LANGUAGE = SPEC.build()
SHAPE = EncoderShape(8, 2, 1, 16)
SETTINGS = Optimisation(steps=50, batch=16, lr=0.01, weight_decay=0.1)


def batch_at(step):
    generator = torch.Generator().manual_seed(step)
    return mask_batch(LANGUAGE.sample(16, generator), torch.randint(4, (16,), generator=generator))


def models(count):
    return [Encoder(SHAPE, SPEC.words, SPEC.max_length, seed) for seed in range(count)]


def one_hot(batch):
    return F.one_hot(batch.targets, SPEC.words).double()


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_each_member_is_trained_as_the_ordinary_loop_trains_it(noise):
    together = Ensemble(models(3))
    targets = one_hot if noise else (lambda batch: true_conditionals(LANGUAGE, batch))
    steps = list(train_together(together, batch_at, targets, SETTINGS))
    loss = loss_of(Objective(label_noise=noise), torch.Generator(), LANGUAGE)
    for at, model in enumerate(models(3)):
        alone = pretrain(
            model, make_optimiser(model, SETTINGS), batch_at, SETTINGS, loss_at=lambda step: loss
        )
        losses = torch.tensor([step.loss for step in alone])
        torch.testing.assert_close(torch.stack([s.losses[at] for s in steps]), losses, rtol=1e-4, atol=1e-5)
        for name, value in together.member(at).state_dict().items():
            torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-3, atol=1e-5)


def test_grown_members_go_on_with_their_own_moments_as_an_optimiser_would():
    """Kept layers go on at step 10, new ones begin at step 0, and which is which differs by member."""
    base = Encoder(EncoderShape(8, 2, 2, 16), SPEC.words, SPEC.max_length, seed=3)
    first = Optimisation(steps=10, batch=16, lr=0.01, schedule="constant")
    optimiser = make_optimiser(base, first)
    list(pretrain(base, optimiser, batch_at, first))
    moments, maps = moments_of(base, optimiser), list(grid(2, 2).values())
    drawn = [torch.Generator().manual_seed(5) for _ in range(4)]
    grown = [grow(base, layers, "random", drawn.pop()) for layers in maps]
    carried = [grown_moments(moments, layers, "random") for layers in maps]
    together = Ensemble(grown, carried)
    more = Optimisation(steps=5, batch=16, lr=0.01, schedule="constant", warmup=0.0)
    list(train_together(together, batch_at, one_hot, more))
    for at, layers in enumerate(maps):
        model = grow(base, layers, "random", drawn.pop())
        own = make_optimiser(model, more)
        again = grown_moments(moments, layers, "random")
        for name, parameter in model.named_parameters():
            steps, mean, square = again[name]
            own.state[parameter] = {"step": steps.float(), "exp_avg": mean, "exp_avg_sq": square}
        list(pretrain(model, own, batch_at, more))
        for name, value in together.member(at).state_dict().items():
            torch.testing.assert_close(value, model.state_dict()[name], rtol=1e-3, atol=1e-5)


def test_members_are_independent_of_their_order():
    first, last = Ensemble(models(2)), Ensemble(models(2)[::-1])
    for ensemble in (first, last):
        list(train_together(ensemble, batch_at, one_hot, SETTINGS))
    for name in first.weights:
        torch.testing.assert_close(first.weights[name], last.weights[name].flip(0), rtol=1e-4, atol=1e-6)


def test_predictions_are_those_of_each_member():
    ensemble = Ensemble(models(2))
    batch = batch_at(0)
    assert len(ensemble) == 2
    for at, model in enumerate(models(2)):
        torch.testing.assert_close(ensemble.logits(batch)[at], model(*batch[:2], batch.lengths))


def test_the_models_it_was_made_of_stay_as_they_are():
    given = models(2)
    before = given[1].word.weight.clone()
    list(train_together(Ensemble(given), batch_at, one_hot, Optimisation(steps=2, batch=16, lr=0.01)))
    assert torch.equal(given[1].word.weight, before)


def test_a_member_that_diverges_is_named():
    given = models(3)
    with torch.no_grad():
        given[1].head_bias.fill_(float("nan"))
    with pytest.raises(NonFiniteLoss, match=r"^The loss of member 1 is nan at step 1$"):
        list(train_together(Ensemble(given), batch_at, one_hot, SETTINGS))


@pytest.mark.parametrize("wrong", [{"optimiser": "sgd"}, {"sam_radius": 0.1}])
def test_other_training_is_refused(wrong):
    with pytest.raises(ParameterError, match="trained by AdamW without SAM"):
        list(
            train_together(
                Ensemble(models(1)), batch_at, one_hot, Optimisation(steps=1, batch=16, lr=1.0, **wrong)
            )
        )


def test_other_shapes_are_refused():
    deeper = Encoder(EncoderShape(8, 2, 2, 16), SPEC.words, SPEC.max_length, 0)
    with pytest.raises(ParameterError, match="of one shape; got 2 shapes"):
        Ensemble([*models(1), deeper])
    with pytest.raises(ParameterError, match="got 0 shapes"):
        Ensemble([])
