"""The page of Section 3: what may be set, what it reads, and what it judges."""

import pytest

from sameloss.errors import ParameterError
from sameloss.studies.manifold_flow.experiment import FLOW_LANGUAGE, PRESETS
from sameloss.studies.manifold_flow.pages import PLANS, STUDY
from sameloss.studies.manifold_flow.statements import STATEMENTS

pytestmark = pytest.mark.usefixtures("home")


def open_page(**given):
    return STUDY.open("03_implicit_bias", {"preset": "smoke", **given})


def test_parameters():
    flow = open_page(learning_rate=0.4, replicas=20).config
    assert (flow.rates(1)[0], flow.rates(4)[0], flow.replicas_of(4)) == (0.4, 0.8, 10)
    assert open_page().config == PRESETS["smoke"]
    assert STUDY.open("03_implicit_bias", {}).config == PRESETS["laptop"]


@pytest.mark.parametrize("name", ["size", "sentence_length", "seeds"])
def test_a_parameter_of_another_page_is_refused_with_this_pages_own(name):
    with pytest.raises(ParameterError) as refused:
        open_page(**{name: "40K"})
    valid = ", ".join(PLANS["03_implicit_bias"].parameters)
    assert str(refused.value) == f"Unknown parameter {name!r}; valid here are {valid}."


def test_the_runs_are_of_what_was_set():
    page = open_page(replicas=20)
    assert page.runs() == [page.sgd, page.adam, page.zeros, page.landscape]
    assert {page.sgd.settings, page.adam.settings} == {page.config}
    assert page.sgd.language == page.adam.language == FLOW_LANGUAGE
    assert page.landscape.steps == page.config.landscape_steps
    assert open_page().sgd.key != page.sgd.key
    assert open_page().zeros.key == page.zeros.key


def test_the_statements_are_judged_from_its_runs(page):
    table = page.statements()
    assert table.id.tolist() == list(STATEMENTS)
    assert (table.checks > 0).all()
    assert page.verdicts().empty
