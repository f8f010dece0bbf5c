"""The pages that are about all studies."""

import pytest
from made_up import fill

from sameloss.book.pages import PLANS, STUDY, EveryStudy
from sameloss.book.studies import all_studies
from sameloss.errors import ParameterError
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.same_loss.pages import PLANS as MAIN_PLANS
from sameloss.studies.same_loss.pages import WholeStudy

NAMES = [name for study in all_studies().values() if study is not STUDY for name in study.plans]


@pytest.fixture
def page(opened):
    return opened("verdicts", seeds=1)


def test_it_has_every_page_of_every_other_study(page):
    assert [other.name for other in page.pages] == NAMES
    assert not set(NAMES) & set(PLANS)
    assert {other.store for other in page.pages} == {page.store}


def test_pages_of_its_own_study_have_its_settings_and_the_others_its_preset(page):
    for other in page.pages:
        if other.name in MAIN_PLANS:
            assert other.config is page.config
        else:
            assert other.config == all_studies()[other.__module__].presets["smoke"]
    assert page.config.training.seeds == 1


def test_it_reads_all_that_they_read(page):
    keys = {run.key for run in page.runs()}
    for other in page.pages:
        assert {run.key for run in other.runs()} <= keys, other.name
    whole = WholeStudy("verdicts", page.config, page.store)
    assert {run.key for run in whole.runs()} <= keys


def test_every_claim_of_the_main_study_is_judged(page):
    assert page.claims() == list(CLAIMS)
    page = fill(page)
    assert [arm.language for arm in page.arms][:3] == ["PCFG", "HMM", "OPT"]


@pytest.mark.parametrize("name", PLANS)
def test_what_may_be_set(name, opened):
    page = opened(name, preset="laptop", seeds=2, tolerance=0.5, max_hours=3)
    assert isinstance(page, EveryStudy)
    assert (page.config.name, page.config.training.seeds) == ("laptop", 2)
    assert (page.config.evaluation.tolerance, page.config.max_hours) == (0.5, 3)
    with pytest.raises(ParameterError, match=r"Unknown parameter 'size'; valid here are preset, seeds, "):
        opened(name, size="40K")
