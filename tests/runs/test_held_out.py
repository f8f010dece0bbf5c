"""Held-out sentences: random by use, masked where every token is equally likely, conditionals exact."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from sameloss.languages import MASK, HMMSpec, TeacherSpec
from sameloss.runs.sampling import HeldOutConditionals, held_out, held_out_conditionals, held_out_masked
from sameloss.store.store import Store


def test_no_two_uses_share_their_randomness(tiny_language):
    one, again, other, seed = (
        held_out(tiny_language, 50, seed, use).tokens
        for use, seed in (("trace", 0), ("trace", 0), ("gap", 0), ("trace", 1))
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(one, seed)


def test_every_position_is_masked_equally_often(tiny_language):
    masked = held_out_masked(tiny_language, 2000, 0, "test")
    assert chisquare(masked.positions.bincount(minlength=4)).pvalue > 1e-3
    assert (masked.masked.gather(1, masked.positions[:, None]) == MASK).all()


def test_conditionals_are_those_of_the_masked_sentences(tiny_language):
    """Brute force: the joint probability of each word in the gap, normalised."""
    masked = held_out_masked(tiny_language, 20, 0, "test")
    found = held_out_conditionals(tiny_language, 20, 0, "test")
    filled = masked.masked.repeat_interleave(3, 0)
    filled[torch.arange(60), masked.positions.repeat_interleave(3)] = torch.arange(1, 4).repeat(20)
    sentences = tiny_language.sample(60, torch.Generator())._replace(tokens=filled)
    joint = tiny_language.log_prob(sentences).exp().unflatten(0, (20, 3))
    torch.testing.assert_close(found, joint / joint.sum(1, keepdim=True))
    seen = found.gather(1, masked.targets[:, None])
    assert (seen > 0).all()


def test_an_autoregressive_language_is_asked_at_one_position_of_each(monkeypatch):
    """Which is what all its conditionals say there, up to the order of sums."""
    language = TeacherSpec().build()
    masked = held_out_masked(language, 20, 0, "test")
    sentences = held_out(language, 20, 0, "test")
    expected = language.conditionals(sentences)[torch.arange(20), masked.positions]
    monkeypatch.setattr(language, "conditionals", lambda sentences: pytest.fail("all positions were asked"))
    found = held_out_conditionals(language, 20, 0, "test")
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_they_come_back_as_they_were_stored(tmp_path):
    spec = HMMSpec(3, 4, 3, 1, 1.0, 1.0)
    sentences, conditionals = Store(tmp_path).get(HeldOutConditionals(spec, 30, 0))
    assert torch.equal(sentences.tokens, held_out(spec.build(), 30, 0, "saturation").tokens)
    np.testing.assert_array_equal(conditionals, spec.build().conditionals(sentences))
