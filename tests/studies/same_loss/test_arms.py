"""The groups of pre-trainings that the book compares, by name."""

from dataclasses import replace

import pytest

from sameloss.studies.config import replaced
from sameloss.studies.same_loss.groups import (
    ADAMW,
    ADVERSARIAL,
    ARMS,
    COOLED,
    EVERYTHING,
    FROM_ONE_POINT,
    HMM,
    MAIN,
    MASK_RATE,
    NOISE,
    NOISY,
    SGD_AFTER_ADAMW,
    SGD_AFTER_ADAMW_HMM,
    SHARPENED,
    TRAINED,
    UNTREATED,
    Arm,
    sweep,
)
from sameloss.studies.same_loss.settings import PRESETS, Shown
from sameloss.training.algorithms import recipe

SMOKE = PRESETS["smoke"]
BRIEF = replaced(PRESETS["smoke"], "training.compared_steps", 32)
"""Settings in which comparisons of algorithms are shorter than the main part."""


def test_what_an_arm_leaves_open_is_what_the_page_shows():
    shown = Shown(domain="HMM", algorithm="adversarial", strength=0.1)
    assert MAIN.of(shown) == replace(MAIN, algorithm="adversarial", strength=0.1, language="HMM")
    assert MAIN.of(shown) == HMM.of(shown) != MAIN.of(Shown())
    assert ADAMW.of(shown) == Arm("adamw", language="HMM")
    assert SGD_AFTER_ADAMW.of(shown) == SGD_AFTER_ADAMW_HMM == SGD_AFTER_ADAMW_HMM.of(Shown())
    assert MAIN.of(shown).of(Shown()) == MAIN.of(shown)  # nothing is open any more


def test_the_main_arm_is_all_sizes_at_full_length():
    main, adversary = MAIN.group(BRIEF), ADVERSARIAL[0].group(BRIEF)
    assert (main.sizes, main.length, main.language) == (("1K", "3K"), 160, "PCFG")
    assert (adversary.sizes, adversary.length, adversary.language) == (("3K",), 32, "PCFG")
    assert SGD_AFTER_ADAMW.group(BRIEF).length == 160
    assert adversary.pretraining("3K", 0).objective == recipe("adversarial", 0.003).objective


def test_sizes_of_an_arm():
    laptop, longer = PRESETS["laptop"], PRESETS["laptop-long"]
    assert MAIN.group(laptop).sizes == ("40K", "155K")
    assert MAIN.group(longer).sizes == ("10K", "40K", "155K")
    assert HMM.group(laptop).sizes == ("10K", "40K")
    assert MASK_RATE.group(laptop).sizes == ("40K",)
    assert MASK_RATE.group(longer).sizes == ("10K", "40K")
    assert ADAMW.group(laptop).sizes == ("40K",)
    assert ADAMW.group(PRESETS["paper"]).sizes == ("235M",)


@pytest.mark.parametrize("arm", [MAIN, MASK_RATE, ADAMW])
def test_a_page_about_one_size_has_that_one_alone(arm):
    """As far as the arm's language has it; a size by name alone, too."""
    for size in ("1K", "L856"):
        assert arm.group(replaced(SMOKE, "shown.size", size)).sizes == (size,)
    elsewhere = replaced(PRESETS["laptop"], "shown.size", "155K")  # the HMM has it not
    assert replace(arm, language="HMM").group(elsewhere).sizes == {
        "all": ("10K", "40K"), "two": ("10K", "40K"), "one": ("40K",),
    }[arm.sizes]  # fmt: skip


def test_an_arm_on_another_language_has_its_domain():
    group = Arm("sgd", language="HMM").group(SMOKE)
    assert group.domain is SMOKE.domains["HMM"]
    assert group.corpus.language == SMOKE.domains["HMM"].language
    assert group.tasks == ("state2", "state3")


def test_labels_are_those_of_tables():
    assert [arm.label for arm in (MAIN, ADAMW, ADVERSARIAL[2], *NOISE[::2])] == [
        "adamw",
        "adamw",
        "adversarial, λ = 0.012",
        "sgd-noise, s = 0",
        "sgd-noise, s = 1",
    ]
    labels = [arm.label for arm in TRAINED]
    assert len(set(labels)) == len(labels)
    assert labels[0] == "adamw"


def test_cooled_arms_are_the_treatments_of_one_point_each_cooled():
    """Without label noise first: all others are compared with it."""
    assert [replace(arm, cooled=False) for arm in COOLED] == list(FROM_ONE_POINT)
    assert all(arm.cooled for arm in COOLED)
    assert {recipe(arm.algorithm, arm.strength).origin for arm in FROM_ONE_POINT} == {"soft"}
    assert [arm.label for arm in (UNTREATED, NOISY, SHARPENED)] == [
        "sgd-noise, s = 0, cooled",
        "sgd-noise, s = 1, cooled",
        "sharpen-after, μ = 0.002, cooled",
    ]
    assert COOLED[0] is UNTREATED
    assert len({arm.label for arm in COOLED}) == len(COOLED)
    assert {arm.group(SMOKE).cooled for arm in COOLED} == {True}
    assert not MAIN.group(SMOKE).cooled


def test_a_sweep_has_an_arm_for_each_strength_in_its_order():
    assert sweep("sam", 0.1, 0.2) == (Arm("sam", 0.1), Arm("sam", 0.2))
    assert [arm.strength for arm in ADVERSARIAL] == sorted(arm.strength for arm in ADVERSARIAL)


def test_everything_is_what_the_pages_compare_each_once():
    assert set(EVERYTHING) == {arm for arms in ARMS.values() for arm in arms}
    assert len(set(EVERYTHING)) == len(EVERYTHING)
