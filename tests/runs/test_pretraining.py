"""Pre-trainings: resumption after kill -9, divergence, keys, and what is refused."""

import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from killed import kill, kill_elsewhere
from torch import nn

from sameloss.errors import NonFiniteLoss, ParameterError, StoreError
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.masked_model import MaskedLanguageModel, Shape, chosen
from sameloss.runs.pretraining import TENSORBOARD
from sameloss.store.store import Store
from sameloss.training.loop import Execution, Optimisation
from sameloss.training.objectives import Adversary, Objective


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store in which nothing was killed."""
    return Store(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize(
    ("killed_at", "ended"), [(3, kill), (10, kill), (27, kill), (27, kill_elsewhere), (59, kill)]
)
def test_a_killed_training_goes_on_bit_for_bit(tiny_run, whole, tmp_path, killed_at, ended):
    whole.get(tiny_run)
    ended(tiny_run, tmp_path / "killed", killed_at / 60)
    store = Store(tmp_path / "killed")
    assert not store.has(tiny_run)
    resumable = store.partial(tiny_run) / "scratch" / "resume.pt"
    assert resumable.exists() == (killed_at >= 10)
    first_reported = []
    store.get(tiny_run, lambda fraction, text: first_reported.append(fraction))
    assert round(first_reported[0] * 60) == 1 + killed_at // 10 * 10
    assert store.manifest(tiny_run)["files"] == whole.manifest(tiny_run)["files"]


def test_sampled_labels_are_learnt_without_loading_the_language(tiny_run, whole, monkeypatch):
    """It may be a teacher of gigabytes, in every process."""
    run = replace(tiny_run, seed=1)
    whole.get(run.corpus)
    monkeypatch.setattr(type(run.corpus.language), "build", Mock(side_effect=AssertionError))
    assert whole.get(run).history.step.iloc[-1] == 60
    with pytest.raises(AssertionError):
        whole.get(replace(run, objective=Objective(label_noise=0.0)))


def test_losses_are_logged_for_tensorboard_and_change_nothing(tiny_run, whole, tmp_path, monkeypatch):
    """Its writer is a stand-in, because the package is not installed here."""
    whole.get(tiny_run)
    make_writer = Mock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=make_writer))
    monkeypatch.setenv(TENSORBOARD, str(tmp_path / "log"))
    store = Store(tmp_path)
    history = store.get(tiny_run).history
    make_writer.assert_called_once_with(tmp_path / "log" / f"Pretraining-{tiny_run.key}", purge_step=1)
    logged = [call.args for call in make_writer().add_scalar.call_args_list]
    for name in ("loss", "lr"):
        assert [value for kind, value, _ in logged if kind == name] == pytest.approx(history[name].tolist())
    assert [step for _, _, step in logged[::2]] == history.step.tolist()
    make_writer().close.assert_called_once_with()
    assert store.manifest(tiny_run)["files"] == whole.manifest(tiny_run)["files"]


def test_a_folder_for_tensorboard_needs_tensorboard(tiny_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setenv(TENSORBOARD, str(tmp_path / "log"))
    with pytest.raises(ParameterError, match=r"^SAMELOSS_TENSORBOARD needs TensorBoard; run pip install"):
        Store(tmp_path).get(tiny_run)


def test_a_stop_between_checkpoint_and_state_loses_no_checkpoint(tiny_run, whole, tmp_path, monkeypatch):
    """The checkpoint is written before the state from which it would not be written again."""

    def stopped(*_):
        raise KeyboardInterrupt

    store, run = Store(tmp_path), replace(tiny_run, resume_every=20)
    whole.get(run)
    for written in ("sameloss.runs.checkpoints.write_atomically", "sameloss.runs.pretraining.save_tensors"):
        with monkeypatch.context() as patched:
            patched.setattr(written, stopped)
            with pytest.raises(KeyboardInterrupt):
                store.get(run)
    store.get(run)
    assert store.manifest(run)["files"] == whole.manifest(run)["files"]


def test_a_checkpoint_lost_on_the_way_is_made_again(tiny_run, whole, tmp_path):
    store = Store(tmp_path / "killed")
    whole.get(tiny_run)
    kill(tiny_run, store.root, 0.7)
    (lost,) = store.partial(tiny_run).glob("*.safetensors")
    lost.unlink()
    store.get(tiny_run)
    assert store.manifest(tiny_run)["files"] == whole.manifest(tiny_run)["files"]


def test_divergence_names_step_lr_and_seed(tiny_run, tmp_path):
    diverging = replace(tiny_run, optimisation=Optimisation(steps=60, batch=16, lr=1e30), resume_every=1)
    store = Store(tmp_path)
    with pytest.raises(NonFiniteLoss, match=r"at step \d+ with lr = .*, seed 0\..*step \d+\) is kept"):
        store.get(diverging)
    assert (store.partial(diverging) / "scratch" / "resume.pt").exists()
    assert not store.has(diverging)


def test_every_setting_is_in_the_key(tiny_run):
    changed = [
        replace(tiny_run, seed=1),
        replace(tiny_run, micro_batch=8),
        replace(tiny_run, resume_every=20),
        replace(tiny_run, dtype="float64"),
        replace(tiny_run, checkpoints=(60,)),
        replace(tiny_run, shape=EncoderShape(8, 1, 1, 16)),
        replace(tiny_run, optimisation=replace(tiny_run.optimisation, lr=0.1)),
        replace(tiny_run, corpus=replace(tiny_run.corpus, sentences=301)),
    ]
    assert len({tiny_run.key, *(other.key for other in changed)}) == 9


def test_a_plain_execution_keeps_the_key_and_every_other_changes_it(tiny_run):
    assert "execution" not in tiny_run.canonical()
    others = [
        Execution(autocast=True),
        Execution(compiled=True, by_length=True),
        Execution(by_length=True),
        Execution(processes=2),
    ]
    assert len({tiny_run.key, *(replace(tiny_run, execution=other).key for other in others)}) == 5


def test_processes_must_divide_the_batch(tiny_run):
    with pytest.raises(ParameterError, match="processes must divide batch = 16; got 3"):
        replace(tiny_run, execution=Execution(processes=3))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"checkpoints": ()}, r"^checkpoints must be increasing steps in \[0, 60\]; got \(\)\.$"),
        ({"checkpoints": (2, 1)}, r"^checkpoints must be .* got \(2, 1\)\.$"),
        ({"checkpoints": (1, 1)}, r"^checkpoints must be .* got \(1, 1\)\.$"),
        ({"checkpoints": (-1,)}, r"^checkpoints must be .* got \(-1,\)\.$"),
        ({"checkpoints": (10**9,)}, r"^checkpoints must be .* got \(1000000000,\)\.$"),
        ({"seed": -1}, "^seed must be a whole number, at least 0; got -1"),
        ({"resume_every": 0}, "^resume_every must be a whole number, at least 1; got 0"),
        ({"micro_batch": -1}, "^micro_batch must be a whole number, at least 1; got -1"),
        ({"dropout": 1.0}, r"^dropout must lie in \[0, 1\); got 1.0"),
        ({"dropout": -0.1}, r"^dropout must lie in \[0, 1\); got -0.1"),
        ({"dtype": "float99"}, "^Unknown dtype 'float99'; choose float32 or float64"),
        ({"objective": Objective(adversary=Adversary(1.0))}, "^An adversary needs `downstream`"),
    ],
)
def test_impossible_settings_are_refused(tiny_run, changes, sentence):
    with pytest.raises(ParameterError, match=sentence):
        replace(tiny_run, **changes)


def test_only_ordinary_training_is_compiled_or_shared(tiny_run):
    with pytest.raises(ParameterError, match="Only ordinary training"):
        replace(tiny_run, execution=Execution(processes=2), objective=Objective(label_noise=0.0))


def test_what_the_shape_does_not_support_is_refused(tiny_run):
    lstm, fast = BiLSTMShape(8, 1), Execution(autocast=True, compiled=True, by_length=True)
    with pytest.raises(
        ParameterError, match="BiLSTMShape cannot be trained with post-LN, dropout, bfloat16 or compil"
    ):
        replace(tiny_run, shape=lstm, execution=fast, norm="post")
    replace(tiny_run, shape=lstm, execution=fast.for_shape(lstm))


def test_lack_of_memory_is_explained_and_keeps_the_saved_state(tiny_run, tmp_path, monkeypatch):
    calls = []

    def forward(self, *arguments):
        calls.append(1)
        if len(calls) > 4 * 7:  # in the eighth step
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, *arguments)

    original = Encoder.forward
    monkeypatch.setattr(Encoder, "forward", forward)
    store, run = Store(tmp_path), replace(tiny_run, micro_batch=4, resume_every=5)
    with pytest.raises(StoreError, match=r"too small for Pretraining; choose a smaller micro_batch than 4"):
        store.get(run)
    monkeypatch.undo()
    first = []
    store.get(run, lambda fraction, text: first.append(fraction))
    assert round(first[0] * 60) == 6


class Convolution(nn.Module):
    """h + ReLU of a convolution over three neighbours."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.over_three = nn.Conv1d(d_model, d_model, 3, padding=1)

    def forward(self, h, context, at=None):
        return chosen(h + self.over_three(h.transpose(1, 2)).relu().transpose(1, 2), at)


class ConvolutionalModel(MaskedLanguageModel):
    def context(self, tokens, lengths):
        return None


@dataclass(frozen=True)
class ConvolutionShape(Shape):
    """A family unknown to the library."""

    plain = True

    d_model: int
    layers: int

    def build(self, words, max_length, seed=None, norm="pre", dropout=0.0):
        self.check_plain(norm == "post", dropout > 0)
        with torch.random.fork_rng():
            torch.manual_seed(seed or 0)
            blocks = [Convolution(self.d_model) for _ in range(self.layers)]
            return ConvolutionalModel(self.d_model, words, max_length, blocks, nn.Identity())

    @property
    def matrix_parameters(self):
        return 3 * self.layers * self.d_model**2

    def flops(self, words, length):
        return 6.0 * length * self.matrix_parameters

    def activations(self, length):
        return 4 * self.layers * self.d_model


def test_a_new_family_of_models_trains_and_is_priced(tiny_run, tmp_path):
    toy = replace(tiny_run, shape=ConvolutionShape(8, 2))
    checkpoints = Store(tmp_path).get(toy)
    assert checkpoints.history.loss.iloc[-10:].mean() < checkpoints.history.loss.iloc[:10].mean()
    assert isinstance(checkpoints.last(), ConvolutionalModel)
    assert toy.flops == 60 * 16 * toy.shape.flops(3, 4)
    assert toy.memory > 0
    with pytest.raises(ParameterError, match="ConvolutionShape cannot be trained with post-LN, dropout"):
        replace(toy, dropout=0.1)


def test_a_training_starts_from_the_checkpoint_that_it_names(tiny_run, whole):
    still = Optimisation(1, 16, 1e-30, warmup=0.0, optimiser="sgd")
    after = replace(tiny_run, origin=tiny_run, origin_step=20, optimisation=still, checkpoints=(1,))
    first, last = (whole.get(run).last() for run in (after, replace(after, origin_step=None)))
    origin = whole.get(tiny_run)
    for model, step in ((first, 20), (last, 60)):
        pairs = zip(model.parameters(), origin.model(step).parameters(), strict=True)
        assert all(a.equal(b) for a, b in pairs)
    with pytest.raises(ParameterError, match="no checkpoint after 30 steps"):
        replace(after, origin_step=30)
