"""Statements and their checks, which fail on planted faults; the numbers behind them; tables and figures."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from sameloss.seeds import generator_for
from sameloss.studies.decision_lists import show, statements
from sameloss.studies.decision_lists.statements import STATEMENTS, checks
from sameloss.studies.decision_lists.theory import draw_sequences, recall
from sameloss.studies.statement import Judgement, judge_checks, statement_table

CORRECTED = {"sketch", "thm43-rate", "lists"}
"""Statements that are refuted as printed, at any preset."""


def judged(table):
    return statement_table(STATEMENTS, table).set_index("id").verdict


def test_every_statement_is_judged_and_these_are_corrected(page):
    verdicts = judged(page.checks)
    assert set(verdicts.index[verdicts == str(Judgement.CORRECTED)]) == CORRECTED
    for name in ("thm43", "thm44", "lem41", "asm43", "asm44", "thm43-proof", "thm44-proof", "figure"):
        assert verdicts[name] == str(Judgement.HOLDS)


@pytest.mark.parametrize(
    ("frame", "column", "value", "of"),
    [
        ("proofs", "on_failing", 1e-3, "thm43-proof"),
        ("proofs", "elsewhere", 1e-3, "thm44-proof"),
        ("proofs", "identity", 1e-3, "label-gradient"),
        ("proofs", "gradient", 1e-3, "gradients"),
        ("proofs", "weight", 0.1, "thm44-proof"),
        ("proofs", "light", 1e-3, "thm43-proof"),
        ("proofs", "of_triples", 0.5, "asm43"),
        ("proofs", "of_sets", 0.5, "asm44"),
        ("proofs", "curvature", 1.5, "thm43-rate"),
        ("descents", "steps", 1e20, "thm43"),
        ("descents", "least_slope", 0.5, "thm43-proof"),
        ("descents", "attention", 0.9, "uniform"),
        ("proofs", "read_out_slope", 1.5, "lem41"),
        ("both", "accuracy", 0.9, "convergence"),
    ],
)
def test_a_wrong_number_fails_its_statement(tables, frame, column, value, of):
    broken = replace(tables, **{frame: getattr(tables, frame).assign(**{column: value})})
    table = checks(broken)
    assert judge_checks(table[table.of == of]) is Judgement.FAILS


def test_a_level_that_was_not_reached_refutes_nothing(tables):
    nothing = tables.alone.assign(ordered=0.0)
    verdicts = judged(checks(replace(tables, alone=nothing)))
    assert verdicts["sgd"] == str(Judgement.UNTESTED)


# The numbers behind them: times to perfection, interpolated times and sample sizes.


def test_perfection_is_the_first_event_that_is_right(tables):
    events = tables.events(30.0)
    row = tables.sweep("readout").query("readout == 30")
    assert row.time.item() == events[events.accuracy == 1].time.min()
    flows = tables.flows[tables.flows.accuracy < 1]
    never = replace(tables, flows=flows).perfect  # a flow that is not perfect in time stays in the table
    assert len(never) == len(tables.perfect)
    assert never.time.isna().all()


def test_a_level_is_reached_between_two_points():
    x, y = pd.Series([0, 20, 40]), pd.Series([0.0, 0.25, 0.75])
    assert statements.crossing(x, y, 0.5) == 30
    assert statements.crossing(x, y, 0.75) == 40
    assert statements.crossing(x, y, 0.0) == 0
    assert np.isnan(statements.crossing(x, y, 0.8))


def test_the_bound_of_uniform_attention(page):
    """Beside the mean over all sets, and the pilot's at the printed setting."""
    small = statements.uniform_bound(page.config)
    assert small.mean == pytest.approx(0.60606, abs=4 * small.standard_error)
    assert small.standard_error < 0.002
    drawn = statements.uniform_bound(replace(page.config, vocabulary=200, length=25, list_length=4))
    assert drawn.mean == pytest.approx(0.08, abs=1e-3)


# Tables and figures.


def axes():
    return [ax for ax in plt.gcf().axes if ax.get_label() != "<colorbar>"]


def names(ax):
    return ax.get_legend_handles_labels()[1]


def test_a_sequence_with_what_decides(page):
    table, task = show.sequence_table(page.config), page.config.task.build()
    sequence = draw_sequences(12, 3, 1, generator_for("lists shown", 0))
    assert table.token.tolist() == sequence[0].tolist()
    assert table["label-determining"].tolist() == task.determining(sequence)[0].tolist()
    assert table.label.tolist() == task.labels(sequence)[0].tolist()
    for token, listed in zip(table.token, table.list, strict=True):
        assert listed == ", ".join(map(str, task.lists[token]))


def test_one_row_a_read_out_with_its_orders(tables):
    table = show.event_table(tables)
    assert table["read-out"].tolist() == sorted(tables.sweep("readout").readout, reverse=True)
    assert "123o" in table.columns[-2]
    assert table.perfect.iloc[-1] == tables.sweep("readout").set_index("readout").time[10.0]


def test_an_order_that_comes_back_has_its_first_time(tables):
    twice = pd.concat([tables.flows, tables.flows.assign(time=2 * tables.flows.time)])
    pd.testing.assert_frame_equal(show.event_table(replace(tables, flows=twice)), show.event_table(tables))


def test_a_row_of_every_task(tables):
    table = show.descent_table(tables)
    assert table.L.tolist() == tables.everywhere.words.tolist()
    first = tables.everywhere.iloc[0]
    above = float(table.attention.iloc[0].strip("+ %")) / 100
    assert above == pytest.approx(first.length * first.attention - 1, rel=0.06)


def test_scores_and_their_changes(tables):
    show.scores_along(tables)
    ax = axes()[1]
    assert names(ax) == ["place 1", "place 2", "the token itself", "all others"]
    curve = tables.curves[tables.curves["name"] == "30"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), curve.w1)
    assert len(ax.lines) == 4 + len(tables.events(30.0)) - 1


def test_attention_has_a_line_a_read_out(tables):
    show.attention_along(tables)
    (ax,) = axes()
    assert names(ax) == ["Theorem 4.3's c", "c = 30", "c = 10"]


def test_the_exact_steps_end_at_one_hundred_where_the_flow_does(tables):
    show.along_sgd(tables)
    steps = axes()[0].lines[0].get_ydata()
    assert steps[-1] == pytest.approx(100)
    assert steps[0] == pytest.approx(100 * tables.settings.task.column(1.0).plateau)
    (rate,) = tables.alone.rate.unique()
    assert names(axes()[0]) == ["exact flow", f"SGD, η = {rate:g}"]
    show.along_sgd(replace(tables, flows=tables.flows[tables.flows.accuracy < 1]))
    assert axes()[0].lines[0].get_ydata()[-1] < 100
    assert axes()[0].get_xlim()[1] > (tables.alone.rate * tables.alone.step).max()


def test_images_of_a_step_have_one_scale_for_both_signs(page):
    show.one_step(page.config)
    assert [ax.get_title() for ax in axes()] == ["exactly", "25 sequences", "1,000 sequences"]
    low, high = axes()[0].images[0].get_clim()
    assert low == -high
    task = page.config.task.build()
    share = 100 * recall(task, torch.as_tensor(axes()[1].images[0].get_array().data))
    assert f"for {share:.0f} % of tokens on 25 sequences" in show.step_finding(page.config)


def test_times_around_the_critical_read_out(tables):
    show.critical(tables)
    (ax,) = axes()
    assert names(ax) == ["c* − ½", "c*", "c* + ½"]
    assert all(line.get_xdata().tolist() == [40] for line in ax.lines)


# Sentences.


def test_a_large_number_in_tex():
    assert show.in_tex(1.389e12) == r"$1.4 \times 10^{12}$"
    assert show.in_tex(9_591_403, 2) == r"$9.59 \times 10^{6}$"


def test_findings_have_the_numbers_of_their_figures(tables):
    assert show.scores_finding(tables) == (
        "Of the 3 read-outs shown, the token's own score leads at first at 3, "
        "and the scores end in the order of the list at 3."
    )
    turned = tables.curves.assign(w1=tables.curves.wo, w3=tables.curves.wo)
    assert show.scores_finding(replace(tables, curves=turned)).endswith(" at 0.")
    assert "at c = 10, 77 % of the attention." in show.attention_finding(tables)
    assert "takes 2 times the time that it takes half a unit above it (L = 40)" in (
        show.critical_finding(tables)
    )
    far = tables.flows[(tables.flows.family != "critical -0.5") | (tables.flows.accuracy < 1)]
    later = tables.settings.horizon / tables.sweep("critical +0.5").natural.item()
    assert f"does not end within {later:,.0f} times" in show.critical_finding(replace(tables, flows=far))
