"""Saturation along a pre-training: exact where the language can be enumerated, else on held-out sentences."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sameloss.languages.entropy import context_information, masked_entropy
from sameloss.measures.saturation import exact_saturation, saturation
from sameloss.runs.flatness import SaturationMeasurement
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.sampling import CorpusSampling
from sameloss.store.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_a_small_language_is_enumerated(tiny_run, tiny_language, store):
    """All but what the context tells, which is estimated on the held-out sentences."""
    run = SaturationMeasurement(tiny_run, HeldOutConditionals(tiny_run.corpus.language, 50, 0))
    found = store.get(run).set_index(["part", "step"])
    assert (found.standard_error[["entropy", "kl", "loss"]] == 0).all()
    expected = exact_saturation(store.get(tiny_run).model(20), tiny_language)
    for part, estimate in expected._asdict().items():
        assert found["mean"][part, 20] == pytest.approx(estimate.mean, rel=1e-12)
    first, last = found["mean"]["kl"]
    assert 0 < last < first
    context = context_information(tiny_language, *store.get(run.held_out))
    for step in (20, 60):
        assert found.loc[("context", step)].tolist() == pytest.approx(list(context), rel=1e-12)
    assert context.standard_error > 0


def test_a_large_one_is_sampled(tiny_run, tiny_spec, store):
    """A vocabulary of 60 words has 13 million sentences of four."""
    large = replace(tiny_spec, words=60)
    run = replace(tiny_run, corpus=CorpusSampling(large, 300, seed=0))
    held_out = HeldOutConditionals(large, 200, 0)
    found = store.get(SaturationMeasurement(run, held_out)).set_index(["step", "part"])
    sentences, conditionals = store.get(held_out)
    expected = saturation(store.get(run).model(60), sentences, conditionals)
    for part, estimate in expected._asdict().items():
        assert found.loc[(60, part)].tolist() == pytest.approx(list(estimate), rel=1e-12)
    context = context_information(large.build(), sentences, conditionals)
    assert found.loc[(60, "context")].tolist() == pytest.approx(list(context), rel=1e-12)
    entropy, again = found.loc[(60, "entropy")], masked_entropy(large.build(), *_more(large))
    error = np.hypot(entropy.standard_error, again.standard_error)
    assert error < 0.05 * again.mean
    assert abs(entropy["mean"] - again.mean) < 4 * error


def _more(spec):
    generator = torch.Generator().manual_seed(1)
    return spec.build().sample(2000, generator), generator
