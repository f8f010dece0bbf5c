"""Tables say what was made up."""

from dataclasses import replace

import pytest

from sameloss.studies.growing import tables


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
    from sameloss.studies.growing.settings import PRESETS

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
    assert tables.transition_in_words(made_up).startswith(
        "Looks agree with each other more than with those before from step 3 on (7.5 % of the steps"
    )
