"""Names before readers."""

import pytest

from sameloss.studies.names import NAMES, display_name
from sameloss.studies.same_loss.experiment import PRESETS
from sameloss.training.objectives import ALGORITHMS, label


def test_every_task_of_the_main_languages_and_every_algorithm_has_a_name_in_words():
    tasks = {task for preset in PRESETS.values() for setup in preset.setups for task in setup.tasks}
    for name in [*tasks, *map(label, ALGORITHMS)]:
        assert "-" not in display_name(name).replace("post-LN", "").partition(", ")[0], name
        assert not display_name(name)[0].isupper() or display_name(name)[:3] in ("SGD", "SAM", "Ada"), name


def test_no_two_algorithms_have_one_name_with_their_strength():
    names = [display_name(label(name)) for name in ALGORITHMS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sgd-noise, s = 0.5", "label noise, s = 0.5"),
        ("root", "task A"),
        ("root mean square", "root mean square"),
        ("05_dyck", "05_dyck"),
        ("d_model", "d_model"),
        ("trained, task", "trained, task"),
        ("", ""),
    ],
)
def test_what_has_a_name_is_shown_by_it_and_the_rest_as_it_is(name, words):
    assert display_name(name) == words


def test_names_are_not_named_again():
    assert all(display_name(shown) == shown for shown in NAMES.values())
