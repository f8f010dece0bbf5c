"""Alias tables give back their distributions; Dirichlet draws have the right moments."""

import numpy as np
import pytest
import torch

from sameloss.languages.draws import alias_table, alias_tables, dirichlet


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


def test_alias_tables_give_back_their_distributions():
    weights = torch.tensor([0.2, 0.8, 1.0, 0.0, 0.1, 0.6, 0.3], dtype=torch.float64)
    tables = alias_tables(weights.split([2, 1, 4]))
    mass = torch.zeros(7).double()
    share = 1 / tables.outcomes[torch.tensor([0, 0, 1, 2, 2, 2, 2])]
    mass.index_add_(0, torch.arange(7), share * tables.keep)
    mass.index_add_(0, torch.arange(7) + tables.shift, share * (1 - tables.keep))
    torch.testing.assert_close(mass, weights, rtol=1e-14, atol=1e-16)
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = tables.draw(torch.full((20_000,), 2), uniform).bincount(minlength=7) / 20_000
    torch.testing.assert_close(drawn[3:], weights[3:].float(), rtol=0, atol=4 * (0.25 / 20_000) ** 0.5)
    assert drawn[3] == 0


@pytest.mark.parametrize("probabilities", [[1.0], [0.5, 0.5], [0.7, 0.0, 0.3], [0.1] * 10])
def test_columns_of_an_alias_table_are_their_distribution(probabilities):
    keep, alias = alias_table(probabilities)
    mass = np.zeros(len(keep))
    np.add.at(mass, np.arange(len(keep)), np.divide(keep, len(keep)))
    np.add.at(mass, alias, (1 - np.array(keep)) / len(keep))
    np.testing.assert_allclose(mass, probabilities, rtol=1e-12, atol=1e-15)
