"""Every published claim has an effect, a chapter and a verdict."""

from pathlib import Path

import pytest

from sameloss.studies.same_loss.arms import ADVERSARIAL, ARMS, Arm, Study
from sameloss.studies.same_loss.claims import CLAIMS, verdict_table
from sameloss.studies.same_loss.paper import PUBLISHED
from sameloss.studies.same_loss.parameters import resolve

CHAPTERS = Path(__file__).parents[3] / "chapters"


def test_every_published_claim_is_computed():
    assert set(CLAIMS) == set(PUBLISHED)


def test_every_claim_stands_in_a_chapter():
    for name, claim in CLAIMS.items():
        assert (CHAPTERS / f"{claim.chapter}.py").exists(), name


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    given = {"preset": "smoke", "steps": 8, "seeds": 2, "artifacts": str(tmp_path_factory.mktemp("store"))}
    return Study(resolve(given), ARMS["verdicts"])


@pytest.mark.book
def test_untrained_models_make_no_claim_testable(study):
    """After eight steps nothing is saturated, and every verdict says so."""
    table = verdict_table(study)
    assert list(table.id) == list(PUBLISHED)
    compared = table[~table.id.str.startswith(("entropy", "mask15-kl", "fig9-opt"))]
    assert set(compared.verdict) == {"not testable here"}
    assert set(table[table.id.isin(["entropy", "mask15-kl"])].verdict) == {"contradicted"}


@pytest.mark.book
def test_the_adversary_that_is_judged_is_the_strongest_saturated_one(study):
    assert study.strongest_saturated(ADVERSARIAL) is None


def test_an_arm_is_a_setting_of_its_own(study):
    base = study.setting
    assert Arm().setting(base) == base
    adversary = Arm("adversarial", 0.01).setting(base)
    assert adversary.sizes == ("3K",)
    assert adversary.pretraining("3K", 0).objective.adversary.weight == 0.01
    assert Arm("mask-rate", two_sizes=True).setting(base).sizes == ("1K", "3K")
    on_hmm = Arm("sgd", language="HMM").setting(base)
    assert on_hmm.preset.language == base.preset.hmm
    assert on_hmm.tasks == base.preset.hmm_tasks
