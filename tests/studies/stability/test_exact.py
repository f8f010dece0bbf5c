"""All swaps of a sample of five, each trained by torch's own optimiser; ridge regression fitted anew."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from torch.nn import functional as F

from sameloss.images import ImageSource
from sameloss.store.store import Store
from sameloss.studies.stability.experiment import REPEATS, AllSwaps, RidgeSwaps, _largest_change
from sameloss.studies.stability.training import Descent

SOURCE = ImageSource(halves=True)


@pytest.fixture(scope="module")
def run():
    return AllSwaps(SOURCE, Descent(0.1, 2, 15), size=5, candidates=3, drawn=(1, 15), seed=7)


@pytest.fixture(scope="module")
def table(run, tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store")).get(run).set_index(["loss", "drawn"])


def one_by_one(run):
    """Return the losses on the test set and the parameters of the sample and of each swap."""
    images = SOURCE.load()
    x, y = images.x.flatten(1).double(), images.y
    found = []
    for rows in run.rows(images):
        w = torch.zeros(65, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.SGD([w], lr=run.descent.lr)
        for positions in run.order()[0]:
            own = rows[positions]
            optimiser.zero_grad()
            F.binary_cross_entropy_with_logits(x[own] @ w[:-1] + w[-1], y[own].double()).backward()
            optimiser.step()
        with torch.no_grad():
            logits = x[images.pool :] @ w[:-1] + w[-1]
            losses = F.binary_cross_entropy_with_logits(logits, y[images.pool :].double(), reduction="none")
        found.append((losses, w.detach()))
    return found


def test_the_supremum_is_that_of_all_trainings(run, table):
    (first, own), *others = one_by_one(run)
    assert len(others) == 5 * 3
    largest = [float((losses - first).abs().max()) for losses, _ in others]
    assert table.exact["cross-entropy", 1] == pytest.approx(max(largest), rel=1e-4)
    assert table.distance.iloc[0] == pytest.approx(max(float((w - own).norm()) for _, w in others), rel=1e-4)
    assert table["median"]["cross-entropy", 15] == pytest.approx(max(largest), rel=1e-4)  # all of them drawn
    below = np.quantile(largest, 0.3), np.quantile(largest, 0.7)
    assert below[0] <= table["median"]["cross-entropy", 1] <= below[1]


def test_distances_are_below_their_bound_and_losses_below_its_slope(table):
    first = table.loc["cross-entropy"].iloc[0]
    assert 0 < first.distance <= first.bound
    assert first.exact <= first.slope * first.distance * (1 + 1e-6)
    assert REPEATS >= 1000


def test_the_largest_change_of_ridge_regression_is_that_of_all_fits(tmp_path):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(9, 4)), rng.choice([-1.0, 1.0], 9)
    fit = lambda rows: KernelRidge(alpha=0.1 * 5).fit(x[rows], y[rows]).predict(x[5:])  # noqa: E731
    before, largest = (fit(range(5)) - y[5:]) ** 2, 0.0
    for i in range(5):
        for z in range(5, 9):
            after = (fit([*range(i), z, *range(i + 1, 5)]) - y[5:]) ** 2
            largest = max(largest, float(np.abs(after - before).max()))
    assert _largest_change(x @ x.T, y, 5, 0.1) == pytest.approx(largest)


def test_no_case_of_ridge_regression_breaks_its_bound(tmp_path):
    table = Store(tmp_path).get(RidgeSwaps(SOURCE, (8, 16), (1e-2, 1e-1), 20, seed=1))
    assert len(table) == 2 * 2 * 2
    assert (table.change > 0).all()
    assert (table.change <= table.bound).all()
