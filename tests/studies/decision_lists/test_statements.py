"""Every statement has checks, and breaking what it is about makes it fail."""

from dataclasses import replace

import pytest

from sameloss.studies.decision_lists import statements
from sameloss.studies.decision_lists.experiment import PRESETS
from sameloss.studies.decision_lists.statements import STATEMENTS, checks
from sameloss.studies.statement import Judgement, judge_checks, statement_table

CORRECTED = {"sketch", "thm43-rate", "lists"}
"""What is refuted as printed, at any preset."""


def judged(found):
    return statement_table(STATEMENTS, found).set_index("id").verdict


def test_every_statement_is_judged_and_these_are_corrected(page):
    verdicts = judged(page.checks)
    assert set(verdicts.index[verdicts == str(Judgement.CORRECTED)]) == CORRECTED
    for name in ("thm43", "thm44", "lem41", "asm43", "asm44", "elsewhere", "failing", "figure", "luce"):
        assert verdicts[name] == str(Judgement.HOLDS)


@pytest.mark.parametrize(
    ("frame", "column", "value", "of"),
    [
        ("proofs", "on_failing", 1e-3, "failing"),
        ("proofs", "elsewhere", 1e-3, "elsewhere"),
        ("proofs", "identity", 1e-3, "label-gradient"),
        ("proofs", "gradient", 1e-3, "gradients"),
        ("proofs", "weight", 0.1, "half"),
        ("proofs", "light", 1e-3, "light"),
        ("proofs", "of_triples", 0.5, "asm43"),
        ("proofs", "of_sets", 0.5, "asm44"),
        ("proofs", "curvature", 1.5, "thm43-rate"),
        ("descents", "steps", 1e20, "thm43"),
        ("descents", "least_slope", 0.5, "gradient-bound"),
        ("descents", "attention", 0.9, "uniform"),
        ("blocks", "attention", 0.3, "block"),
        ("proofs", "read_out_slope", 1.5, "lem41"),
        ("steps", "recall", 0.9, "figure"),
        ("steps", "diagonal", 2.0, "figure-diagonal"),
        ("both", "accuracy", 0.9, "convergence"),
    ],
)
def test_a_number_that_is_not_so_fails_its_statement(tables, frame, column, value, of):
    broken = replace(tables, **{frame: getattr(tables, frame).assign(**{column: value})})
    found = checks(broken)
    assert judge_checks(found[found.of == of]) is Judgement.FAILS


def test_the_printed_map_misses_one_label():
    assert statements._missed(200, 201) == 1
    assert statements._missed(200, 200) == 0


@pytest.mark.parametrize("preset", ["laptop", "gpu", "paper"])
def test_every_preset_has_what_every_statement_is_checked_on(preset):
    """Of flows alone, which presets sweep differently."""
    sweeps = PRESETS[preset].sweeps
    assert {40, 100, 200} <= set(sweeps.critical_words)
    assert len(sweeps.words) >= 2
    assert len(sweeps.rarities) >= 2
    assert max(PRESETS[preset].drawn) >= statements.FIGURE_SEQUENCES


def test_what_was_not_reached_refutes_nothing(tables):
    nothing = tables.alone.assign(ordered=0.0)
    verdicts = judged(checks(replace(tables, alone=nothing)))
    assert verdicts["sgd"] == str(Judgement.UNTESTED)
