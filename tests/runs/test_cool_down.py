"""A cool-down ends at the first look with a low enough KL, and otherwise equals an ordinary training."""

from dataclasses import fields, replace

import pytest
from killed import kill
from stores import with_copies

from sameloss.errors import ParameterError
from sameloss.measures.saturation import divergences
from sameloss.runs.checkpoints import weights_name
from sameloss.runs.pretraining import CoolDown, Pretraining
from sameloss.runs.sampling import HeldOutConditionals
from sameloss.store.store import Store, with_ancestors
from sameloss.training.loop import Optimisation
from sameloss.training.objectives import Objective

LOOKS = tuple(range(7, 61, 7))


@pytest.fixture
def uncooled(tiny_run):
    """A training of 60 steps after one of 20 and a treatment of 20, with a checkpoint at every look."""
    first = replace(tiny_run, checkpoints=(20,), optimisation=Optimisation(20, 16, 1e-2))
    origin = replace(first, seed=1, origin=first)
    return replace(tiny_run, checkpoints=(*LOOKS, 60), objective=Objective(label_noise=0.0), origin=origin)


@pytest.fixture
def cool_down(uncooled):
    """The same until the KL is a fraction of the reference's, here the model before the treatment."""
    settings = {field.name: getattr(uncooled, field.name) for field in fields(Pretraining)}
    held_out = HeldOutConditionals(uncooled.corpus.language, 200, seed=1)
    return lambda target_share, **changes: CoolDown(
        **settings
        | {"checkpoints": (60,), "held_out": held_out, "look_every": 7, "reference": uncooled.origin.origin}
        | changes,
        target_share=target_share,
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store in which nothing is killed."""
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def share(cool_down, store):
    """A model's KL relative to the reference's, on the sentences of the looks."""
    run = cool_down(1.0)
    sentences, conditionals = store.get(run.held_out)

    def kl(model):
        return float(divergences(model, sentences, conditionals).mean())

    reference = kl(store.get(run.reference).last())
    return lambda model: kl(model) / reference


@pytest.fixture
def lowest(uncooled, share, store):
    """The looks at which the KL is lower than at all before, each with its relative KL."""
    kls = {step: share(store.get(uncooled).model(step)) for step in LOOKS}
    return {step: kl for step, kl in kls.items() if kl == min(kls[s] for s in LOOKS if s <= step)}


def same_weights(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(a.equal(b) for a, b in pairs)


def test_it_ends_at_the_first_look_that_is_low_enough(cool_down, uncooled, lowest, share, store):
    """Its model is that of the same training without looks."""
    *_, before, step = lowest
    run = cool_down((lowest[before] + lowest[step]) / 2)
    checkpoints = store.get(run)
    assert step > 28
    assert len(checkpoints.history) == step
    assert share(checkpoints.last()) == lowest[step] <= run.target_share < lowest[before]
    assert same_weights(checkpoints.last(), store.get(uncooled).model(step))


def test_its_model_is_saved_under_the_maximal_number_of_steps(cool_down, lowest, store):
    run = cool_down(1.001 * max(lowest.values()))
    checkpoints = store.get(run)
    assert len(checkpoints.history) == 7  # the first look
    assert checkpoints.steps == (60,)
    weights = [path.name for path in store.folder(run).glob("*.safetensors")]
    assert weights == [weights_name(60)]


def test_if_the_steps_do_not_suffice_the_last_model_is_saved(cool_down, uncooled, share, store):
    run = cool_down(1e-6)
    checkpoints = store.get(run)
    assert checkpoints.history.step.tolist() == list(range(1, 61))
    assert share(checkpoints.last()) > run.target_share
    assert same_weights(checkpoints.last(), store.get(uncooled).last())


@pytest.mark.parametrize("killed_at", [3, 14, 27])
def test_a_killed_cool_down_goes_on_bit_for_bit(cool_down, lowest, store, tmp_path, killed_at):
    """Killed at a look or between two."""
    *_, before, step = lowest
    run = cool_down((lowest[before] + lowest[step]) / 2)
    assert len(store.get(run).history) == step > killed_at
    killed = with_copies(with_ancestors([run])[:-1], store, tmp_path / "killed")
    kill(run, killed.root, killed_at / 60)
    assert not killed.has(run)
    reported = []
    killed.get(run, lambda fraction, text: reported.append(fraction))
    assert round(reported[0] * 60) == 1 + killed_at // 10 * 10
    assert reported[-1] == 1
    assert killed.manifest(run)["files"] == store.manifest(run)["files"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"origin": None}, "needs a treated model, a reference and held-out sentences"),
        ({"reference": None}, "needs a treated model, a reference and held-out sentences"),
        ({"held_out": None}, "needs a treated model, a reference and held-out sentences"),
        ({"target_share": 0.0}, r"target_share must be positive and finite; got 0\.0\."),
        ({"target_share": float("nan")}, r"target_share must be positive and finite; got nan\."),
        ({"checkpoints": (20, 60)}, "keeps its last model alone"),
        ({"checkpoints": (20,)}, "keeps its last model alone"),
    ],
)
def test_incomplete_or_impossible_cool_downs_are_refused(cool_down, changes, message):
    with pytest.raises(ParameterError, match=message):
        replace(cool_down(0.5), **changes)


def test_everything_that_decides_its_end_is_in_the_key(cool_down, uncooled):
    run = cool_down(0.5)
    others = [
        cool_down(0.4),
        cool_down(0.5, look_every=8),
        cool_down(0.5, held_out=replace(run.held_out, seed=2)),
        cool_down(0.5, reference=run.origin),
    ]
    assert len({each.key for each in (run, *others, uncooled)}) == 6
    assert {parent.kind for parent in run.parents()} == {
        "CorpusSampling",
        "Pretraining",
        "HeldOutConditionals",
    }
