"""Tables of training on patches."""

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.local_signal import tables
from sameloss.studies.local_signal.found import steps_to
from sameloss.studies.local_signal.tangent.runs import AT_SIGNAL


def test_training_is_told_at_the_same_steps(found):
    table = tables.training_table(found).set_index("step")
    assert table.loc[1, "c"] == pytest.approx(found.flow_at(np.array([1.0]), "c")[0])
    assert table.loc[1, "c, SGD"] == pytest.approx(found.by_seed("c").loc[1].mean())
    assert np.isnan(table.loc[1000, "b, SGD"])  # smoke ends before
    np.testing.assert_allclose(table["|b|/c"], table.b.abs() / table.c)


def test_what_is_never_reached_is_a_gap(found):
    table = tables.steps_table(found).set_index("k")
    own = found.phase[(found.phase.noise == 1000) & (found.phase.multiplier == 1)]
    assert table.loc[100, "99%"] == "–"
    assert table.loc[1000, "70%"] == f"{steps_to(own, 0.7):,.0f}"


def test_the_best_filters_at_the_thesis_noise(found):
    table = tables.best_table(found)
    assert table.k.tolist() == [100, 1000]
    assert (table["one filter"] > table["linear model"]).all()


def test_dead_starts_are_counted_in_a_hundred(found):
    table = tables.dead_table(found).set_index("c at the start")
    assert table.loc["0.5"].tolist() == [0, 0, 0]
    assert table.loc["-0.5", "3"] == 100


def test_accuracies_after_a_step(found):
    table = tables.reached_at(found.phase, 100.0)
    assert table.shape == (2, 2)
    own = found.phase[(found.phase.noise == 100) & (found.phase.multiplier == 1)]
    assert table.loc[1.0, 100] == pytest.approx(
        np.interp(np.log(100), np.log(own.step[1:]), own.accuracy[1:])
    )


KERNELS = pd.DataFrame({"kind": AT_SIGNAL, "filters": [2, 4, 4], "error": [0.3, 0.1, 0.2]})


@pytest.mark.parametrize(("error", "filters"), [(0.3, 2), (0.2, 4), (0.16, 4), (0.1, np.nan)])
def test_kernels_are_compared_by_their_mean(error, filters):
    assert tables.filters_as_good(KERNELS, error) == pytest.approx(filters, nan_ok=True)


def test_the_page_says_what_it_found(found):
    said = tables.in_words(found, KERNELS)
    assert said.startswith("At k = 100 the exact flow is right in ")
    assert "A kernel" not in said  # which is of other patches
    assert "more steps than were followed" in said
    assert "Up to k = 100 no filter reaches 99 %" in said
