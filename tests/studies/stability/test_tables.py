"""Tables and sentences of the page."""

import numpy as np
import pytest

from sameloss.studies.stability import tables as shown
from sameloss.studies.stability.claims import BETA, GAP


def test_every_table_has_a_row_for_what_it_is_about(page, found):
    kinds = [kind.name for kind in found.kinds]
    assert shown.exponent_table(found).columns.tolist() == ["exponent of", *kinds]
    assert shown.fit_table(found).model.tolist() == kinds
    assert shown.level_table(found).m.tolist() == [40, 160] * len(kinds)
    assert shown.stop_table(found).model.tolist() == kinds
    assert len(shown.barrier_table(found)) == 2 * len(kinds)
    assert set(shown.swap_table(page.swaps).loss) == {"cross-entropy", "clipped", "Brier", "0-1"}
    assert len(shown.descent_table(page.swaps)) == 1
    assert shown.bound_table(found)["below 1"].eq("no").all()


def test_exponents_are_written_with_their_interval(found):
    kind = found.kinds[3]
    first = shown.exponent_table(found).set_index("exponent of")[kind.name]["β"]
    assert first.startswith(f"{found.exponents(kind, BETA).mean():.2f} (")


def test_levels_are_means_of_pairs_and_seeds(found):
    kind = found.kinds[2]
    own = found.at(kind)
    row = shown.level_table(found).query("model == @kind.name and m == 160").iloc[0]
    assert row.gap == pytest.approx(own[own["size"] == 160][GAP].mean())
    assert row["largest β"] == pytest.approx(own[own["size"] == 160][BETA].max())


def test_a_seed_has_the_largest_of_its_pairs(found):
    table = shown.by_seed(found)
    assert len(table) == len(found.kinds) * len(found.sizes) * 2
    own = table.query("kind == 'perceptron' and size == 80").sort_values("seed")
    assert own[BETA].to_numpy() == pytest.approx(found.values(found.kinds[2], BETA)[:, 1])


def test_bounds_are_of_the_largest_gap_and_beta(found):
    bounds = shown.gap_bounds(found)
    assert (bounds.bound > 0).all()
    one = bounds.query("model == 'perceptron' and loss == 'Brier' and m == 80").iloc[0]
    own = found.at(found.kinds[2]).query("size == 80")
    assert (one.gap, one["β"]) == pytest.approx((own["gap Brier"].max(), own["beta Brier"].max()))


def test_shares_of_random_swaps_are_in_per_cent(page):
    table = shown.swap_table(page.swaps)
    assert ((table["low"] <= table["median"]) & (table["median"] <= table["high"])).all()
    assert (table["high"] <= 100 + 1e-9).all()


def test_the_page_says_what_it_found(page, found):
    said = shown.in_words(found, page.swaps, page.verdicts())
    assert "The claims, by verdict: " in said
    assert f"the gap goes as m^{found.exponents(found.kinds[0], GAP).mean():.2f}" in said
    assert "random swaps see" in said
    assert not np.isnan(shown.PUBLISHED.shape).any()
