"""Random numbers by use."""

import torch
from scipy.stats import kstest

from sameloss.seeds import generator_for, stream_seed


def test_no_two_uses_share_a_seed():
    uses = ("corpus", "endless corpus", "initial weights", "batches", "saturation", "trace", "probe")
    seeds = {stream_seed(use, *path) for use in uses for path in [(0,), (1,), (0, 0), (0, 1), (1, 0)]}
    assert len(seeds) == 5 * len(uses)
    assert min(seeds) >= 0
    assert max(seeds) < 2**63


def test_a_seed_stays_what_it_is():
    """Stored results depend on it."""
    assert stream_seed("corpus", 0, 1) == 1158745406548884793


def test_generators_of_one_use_agree_and_the_global_one_is_left_alone():
    before = torch.random.get_rng_state()
    one, again, other = (torch.rand(9, generator=generator_for("trace", n)) for n in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_seeds_are_spread_evenly():
    shares = [stream_seed("batches", n) / 2**63 for n in range(2000)]
    assert kstest(shares, "uniform").pvalue > 1e-3
