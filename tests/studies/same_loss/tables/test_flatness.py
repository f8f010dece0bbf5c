"""The tables that compare ways to measure flatness, on the smallest models."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from sameloss.book.studies import open_page
from sameloss.models.sizes import LADDER
from sameloss.runs.flatness import MEASURES
from sameloss.studies import drawing
from sameloss.studies.config import replaced
from sameloss.studies.same_loss.estimators import ESTIMATORS
from sameloss.studies.same_loss.figures import models as figures
from sameloss.studies.same_loss.tables import flatness

mpl.use("agg")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    page = open_page("b1_trace", preset="smoke", seeds=1, artifacts=str(tmp_path_factory.mktemp("artifacts")))
    for name, value in {"measure_sentences": 20, "chain_steps": 2}.items():
        page.config = replaced(page.config, f"evaluation.flatness.{name}", value)
    return page


def test_estimators_share_a_known_target(page):
    table = flatness.estimator_table(page)
    assert len(table) == 10
    assert (table.off.abs() < 5).all()
    assert (table[["seconds", "error_at_budget", "count"]] > 0).all(axis=None)
    errors = table.set_index("estimator").error_percent
    assert errors["sampled-1"] < errors["minibatch-64"]
    assert table.label.tolist() == [*ESTIMATORS.values()]
    assert table.known.nunique() == 1
    parts = flatness.variances(table)
    assert min(parts.between, parts.within, parts.backward) > 0
    assert parts.error_paper < parts.error_one_label


def test_at_equal_cost_four_times_the_seconds_are_twice_the_error(page):
    ratio = (
        flatness.estimator_table(page, 10.0).error_at_budget
        / flatness.estimator_table(page, 40.0).error_at_budget
    )
    np.testing.assert_allclose(ratio, 2)


def test_best_number_of_labels_by_hand():
    """Variances 0.01 between and 0.03 within; a sentence costs 1 ms forward and 1 ms a label."""
    table = pd.DataFrame(
        {
            "estimator": ["exact", "sampled-1", "sampled-50"],
            "standard_error": [0.01, 0.02, 0.01],
            "count": 100,
            "seconds": [1.0, 0.2, 5.1],
            "known": 1.0,
        }
    )
    parts = flatness.variances(table)
    found = [parts.between, parts.within, parts.forward, parts.backward]
    np.testing.assert_allclose(found, [0.01, 0.03, 1e-3, 1e-3])
    assert parts.best_labels == pytest.approx(3**0.5)
    best = (0.01 + 0.03 / 3**0.5) * (1 + 3**0.5) * 1e-3
    assert parts.one_beside_best == pytest.approx(0.04 * 0.002 / best)
    assert parts.times_dearer == pytest.approx((0.01 + 0.03 / 50) * 0.051 / (0.04 * 0.002))
    assert parts.error_one_label == pytest.approx(100 * (0.04 / 10_000) ** 0.5)
    assert parts.error_50_sentences == pytest.approx(100 * ((0.01 + 0.03 / 50) / 50) ** 0.5)
    assert parts.error_50_sentences == pytest.approx(parts.error_paper * (10_000 / 50) ** 0.5)


def test_law_and_function_tables(page):
    laws = flatness.law_table(page, 8)
    assert laws.off.max() < 1e-6
    np.testing.assert_allclose(laws.measured, laws.law, rtol=1e-6)
    functions = flatness.function_table(page, 8).set_index("change")
    assert functions.moved.drop("post-LN, 2 layers added").max() < 1e-6
    assert functions.moved["post-LN, 2 layers added"] > 1e-3
    assert functions.trace["pre-LN, 2 layers added"] > 1


def test_ladder_of_table_4():
    ladder = flatness.ladder_table().set_index("size")
    assert list(ladder["printed embeds"]) == ["no"] * 6 + ["yes"]
    assert ladder.ratio["d128"] == 15


def test_measures_under_reparametrisations(page):
    table = flatness.reparametrisation_table(page).set_index("form")
    assert table.moved.max() < 1e-6
    assert list(table.columns[1:]) == list(MEASURES.values())
    permuted = table.loc["neurons permuted", ["trace", "top eigenvalue", "relative trace"]]
    np.testing.assert_allclose(permuted.astype(float), 1, rtol=1e-2)
    assert table.trace["width × 2, as the paper"] > 1.05
    assert table["relative trace"]["width × 2, as the paper"] == pytest.approx(1, rel=1e-4)
    assert flatness.measured_values(page)["mean"].gt(0).all()


def test_inflation_of_every_kind_at_every_width():
    """The widest is enlarged by nothing; twice as narrow an embedding, whose copies are halved, once."""
    table = flatness.inflation_table(LADDER).set_index(["parameters", "d_model"]).factor
    assert len(table) == 3 * len(LADDER)
    for kind in ("embedding", "matrix", "vector"):
        assert table[kind, 1920] == 1
    assert table["embedding", 960] == pytest.approx(2)
    assert table["matrix", 960] == pytest.approx(1)
    assert table["vector", 960] == pytest.approx(0.5)


def test_figures_draw_their_tables(page):
    (ax,) = drawing.panels(1)
    ratios = flatness.reparametrisation_table(page)[["form", *MEASURES.values()]]
    assert figures.ratios(ratios, ax) is ax
    (ax,) = drawing.panels(1)
    drawn = figures.estimators_at_equal_cost(flatness.estimator_table(page), 10.0, ax)
    assert len(drawn.get_yticks()) == 10
    (ax,) = drawing.panels(1)
    ladder = flatness.inflation_table(LADDER)
    assert len(figures.predicted_inflation(ladder, ax).lines) == 3
