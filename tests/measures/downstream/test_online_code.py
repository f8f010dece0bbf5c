"""Code lengths against what can be counted by hand."""

from dataclasses import replace
from math import log2

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.measures.downstream.online_code import FEW_LABELS, code_lengths, doubling, probes_by_count
from sameloss.measures.downstream.optimal_probe import OptimalProbe

EXACT = OptimalProbe(ridges=(1e-9,), tolerance=1e-10)


def lengths(features, labels, classes, counts, probe=EXACT):
    probes = probes_by_count(features, labels, classes, counts, probe)
    return code_lengths(probes, features, labels, counts)


def test_without_features_a_block_costs_what_frequencies_before_it_say():
    """Four sentences at a bit each; then labels of 3/4 and 1/4; then of 5/8 and 3/8."""
    labels = torch.tensor([0, 1, 0, 0, 0, 1, 0, 1, 1, 1])[:, None]
    found = lengths(torch.ones(10, 1), labels, [2], (4, 8, 10))
    second = 2 * log2(4 / 3) + 2 * log2(4)
    third = 2 * log2(8 / 3)
    assert found[:, 0].tolist() == pytest.approx([4, 4 + second, 4 + second + third], abs=1e-3)


def test_labels_that_the_features_tell_cost_little_more_than_the_first_block():
    features = torch.randn(512, 3, generator=torch.Generator().manual_seed(0))
    told = (features[:, :1] > 0).long()
    drawn = torch.randint(0, 4, (512, 1), generator=torch.Generator().manual_seed(1))
    counts = doubling(8, 512)
    found = lengths(features, torch.cat([told, drawn], 1), [2, 4], counts, OptimalProbe())
    assert found[0].tolist() == [8, 16]
    assert found[-1, 0] < 0.25 * 512
    assert found[-1, 1] > 0.98 * 2 * 512
    assert (found.diff(dim=0) > 0).all()


def test_a_first_block_of_one_class_is_no_fault():
    labels = torch.tensor(8 * [0] + 8 * [1])[:, None]
    found = lengths(torch.randn(16, 2, generator=torch.Generator().manual_seed(0)), labels, [2], (8, 16))
    assert found.isfinite().all()
    assert found[-1, 0] > 16 + 8  # sure of the other class


def test_features_that_tell_nothing_cost_hardly_more_than_no_code():
    """Unless too few sentences choose the ridge: then probes are sure of what they do not know."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(512, 64, generator=generator)
    labels = torch.randint(0, 4, (512, 6), generator=generator)

    def share_of_uniform(probe):
        found = lengths(features, labels, 6 * [4], doubling(8, 512), probe)
        return float(found[-1].mean() / (2 * 512))

    assert share_of_uniform(FEW_LABELS) < 1.03
    assert share_of_uniform(OptimalProbe()) > 1.2


def test_labels_that_few_sentences_tell_cost_less_where_half_of_them_choose_the_ridge():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(64, 32, generator=generator)
    truth = torch.randn(32, 24, 4, generator=generator)
    labels = torch.einsum("nf,ftc->ntc", features, truth).argmax(-1)

    def share_of_uniform(held_out):
        probe = replace(FEW_LABELS, held_out=held_out)
        return float(lengths(features, labels, 24 * [4], doubling(8, 64), probe)[-1].mean() / (2 * 64))

    assert share_of_uniform(0.5) < 0.97
    assert share_of_uniform(0.2) > 1.0


@pytest.mark.parametrize("counts", [(1, 4), (8, 4), (4, 4), (4, 17)])
def test_numbers_that_do_not_rise_within_the_sentences_are_refused(counts):
    with pytest.raises(ParameterError, match="must rise from 2 to at most 16; got"):
        lengths(torch.ones(16, 1), torch.zeros(16, 1, dtype=torch.long), [2], counts)


def test_numbers_double_up_to_the_last():
    assert doubling(8, 64) == (8, 16, 32, 64)
    assert doubling(8, 65) == (8, 16, 32, 64, 65)
    assert doubling(8, 8) == (8,)
