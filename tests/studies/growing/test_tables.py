"""Tables say what was made up."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sameloss.statistics.bootstrap import Interval
from sameloss.studies.growing import tables
from sameloss.studies.growing.experiment import PRESETS

SEEDS_FIRST = ("chosen_by", "kl", "not_grown", "scratch", "accuracy")


def test_operators_are_ordered_by_their_end(made_up):
    table = tables.operator_table(made_up)
    assert table.operator.tolist() == [operator.name for operator in made_up.operators]
    assert table["at the end"].iloc[0] == pytest.approx(1.01)
    assert table["KL at first"].iloc[0] == pytest.approx(2.01)
    assert table.layers.iloc[0] == "0 (0) 1 (1)"
    assert table.standard_error.iloc[0] == pytest.approx(0.01 / 3**0.5)


def test_choices_are_measured_from_the_best(made_up):
    table = tables.choice_table(made_up).set_index("choice")
    assert table.KL["LAG@10"] == pytest.approx(0, abs=1e-9)
    assert table.KL["LAG@0"] == pytest.approx(1)
    assert table.KL["by lot"] == pytest.approx(0.5)
    assert table["relative regret"]["LAG@0"] == pytest.approx(1)
    assert table.KL["not grown"] == pytest.approx(0.5)
    assert table.KL["from nothing, equal FLOPs"] == pytest.approx(0.7)


def test_the_published_tables_are_consistent():
    """Regrets of BERT's rows have one range between best and worst, and so have UL2's (Tables 5.1, 5.2)."""
    table = tables.PUBLISHED_CHOICES.iloc[2:]
    for name, best, span in (("BERT", 1.7461, 0.0518), ("UL2", 2.1254, 0.0157)):
        spans = (table[f"{name} loss"] - best) / table[f"{name} relative regret"]
        assert spans.to_list() == pytest.approx([span] * 3, rel=0.01)


def test_correlations_are_given_for_all_and_within(made_up):
    table = tables.correlation_table(made_up).set_index(["operators", "KL"])
    assert table.value["all", "at first"] == pytest.approx(-1, abs=1e-5)
    assert table.value["the thesis' (copies and random)", "at first"] == pytest.approx(-1, abs=1e-5)
    assert tables.landscape_table(made_up).value.tolist() == pytest.approx([1] * 3, abs=1e-5)


def test_lags_overhead_is_what_the_thesis_would_have(made_up):
    """Thirty operators, 200 of 100,000 steps: 5.8 %; 2,000 of them: 58 %."""
    for lag, share in ((200, 5.8), (2000, 58.0)):
        published = replace(PRESETS["paper"].growing, steps=100_000, lag=lag)
        table = tables.flops_table(published)
        assert table["over one grown model (%)"][2] == pytest.approx(share)
    smoke = tables.flops_table(made_up.settings)
    assert smoke["over one grown model (%)"].tolist()[1:] == pytest.approx([100, 125, 500])


def test_sentences(made_up):
    assert tables.headroom_in_words(made_up.headroom()).endswith("so operators can be compared")
    flat = replace(made_up, not_grown=made_up.not_grown - 0.5).headroom()
    assert "not testable here" in tables.headroom_in_words(flat)
    assert tables.ceiling_in_words(made_up).endswith("1.00: the most that any look could have")
    blind = replace(made_up, chosen_by=made_up.chosen_by[..., ::-1])
    assert tables.ceiling_in_words(blind).endswith("no claim about an order is testable here")
    alone = tables.headroom_in_words(Interval(0.1, np.nan, np.nan))
    assert alone.startswith("10 %, of one shallow model: without an interval")
    assert tables.transition_in_words(made_up).startswith(
        "Looks agree with each other more than with those before from step 3 on (7.5 % of the steps"
    )


def test_ways_to_choose_have_their_regret_and_their_cost(made_up):
    """It turns at look 3: before, the worst is chosen; 5 others for 10 of 40 steps are 125 %."""
    table = tables.selection_table(made_up).set_index("choice")
    assert table["relative regret"]["LAG@0"] == pytest.approx(1)
    assert table["relative regret"]["LAG@10"] == pytest.approx(0)
    assert table["cost (%)"][["LAG@0", "LAG@10"]].to_list() == pytest.approx([0, 125])
    assert table["relative regret"]["halving from step 5"] == pytest.approx(0)
    assert table["cost (%)"]["halving from step 5"] < 125
    assert table["relative regret"]["when settled for half of the steps"] == pytest.approx(1)


def test_what_models_know_is_told_by_choice_and_task(made_up):
    names = [operator.name for operator in made_up.operators]
    controls = {"not grown": 50.0, "from nothing": 60.0, "untrained": 30.0}
    known = dict(zip(names, made_up.accuracy[0], strict=True)) | controls
    accuracies = pd.DataFrame(
        {"seed": seed, "operator": name, "task": task, "accuracy": accuracy - (task == "b")}
        for seed in made_up.settings.all_seeds
        for name, accuracy in known.items()
        for task in "ab"
    )
    two = replace(made_up, landscape={}, **{name: getattr(made_up, name)[:2] for name in SEEDS_FIRST})
    table = tables.downstream_table(two, accuracies).set_index("model")
    assert table.a[["oracle", "LAG@10", "LAG@0"]].to_list() == pytest.approx([90, 90, 80])
    assert table.b["oracle"] == pytest.approx(89)
    assert table.a[list(controls)].to_list() == list(controls.values())


def test_ages_have_a_row_each(made_up):
    table = tables.age_table(made_up)
    assert table["steps before growing"].to_list() == [10, 100]
    spread = table["spread of operators (%)"]
    assert spread[0] > 5 * spread[1]
    assert table["Spearman at first"].to_list() == pytest.approx([-1, 1], abs=1e-5)
    assert table["tells from step"].to_list() == [made_up.steps[3], 0]
    assert tables.age_table(replace(made_up, aged={})).empty
    told = tables.ages_in_words(made_up)
    assert "-1.00 (-1.00, -1.00) after 10 steps; 1.00 (1.00, 1.00) after 100 steps" in told


def test_stacks_are_measured_from_the_last_layers_way(stacked):
    table = tables.stack_table(stacked).set_index("way")
    assert table.index[0] == "adaptive (LAG at every stage)"
    assert table["over last"]["last layers on top"] == 0
    assert table["over last"]["from nothing, equal FLOPs"] == pytest.approx(0.033)
    assert (table["FLOPs (%)"] == "100.0").all()
    chosen = tables.choices_of_stages(stacked)
    assert chosen.to_numpy().tolist() == [[3, *(f"adaptive, i = {seed}" for seed in range(3))]]


def test_at_equal_kl_points_are_differences_and_the_trace_is_a_ratio(stacked):
    table = tables.same_kl_table(stacked).set_index(["way", "of"]).value
    assert table["last layers on top", "whole sentence (points)"] == pytest.approx(2)
    assert table["last layers on top", "trace (ratio)"] == pytest.approx(1 / 3)
    assert table["random layers on top", "mean of the tasks (points)"] == pytest.approx(0, abs=1e-9)


def test_ways_without_a_common_kl_are_named_and_left_out(stacked):
    assert tables.without_common_kl(stacked).startswith("In the last stage every way to stack has a KL in")
    far = stacked.known.kl.where(stacked.known.way != "random", 9 * stacked.known.kl)
    apart = replace(stacked, known=stacked.known.assign(kl=far))
    assert tables.without_common_kl(apart).endswith("the model from nothing: random layers on top.")
    assert "random layers on top" not in set(tables.same_kl_table(apart).way)


def test_ways_are_told_by_their_maps(stacked):
    table = tables.way_table(stacked.settings).set_index("way")
    assert table.loc["adaptive (LAG at every stage)"].to_list() == ["0 (0)", "0 (0) 1; 0 1 (1)"]
    assert table.loc["middle layers repeated"].to_list() == ["0 (0)", "0 (0) 1"]
    many = tables.way_table(PRESETS["gpu"].stacking)
    assert "; and 9 more" in many["12 layers"][0]


def test_a_candidate_that_diverged_is_named(made_up):
    name = made_up.operators[0].name
    lost = replace(made_up, diverged=(name,))
    assert f"{name} (diverged)" in tables.operator_table(lost).operator.to_list()
