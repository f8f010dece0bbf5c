"""Tables, figures and sentences of growing show synthetic results, with labels."""

from dataclasses import replace

import numpy as np
import pytest

from sameloss.statistics.intervals import Interval
from sameloss.studies import drawing
from sameloss.studies.growing import show


def labels(ax, axis="y"):
    return [label.get_text() for label in getattr(ax, f"get_{axis}ticklabels")()]


def legend(ax):
    return ax.get_legend_handles_labels()[1]


def test_every_operator_has_a_line_and_every_filling_one_label(synthetic):
    (ax,) = drawing.panels(1)
    show.after_growing(synthetic, ax)
    assert len(ax.lines) == len(synthetic.operators) + 1
    assert legend(ax) == ["duplicate", "random", "silent", "muted", "not grown"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), synthetic.kl[:, :, 0].mean(0))


def test_scatters_are_relative_to_each_shallow_model(synthetic):
    (ax,) = drawing.panels(1)
    show.early_against_final(synthetic, 0, "right after growing", ax)
    x, y = (np.concatenate([np.asarray(line.get_data()[at]) for line in ax.lines]) for at in (0, 1))
    assert len(x) == synthetic.final.size
    assert x.mean() == pytest.approx(1)
    assert np.corrcoef(x, y)[0, 1] < -0.9
    assert "right after growing" in ax.get_xlabel()


def test_the_three_panels_have_labels_and_data(synthetic):
    _, two, three = axes = drawing.panels(3)
    assert show.how_early(synthetic, axes).equals(synthetic.correlation_curve())
    assert all(ax.get_xlabel() == "steps after growing" and ax.get_ylabel() for ax in axes)
    assert [line.get_xdata()[0] for line in two.lines[:1]] == [2.5]
    assert three.lines[0].get_ydata()[0] == pytest.approx(1)


def test_choices_are_compared_with_the_best(synthetic):
    table = show.choice_table(synthetic).set_index("choice")
    expected = {
        "LAG@10": 0,
        "LAG@0": 1,
        "at random": 0.5,
        "not grown": 0.5,
        show.WAY_NAMES[show.FROM_SCRATCH]: 0.7,
    }
    assert table["KL above the best"][list(expected)].to_list() == pytest.approx(
        list(expected.values()), abs=1e-9
    )
    assert table["relative regret"]["LAG@0"] == pytest.approx(1)


def test_correlations_cover_all_operators_and_groups(synthetic):
    table = show.correlation_table(synthetic).set_index(["operators", "KL"])
    assert table.value["all", "right after growing"] == pytest.approx(-1, abs=1e-5)
    assert table.value["the thesis' (copies and random)", "right after growing"] == pytest.approx(
        -1, abs=1e-5
    )


def test_accuracies_are_listed_by_choice_and_task(synthetic):
    table = show.downstream_table(synthetic).set_index("model")
    assert table.a[["oracle", "LAG@10", "LAG@0"]].to_list() == pytest.approx([90, 90, 80])
    assert table.b["oracle"] == pytest.approx(89)
    assert table.a[["not grown", "from scratch", "untrained"]].to_list() == [50, 60, 30]


def test_ages_are_labelled_with_their_steps(synthetic):
    left, right = drawing.panels(2)
    show.spread_by_age(synthetic, left)
    show.correlation_by_age(synthetic, right)
    assert labels(left, "x") == ["10", "100"]
    assert legend(left) == ["spread of operators", "gain from depth"]
    assert legend(right) == ["grown at 10", "grown at 100"]
    np.testing.assert_allclose(right.lines[1].get_ydata(), 1, atol=1e-5)


def test_headroom_is_said_with_what_follows_from_it(synthetic):
    assert show.headroom_in_words(synthetic.headroom()).endswith("%: depth helps")
    flat = replace(synthetic, not_grown=synthetic.not_grown - 0.5).headroom()
    assert show.headroom_in_words(flat).endswith("no detectable gain from depth")
    assert show.headroom_in_words(Interval(0.1, np.nan, np.nan)).startswith("10 %: no detectable gain")


def test_findings_have_the_numbers_and_the_direction_of_their_figures(synthetic):
    assert show.after_growing_finding(synthetic) == (
        "Relative to the model not grown, duplicates begin at -0.6 nats and end at -0.4."
    )
    low = replace(synthetic, not_grown=synthetic.not_grown - 1)
    assert show.after_growing_finding(low).endswith("and end at +0.6.")
    assert "is -1.00 (-1.00 to -1.00) right after growing" in show.early_final_finding(synthetic)
    assert "correlation of 1.00, which limits" in show.ceiling_in_words(synthetic)
    assert show.how_early_finding(synthetic).endswith("is at most 1.00 before the end.")
    never = replace(synthetic, chosen_by=np.repeat(synthetic.chosen_by[:, :1], len(synthetic.steps), 1))
    assert show.how_early_finding(never).endswith("is negative at every evaluation before the end.")
    assert (
        show.transition_in_words(synthetic)
        == "Early and late rankings are best separated at step 3 (7.5 % of the steps)."
    )


def test_ages_at_which_depth_helps_are_named(synthetic):
    assert show.ages_finding(synthetic).startswith("From 10 to 100 steps before growing, the gain from depth")
    words = show.ages_in_words(synthetic)
    assert "clear at 2 of 2 ages" in words
    assert "-1.00 (-1.00 to -1.00) for models grown at 10 steps, 1.00 (1.00 to 1.00) for models" in words
    young = replace(synthetic.aged[10], not_grown=synthetic.kl[:, :, 0] - 0.5)
    assert "clear at 0 of 1 ages" in show.ages_in_words(replace(synthetic, aged={10: young}))


def test_stacks_are_compared_with_the_last_layers(stacks):
    table = show.stack_table(stacks).set_index("way")
    assert table.index[0] == "adaptive (LAG at every stage)"
    assert table["above last"]["last layers on top"] == 0
    assert table["above last"][show.WAY_NAMES[show.FROM_SCRATCH]] == pytest.approx(0.033)
    assert (table["FLOPs (%)"] == "100.0").all()
    (ax,) = drawing.panels(1)
    show.stacks_by_flops(stacks, ax)
    assert legend(ax) == list(show.WAY_NAMES.values())
    last = ax.lines[list(show.WAY_NAMES).index("last")]
    np.testing.assert_allclose(last.get_xydata(), [[30, 0.528], [60, 0.132]])


def test_stacks_end_above_or_below_the_last_layers(stacks):
    finding = show.stacks_finding(stacks)
    assert "adaptive stacking ends at -0.0220 (" in finding
    assert "equal FLOPs at +0.0330 (" in finding
