"""The tables that compare ways to measure flatness, on the smallest models."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.enlarge import widen
from sameloss.runs.flatness import MEASURES
from sameloss.studies.same_loss import figures
from sameloss.studies.same_loss.parameters import resolve
from sameloss.studies.same_loss.tables import flatness as flatness_tables


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("artifacts"))
    smoke = resolve({"preset": "smoke", "artifacts": folder, "seeds": 1})
    return replace(smoke, preset=replace(smoke.preset, measure_sentences=20, chain_steps=2))


def test_estimators_share_a_known_target(setting):
    table = flatness_tables.estimator_table(setting)
    assert len(table) == 10
    assert (table.off.abs() < 5).all()
    assert (table[["seconds", "error_at_budget", "count"]] > 0).all(axis=None)
    errors = table.set_index("estimator").error_percent
    assert errors["1 sampled label"] < errors["mini-batches of 64"]
    parts = flatness_tables.variance_table(table)
    assert parts[["between", "within", "backward"]].gt(0).all()
    assert parts.error_paper < parts.error_one_label


def test_best_number_of_labels_by_hand(setting):
    table = flatness_tables.estimator_table(setting)
    own = {
        "exact over labels": {"standard_error": 0.01, "count": 100, "seconds": 1.0},
        "1 sampled label": {"standard_error": 0.02, "count": 100, "seconds": 0.2},
        "50 sampled labels (the paper's)": {"standard_error": 0.01, "count": 100, "seconds": 5.1},
    }
    for name, values in own.items():
        for column, value in values.items():
            table.loc[table.estimator == name, column] = value
    table["known"] = 1.0
    parts = flatness_tables.variance_table(table)
    # Variances 0.01 between and 0.03 within; a sentence costs 1 ms forward and 1 ms a label.
    np.testing.assert_allclose(parts[["between", "within", "forward", "backward"]], [0.01, 0.03, 1e-3, 1e-3])
    assert parts.best_labels == pytest.approx(3**0.5)
    best = (0.01 + 0.03 / 3**0.5) * (1 + 3**0.5) * 1e-3
    assert parts.one_beside_best == pytest.approx(0.04 * 0.002 / best)
    assert parts.times_dearer == pytest.approx((0.01 + 0.03 / 50) * 0.051 / (0.04 * 0.002))


def test_enlarged_traces_are_those_of_enlarged_models(setting):
    traces = flatness_tables.enlarged_traces(setting)
    run = setting.enlargements()["1K", 0]
    model, masked = run.last_model(setting.store), run.masked("enlargement")
    for form in ("paper", "balanced"):
        large = widen(model, 2, tied=form)
        found = fisher_trace(large, masked, generator=run.generator("enlargement labels")).total.mean
        (row,) = traces.query("size == '1K' and form == @form and part == 'total'").itertuples()
        assert found == pytest.approx(row.mean, rel=1e-4)
    native = traces.query("size == '3K' and part == 'total'").set_index("form")["mean"]
    assert native["paper"] == native["balanced"] == native["native"]


def test_comparisons_of_sizes(setting):
    traces = flatness_tables.enlarged_traces(setting)
    totals = flatness_tables.enlarged_totals(traces)
    assert list(dict.fromkeys(totals.comparison)) == list(flatness_tables.FORMS)
    alone = flatness_tables.law_alone(traces, setting)
    assert alone["native parameters"] == alone["relative trace"] == 0
    assert alone[flatness_tables.AS_THE_PAPER] > 0
    assert alone["enlarged, without embeddings"] < 0


def test_law_and_function_tables(setting):
    setting.store.get(setting.pretraining("1K", 0))
    laws = flatness_tables.law_table(setting, 8)
    assert laws.off.max() < 1e-6
    np.testing.assert_allclose(laws.measured, laws.law, rtol=1e-6)
    functions = flatness_tables.function_table(setting, 8).set_index("change")
    assert functions.moved.drop("post-LN, 2 layers added").max() < 1e-6
    assert functions.moved["post-LN, 2 layers added"] > 1e-3
    assert functions.trace["pre-LN, 2 layers added"] > 1


def test_ladder_of_table_4():
    ladder = flatness_tables.ladder_table().set_index("size")
    assert list(ladder["printed embeds"]) == ["no"] * 6 + ["yes"]
    assert ladder.ratio["d128"] == 15


def test_measures_under_reparametrisations(setting):
    table = flatness_tables.reparametrisation_table(setting).set_index("form")
    assert table.moved.max() < 1e-6
    assert list(table.columns[1:]) == list(MEASURES.values())
    permuted = table.loc["neurons permuted", ["trace", "top eigenvalue", "relative trace"]]
    np.testing.assert_allclose(permuted.astype(float), 1, rtol=1e-2)
    assert table.trace["width × 2, as the paper"] > 1.05
    assert table["relative trace"]["width × 2, as the paper"] == pytest.approx(1, rel=1e-4)
    assert flatness_tables.measured_values(setting)["mean"].gt(0).all()


def test_figures_draw_their_tables(setting):
    (ax,) = figures.panels(1)
    assert (
        figures.ratios(flatness_tables.reparametrisation_table(setting)[["form", *MEASURES.values()]], ax)
        is ax
    )
    (ax,) = figures.panels(1)
    drawn = figures.estimators_at_equal_cost(flatness_tables.estimator_table(setting), 10.0, ax)
    assert len(drawn.get_yticks()) == 10
    (ax,) = figures.panels(1)
    ladder = flatness_tables.inflation_table(flatness_tables.LADDER)
    assert len(figures.predicted_inflation(ladder, ax).lines) == 3
