"""Figures: what is drawn is what was found."""

import matplotlib as mpl
import numpy as np
import pytest

from sameloss.studies import drawing
from sameloss.studies.stability import figures
from sameloss.studies.stability.claims import BETA, GAP, over_seeds

mpl.use("agg")


@pytest.fixture
def ax():
    (found,) = drawing.panels(1)
    return found


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.lines if not line.get_label().startswith("_")}


def test_decay_is_over_the_mean_at_the_least_size(found, ax):
    kind = found.kinds[3]
    drawn = lines(figures.decay(found, kind, ax))
    values = found.values(kind, BETA)
    assert drawn["β"][:, 0].tolist() == list(found.sizes)
    assert drawn["β"][:, 1] == pytest.approx(values.mean(0) / values[:, 0].mean())
    assert drawn[figures.GUIDE][:, 1] == pytest.approx(found.sizes[0] / np.array(found.sizes))
    assert ax.get_title() == kind.name


def test_the_summary_writes_every_exponent(found, ax):
    texts = [text.get_text() for text in figures.summary(found, ax).texts]
    assert len(texts) == len(found.kinds) * (len(figures.COLUMNS) + 1)
    own = over_seeds(found.exponents(found.kinds[0], GAP))
    assert texts[0] == f"{own.value:.2f}" + "?" * (own.low <= 0 <= own.high)
    assert texts[len(figures.COLUMNS)] == f"{found.barriers(found.kinds[0]).barrier.max():.1f}"


def test_losses_and_stops_are_those_of_the_tables(found, ax):
    drawn = lines(figures.losses(found, ax))
    assert set(drawn) == {"cross-entropy", "without z", "clipped", "Brier", "total variation"}
    assert drawn["cross-entropy"][0, 0] == pytest.approx(found.slower(found.kinds[0], BETA, GAP).mean())
    (other,) = drawing.panels(1)
    series = lines(figures.stops(found, other))
    kind = found.kinds[2]
    assert series[kind.name][2, 1] == pytest.approx(found.slower(kind, BETA, GAP, stop=2).mean())


def test_paths_are_of_the_largest_samples(page, found, ax):
    kind = found.kinds[2]
    drawn = lines(figures.paths(page.paths, [kind], "test", ax))[kind.name]
    own = page.paths[(page.paths.kind == kind.name) & (page.paths["size"] == found.sizes[-1])]
    at = own[own.alpha == 0.4].test.mean()
    assert drawn[np.isclose(drawn[:, 0], 0.4), 1] == pytest.approx(100 * at)


def test_suprema_and_bounds(page, ax):
    drawn = lines(figures.sampled_suprema(page.swaps, ax))
    assert len(drawn) == page.swaps["size"].nunique()
    (other,) = drawing.panels(1)
    points = lines(figures.ridge_bounds(page.ridge, other))
    assert set(points) == {"linear kernel", "Gaussian kernel", "equal"}
    assert len(points["linear kernel"]) == len(page.ridge) / 2
