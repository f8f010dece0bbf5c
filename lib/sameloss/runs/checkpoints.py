"""What a training leaves on disk: checkpoints of its model, and the state from which it resumes."""

import hashlib
import io
import pickle
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from sameloss.device import accelerated, best_device, device_name
from sameloss.errors import ParameterError, StoreError
from sameloss.models.masked_model import MaskedLanguageModel, Shape
from sameloss.runs.sampling import CorpusSampling
from sameloss.store.store import Folder, Run, log, write_atomically
from sameloss.training.loop import TrainingStep

HISTORY = "history.csv"

# The state from which a killed training resumes.


STEP = 1e8
"""Floating-point operations that take a core as long as what a training step does besides its own."""

SAVE_S = 120.0
"""Seconds after which a state is saved however few steps were made: what an interruption costs at most."""


class Resumable:
    """The saved state of a training that may be killed; see `pretrain` on how exactly it resumes.

    A state can be loaded only by the version of torch and on the kind of device that saved it. Anywhere else
    it is refused rather than discarded, since it may be worth hours of GPU time.
    """

    def __init__(self, folder: Path, parts: Mapping[str, Any], every: int, *, writes: bool = True) -> None:
        """Describe the state, without reading or writing it.

        Args:
            folder: where it is saved.
            parts: what training changes, by name; each has `state_dict` and `load_state_dict`.
            every: steps between saves.
            writes: whether this process saves it; of several that share a training, one does.

        """
        self.path, self.every, self.writes = folder / "resume.pt", every, writes
        self.parts = parts
        self.history: list[TrainingStep] = []
        self.saved, self._next_s = 0, time.monotonic() + SAVE_S
        # another card sums in another order, as one does
        device = "a GPU" if accelerated() else device_name()
        self.origin = f"torch {torch.__version__} on {device}"

    def record(self, step: TrainingStep) -> None:
        """Add a step to the history, and save the state if it is due, by steps or by time."""
        self.history.append(step)
        if step.done % self.every == 0 or time.monotonic() > self._next_s:
            self.saved, self._next_s = step.done, time.monotonic() + SAVE_S
            if self.writes:
                self._save()

    def write_history(self, folder: Path) -> None:
        """Write the table that `Checkpoints.history` reads."""
        pd.DataFrame(self.history, columns=["step", "loss", "lr"]).to_csv(folder / HISTORY, index=False)

    def _save(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        state = {
            "step": self.saved,
            "origin": self.origin,
            "history": torch.tensor(self.history, dtype=torch.float64),
            **{name: part.state_dict() for name, part in self.parts.items()},
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getbuffer()
        write_atomically(self.path, hashlib.sha256(content).digest(), content)

    def load(self, files: Callable[[int], Iterable[Path]] = lambda step: ()) -> int:
        """Restore the saved state, if there is one, and return its step (0: start from scratch).

        Args:
            files: other files written up to a step, which a resumed training would not write again; if one
                is missing, training starts from scratch.

        Raises:
            StoreError: if the state was saved elsewhere or by another model.

        """
        state = self._read()
        if state is None:
            return 0
        missing = [path.name for path in files(state["step"]) if not path.is_file()]
        if missing:
            log.warning("%s, which belongs to the saved state, is missing; training starts over.", missing[0])
            return 0
        try:
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
        except (RuntimeError, ValueError, TypeError, AttributeError, KeyError):  # torch lists all names
            raise self._refusal(
                f"(step {state['step']}) is of a model of another shape or version of the code"
            ) from None
        self.saved = int(state["step"])
        self.history = [TrainingStep(int(done), loss, lr) for done, loss, lr in state["history"].tolist()]
        return self.saved

    def _read(self) -> dict[str, Any] | None:
        """Read the state; None if there is none or its bytes are damaged."""
        if not self.path.exists():
            return None
        content = memoryview(self.path.read_bytes())
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            log.warning("The saved state %s is damaged; training starts over.", self.path.name)
            return None
        try:
            state = torch.load(io.BytesIO(content[32:]), map_location=best_device(), weights_only=True)
            step, origin = state["step"], state["origin"]
        except (pickle.UnpicklingError, TypeError, EOFError, KeyError):
            raise self._refusal(f"cannot be read by {self.origin}") from None
        if origin != self.origin:
            raise self._refusal(f"(step {step}) is of {origin}, and this is {self.origin}")
        return state

    def _refusal(self, reason: str) -> StoreError:
        return StoreError(
            f"The saved state {self.path} {reason}; resume where it was made, or delete it to start over."
        )


# The models along a pre-training.


class Checkpoints:
    """The models along a finished pre-training, read on demand."""

    def __init__(
        self, folder: Folder, steps: tuple[int, ...], new_model: Callable[[], MaskedLanguageModel]
    ) -> None:
        """Open a folder of weights.

        Args:
            folder: that of the result.
            steps: those after which weights were saved.
            new_model: makes the initial model, which the weights must fit.

        """
        self.folder, self.steps, self.new_model = folder, steps, new_model

    def last(self) -> MaskedLanguageModel:
        return self.model(self.steps[-1])

    def model(self, step: int) -> MaskedLanguageModel:
        """Load the model after `step` steps in evaluation mode on the best device; 0: the initial model.

        Raises:
            ParameterError: for a step without a checkpoint.
            StoreError: if the result comes from a record, which omits weights.

        """
        if step not in (0, *self.steps):
            steps = ", ".join(map(str, self.steps))
            raise ParameterError(f"No weights are kept after {step} steps; choose one of 0, {steps}.")
        model = self.new_model()
        try:
            if step:
                model.load_state_dict(load_file(self.folder / weights_name(step)))
        except FileNotFoundError:
            raise self._not_recorded("weights") from None
        return model.to(best_device()).eval()

    @property
    def history(self) -> pd.DataFrame:
        """Loss on the batch (nats per masked token) and learning rate of each step.

        Raises:
            StoreError: if the result comes from a record that omits them.

        """
        try:
            return pd.read_csv(self.folder / HISTORY)
        except FileNotFoundError:
            raise self._not_recorded("losses") from None

    def _not_recorded(self, what: str) -> StoreError:
        return StoreError(
            f"The record of {self.folder.name} omits its {what}; the property `complete` of the store gives "
            "one that trains it again."
        )


class TrainedRun(Run):
    """A run whose result is the `Checkpoints` of one model; subclasses define what is declared here."""

    accelerated = True
    weight_suffixes = (".safetensors",)
    lazy_suffixes = (HISTORY,)

    if TYPE_CHECKING:  # a dataclass would take a property here for the default of a field

        @property
        def corpus(self) -> CorpusSampling: ...

        @property
        def shape(self) -> Shape: ...

        @property
        def checkpoints(self) -> tuple[int, ...]:
            """Steps after which weights are saved."""

    @property
    def parameter_count(self) -> int:
        language = self.corpus.language
        return self.shape.parameter_count(language.words, language.max_length)

    @property
    def sentence_flops(self) -> float:
        """Floating-point operations of training on one sentence of maximal length."""
        language = self.corpus.language
        return self.shape.flops(language.words, language.max_length)


def weights_name(step: int) -> str:
    """File name of the weights after a step."""
    return f"step-{step:07}.safetensors"


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file atomically, from tensors of any device and layout."""
    write_atomically(path, save({name: value.cpu().contiguous() for name, value in tensors.items()}))
