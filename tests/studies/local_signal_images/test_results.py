"""Results: what is kept, on planted numbers."""

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.local_signal_images.claims import ImageResults, difference, over_seeds


def rows(of, accuracies, measure="accuracy", placement="random place", size="8-on-16"):
    """Return a row a seed and noise."""
    return [
        {
            "size": size,
            "placement": placement,
            "noise": noise,
            "seed": seed,
            "measure": measure,
            "of": of,
            "value": own,
        }
        for seed, values in enumerate(accuracies)
        for noise, own in zip((0.0, 0.5, 2.0), values, strict=False)
    ]


PLANTED = ImageResults(
    pd.DataFrame(
        rows("network", [(0.9, 0.9, 0.81), (0.8, 0.8, 0.8)])
        + rows("chance", [(0.6, 0.6, 0.6)] * 2)
        + rows("chance", [(0.6, 0.6, 0.6)] * 2, placement="fixed corner")
        + rows("pixels", [(0.61, 0.6, 0.6), (0.68, 0.6, 0.7)])
        + rows("network", [(1.0, 0.5, 0.5)] * 2, placement="fixed corner")
        + rows("layer 1", [(0.5, 0.5, 0.4), (0.6, 0.5, 0.6)], "active before")
        + rows("layer 1", [(0.5, 0.6, 0.3), (0.6, 0.5, 0.7)], "active after")
    ),
    pd.DataFrame({"seed": [0, 0, 1, 1], "scale": [1.0, 9.0] * 2, "accuracy": [0.9, 0.8, 0.7, 0.6]}),
)


def test_kept_is_the_accuracy_at_most_noise_over_that_at_none():
    assert PLANTED.kept("network", "random place") == pytest.approx([90, 100])
    assert PLANTED.kept("network", "fixed corner") == pytest.approx([50, 50])


def test_chance_is_taken_off_both():
    assert PLANTED.kept("network", "random place", above_chance=True) == pytest.approx([70, 100])


def test_what_has_learnt_nothing_keeps_nothing():
    for above_chance in (False, True):
        assert np.isnan(PLANTED.kept("pixels", "random place", above_chance=above_chance)).all()


def test_the_thesis_own_numbers():
    """CIFAR-2 on Gaussian noise: 96.83 and 85.54 %; above chance 91.4 and 56.5 %."""
    table = (
        rows("WRN", [(0.947, 0.94, 0.917)])
        + rows("NTK", [(0.899, 0.873, 0.769)])
        + rows("chance", [(0.6,) * 3])
    )
    found = ImageResults(pd.DataFrame(table), pd.DataFrame())
    kept = [found.kept(of, "random place")[0] for of in ("WRN", "NTK")]
    assert kept == pytest.approx([96.83, 85.54], abs=0.005)
    above = [found.kept(of, "random place", above_chance=True)[0] for of in ("WRN", "NTK")]
    assert above == pytest.approx([91.4, 56.5], abs=0.05)


def test_activity_falls_in_points():
    assert PLANTED.fall(2.0) == pytest.approx(np.array([[10.0], [-10.0]]))


def test_lazy_accuracies_are_by_seed_and_scale():
    assert PLANTED.lazy_accuracies().to_numpy().tolist() == [[0.9, 0.8], [0.7, 0.6]]


def test_what_is_not_there_is_nothing():
    none = PLANTED.kept("NTK, GCV", "random place")
    assert not len(none)
    assert not len(difference(none, PLANTED.kept("network", "random place")))
    assert np.isnan(over_seeds(none).value)
    assert (PLANTED.placement, PLANTED.size, PLANTED.kernel) == ("random place", "8-on-16", "linearised")
    assert PLANTED.noises("random place") == [0.0, 0.5, 2.0]
