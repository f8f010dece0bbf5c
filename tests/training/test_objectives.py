"""Objectives: the masked loss, the adversary, the trace penalty, their sum; and the algorithms by name."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from recorded.tiny_runs import LABELLED, trained
from sklearn.linear_model import Ridge
from torch.nn import functional as F

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages.masking import mask_batch, mask_share
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.bilstm import BiLSTMShape
from sameloss.store.store import Store
from sameloss.training import objectives
from sameloss.training.loop import Optimisation, TrainingStep
from sameloss.training.objectives import (
    ALGORITHMS,
    ORDINARY,
    Adversary,
    Objective,
    TaskExamples,
    TracePenalty,
    fisher_trace_along,
    loss_of,
    noisy_targets,
    plain_loss,
    random_signs,
    recipe,
    token_features,
    transfer_loss,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def batch(tiny_language):
    sentences = tiny_language.sample(64, seeded())
    return mask_batch(sentences, torch.arange(64) % 4)


@pytest.fixture
def examples(tiny_language):
    """Sentences of two downstream tasks."""
    labels = torch.stack([torch.arange(60) % 2, torch.arange(60) % 3], 1)
    return TaskExamples.labelled(tiny_language.sample(60, seeded(1)), labels, (2, 3))


# The masked loss


def logits_of(model, batch):
    return model(batch.masked, batch.positions, batch.lengths)


def test_one_hot_targets_give_the_plain_loss(tiny_language, tiny_model, batch):
    targets = noisy_targets(tiny_language, batch, 1.0)
    plain = plain_loss(tiny_model, batch)
    torch.testing.assert_close(F.cross_entropy(logits_of(tiny_model, batch), targets), plain.masked)
    assert plain.total is plain.masked


def test_soft_labels_are_the_mean_of_sampled_ones(tiny_language, tiny_model, batch):
    truth = noisy_targets(tiny_language, batch, 0.0)
    logits = logits_of(tiny_model, batch)
    averaged = 0.0
    for word in range(tiny_language.words):
        there = torch.full_like(batch.targets, word)
        averaged = averaged + F.cross_entropy(logits, there, reduction="none") * truth[:, word]
    soft = F.cross_entropy(logits, truth)
    torch.testing.assert_close(soft, averaged.mean(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_noise_scales_the_deviation_of_the_gradient_alone(tiny_language, tiny_model, batch, scale):
    def gradient_at(noise):
        targets = noisy_targets(tiny_language, batch, noise)
        loss = F.cross_entropy(logits_of(tiny_model, batch), targets)
        parts = torch.autograd.grad(loss, list(tiny_model.parameters()))
        return torch.cat([part.flatten() for part in parts])

    exact, sampled = gradient_at(0.0), gradient_at(1.0)
    assert (sampled - exact).norm() > 1e-2
    torch.testing.assert_close(gradient_at(scale) - exact, scale * (sampled - exact), rtol=1e-7, atol=1e-10)


def test_targets_of_several_masks_are_their_marginals(tiny_language):
    """With k masks the target of each is its conditional given the tokens that are left."""
    sentences = tiny_language.sample(8, torch.Generator().manual_seed(0))
    batch = mask_share(sentences, 0.6, np.random.default_rng(0))
    truth = noisy_targets(tiny_language, batch, 0.0)
    hidden = int((batch.masked[0] == 0).sum())
    assert hidden > 1
    every = torch.cartesian_prod(*[torch.arange(1, 4)] * 4)
    prob = tiny_language.log_prob(type(sentences)(every, torch.full((81,), 4))).exp()
    agrees = ((batch.masked[0] == 0) | (every == batch.masked[0])).all(1)
    mass = [prob[agrees & (every[:, batch.positions[0]] == w)].sum() for w in (1, 2, 3)]
    torch.testing.assert_close(truth[0], torch.stack(mass) / sum(mass), rtol=1e-9, atol=0)


# The adversary


@pytest.fixture
def halves(examples):
    double = TaskExamples(examples.sentences, examples.classes.double())
    return double.rows(slice(0, 30)), double.rows(slice(30, 60))


def loss_of_ridge_regression(model, first, second):
    """The loss on the second sentences of scikit-learn's head, fitted on the first."""
    h1, h2 = (token_features(model, part.sentences).detach().double() for part in (first, second))
    alpha = 0.1 * h1.square().sum(1).mean()
    head = Ridge(alpha=float(alpha), fit_intercept=False, tol=1e-12).fit(h1.numpy(), first.classes.numpy())
    return ((head.predict(h2.numpy()) - second.classes.numpy()) ** 2).sum(1).mean()


def test_the_adversarys_head_is_ridge_regression(tiny_model, halves):
    found = float(transfer_loss(tiny_model, *halves, ridge=0.1).detach())
    assert found == pytest.approx(loss_of_ridge_regression(tiny_model, *halves), rel=1e-9)


def test_the_head_of_features_in_bfloat16_is_fitted_in_full_precision(tiny_model, halves):
    with torch.autocast("cpu", torch.bfloat16):
        found = float(transfer_loss(tiny_model.float(), *halves, ridge=0.1).detach())
        expected = loss_of_ridge_regression(tiny_model, *halves)
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_gradient_goes_through_the_head(tiny_model, halves):
    """A finite difference moves the head along with the representation."""
    parameter = tiny_model.word.weight
    (exact,) = torch.autograd.grad(transfer_loss(tiny_model, *halves, ridge=0.1), [parameter])
    step = 1e-5
    with torch.no_grad():
        parameter[1, 2] += step
        up = transfer_loss(tiny_model, *halves, ridge=0.1)
        parameter[1, 2] -= 2 * step
        down = transfer_loss(tiny_model, *halves, ridge=0.1)
    assert float(exact[1, 2]) == pytest.approx(float((up - down) / (2 * step)), rel=1e-6)


def test_the_loss_does_not_depend_on_the_scale_of_the_representation(tiny_model, halves):
    def value(scale):
        with torch.no_grad():
            tiny_model.final_norm.weight.mul_(scale)
            tiny_model.final_norm.bias.mul_(scale)
        return float(transfer_loss(tiny_model, *halves, ridge=0.1).detach())

    large = value(1e3)
    assert value(1e3) == pytest.approx(large, rel=1e-4)  # both so large that the constant does not matter


def test_features_beyond_a_sentences_end_are_zero(tiny_model, examples):
    ragged = examples.sentences._replace(lengths=torch.arange(60) % 4 + 1)
    features = token_features(tiny_model, ragged)
    (alone,) = token_features(tiny_model, ragged.rows(slice(1, 2))._replace(tokens=ragged.tokens[1:2, :2]))
    expected = torch.cat([alone[:-1], torch.zeros(8).double(), torch.ones(1).double()])
    torch.testing.assert_close(features[1], expected)


def test_the_term_is_minus_the_weighted_loss_on_disjoint_samples(tiny_model, examples):
    term = Adversary(0.7, sentences=20).term(seeded(), examples)(tiny_model, torch.empty(0, 3))
    first, second = (examples.rows(rows) for rows in torch.randperm(60, generator=seeded())[:40].split(20))
    torch.testing.assert_close(term, -0.7 * transfer_loss(tiny_model, first, second, 0.1))


def test_the_samples_are_disjoint(examples, monkeypatch):
    parts = []
    monkeypatch.setattr(
        objectives, "transfer_loss", lambda model, *two: parts.extend(two[:2]) or torch.tensor(0)
    )
    numbered = TaskExamples(examples.sentences, torch.arange(60.0)[:, None])
    Adversary(1.0, sentences=30).term(seeded(), numbered)(torch.nn.Identity(), torch.empty(0, 3))
    drawn = torch.cat([part.classes for part in parts])
    assert sorted(drawn.flatten().tolist()) == list(range(60))


def test_classes_are_concatenated_one_hot_vectors(examples):
    labelled = TaskExamples.labelled(examples.sentences, torch.tensor([[0, 2], [1, 0]]), (2, 3))
    assert labelled.classes.tolist() == [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]]


@pytest.mark.parametrize("name", ["weight", "sentences", "ridge"])
def test_impossible_adversaries(name):
    with pytest.raises(ParameterError, match=f"{name} must be .*; got 0"):
        Adversary(**{"weight": 1.0, name: 0})


def test_too_few_downstream_sentences(examples):
    with pytest.raises(ParameterError, match="needs 2 x 128 downstream sentences; there are 60"):
        Adversary(0.1).term(seeded(), examples)
    with pytest.raises(ParameterError, match="there are 0"):
        Adversary(0.1).term(seeded(), None)


# The trace penalty


def averaged_over_signs(model, batch):
    """The mean over all signs, which for one sentence is the expectation."""
    logits = model(batch.masked, batch.positions, batch.lengths)
    every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 3)
    return sum(fisher_trace_along(model, logits, signs[None]) for signs in every) / len(every)


def test_the_mean_over_signs_is_the_trace(tiny_model, batch):
    one = batch.rows(slice(5, 6))
    exact = fisher_trace(tiny_model, one, estimator="exact").total.mean
    assert float(averaged_over_signs(tiny_model, one).detach()) == pytest.approx(exact, rel=1e-10)


def test_the_gradient_of_the_estimate_is_that_of_the_trace(tiny_model, batch):
    one, parameter = batch.rows(slice(5, 6)), tiny_model.head_bias
    (gradient,) = torch.autograd.grad(averaged_over_signs(tiny_model, one), [parameter])

    def exact(shift):
        with torch.no_grad():
            parameter[0] += shift
        value = fisher_trace(tiny_model, one, estimator="exact").total.mean
        with torch.no_grad():
            parameter[0] -= shift
        return value

    assert float(gradient[0]) == pytest.approx((exact(1e-5) - exact(-1e-5)) / 2e-5, rel=1e-5)


def test_sentences_do_not_mix_on_average(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    draws = [
        fisher_trace_along(tiny_model, logits, random_signs(logits.shape, seeded(seed)).double())
        for seed in range(400)
    ]
    values = torch.stack(draws).detach()
    exact = fisher_trace(tiny_model, batch, estimator="exact").total.mean
    error = float(values.std() / len(values) ** 0.5)
    assert error < 0.05 * exact
    assert abs(float(values.mean()) - exact) < 4 * error


def test_the_penalty_is_the_weighted_trace_along_new_signs(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    penalty, generator = TracePenalty(0.3).term(seeded()), seeded()
    for _ in range(2):
        signs = random_signs(logits.shape, generator).double()
        torch.testing.assert_close(
            penalty(tiny_model, logits), 0.3 * fisher_trace_along(tiny_model, logits, signs)
        )


def test_the_penalty_of_the_logarithm(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    plain, log = (
        TracePenalty(1.0, logarithm).term(seeded())(tiny_model, logits) for logarithm in (False, True)
    )
    torch.testing.assert_close(log, plain.log())


def test_signs_are_equally_likely():
    signs = random_signs(torch.Size([10_000]), seeded())
    assert signs.abs().unique().tolist() == [1.0]
    assert abs(float(signs.mean())) < 4 * 10_000**-0.5


def test_a_negative_weight_rewards_sharpness(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    reward, penalty = (TracePenalty(weight).term(seeded())(tiny_model, logits) for weight in (-0.3, 0.3))
    assert reward < 0
    torch.testing.assert_close(reward, -penalty)


@pytest.mark.parametrize("weight", [0.0, float("nan"), float("inf"), float("-inf")])
def test_an_impossible_penalty(weight):
    message = f"A trace penalty's weight must be finite and not 0; got {weight}"
    with pytest.raises(ParameterError, match=message):
        TracePenalty(weight)


# Their sum

ADVERSARY, PENALTY = Adversary(0.7, sentences=20), TracePenalty(0.3)


@pytest.mark.parametrize("objective", [ORDINARY, Objective(mask_rate=0.15)])
def test_sampled_labels_without_terms_give_the_plain_loss(objective, tiny_language):
    assert loss_of(objective, seeded(), tiny_language) is plain_loss


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_label_noise_changes_the_targets(tiny_language, tiny_model, batch, noise):
    losses = loss_of(Objective(label_noise=noise), seeded(), tiny_language)(tiny_model, batch)
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    expected = F.cross_entropy(logits, noisy_targets(tiny_language, batch, noise))
    assert torch.equal(losses.masked, expected)
    assert losses.total is losses.masked


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_terms_are_added_to_the_masked_loss(tiny_language, tiny_model, batch, examples, noise):
    both = Objective(label_noise=noise, adversary=ADVERSARY, trace_penalty=PENALTY)
    losses = loss_of(both, seeded(), tiny_language, examples)(tiny_model, batch)
    logits, generator = tiny_model(batch.masked, batch.positions, batch.lengths), seeded()
    adversary, penalty = ADVERSARY.term(generator, examples), PENALTY.term(generator)
    added = penalty(tiny_model, logits) + adversary(tiny_model, logits)
    assert float(added.detach().abs()) > 0.1
    torch.testing.assert_close(losses.total, losses.masked + added)
    bare = loss_of(Objective(label_noise=noise), seeded(), tiny_language)(tiny_model, batch)
    torch.testing.assert_close(losses.masked, bare.masked)


def test_exact_targets_keep_their_digits_under_autocast(tiny_language, tiny_model, batch):
    """The logits are rounded to bfloat16, the targets are not."""
    model, objective = tiny_model.float(), Objective(label_noise=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        losses = loss_of(objective, seeded(), tiny_language)(model, batch)
        logits = model(batch.masked, batch.positions, batch.lengths)
    assert logits.dtype == torch.bfloat16
    exact = F.cross_entropy(logits.double(), noisy_targets(tiny_language, batch, 0.0))
    torch.testing.assert_close(losses.masked.double(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_noise": -0.5}, r"label_noise must be finite and not negative; got -0.5"),
        ({"mask_rate": 1.0}, r"mask_rate must lie between 0 and 1; got 1.0"),
    ],
)
def test_impossible_objectives(settings, message):
    with pytest.raises(ParameterError, match=message):
        Objective(**settings)


# Algorithms


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_a_treatment_starts_where_its_origin_ended(store):
    run = trained("sgd-noise")
    run = replace(run, optimisation=replace(run.optimisation, lr=1e-12))
    start, still = (store.get(r).last() for r in (run.origin, run))
    for before, after in zip(start.parameters(), still.parameters(), strict=True):
        torch.testing.assert_close(after, before)
    fresh = run.new_model()
    assert not torch.allclose(fresh.word.weight, start.word.weight, atol=1e-3)
    assert (run.objective.label_noise, run.origin.objective.label_noise) == (1.0, 0.0)


def test_a_strength_is_part_of_the_recipe():
    assert recipe("adversarial", 0.1) != recipe("adversarial", 0.2)
    assert recipe("sam", 0.3).optimisation == {"sam_radius": 0.3}
    assert recipe("sam").optimisation == {"sam_radius": ALGORITHMS["sam"].strength}
    assert recipe("sgd-noise", 0.0).objective.label_noise == 0


def test_only_an_adversary_reads_the_tasks():
    assert trained().downstream is None
    assert trained("adversarial").downstream == LABELLED


def test_an_lstm_has_no_layer_norm_to_move():
    with pytest.raises(ParameterError, match=r"BiLSTMShape cannot be trained with post-LN"):
        trained("post-ln", BiLSTMShape(8, 1))


def test_a_diverging_training_is_named_and_its_corpus_kept(store):
    how = Optimisation(40, 16, 1e4, optimiser="sgd", schedule="constant")
    run = replace(trained(), optimisation=how, checkpoints=(40,))
    with pytest.raises(NonFiniteLoss, match=r"at step \d+.* with lr = .*, seed 0\. .*choose a smaller lr"):
        store.get(run)
    assert store.has(run.corpus)
    assert not store.has(run)


def test_an_adversary_that_prevails_is_stopped(store, monkeypatch):
    run = replace(trained("adversarial"), objective=Objective(adversary=Adversary(7.0)))
    steps = [TrainingStep(done, 1.0 if done < 9 else 9.0, 0.01) for done in range(1, 13)]
    monkeypatch.setattr("sameloss.runs.pretraining.pretrain", lambda *_, **__: iter(steps))
    with pytest.raises(NonFiniteLoss, match=r"9.00 nats at step 9, far above .*a smaller strength"):
        store.get(run)
    assert store.has(run.downstream)
