"""The presets of this study."""

import pytest

from sameloss.studies.config import replaced
from sameloss.studies.parameters import PRESETS as NAMES
from sameloss.studies.same_loss.groups import EVERYTHING
from sameloss.studies.same_loss.settings import PRESETS, Shown


def test_every_preset_of_the_book_is_there_by_its_name():
    assert [name for name in PRESETS if name != "workstation"] == list(NAMES)
    assert {name: settings.name for name, settings in PRESETS.items()} == {name: name for name in PRESETS}


@pytest.mark.parametrize("settings", PRESETS.values(), ids=list(PRESETS))
def test_a_preset_is_one_that_can_be_run(settings):
    training, evaluation = settings.training, settings.evaluation
    assert settings.shown == Shown()
    assert training.checkpoints[-1] == 1.0
    assert list(training.checkpoints) == sorted(set(training.checkpoints))
    assert training.optimisation.batch % min(training.micro_batch, training.optimisation.batch) == 0
    assert evaluation.downstream.tasks == ()  # the domain has them
    assert evaluation.finetune_sentences <= evaluation.downstream.train
    assert evaluation.projection >= min(s.d_model for s in settings.domain.sizes.values())
    assert 0 < evaluation.saturated_share < 1


@pytest.mark.parametrize("settings", PRESETS.values(), ids=list(PRESETS))
def test_what_is_cooled_ends_no_higher_than_the_untreated(settings):
    """So where that is saturated, so is what was cooled."""
    cooling = settings.training.cooling
    assert 0 < cooling.target_share <= 1
    assert cooling.steps % cooling.look_every == 0
    assert cooling.sentences > 0


def test_what_a_preset_leaves_out_is_what_some_page_compares():
    """A misspelt label would leave out nothing."""
    known = {name for arm in EVERYTHING for name in (arm.label, f"{arm.label} on {arm.language}")}
    left_out = {name: settings.training.left_out for name, settings in PRESETS.items()}
    assert {name for name, labels in left_out.items() if labels} == {"laptop", "workstation"}
    assert left_out["laptop"] | left_out["workstation"] <= known


def test_presets_grow():
    """What takes longer has more of everything that makes intervals narrow."""

    def much(name):
        training, evaluation = PRESETS[name].training, PRESETS[name].evaluation
        sentences = evaluation.saturation_sentences, evaluation.flatness.trace_sentences
        return (training.optimisation.steps, evaluation.downstream.train, *sentences)

    for small, large in (
        ("smoke", "laptop"),
        ("laptop", "laptop-long"),
        ("laptop-long", "workstation"),
        ("gpu", "paper"),
    ):
        assert all(a <= b for a, b in zip(much(small), much(large), strict=True))


def test_settings_know_the_domain_that_is_shown():
    smoke = PRESETS["smoke"]
    assert smoke.domain is smoke.domains["PCFG"]
    assert replaced(smoke, "shown.domain", "HMM").domain is smoke.domains["HMM"]
