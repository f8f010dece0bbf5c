"""Twin trainings as runs: each seed by itself, killed and gone on, refused before anything is computed."""

import pandas as pd
import pytest
from killed import kill

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.images import ImageSource
from sameloss.store.store import Store
from sameloss.studies.stability.experiment import TwinTraining
from sameloss.studies.stability.training import GRID, Descent, Perceptron, SmallCNN


def twins(**changes):
    given = {
        "source": ImageSource(),
        "network": Perceptron((5,)),
        "descent": Descent(0.1, 8, 30, momentum=0.9),
        "size": 24,
        "pairs": 2,
        "seeds": (1, 2),
        "stops": (10, 20, 30),
        "paths": 1,
        "resume_every": 5,
    }
    return TwinTraining(**given | changes)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store in which nothing is killed."""
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def found(store):
    return store.get(twins())


def test_every_pair_of_every_seed_is_measured_at_every_stop(found):
    about = found.table[["seed", "pair", "step"]]
    assert not about.duplicated().any()
    assert set(map(tuple, about.to_numpy())) == {
        (seed, pair, step) for seed in (1, 2) for pair in (0, 1) for step in (10, 20, 30)
    }
    assert set(map(tuple, found.paths[["seed", "pair"]].drop_duplicates().to_numpy())) == {(1, 0), (2, 0)}
    assert sorted(set(found.paths.alpha)) == sorted(GRID)


def test_a_seed_is_the_same_alone(store, found):
    """Its initialisation, order and pairs are its own."""
    alone = store.get(twins(seeds=(2,)))
    among = found.table[found.table.seed == 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone.table, among[alone.table.columns], rtol=1e-3, atol=1e-5)
    path = found.paths[found.paths.seed == 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone.paths, path[alone.paths.columns], atol=0.003)


def test_the_ends_of_a_path_are_the_models(found):
    ends = found.paths[found.paths.alpha == 1.0].set_index("seed").test
    last = found.table[(found.table.step == 30) & (found.table.pair == 0)].set_index("seed")
    assert (1 - ends).to_numpy() == pytest.approx(last.error.to_numpy(), abs=1e-5)


def test_an_earlier_stop_is_a_shorter_training(store, found):
    shorter = store.get(twins(descent=Descent(0.1, 8, 20, momentum=0.9), stops=(10, 20)))
    same = found.table[found.table.step <= 20].reset_index(drop=True)
    assert shorter.table.distance.to_numpy() == pytest.approx(same.distance.to_numpy(), rel=1e-4)


@pytest.mark.parametrize("killed_at", [10, 20])
def test_a_killed_training_goes_on_bit_for_bit(store, found, tmp_path, killed_at):
    run = twins()
    kill(run, tmp_path / "killed", killed_at / 30)
    killed = Store(tmp_path / "killed")
    assert not killed.has(run)
    assert (killed.partial(run) / "scratch" / "resume.pt").exists()
    reported = []
    killed.get(run, lambda fraction, text: reported.append(round(30 * fraction)))
    assert reported == [stop for stop in (10, 20, 30) if stop >= killed_at]  # the killed stop comes again
    assert killed.manifest(run)["files"] == store.manifest(run)["files"]


def test_without_paths_there_are_none(tmp_path):
    found = Store(tmp_path).get(twins(paths=0, network=SmallCNN((2,)), stops=(30,)))
    assert found.paths.empty
    assert len(found.table) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 651}, "more than half of a pool of 1300"),
        ({"size": 7}, "does not fill a batch of 8"),
        ({"pairs": 0}, "pairs"),
    ],
)
def test_what_cannot_be_estimated_from_is_refused(changes, message):
    with pytest.raises(ParameterError, match=message):
        twins(**changes)


def test_a_diverged_training_is_one_sentence(tmp_path):
    with pytest.raises(NonFiniteLoss, match=r"at the learning rate 1000 with momentum 0\.9: its loss is"):
        Store(tmp_path).get(twins(descent=Descent(1000.0, 8, 30, momentum=0.9)))


def test_effort_grows_with_what_is_trained():
    larger = {"network": Perceptron((500, 500))}
    assert twins(pairs=40, **larger).effort > 2 * twins(**larger).effort > 2 * twins().effort > 0
