"""Tables, figures and sentences of growing show synthetic results, with labels."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.statistics.intervals import Interval
from sameloss.studies import drawing
from sameloss.studies.growing import show
from sameloss.studies.growing.experiment import PRESETS


def labels(ax, axis="y"):
    return [label.get_text() for label in getattr(ax, f"get_{axis}ticklabels")()]


def legend(ax):
    return ax.get_legend_handles_labels()[1]


def test_maps_have_one_row_each_and_new_layers_in_brackets(synthetic):
    (ax,) = drawing.panels(1)
    show.layer_maps(synthetic, ax)
    assert [text.get_text() for text in ax.texts][:4] == ["0", "(0)", "1", "(1)"]
    assert labels(ax) == ["i = 0, b = 1", "i = 0, b = 2"]


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


def test_the_four_panels_have_labels_and_data(synthetic):
    _, two, three, four = axes = drawing.panels(4)
    assert show.how_early(synthetic, axes).equals(synthetic.correlation_curve())
    assert all(ax.get_xlabel() == "steps after growing" and ax.get_ylabel() for ax in axes)
    assert [line.get_xdata()[0] for line in two.lines[:1]] == [2.5]
    assert len(three.lines) == 3
    assert four.lines[0].get_ydata()[0] == pytest.approx(1)


def test_choices_are_compared_with_the_best(synthetic):
    table = show.choice_table(synthetic).set_index("choice")
    expected = {
        "LAG@10": 0,
        "LAG@0": 1,
        "at random": 0.5,
        "not grown": 0.5,
        show.WAY_NAMES[show.FROM_SCRATCH]: 0.7,
    }
    assert table.KL[list(expected)].to_list() == pytest.approx(list(expected.values()), abs=1e-9)
    assert table["relative regret"]["LAG@0"] == pytest.approx(1)


def test_the_published_tables_are_consistent():
    """Regrets of BERT's rows have one range between best and worst, and so have UL2's (Tables 5.1, 5.2)."""
    table = show.PUBLISHED_CHOICES.iloc[2:]
    for name, best, span in (("BERT", 1.7461, 0.0518), ("UL2", 2.1254, 0.0157)):
        spans = (table[f"{name} loss"] - best) / table[f"{name} relative regret"]
        assert spans.to_list() == pytest.approx([span] * 3, rel=0.01)


def test_correlations_cover_all_operators_and_groups(synthetic):
    table = show.correlation_table(synthetic).set_index(["operators", "KL"])
    assert table.value["all", "at first"] == pytest.approx(-1, abs=1e-5)
    assert table.value["the thesis' (copies and random)", "at first"] == pytest.approx(-1, abs=1e-5)
    assert show.landscape_table(synthetic).value.tolist() == pytest.approx([1] * 3, abs=1e-5)


def test_choice_rules_have_their_regret_and_cost(synthetic):
    """Before evaluation 3 the worst is chosen; 5 others for 10 of 40 steps cost 125 %."""
    choices = show.selection_table(synthetic)
    table = choices.set_index("choice")
    regret, cost = table["relative regret"], table["cost (%)"]
    assert regret[["LAG@0", "LAG@10", "halving from step 5"]].to_list() == pytest.approx([1, 0, 0])
    assert regret["when settled for half of the steps"] == pytest.approx(1)
    assert cost[["LAG@0", "LAG@10"]].to_list() == pytest.approx([0, 125])
    assert cost["halving from step 5"] < 125
    (ax,) = drawing.panels(1)
    show.regret_by_cost(choices, 0.5, ax)
    assert legend(ax) == ["at random", "LAG@k", "halving", "when settled"]
    assert len(ax.containers[0].lines[0].get_xdata()) == choices.choice.str.startswith("LAG").sum()
    assert "cost" in ax.get_xlabel()


def test_accuracies_are_listed_by_choice_and_task(synthetic):
    names = [operator.name for operator in synthetic.operators]
    controls = {"not grown": 50.0, "from scratch": 60.0, "untrained": 30.0}
    known = dict(zip(names, synthetic.accuracy[0], strict=True)) | controls
    accuracies = pd.DataFrame(
        {"seed": seed, "operator": name, "task": task, "accuracy": accuracy - (task == "b")}
        for seed in (0, 1, 2)
        for name, accuracy in known.items()
        for task in "ab"
    )
    three = replace(synthetic, settings=replace(synthetic.settings, seeds=3))
    table = show.downstream_table(three, accuracies).set_index("model")
    assert table.a[["oracle", "LAG@10", "LAG@0"]].to_list() == pytest.approx([90, 90, 80])
    assert table.b["oracle"] == pytest.approx(89)
    assert table.a[["not grown", "from scratch", "untrained"]].to_list() == list(controls.values())


def test_ages_have_one_row_each_and_are_labelled_with_their_steps(synthetic):
    table = show.age_table(synthetic)
    assert table["steps before growing"].to_list() == [10, 100]
    initial = table[["Spearman at first", "low", "high"]]
    np.testing.assert_allclose(initial, [[-1] * 3, [1] * 3], atol=1e-5)
    assert table["predictive from step"].to_list() == [synthetic.steps[3], 0]
    assert show.age_table(replace(synthetic, aged={})).empty
    left, right = drawing.panels(2)
    show.spread_by_age(synthetic, left)
    show.correlation_by_age(synthetic, right)
    assert labels(left, "x") == ["10", "100"]
    assert legend(left) == ["spread of operators", "gain of depth"]
    assert legend(right) == ["10 steps", "100 steps"]
    np.testing.assert_allclose(right.lines[1].get_ydata(), 1, atol=1e-5)


def test_sentences(synthetic):
    assert show.headroom_in_words(synthetic.headroom()).endswith("so operators can be compared")
    flat = replace(synthetic, not_grown=synthetic.not_grown - 0.5).headroom()
    assert "not testable here" in show.headroom_in_words(flat)
    assert show.ceiling_in_words(synthetic).endswith("1.00, which limits all earlier evaluations")
    unordered = replace(synthetic, chosen_by=synthetic.chosen_by[..., ::-1])
    assert show.ceiling_in_words(unordered).endswith("no claim about an order is testable here")
    alone = show.headroom_in_words(Interval(0.1, np.nan, np.nan))
    assert alone.startswith("10 %, for one shallow model: without an interval")
    assert show.transition_in_words(synthetic).startswith(
        "Rankings change most at step 3 (7.5 % of the steps after growing)"
    )


def test_findings_have_the_numbers_and_the_direction_of_their_figures(synthetic):
    assert show.after_growing_finding(synthetic) == (
        "Copies begin 0.6 nats below the model that is not grown, and end 0.4 nats below it."
    )
    low = replace(synthetic, not_grown=synthetic.not_grown - 1)
    assert show.after_growing_finding(low).endswith("and end 0.6 nats above it.")
    assert "is -1.00 right after growing" in show.early_final_finding(synthetic)
    assert "-0.418 and 0.986. At the end of training" in show.early_final_in_words(synthetic)
    one = replace(
        synthetic,
        chosen_by=synthetic.chosen_by[:1],
        kl=synthetic.kl[:1],
        not_grown=synthetic.not_grown[:1],
        scratch=synthetic.scratch[:1],
        landscape={},
        accuracy=synthetic.accuracy[:1],
    )
    assert show.early_final_in_words(one).startswith("Without a second shallow model there is no interval.")
    assert show.how_early_finding(synthetic).endswith("first reaches 0.8 at step 3.")
    never = replace(synthetic, chosen_by=np.repeat(synthetic.chosen_by[:, :1], len(synthetic.steps), 1))
    assert show.how_early_finding(never).endswith("the rank correlation is at most -1.00.")
    finding = show.regret_finding(show.selection_table(synthetic), 0.5)
    assert finding == (
        "LAG@10 has a relative regret of 0.00, a random choice 0.50; trials cost 125 % of one training."
    )


def test_ages_at_which_depth_helps_are_named(synthetic):
    assert show.ages_finding(synthetic).startswith("From 10 to 100 steps before growing, the gain from depth")
    words = show.ages_in_words(synthetic)
    assert "trained for 10 or 100 steps" in words
    assert "-1.00 (-1.00 to -1.00) after 10 steps, 1.00 (1.00 to 1.00) after 100 steps" in words
    young = replace(synthetic.aged[10], not_grown=synthetic.kl[:, :, 0] - 0.5)
    assert show.ages_in_words(replace(synthetic, aged={10: young})).startswith(
        "The gain from depth is not clear"
    )


def test_ways_are_listed_with_their_maps(stacks):
    table = show.way_table(stacks.settings).set_index("way")
    assert table.loc["adaptive (LAG at every stage)"].to_list() == ["0 (0)", "0 (0) 1; 0 1 (1)"]
    assert table.loc["middle layers repeated"].to_list() == ["0 (0)", "0 (0) 1"]
    assert "; and 9 more" in show.way_table(PRESETS["gpu"])["12 layers"][0]


def test_stacks_are_compared_with_the_last_layers(stacks):
    table = show.stack_table(stacks).set_index("way")
    assert table.index[0] == "adaptive (LAG at every stage)"
    assert table["over last"]["last layers on top"] == 0
    assert table["over last"][show.WAY_NAMES[show.FROM_SCRATCH]] == pytest.approx(0.033)
    assert (table["FLOPs (%)"] == "100.0").all()
    chosen = show.choices_of_stages(stacks)
    assert chosen.to_numpy().tolist() == [[3, *(f"adaptive, i = {seed}" for seed in range(3))]]
    (ax,) = drawing.panels(1)
    show.stacks_by_flops(stacks, ax)
    assert legend(ax) == list(show.WAY_NAMES.values())
    last = ax.lines[list(show.WAY_NAMES).index("last")]
    np.testing.assert_allclose(last.get_xydata(), [[30, 0.528], [60, 0.132]])


def test_at_equal_kl_points_are_differences_and_the_trace_is_a_ratio(stacks):
    same = show.same_kl_table(stacks)
    table = same.set_index(["way", "of"]).value
    assert table["last layers on top", "whole sentence (points)"] == pytest.approx(2)
    assert table["last layers on top", "trace (ratio)"] == pytest.approx(1 / 3)
    assert table["random layers on top", "mean of the tasks (points)"] == pytest.approx(0, abs=1e-9)
    (ax,) = drawing.panels(1)
    show.accuracy_against_kl(stacks, ax)
    assert legend(ax)[-1] == show.WAY_NAMES[show.FROM_SCRATCH]
    assert len(ax.lines) == 5
    np.testing.assert_allclose(ax.lines[1].get_xdata(), [0.528, 0.132])
    assert show.same_kl_finding(stacks).endswith("from scratch by -0.0 to +2.0 points.")


def test_stacks_end_above_or_below_the_last_layers(stacks):
    assert show.stacks_finding(stacks) == (
        "Adaptive stacking ends 0.022 nats below stacking the last layers, "
        "training from scratch with equal FLOPs 0.033 nats above."
    )
    assert "Growing in the last stage helps: it changes the final KL by -60 %" in show.stacks_in_words(stacks)
    one = stacks.stages[stacks.stages.seed == 0], stacks.known[stacks.known.seed == 0]
    alone = replace(stacks, settings=replace(stacks.settings, stacks=1), stages=one[0], known=one[1])
    assert show.stacks_in_words(alone) == "Without a second first stage there is no interval."
    ends = stacks.stages.kl.where(stacks.stages.way != "not grown", stacks.stages.kl / 3)
    useless = replace(stacks, stages=stacks.stages.assign(kl=ends))
    assert "has no detectable effect" in show.stacks_in_words(useless)


def test_ways_without_a_common_kl_are_named_and_omitted(stacks):
    assert show.without_common_kl(stacks).startswith("Every way to stack has a KL in common")
    far = stacks.known.kl.where(stacks.known.way != "random", 9 * stacks.known.kl)
    apart = replace(stacks, known=stacks.known.assign(kl=far))
    assert show.without_common_kl(apart).endswith("the model trained from scratch: random layers on top.")
    assert "random layers on top" not in set(show.same_kl_table(apart).way)
    far = stacks.known.kl.where(stacks.known.way == "from scratch", 9 * stacks.known.kl)
    none = replace(stacks, known=stacks.known.assign(kl=far))
    assert "cannot be compared with training from scratch" in show.same_kl_finding(none)
    assert show.without_common_kl(none).startswith("No way to stack has a KL in common")
