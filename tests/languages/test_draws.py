"""Dirichlet draws have the right moments at any concentration, and move continuously with it."""

import numpy as np
import pytest

from sameloss.languages.draws import dirichlet


@pytest.mark.parametrize("concentration", [0.02, 0.5, 3.0])
def test_moments(concentration):
    rows = dirichlet(np.random.default_rng(0), (40_000, 4), concentration)
    np.testing.assert_allclose(rows.sum(1), 1, rtol=1e-12)
    variance = 0.25 * 0.75 / (4 * concentration + 1)
    assert np.abs(rows.mean(0) - 0.25).max() < 4 * (variance / 40_000) ** 0.5
    kurtosis = ((rows - 0.25) ** 4).mean() / variance**2
    assert np.abs(rows.var(0) / variance - 1).max() < 4 * ((kurtosis - 1) / 40_000) ** 0.5


def test_no_draw_underflows_and_small_changes_are_small():
    near = [dirichlet(np.random.default_rng(1), (200, 50), 0.01 + d) for d in (0, 1e-9)]
    assert np.isfinite(near[0]).all()
    assert np.abs(near[0] - near[1]).max() < 1e-5
