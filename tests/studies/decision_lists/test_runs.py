"""The exact runs: every family of flows, curves with what they are of, descent at both readings of λ."""

import numpy as np
import pytest

from sameloss.studies.decision_lists.experiment import THEOREM, curvature_at_start
from sameloss.studies.decision_lists.theory import Column, flow


def test_every_family_is_followed(page, tables):
    families = set(tables.flows.family)
    sweeps = page.config.sweeps
    assert {"luce", "readout", "rules", "rarity", "critical -0.5", "critical +0", "critical +0.5"} <= families
    assert set(tables.flows[tables.flows.family == "rules"].rules) == set(sweeps.rules)
    assert set(tables.flows[tables.flows.family == "rarity"].rarity) == set(sweeps.rarities)
    readouts = tables.flows[tables.flows.family == "readout"].readout
    followed = sorted({*page.config.readouts, page.config.task.theorem_readout})
    assert sorted(readouts.unique()) == pytest.approx(followed)


def test_events_are_those_of_the_flow(page, tables):
    own = tables.flows[(tables.flows.family == "readout") & (tables.flows.readout == 30)]
    found = flow(page.config.task.column(30.0), 1e6)
    assert own.order.tolist() == [event.order for event in found.events]
    np.testing.assert_allclose(own.time, [event.time for event in found.events])
    np.testing.assert_allclose(own.natural, own.time * (3 / 30) ** 2)


def test_curves_hold_scores_and_what_they_give(page, tables):
    curves = tables.curves
    assert curves["name"].unique().tolist() == [THEOREM, *(f"{c:g}" for c in page.config.shown)]
    for row in curves.iloc[::40].itertuples():
        column = page.config.task.column(row.readout)
        scores = np.array([row.w1, row.w2, row.w3, row.wo])
        assert row.loss == pytest.approx(12 * column.loss(scores))
        assert row.attention == pytest.approx(column.weight_on_determining(scores))
        assert row.accuracy == pytest.approx(column.accuracy(scores))
    for _, own in curves.groupby("name"):
        perfect = own[own.accuracy == 1].time.iloc[0]
        assert own.time.iloc[-1] == pytest.approx(100 * perfect, rel=0.2)


def test_descent_is_gentle_only_with_the_curvature_of_all_scores(tables):
    everywhere = tables.descents[tables.descents.curvature == "everywhere"]
    assert (everywhere.rises == 0).all()
    assert (everywhere.steps > 0).all()
    assert (everywhere.steps < everywhere.promised).all()
    (start,) = tables.descents[tables.descents.curvature == "at the start"].itertuples()
    assert start.rises > 0
    assert start.bound < Column(200, 25, 4, 1e5).masses.sum() * (1e10 / 8 + 1e5) / 25


def test_the_curvature_at_the_start_is_that_of_the_loss():
    """Along its largest direction, by differences of the loss; equal to the Hessian of all entries."""
    column = Column(8, 4, 3, 6.0)
    step = 1e-3
    largest = curvature_at_start(column)
    rng, root = np.random.default_rng(0), column.multiplicities**0.5
    for _ in range(50):
        direction = rng.normal(size=4)
        direction /= np.linalg.norm(direction)
        moved = step * direction / root
        second = (column.loss(moved) - 2 * column.loss(0 * moved) + column.loss(-moved)) / step**2
        assert second <= largest * (1 + 1e-3)
