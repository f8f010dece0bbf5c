"""The Fisher trace against dense Hessians and naive gradients, in float64."""

import pytest
import torch
from torch.func import functional_call, hessian

from sameloss.corpus import mask_batch
from sameloss.errors import ParameterError
from sameloss.flatness.trace import fisher_trace, parameter_group, predictions, squared_norms
from sameloss.languages import PCFGSpec
from sameloss.models.encoder import Encoder, EncoderShape


@pytest.fixture
def masked(tiny_language):
    sentences = tiny_language.sample(12, torch.Generator().manual_seed(0))
    return mask_batch(sentences, torch.arange(12) % 4)


def dense_trace(model, masked, truth):
    """Return Tr of the Hessian of E[-sum_y truth[y] log f[y]] over all parameters."""
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])

    def loss(flat):
        parts = flat.split([shape.numel() for shape in shapes])
        weights = {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        logits = functional_call(model, weights, (masked.masked, masked.positions, masked.lengths))
        return -(truth * logits.log_softmax(-1)).sum(-1).mean()

    return hessian(loss)(flat).trace()


def test_trace_matches_the_dense_hessian_at_saturation(tiny_model, masked):
    """Lemma 3.2: where the outputs are the conditionals, Fisher and Hessian agree."""
    truth = predictions(tiny_model, masked)
    exact = fisher_trace(tiny_model, masked, estimator="exact").total.mean
    assert exact == pytest.approx(dense_trace(tiny_model, masked, truth).item(), rel=1e-9)


def test_trace_differs_from_the_hessian_away_from_saturation(tiny_model, masked, tiny_language):
    truth = predictions(tiny_model, masked).roll(1, dims=-1)
    exact = fisher_trace(tiny_model, masked, estimator="exact").total.mean
    assert exact != pytest.approx(dense_trace(tiny_model, masked, truth).item(), rel=1e-2)


@pytest.mark.parametrize("ragged", [False, True])
def test_norms_match_a_naive_loop(tiny_model, masked, ragged):
    if ragged:
        language = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.3, 0.6), seed=5).build()
        sentences = language.sample(12, torch.Generator().manual_seed(0))
        masked = mask_batch(sentences, torch.zeros(12).long())
        assert masked.lengths is not None
    rows, labels = torch.arange(12), torch.arange(12) % 3
    fast = squared_norms(tiny_model, masked, rows, labels)
    for row, label in zip(rows, labels, strict=True):
        one = slice(int(row), int(row) + 1)
        lengths = None if masked.lengths is None else masked.lengths[one]
        logits = tiny_model(masked.masked[one], masked.positions[one], lengths)
        tiny_model.zero_grad()
        logits[0].log_softmax(-1)[label].backward()
        slow = sum(p.grad.square().sum() for p in tiny_model.parameters())
        torch.testing.assert_close(sum(part[row] for part in fast.values()), slow, rtol=1e-10, atol=0)


def test_parts_add_up(tiny_model, masked):
    trace = fisher_trace(tiny_model, masked, estimator="exact")
    assert sum(part.mean for part in trace.parts.values()) == pytest.approx(trace.total.mean, rel=1e-12)
    assert set(trace.parts) == {"word embedding", "position", "LayerNorm", "attention", "MLP", "head"}


def test_sampled_labels_are_unbiased(tiny_model, masked):
    exact = fisher_trace(tiny_model, masked, estimator="exact").total
    generator = torch.Generator().manual_seed(0)
    draws = torch.tensor(
        [fisher_trace(tiny_model, masked, labels=4, generator=generator).total.mean for _ in range(200)]
    )
    error = draws.std() / len(draws) ** 0.5
    assert abs(draws.mean() - exact.mean) < 4 * error
    assert error < 0.03 * exact.mean


def test_standard_error_covers_the_truth(tiny_language):
    """Of 100 estimates about 95 lie within two standard errors of the population's trace."""
    model = Encoder(EncoderShape(4, 1, 1, 4), words=3, max_length=4, seed=1)
    with torch.no_grad():
        model.head_bias.copy_(torch.tensor([0.5, 0.0, -0.5]))
    generator = torch.Generator().manual_seed(0)

    def masked(count):
        sentences = tiny_language.sample(count, generator)
        place = torch.rand(count, generator=generator)
        return mask_batch(sentences, (place * sentences.lengths).long())

    truth = fisher_trace(model, masked(20_000), generator=generator).total
    estimates = [fisher_trace(model, masked(200), generator=generator).total for _ in range(100)]
    covered = sum(abs(e.mean - truth.mean) < 2 * e.standard_error for e in estimates)
    assert 88 <= covered <= 99


def test_bad_requests_say_what_is_valid(tiny_model, masked):
    with pytest.raises(ParameterError, match="labels must be positive; got 0"):
        fisher_trace(tiny_model, masked, labels=0)
    with pytest.raises(ValueError, match="belongs to no known group"):
        parameter_group("strange.weight")
