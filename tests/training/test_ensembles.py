"""Ensembles train like the ordinary loop, and moments follow the layers of a grown model."""

from io import BytesIO

import pytest
import torch
from torch.nn import functional as F

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages import HierarchySpec
from sameloss.languages.masking import Batch, mask_batch
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.enlarge import grid, grow, repeated
from sameloss.training.ensembles import Ensemble, grown_moments, moments_of, train_together
from sameloss.training.loop import Optimisation, make_optimiser, pretrain
from sameloss.training.objectives import Objective, loss_of, noisy_targets

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
def test_each_member_is_trained_like_a_single_model(noise):
    together = Ensemble(models(3))
    targets = lambda batch: noisy_targets(LANGUAGE, batch, noise)  # noqa: E731
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


def test_grown_members_continue_with_their_moments_like_a_single_model():
    """Old layers continue at step 10, new ones start at step 0, and which are new differs by member."""
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


def test_the_order_of_members_does_not_matter():
    first, last = Ensemble(models(2)), Ensemble(models(2)[::-1])
    for ensemble in (first, last):
        list(train_together(ensemble, batch_at, one_hot, SETTINGS))
    for name in first.weights:
        torch.testing.assert_close(first.weights[name], last.weights[name].flip(0), rtol=1e-4, atol=1e-6)


def test_logits_are_those_of_each_member():
    ensemble = Ensemble(models(2))
    batch = batch_at(0)
    assert len(ensemble) == 2
    for at, model in enumerate(models(2)):
        torch.testing.assert_close(ensemble.logits(batch)[at], model(*batch[:2], batch.lengths))


def test_the_models_given_to_an_ensemble_are_not_changed():
    given = models(2)
    before = given[1].word.weight.clone()
    list(train_together(Ensemble(given), batch_at, one_hot, Optimisation(steps=2, batch=16, lr=0.01)))
    assert torch.equal(given[1].word.weight, before)


def broken(count, at):
    """Models of which some are not finite."""
    given = models(count)
    with torch.no_grad():
        for member in at:
            given[member].head_bias.fill_(float("nan"))
    return given


def test_a_member_that_diverges_leaves_the_others_alone():
    few = Optimisation(steps=3, batch=16, lr=0.01)
    whole, together = Ensemble(models(3)), Ensemble(broken(3, at=[1]))
    list(train_together(whole, batch_at, one_hot, few))
    steps = list(train_together(together, batch_at, one_hot, few))
    assert [step.losses.isfinite().tolist() for step in steps] == [[True, False, True]] * 3
    for name, weights in whole.weights.items():
        assert torch.equal(together.weights[name][[0, 2]], weights[[0, 2]])


def test_where_all_members_diverge_the_training_ends():
    with pytest.raises(NonFiniteLoss, match=r"^The loss is nan at step 1 with lr = 0\.00"):
        list(train_together(Ensemble(broken(2, at=[0, 1])), batch_at, one_hot, SETTINGS))


@pytest.mark.parametrize("count", [1, 3])
def test_resuming_from_a_saved_state_is_exact(count):
    whole, first, second = (Ensemble(models(count)) for _ in range(3))
    list(train_together(whole, batch_at, one_hot, SETTINGS))
    for step in train_together(first, batch_at, one_hot, SETTINGS):
        if step.done == 20:
            break
    buffer = BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    list(train_together(second, batch_at, one_hot, SETTINGS, start=20))
    for name in whole.weights:
        assert torch.equal(second.weights[name], whole.weights[name])


def test_a_state_of_another_shape_is_refused():
    wider = Ensemble([Encoder(EncoderShape(16, 2, 1, 16), SPEC.words, SPEC.max_length, 0)])
    with pytest.raises(RuntimeError, match=r"^The state is not one of this shape: "):
        Ensemble(models(1)).load_state_dict(wider.state_dict())


def test_some_members_continue_without_the_others():
    whole = Ensemble(models(3))
    few = Optimisation(steps=4, batch=16, lr=0.01)
    steps = train_together(whole, batch_at, one_hot, few)
    next(steps)
    one = whole.kept([2])
    before = {name: weights.clone() for name, weights in one.weights.items()}
    moments = one.moments_of(0)
    list(steps)
    assert len(one) == 1
    assert {float(own.steps) for own in moments.values()} == {1.0}
    for name, weights in one.weights.items():
        assert torch.equal(weights, before[name])  # shares nothing with what it was taken from
    list(train_together(one, batch_at, one_hot, few, start=1))
    for name, weights in one.weights.items():
        torch.testing.assert_close(weights[0], whole.weights[name][2], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("wrong", [{"optimiser": "sgd"}, {"sam_radius": 0.1}])
def test_other_optimisers_are_refused(wrong):
    with pytest.raises(ParameterError, match="trained by AdamW without SAM"):
        list(
            train_together(
                Ensemble(models(1)), batch_at, one_hot, Optimisation(steps=1, batch=16, lr=1.0, **wrong)
            )
        )


# Moments

FEW = Optimisation(steps=3, batch=2, lr=0.01)
LAYERS = repeated(2, 1, index=1, block=1)
BATCH = Batch(torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.tensor([0, 1]), torch.tensor([2, 0]), None)


@pytest.fixture
def shallow():
    """An encoder of two layers after three steps, and its optimiser."""
    model = Encoder(EncoderShape(4, 2, 2, 8), words=3, max_length=3, seed=0)
    optimiser = make_optimiser(model, FEW)
    list(pretrain(model, optimiser, lambda step: BATCH, FEW))
    return model, optimiser


def test_moments_are_copied_from_the_optimiser_by_name(shallow):
    model, optimiser = shallow
    moments = moments_of(model, optimiser)
    assert set(moments) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        state = optimiser.state[parameter]
        assert moments[name].steps == 3
        assert torch.equal(moments[name].mean, state["exp_avg"])
        assert torch.equal(moments[name].square, state["exp_avg_sq"])
        assert moments[name].mean.data_ptr() != state["exp_avg"].data_ptr()


def test_moments_before_the_first_step_are_zero(shallow):
    model, _ = shallow
    moments = moments_of(model, make_optimiser(model, FEW))
    assert all(not any(field.any() for field in m) for m in moments.values())


@pytest.mark.parametrize("filling", ["duplicate", "random", "silent", "muted"])
def test_moments_follow_the_layers_of_a_grown_model(shallow, filling):
    moments = moments_of(*shallow)
    grown = grown_moments(moments, LAYERS, filling)
    model = grow(shallow[0], LAYERS, filling, torch.Generator())
    assert {name: m.mean.shape for name, m in grown.items()} == {
        name: parameter.shape for name, parameter in model.named_parameters()
    }
    for at, source in ((0, 0), (1, 1)):
        for name in ("mlp_in.weight", "attention.out.weight", "mlp_norm.bias"):
            new, old = grown[f"blocks.{at}.{name}"], moments[f"blocks.{source}.{name}"]
            assert all(torch.equal(*pair) for pair in zip(new, old, strict=True))
    copied = {"duplicate": ("mlp_in", "mlp_out"), "muted": ("mlp_in",)}.get(filling, ())
    for name in ("mlp_in", "mlp_out"):
        new, source = grown[f"blocks.2.{name}.weight"], moments[f"blocks.1.{name}.weight"]
        if name in copied:
            assert all(torch.equal(*pair) for pair in zip(new, source, strict=True))
            assert new.mean.data_ptr() != source.mean.data_ptr()
        else:
            assert not any(field.any() for field in new)
    assert torch.equal(grown["word.weight"].mean, moments["word.weight"].mean)


def test_reset_and_stale_moments(shallow):
    moments = moments_of(*shallow)
    for reset in grown_moments(moments, LAYERS, "duplicate", "reset").values():
        assert not any(field.any() for field in reset)
    stale = grown_moments(moments, LAYERS, "random", "stale")
    assert {float(m.steps) for m in stale.values()} == {3.0}
    assert not stale["blocks.2.mlp_in.weight"].mean.any()
    assert stale["blocks.1.mlp_in.weight"].mean.any()
