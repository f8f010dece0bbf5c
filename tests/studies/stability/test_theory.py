"""Losses, exponents, bounds, twins and their differences."""

import math

import numpy as np
import pytest
import torch

from sameloss.statistics.intervals import seed_interval
from sameloss.studies.stability.theory import (
    BOUNDED,
    LOSS,
    brier,
    clipped,
    cross_entropy,
    drawn_twins,
    exponent,
    gap_bound,
    total_variation,
    twin_table,
    zero_one,
)

# Losses by hand, their bounds, and what no loss exceeds.


def drawn(seed, *shape):
    return (3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))).double().log_softmax(-1)


def test_losses_of_one_image():
    log_p, label = torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([1])
    assert float(cross_entropy(log_p, label)) == pytest.approx(-math.log(0.3))
    assert float(clipped(log_p, label)) == pytest.approx(-math.log(0.3) / math.log(10))
    assert float(brier(log_p, label)) == pytest.approx((0.5**2 + 0.7**2 + 0.2**2) / 2)
    assert float(zero_one(log_p, label)) == 1
    assert float(zero_one(log_p, torch.tensor([0]))) == 0


def test_the_clipped_loss_ends_at_guessing():
    surely_wrong = torch.tensor([[0.0, -50.0]])
    assert float(clipped(surely_wrong, torch.tensor([1]))) == 1
    assert float(cross_entropy(surely_wrong, torch.tensor([1]))) == 50


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_losses_lie_in_the_unit_interval_and_change_by_no_more_than_the_total_variation(name):
    first, second = drawn(0, 500, 4), drawn(1, 500, 4)
    labels = torch.randint(4, (500,), generator=torch.Generator().manual_seed(2))
    losses = [LOSS[name](log_p, labels) for log_p in (first, second)]
    assert all(((values >= 0) & (values <= 1)).all() for values in losses)
    if name == "Brier":  # whose slope in the probabilities is at most 1 in total variation, doubled
        changes = (losses[0] - losses[1]).abs()
        assert (changes <= 2 * total_variation(first, second) + 1e-12).all()


# Exponents: planted ones are found, and their intervals cover as often as they say.

SIZES = (80, 160, 320, 640)


@pytest.mark.parametrize("b", [-1.2, 0.0, 0.8])
def test_a_planted_exponent_is_found(b):
    values = 3 * np.array(SIZES, float) ** b
    assert exponent(SIZES, values) == pytest.approx(b)


def test_intervals_over_seeds_cover_the_exponent_of_the_largest_of_pairs():
    """β of a pair is log-normal around a power law; of each seed the largest of six is taken."""
    rng, covered = np.random.default_rng(0), 0
    law = np.array(SIZES, float) ** -0.5
    for _ in range(500):
        seeds = rng.normal(size=(5, 1, 1))  # what a seed's initialisation does to all its pairs
        pairs = law[:, None] * np.exp(0.3 * seeds + 0.6 * rng.normal(size=(5, len(SIZES), 6)))
        _, low, high = seed_interval(exponent(SIZES, pairs.max(-1)))
        covered += low <= -0.5 <= high
    assert 0.92 <= covered / 500 <= 0.98


def test_what_is_not_positive_has_no_exponent():
    assert np.isnan(exponent(SIZES, np.array([1.0, 0.5, -0.1, 0.2])))


def test_the_gap_bound_by_hand():
    expected = 0.1 * math.log(50) * math.log(1000) + math.sqrt(math.log(20) / 50)
    assert gap_bound(np.array([0.1]), np.array([50])) == pytest.approx(expected)


# Differences of twins, by loops over pairs and images.

PAIRS, TESTED, SIZE, CLASSES = 3, 7, 5, 4


@pytest.fixture
def given():
    rng = torch.Generator().manual_seed(0)
    tested, sampled = (
        torch.randn(2 * PAIRS, count, CLASSES, generator=rng).double().log_softmax(-1)
        for count in (TESTED, SIZE)
    )
    labels = torch.randint(CLASSES, (TESTED,), generator=rng)
    sampled_labels = torch.randint(CLASSES, (2 * PAIRS, SIZE), generator=rng)
    by = torch.randint(TESTED, (PAIRS,), generator=rng)
    losses = LOSS["cross-entropy"](tested, labels.expand(2 * PAIRS, -1))
    by[0] = (losses[0] - losses[1]).abs().argmax()  # z is the worst of the first pair
    vectors = torch.randn(2 * PAIRS, 11, generator=rng).double()
    return tested, labels, sampled, sampled_labels, by, vectors


def test_every_column_by_hand(given):
    tested, labels, sampled, sampled_labels, by, vectors = given
    table = twin_table(*given)
    assert table["others cross-entropy"][0] < table["beta cross-entropy"][0]
    for pair, row in table.iterrows():
        s, other = 2 * pair, 2 * pair + 1
        for name, loss in LOSS.items():
            first, second = loss(tested[s], labels), loss(tested[other], labels)
            changes = [abs(float(a - b)) for a, b in zip(first, second, strict=True)]
            assert row[f"beta {name}"] == pytest.approx(max(changes))
            rest = [change for at, change in enumerate(changes) if at != by[pair]]
            assert row[f"others {name}"] == pytest.approx(max(rest))
            assert row[f"mean {name}"] == pytest.approx(np.mean(changes))
            trained = float(loss(sampled[s], sampled_labels[s]).mean())
            assert row[f"gap {name}"] == pytest.approx(float(first.mean()) - trained)
        p, q = tested[s].exp(), tested[other].exp()
        assert row["beta total variation"] == pytest.approx(float((p - q).clamp(min=0).sum(-1).max()))
        assert row.distance == pytest.approx(float((vectors[s] - vectors[other]).norm()))
        assert row.norm == pytest.approx(float(vectors[s].norm() + vectors[other].norm()) / 2)
        assert row.normalised == pytest.approx(row.distance / row.norm)
        assert row.error == pytest.approx(float((tested[s].argmax(-1) != labels).double().mean()))


def test_equal_models_are_stable(given):
    tested, *_, vectors = given
    tested[1::2], vectors[1::2] = tested[::2], vectors[::2]
    table = twin_table(*given)
    still = [name for name in table if name.startswith(("beta", "others", "mean", "distance"))]
    assert (table[still] == 0).all(axis=None)


# Twins differ in one example, and an order visits each example once an epoch.

RNG = torch.Generator()


def test_twins_differ_in_one_position_which_a_test_image_takes():
    twins = drawn_twins(100, 30, 20, 7, RNG.manual_seed(0))
    rows = twins.rows(100)
    assert rows.shape == (14, 20)
    for pair in range(7):
        first, second = rows[2 * pair], rows[2 * pair + 1]
        assert len(set(first.tolist())) == 20
        assert first.max() < 100
        (at,) = (first != second).nonzero()
        assert at == twins.replaced[pair]
        assert second[at] == 100 + twins.by[pair]


def test_every_part_of_a_twin_is_drawn_uniformly():
    twins = drawn_twins(8, 5, 4, 4000, RNG.manual_seed(1))
    for drawn, values in ((twins.samples, 8), (twins.replaced, 4), (twins.by, 5)):
        shares = torch.bincount(drawn.flatten(), minlength=values) / drawn.numel()
        assert shares == pytest.approx(torch.full((values,), 1 / values), abs=0.03)
