"""The page of Section 5: what may be set, what it reads, and what it judges."""

import pytest

from sameloss.errors import LanguageError, ModelError, ParameterError
from sameloss.studies.dyck.experiment import PRESETS
from sameloss.studies.dyck.pages import PLANS, STUDY
from sameloss.studies.dyck.statements import STATEMENTS

pytestmark = pytest.mark.usefixtures("home")


def open_page(**given):
    return STUDY.open("05_dyck", {"preset": "smoke", **given})


@pytest.mark.parametrize(
    ("given", "fault", "words"),
    [
        ({"sentence_length": 7}, LanguageError, "must be even"),
        ({"sentence_length": 4}, LanguageError, "at least 6"),
        ({"sentence_length": 20}, LanguageError, "at most 10"),
        ({"width": 1}, ModelError, "at least 2"),
        ({"width": 2.5}, ParameterError, "whole number"),
        (
            {"size": "40K"},
            ParameterError,
            "Unknown parameter 'size'; valid here are preset, sentence_length, ",
        ),
        ({"replicas": 9}, ParameterError, f"valid here are {', '.join(PLANS['05_dyck'].parameters)}"),
    ],
)
def test_parameters_outside_the_theorem_or_the_page_are_one_sentence(given, fault, words):
    with pytest.raises(fault, match=words) as refused:
        open_page(**given)
    assert "\n" not in str(refused.value)


def test_parameters_reach_the_settings():
    settings = open_page(sentence_length=8, width=5, steps=70).config
    assert (settings.length, settings.width, settings.training_steps) == (8, 5, 70)
    assert settings.widths == (2, 4, 5)
    assert STUDY.open("05_dyck", {}).config == PRESETS["laptop"]


def test_the_runs_are_of_what_was_set():
    page = open_page(width=5)
    assert {run.settings for run in page.runs()} == {page.config}
    assert [run.width for run in page.minimisations] == [2, 4, 5]
    assert page.checks.parents() == [*page.minimisations, page.transfer, page.features]
    assert page.runs()[-2:] == [page.training, page.checks]


def test_the_statements_are_judged_from_the_checks(page):
    table = page.statements()
    assert table.id.tolist() == list(STATEMENTS)
    assert page.verdicts().empty
