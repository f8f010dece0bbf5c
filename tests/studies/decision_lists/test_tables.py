"""Tables: moments of perfection, times between looks, sizes between samples, sentences."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.studies.decision_lists import tables as shown
from sameloss.studies.decision_lists.statements import STATEMENTS


def test_perfection_is_the_first_event_that_is_right(tables):
    own = tables.flows[(tables.flows.family == "readout") & (tables.flows.readout == 30)]
    row = tables.perfect[(tables.perfect.family == "readout") & (tables.perfect.readout == 30)]
    assert row.time.item() == own[own.accuracy == 1].time.min()


def test_a_flow_that_is_not_perfect_in_time_stays_in_the_table(tables):
    flows = tables.flows[tables.flows.accuracy < 1]
    found = replace(tables, flows=flows).perfect
    assert len(found) == len(tables.perfect)
    assert found.time.isna().all()


def test_one_row_a_read_out_with_its_orders(tables):
    table = shown.event_table(tables)
    assert table["read-out"].iloc[0] == "c → ∞"
    assert len(table) == 2 + len(tables.settings.readouts)
    assert "123o" in table.columns[-2]


def test_half_of_the_columns_between_two_looks():
    found = pd.DataFrame({"step": [0, 10, 20], "ordered": [0.0, 0.25, 0.75]})
    assert shown.ordered_time(found, 2.0) == 30
    assert np.isnan(shown.ordered_time(found.assign(ordered=0.1), 2.0))
    assert shown.ordered_time(found.assign(ordered=1.0), 2.0) == 0


def test_the_size_for_an_error_is_between_two_samples():
    found = pd.DataFrame({"size": [10, 40, 160], "error": [0.4, 0.1, 0.025]})
    assert shown.needed(found, 0.2) == pytest.approx(20)
    assert shown.needed(found, 0.1) == pytest.approx(40)
    assert shown.needed(found, 0.5) == 10
    assert np.isnan(shown.needed(found, 0.01))


def test_an_exponent_of_known_samples(tables):
    sizes = 2 ** np.arange(2, 12)
    rows = [
        {
            "seed": seed,
            "words": words,
            "size": size,
            "error": (1 + seed / 10) * words**1.5 / size,
            "mass": 0.1,
        }
        for seed in (1, 2, 3)
        for words in (10, 20, 40)
        for size in sizes
    ]
    found = replace(tables, samples=pd.DataFrame(rows))
    assert shown.sample_slope(found, 0.3).value == pytest.approx(1.5, abs=1e-6)


def test_exponents_of_known_sweeps(tables):
    flows = pd.DataFrame(
        {
            "family": "words at n = 8", "words": [10, 20, 40], "length": 8, "rules": 3, "readout": 1.0,
            "rarity": 1.0, "order": "123o", "accuracy": 1.0, "time": [100.0, 400.0, 1600.0], "natural": 1.0,
        }
    )  # fmt: skip
    found = replace(tables, flows=flows)
    assert shown.slope_table(found)["n = 8"].tolist() == pytest.approx([2, 2])
    growth = np.log(20) / np.log(40)  # of L² over L² log L
    assert shown.logarithmic_growth(found, "words at n = 8") == pytest.approx(growth)


def test_the_bound_of_uniform_attention(page):
    exact = shown.uniform_bound(page.config)
    assert (exact.mean, exact.standard_error) == (pytest.approx(0.60606, abs=1e-5), 0)
    drawn = shown.uniform_bound(replace(page.config, vocabulary=200, length=25, list_length=4))
    assert drawn.mean == pytest.approx(0.08, abs=1e-3)


def test_every_table_of_the_page_is_made(tables, page):
    for made in (
        shown.critical_table,
        shown.step_table,
        shown.sgd_table,
        shown.joint_table,
        shown.sample_table,
        shown.block_table_in_words,
        shown.descent_table,
    ):
        assert not made(tables).empty
    plateau = shown.joint_table(tables)["accuracy on the plateau"].dropna()
    assert plateau.between(0, 1).all()
    said = shown.in_words(tables, page.statements())
    assert said.startswith("In the regime of Theorem 4.3 attention is not learnt: at perfection it pays 0.33")
    assert f"The {len(STATEMENTS)} statements, by verdict: holds (" in said
