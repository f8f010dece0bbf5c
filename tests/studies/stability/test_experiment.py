"""Presets and parameters, stored runs (also killed and resumed), and the page."""

import pandas as pd
import pytest
from cells import definitions
from killed import kill

from sameloss.book.pages import open_page
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.images import ImageSource
from sameloss.store.store import Store
from sameloss.studies.stability import claims
from sameloss.studies.stability.claims import TOPICS
from sameloss.studies.stability.experiment import TwinTraining
from sameloss.studies.stability.theory import by_seed
from sameloss.studies.stability.training import GRID, Descent, Perceptron, SmallCNN

# Presets and parameters.

CHAPTER = definitions("ii2_stability")
PRESETS = CHAPTER.PRESETS


def asked(tmp_path, **given):
    """The chapter with a reader's parameters."""
    values = {"preset": "smoke", "artifacts": str(tmp_path), **given}
    return open_page("ii2_stability", **values)


def test_the_presets_are_the_thesis_where_they_can_be():
    thesis = list(PRESETS["paper"]["kinds"].values())
    assert [kind.descent.steps for kind in thesis] == [100_000] * 4
    assert [kind.stops for kind in thesis] == [(50_000, 100_000, 150_000)] * 4
    rates = [thesis[2].descent.lr_at(step) for step in (31_999, 32_000, 48_000)]
    assert rates == pytest.approx([0.1, 0.01, 0.001])
    assert thesis[2].changed(lr=0.2).descent.lr_at(48_000) == pytest.approx(0.002)
    assert list(PRESETS["gpu"]["kinds"].values())[2].descent.drops == ((3200, 0.1), (4800, 0.01))


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_samples_fill_a_batch_and_are_at_most_half_of_the_pool(preset):
    for kind in preset["kinds"].values():
        assert kind.descent.batch <= min(preset["sizes"])
        assert max(preset["sizes"]) <= kind.source.pool // 2


def test_claims_are_about_the_kinds_by_name():
    names = {claims.LR, claims.CONVEX, claims.MLP, claims.MOMENTUM, claims.CNN, claims.CNN_MOMENTUM}
    theirs = {claims.THEIRS_LR, claims.THEIRS_1A, claims.THEIRS_2A, claims.THEIRS_2B}
    assert (set(CHAPTER.KINDS), set(CHAPTER.THESIS)) == (names, theirs)


def test_seeds_are_none_of_the_pilots_and_only_logistic_regression_tells_halves(page):
    assert {run.seeds for run in page.runs()} == {(100, 101)}
    assert {name for name, kind in CHAPTER.KINDS.items() if kind.source.halves} == {claims.LR}


def test_a_reader_may_ask_for_one_model_with_other_settings(tmp_path):
    given = {"model": claims.MLP, "sizes": "40, 60", "steps": 50, "lr": 0.2, "momentum": 0, "batch": 16}
    runs = asked(tmp_path, **given).runs()
    assert {run.size for run in runs} == {40, 60}
    assert {run.descent for run in runs} == {Descent(0.2, 16, 75, 0.0)}
    assert {run.stops for run in runs} == {(25, 50, 75)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "forest"}, r"^Unknown model 'forest'; choose one of logistic regression; "),
        ({"seeds": 1}, "seeds is at least 2"),
        ({"sizes": "40, many"}, "sizes must be a whole number; got 'many'"),
        ({"sizes": []}, "sizes must be a whole number"),
        ({"sizes": "-40"}, "sizes must be positive; got -40"),
        ({"momentum": 1}, "momentum is at most"),
        ({"device": "cuda"}, "device = cuda was asked for"),
        ({"preset": "gpuu"}, "Unknown preset"),
        ({"rate": 0.1}, "Unknown parameter 'rate'; valid here are preset, model, sizes, "),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, given, message, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ParameterError, match=message) as caught:
        asked(tmp_path, **given)
    assert "\n" not in str(caught.value)


def test_there_are_no_more_paths_than_pairs(tmp_path):
    assert {run.paths for run in asked(tmp_path, pairs=1).runs()} == {1}
    assert {run.paths for run in asked(tmp_path, preset="laptop").runs()} == {2}


# Twin trainings: each seed by itself, killed and gone on.


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
def trained(store):
    return store.get(twins())


def test_every_pair_of_every_seed_is_measured_at_every_stop(trained):
    about = trained["table"][["seed", "pair", "step"]]
    assert not about.duplicated().any()
    assert set(map(tuple, about.to_numpy())) == {
        (seed, pair, step) for seed in (1, 2) for pair in (0, 1) for step in (10, 20, 30)
    }
    assert set(map(tuple, trained["paths"][["seed", "pair"]].drop_duplicates().to_numpy())) == {
        (1, 0),
        (2, 0),
    }
    assert sorted(set(trained["paths"].alpha)) == sorted(GRID)


def test_a_seed_is_the_same_alone(store, trained):
    alone = store.get(twins(seeds=(2,)))
    among = trained["table"][trained["table"].seed == 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone["table"], among[alone["table"].columns], rtol=1e-3, atol=1e-5)
    path = trained["paths"][trained["paths"].seed == 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone["paths"], path[alone["paths"].columns], atol=0.003)


def test_the_ends_of_a_path_are_the_models(trained):
    ends = trained["paths"][trained["paths"].alpha == 1.0].set_index("seed").test
    last = trained["table"][(trained["table"].step == 30) & (trained["table"].pair == 0)].set_index("seed")
    assert (1 - ends).to_numpy() == pytest.approx(last.error.to_numpy(), abs=1e-5)


def test_an_earlier_stop_is_a_shorter_training(store, trained):
    shorter = store.get(twins(descent=Descent(0.1, 8, 20, momentum=0.9), stops=(10, 20)))
    same = trained["table"][trained["table"].step <= 20].reset_index(drop=True)
    assert shorter["table"].distance.to_numpy() == pytest.approx(same.distance.to_numpy(), rel=1e-4)


@pytest.mark.parametrize("killed_at", [10, 20])
def test_a_killed_training_goes_on_bit_for_bit(store, trained, tmp_path, killed_at):
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
    tables = Store(tmp_path).get(twins(paths=0, network=SmallCNN((2,)), stops=(30,)))
    assert tables["paths"].empty
    assert len(tables["table"]) == 4


def test_a_diverged_training_is_one_sentence(tmp_path):
    with pytest.raises(NonFiniteLoss, match=r"at the learning rate 1000 with momentum 0\.9: its loss is"):
        Store(tmp_path).get(twins(descent=Descent(1000.0, 8, 30, momentum=0.9)))


def test_effort_grows_with_what_is_trained():
    larger = {"network": Perceptron((500, 500))}
    assert twins(pairs=40, **larger).effort > 2 * twins(**larger).effort > 2 * twins().effort > 0


# The page: its runs, its tables side by side, its verdicts.


def test_all_of_a_size_are_one_stack(page):
    tiny = PRESETS["smoke"]
    assert len(page.runs()) == len(tiny["kinds"]) * len(tiny["sizes"])
    assert all(run.pairs == tiny["pairs"] for run in page.runs())


def test_tables_of_all_runs_stand_below_each_other(page, results):
    about = results.twins[["kind", "size", "seed", "step"]]
    assert not about.duplicated().any()
    assert len(about) == len(page.runs()) * page.seeds * 3
    assert set(results.falls.kind) == set(page.kinds)


def test_verdicts_and_statements(page):
    assert page.verdicts().id.tolist() == [claim.id for topic in TOPICS[:-1] for claim in topic.claims]
    assert set(page.statements().verdict) == {"holds"}
    assert page.seeds == 2


@pytest.mark.parametrize("name", ["laptop", "gpu", "paper"])
def test_longer_presets_say_what_they_would_compute(tmp_path, name):
    assert sum(run.effort for run in asked(tmp_path, preset=name).runs()) > 50


def test_a_brief_run_keeps_what_claims_are_judged_by(store, trained):
    brief = store.get(twins(brief=True))
    pd.testing.assert_frame_equal(
        brief["table"], by_seed(trained["table"])[brief["table"].columns], rtol=1e-5
    )
    between = trained["paths"][trained["paths"].alpha.between(0, 1)].reset_index(drop=True)
    pd.testing.assert_frame_equal(brief["paths"], between)
    about = {"kind": "one", "size": 24}
    fell, all_fell = (claims.falls_of(of["paths"].assign(**about)) for of in (brief, trained))
    pd.testing.assert_frame_equal(fell, all_fell)


def test_a_seed_counts_by_its_largest_pair_and_its_mean_error(trained):
    summed, rows = by_seed(trained["table"]), trained["table"].query("seed == 2 and step == 20")
    one = summed.query("seed == 2 and step == 20").iloc[0]
    assert one["beta cross-entropy"] == rows["beta cross-entropy"].max()
    assert one["error"] == pytest.approx(rows.error.mean())
    assert len(summed) == 6
    pd.testing.assert_frame_equal(by_seed(summed), summed)
