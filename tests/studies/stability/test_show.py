"""Tables, sentences and figures: what is shown is what was found."""

import matplotlib as mpl
import numpy as np
import pytest

from sameloss.studies import drawing
from sameloss.studies.stability import show
from sameloss.studies.stability.claims import BETA, GAP, gap_bounds, over_seeds

mpl.use("agg")


@pytest.fixture
def ax():
    (found,) = drawing.panels(1)
    return found


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.lines if not line.get_label().startswith("_")}


def test_decay_is_over_the_mean_at_the_least_size(found, ax):
    kind = found.kinds[3]
    drawn = lines(show.decay(found, kind, ax))
    values = found.values(kind, BETA)
    assert drawn["β"][:, 0].tolist() == list(found.sizes)
    assert drawn["β"][:, 1] == pytest.approx(values.mean(0) / values[:, 0].mean())
    assert drawn["1/m"][:, 1] == pytest.approx(found.sizes[0] / np.array(found.sizes))
    assert ax.get_title() == kind.name


def test_the_summary_writes_every_exponent(found, ax):
    texts = [text.get_text() for text in show.summary(found, ax).texts]
    assert len(texts) == len(found.kinds) * (len(show.SUMMARY) + 1)
    own = over_seeds(found.exponents(found.kinds[0], GAP))
    assert texts[0] == f"{own.value:.2f}" + "?" * (own.low <= 0 <= own.high)
    assert texts[len(show.SUMMARY)] == f"{found.worst_barrier(found.kinds[0]).max():.1f}"


def test_losses_and_stops_are_those_of_the_tables(found, ax):
    drawn = lines(show.losses(found, ax))
    assert set(drawn) == {"cross-entropy", "without z", "clipped", "Brier", "total variation"}
    assert drawn["cross-entropy"][0, 0] == pytest.approx(found.slower(found.kinds[0], BETA, GAP).mean())
    (other,) = drawing.panels(1)
    series = lines(show.stops(found, other))
    kind = found.kinds[2]
    assert series[kind.name][2, 1] == pytest.approx(found.slower(kind, BETA, GAP, stop=2).mean())


def test_paths_are_of_the_largest_samples(page, found, ax):
    kind = found.kinds[2]
    drawn = lines(show.paths(page.paths, [kind], "test", ax))[kind.name]
    own = page.paths[(page.paths.kind == kind.name) & (page.paths["size"] == found.sizes[-1])]
    at = own[own.alpha == 0.4].test.mean()
    assert drawn[np.isclose(drawn[:, 0], 0.4), 1] == pytest.approx(100 * at)


def test_suprema_and_bounds(page, ax):
    drawn = lines(show.sampled_suprema(page.swaps, ax))
    assert len(drawn) == page.swaps["size"].nunique()
    (other,) = drawing.panels(1)
    points = lines(show.ridge_bounds(page.ridge, other))
    assert set(points) == {"linear kernel", "Gaussian kernel", "equal"}
    assert len(points["linear kernel"]) == len(page.ridge) / 2


def test_every_table_has_a_row_for_what_it_is_about(found):
    kinds = [kind.name for kind in found.kinds]
    table = show.exponent_table(found)
    assert table.columns.tolist() == ["exponent of", *kinds]
    value = found.exponents(found.kinds[3], BETA).mean()
    assert table.set_index("exponent of")[kinds[3]]["β"].startswith(f"{value:.2f} (")
    assert show.other_exponents(found).model.tolist() == [name for name in kinds for _ in show.MAIN]


def test_levels_are_means_of_pairs_and_seeds(found):
    table = show.level_table(found)
    assert table.m.tolist() == [40, 160] * len(found.kinds)
    row = table.query("model == 'perceptron' and m == 160").iloc[0]
    own = found.at(found.kinds[2]).query("size == 160")
    assert (row.gap, row["largest β"]) == pytest.approx((own[GAP].mean(), own[BETA].max()))
    assert row["z is worst (%)"] == 100 * (own["others cross-entropy"] < own[BETA]).mean()


def test_a_seed_has_the_largest_of_its_pairs(found):
    table = show.by_seed(found)
    assert len(table) == len(found.kinds) * len(found.sizes) * 2
    own = table.query("kind == 'perceptron' and size == 80").sort_values("seed")
    assert own[BETA].to_numpy() == pytest.approx(found.values(found.kinds[2], BETA)[:, 1])


def test_bounds_are_of_the_largest_gap_and_beta(found):
    one = gap_bounds(found).query("model == 'perceptron' and loss == 'Brier' and m == 80").iloc[0]
    own = found.at(found.kinds[2]).query("size == 80")
    assert (one.gap, one["β"]) == pytest.approx((own["gap Brier"].max(), own["beta Brier"].max()))


def test_the_page_says_what_it_found(page):
    said = show.in_words(page.swaps, page.verdicts())
    assert "The claims, by verdict: " in said
    assert "random swaps see" in said
