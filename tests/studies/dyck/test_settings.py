"""How long the strings, how wide the models, and what Theorem 5.1 is not about."""

from dataclasses import replace

import pytest
import torch

from sameloss.errors import LanguageError, ModelError
from sameloss.studies.dyck.experiment import PRESETS, DyckConfig
from sameloss.studies.parameters import PRESETS as NAMES


def test_what_is_shown_beside_what_was_asked_for():
    assert DyckConfig(width=5).widths == (2, 4, 5)
    assert DyckConfig(width=4).widths == (2, 4)
    assert DyckConfig(length=10).lengths == (6, 8, 10)
    assert DyckConfig(length=8).lengths == (6, 8)


def test_every_twelfth_of_a_training_is_measured():
    checkpoints = DyckConfig(training_steps=60).checkpoints
    assert checkpoints == tuple(range(0, 61, 5))
    assert len(DyckConfig(training_steps=70).checkpoints) == 13
    assert DyckConfig(training_steps=70).checkpoints[-1] == 70


def test_each_use_has_random_numbers_of_its_own():
    def drawn(use, seed=0):
        return torch.rand(3, generator=DyckConfig(seed=seed).generator(use)).tolist()

    assert drawn("start") == drawn("start")
    assert drawn("start") != drawn("training")
    assert drawn("start") != drawn("start", seed=1)


@pytest.mark.parametrize(
    ("given", "fault", "words"),
    [
        ({"length": 7}, LanguageError, "must be even"),
        ({"length": 4}, LanguageError, "at least 6"),
        ({"length": 20}, LanguageError, "at most 10"),
        ({"width": 1}, ModelError, "at least 2"),
    ],
)
def test_what_the_theorem_is_not_about_is_refused(given, fault, words):
    with pytest.raises(fault, match=words):
        replace(PRESETS["smoke"], **given)


def test_every_preset_is_there_and_the_longer_ones_alike():
    assert list(PRESETS) == list(NAMES)
    assert {PRESETS[name] for name in NAMES[2:]} == {DyckConfig()}
    assert PRESETS["laptop"].training_steps < DyckConfig().training_steps
