"""The runs that make models: corpus sampling and pre-training."""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from safetensors.torch import load_file, save

from sameloss.corpus import Batches, Corpus, EndlessCorpus, stream_seed, write_corpus
from sameloss.errors import NonFiniteLoss
from sameloss.languages import LanguageSpec
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.pretrain import Optimisation, make_optimiser, pretrain
from sameloss.runs import SCRATCH, Report, Run, Store, device_name, log, write_atomically


@dataclass(frozen=True)
class CorpusSampling(Run):
    """A pre-training corpus: uint16 shards, or nothing where sentences are drawn without end."""

    language: LanguageSpec
    sentences: int | None  # None: every batch is sampled afresh
    seed: int

    schema: ClassVar[int] = 2

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Sample the shards."""
        if self.sentences is None:
            return
        language = self.language.build()
        told = lambda done: report(done / self.sentences, f"{done:,} sentences")  # noqa: E731
        write_corpus(language, self.sentences, self.seed, folder, told)

    def load(self, folder: Path) -> Batches:
        """Open the shards."""
        return Corpus(folder) if self.sentences else EndlessCorpus(self.language.build(), self.seed)

    @property
    def effort(self) -> float:
        """Return sentences in millions."""
        return (self.sentences or 0) / 1e6


class Checkpoints:
    """The models along one pre-training."""

    def __init__(self, folder: Path, run: "Pretraining") -> None:
        """Open the folder of a finished pre-training."""
        self.folder, self.run = folder, run
        self.steps = run.checkpoints

    def model(self, step: int) -> Encoder:
        """Return the model after `step` steps, on the best device at hand."""
        model = self.run.new_model()
        model.load_state_dict(load_file(self.folder / _weights_name(step)))
        return model.to(best_device()).eval()

    @property
    def history(self) -> pd.DataFrame:
        """Return loss (nats a masked token, training batches) and learning rate along the run."""
        return pd.read_csv(self.folder / "history.csv")


@dataclass(frozen=True)
class Pretraining(Run):
    """One pre-training run and its checkpoints."""

    corpus: CorpusSampling
    shape: EncoderShape
    optimisation: Optimisation
    seed: int
    checkpoints: tuple[int, ...]
    micro_batch: int
    resume_every: int
    dtype: str = "float32"

    def new_model(self) -> Encoder:
        """Return the initial model."""
        language = self.corpus.language
        model = Encoder(
            self.shape, language.words, language.max_length, stream_seed("initial weights", self.seed)
        )
        return model.to(getattr(torch, self.dtype))

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train, from the last resumable state if there is one."""
        corpus = store.get(self.corpus)
        model = self.new_model().to(best_device())
        optimiser = make_optimiser(model, self.optimisation)
        resumable = Resumable(folder / SCRATCH, model, optimiser)
        start, history = resumable.load()
        batch = self.optimisation.batch
        steps = pretrain(
            model,
            optimiser,
            lambda step: corpus.batch(stream_seed("batches", self.seed), step, batch),
            self.optimisation,
            start=start,
            micro_batch=self.micro_batch,
        )
        try:
            for step in steps:
                history.append(step)
                if step.done in self.checkpoints:
                    _save_weights(model, folder / _weights_name(step.done))
                if step.done % self.resume_every == 0:
                    resumable.save(step.done, history)
                report(step.done / self.optimisation.steps, f"loss {step.loss:.3f}")
        except NonFiniteLoss as error:
            raise NonFiniteLoss(
                f"{error}, seed {self.seed}. The last saved state (step {resumable.saved}) is kept; "
                "choose a smaller lr."
            ) from None
        pd.DataFrame(history, columns=["step", "loss", "lr"]).to_csv(folder / "history.csv", index=False)

    def load(self, folder: Path) -> Checkpoints:
        """Open the checkpoints."""
        return Checkpoints(folder, self)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds on a laptop's core."""
        tokens = self.optimisation.steps * self.optimisation.batch * self.corpus.language.max_length
        return tokens * (self.shape.d_model * self.shape.layers) / 1e7


class Resumable:
    """The state from which a killed training goes on, bit for bit.

    It is used again only with the torch version and on the kind of device that saved it.
    """

    def __init__(self, folder: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
        self.path = folder / "resume.pt"
        self.model, self.optimiser, self.saved = model, optimiser, 0
        self.device = next(model.parameters()).device
        self.origin = f"torch {torch.__version__} on {device_name()}"

    def save(self, step: int, history: list) -> None:
        """Replace the state on disk, led by its hash."""
        self.path.parent.mkdir(exist_ok=True)
        state = {
            "step": step,
            "origin": self.origin,
            "history": torch.tensor(history, dtype=torch.float64),
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getvalue()
        write_atomically(self.path, hashlib.sha256(content).digest() + content)
        self.saved = step

    def load(self) -> tuple[int, list]:
        """Bring model and optimiser to the saved state; return its step and history."""
        state = self._read()
        if state is None:
            return 0, []
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.saved = state["step"]
        return state["step"], [(int(s), loss, lr) for s, loss, lr in state["history"].tolist()]

    def _read(self) -> dict | None:
        if not self.path.exists():
            return None
        content = self.path.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            log.warning("The resumable state %s is damaged; training starts over.", self.path.name)
            return None
        state = torch.load(io.BytesIO(content[32:]), map_location=self.device, weights_only=True)
        if state["origin"] != self.origin:
            log.warning("Training starts over: %s made the saved state.", state["origin"])
            return None
        return state


def _weights_name(step: int) -> str:
    return f"step-{step:07}.safetensors"


def _save_weights(model: Encoder, path: Path) -> None:
    weights = {name: value.cpu().contiguous() for name, value in model.state_dict().items()}
    write_atomically(path, save(weights))


def best_device() -> str:
    """Return `cuda` where there is one, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"
