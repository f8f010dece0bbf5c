"""What twins differ in, by loops over pairs and images."""

import numpy as np
import pytest
import torch

from sameloss.studies.stability.theory import LOSS, twin_table

PAIRS, TESTED, SIZE, CLASSES = 3, 7, 5, 4


@pytest.fixture
def given():
    rng = torch.Generator().manual_seed(0)
    tested, sampled = (
        torch.randn(2 * PAIRS, count, CLASSES, generator=rng).double().log_softmax(-1)
        for count in (TESTED, SIZE)
    )
    labels = torch.randint(CLASSES, (TESTED,), generator=rng)
    own = torch.randint(CLASSES, (2 * PAIRS, SIZE), generator=rng)
    by = torch.randint(TESTED, (PAIRS,), generator=rng)
    losses = LOSS["cross-entropy"](tested, labels.expand(2 * PAIRS, -1))
    by[0] = (losses[0] - losses[1]).abs().argmax()  # z is the worst of the first pair
    return tested, labels, sampled, own, by, torch.randn(2 * PAIRS, 11, generator=rng).double()


def test_every_column_by_hand(given):
    tested, labels, sampled, own, by, vectors = given
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
            trained = float(loss(sampled[s], own[s]).mean())
            assert row[f"gap {name}"] == pytest.approx(float(first.mean()) - trained)
        p, q = tested[s].exp(), tested[other].exp()
        assert row["beta total variation"] == pytest.approx(float((p - q).clamp(min=0).sum(-1).max()))
        assert row.distance == pytest.approx(float((vectors[s] - vectors[other]).norm()))
        assert row.norm == pytest.approx(float(vectors[s].norm() + vectors[other].norm()) / 2)
        assert row.normalised == pytest.approx(row.distance / row.norm)
        assert row.error == pytest.approx(float((tested[s].argmax(-1) != labels).double().mean()))


def test_equal_models_are_stable(given):
    tested, labels, sampled, own, by, vectors = given
    tested[1::2], vectors[1::2] = tested[::2], vectors[::2]
    table = twin_table(tested, labels, sampled, own, by, vectors)
    still = [name for name in table if name.startswith(("beta", "others", "mean", "distance"))]
    assert (table[still] == 0).all(axis=None)
