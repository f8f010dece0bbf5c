"""What trained runs keep: checkpoints, and a state from which training goes on."""

import hashlib
import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from safetensors.torch import load_file, save

from sameloss.device import best_device, device_name
from sameloss.errors import ParameterError, StoreError
from sameloss.models.masked_model import MaskedLanguageModel, Shape
from sameloss.runs.sampling import CorpusSampling
from sameloss.store.store import Run, log, write_atomically
from sameloss.training.loop import TrainingStep

# The state from which a killed training goes on.


class Resumable:
    """A training's state on disk, from which it goes on when it was killed; how exactly, see `pretrain`.

    The state is used again only with the torch version and on the kind of device that saved it. Elsewhere
    it is refused and not ignored: hours of a GPU are not thrown away for a version.
    """

    def __init__(
        self,
        folder: Path,
        parts: Mapping[str, Any],
        every: int,
        *,
        writes: bool = True,
    ) -> None:
        """Take what the state consists of, without reading or writing it.

        Args:
            folder: where the state is kept.
            parts: what training changes, by name: model and optimiser, or an ensemble; each can return its
                `state_dict` and load one.
            every: number of steps after which the state is saved.
            writes: whether this process writes; of several that share a training one does.

        """
        self.path, self.every, self.writes = folder / "resume.pt", every, writes
        self.parts = parts
        self.history: list[TrainingStep] = []
        self.saved = 0
        self.origin = f"torch {torch.__version__} on {device_name()}"

    def record(self, step: TrainingStep) -> None:
        """Take note of a step, and save the state if it is time."""
        self.history.append(step)
        if step.done % self.every == 0:
            self.saved = step.done
            if self.writes:
                self._save()

    def _save(self) -> None:
        """Replace the state on disk; its hash comes before it."""
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

    def load(self, beside: Callable[[int], Iterable[Path]] = lambda step: ()) -> int:
        """Bring all parts and the history to the saved state, if there is one; return its step.

        Args:
            beside: the files that a computation has written when it has come so far, and would not write
                again; without one of them it starts over.

        Raises:
            StoreError: where the state was saved elsewhere, or is not one of this model.

        """
        state = self._read()
        if state is None:
            return 0
        lost = [path.name for path in beside(state["step"]) if not path.is_file()]
        if lost:
            log.warning("Beside the resumable state %s is not there; training starts over.", lost[0])
            return 0
        try:
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
        except (RuntimeError, ValueError, TypeError, AttributeError):  # torch lists every name and shape
            raise self._foreign(state, "a model of another shape or version of the code") from None
        self.saved = int(state["step"])
        self.history = [TrainingStep(int(done), loss, lr) for done, loss, lr in state["history"].tolist()]
        return self.saved

    def _read(self) -> dict[str, Any] | None:
        if not self.path.exists():
            return None
        content = memoryview(self.path.read_bytes())
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            log.warning("The resumable state %s is damaged; training starts over.", self.path.name)
            return None
        try:
            state = torch.load(io.BytesIO(content[32:]), map_location=best_device(), weights_only=True)
            known = {"step", "origin", "history", *self.parts} <= set(state)
        except (pickle.UnpicklingError, TypeError, EOFError):
            known = False
        if not known:
            raise StoreError(
                f"The saved state {self.path} is none that {self.origin} reads; go on where it was made, or "
                "delete it to start over."
            )
        if state["origin"] != self.origin:
            raise self._foreign(state, f"{state['origin']}, and this is {self.origin}")
        return state

    def _foreign(self, state: dict[str, Any], origin: str) -> StoreError:
        """Return the refusal of a state from which this training cannot go on."""
        return StoreError(
            f"The saved state {self.path} (step {state['step']}) is of {origin}; go on where it was made, "
            "or delete it to start over."
        )


# The models along a pre-training, on disk.

HISTORY = "history.csv"


class Checkpoints:
    """The models along one pre-training, read when they are asked for."""

    def __init__(
        self, folder: Path, steps: tuple[int, ...], new_model: Callable[[], MaskedLanguageModel]
    ) -> None:
        """Open the folder of a finished pre-training.

        Args:
            folder: holds the weights.
            steps: after which weights were kept.
            new_model: makes a model that the weights fit.

        """
        self.folder, self.steps, self.new_model = folder, steps, new_model

    def last(self) -> MaskedLanguageModel:
        """Return the model after all steps."""
        return self.model(self.steps[-1])

    def model(self, step: int) -> MaskedLanguageModel:
        """Return the model after `step` steps, on the best device at hand; 0: as it was drawn, untrained.

        Raises:
            ParameterError: for a step after which no weights were kept.
            StoreError: where the weights are not those of this version's model.

        """
        if step not in (0, *self.steps):
            kept = ", ".join(map(str, self.steps))
            raise ParameterError(f"No weights are kept after {step} steps; choose one of 0, {kept}.")
        model = self.new_model()
        if step == 0:
            return model.to(best_device()).eval()
        path = self.folder / weights_name(step)
        try:
            model.load_state_dict(load_file(path))
        except FileNotFoundError:
            raise self._not_recorded("weights") from None
        except RuntimeError:  # torch lists every name and shape
            raise StoreError(
                f"The weights {path} are not those of the model that this version of the code makes of "
                "their run; read them with the version in their manifest.json, or move the folder away to "
                "train again."
            ) from None
        return model.to(best_device()).eval()

    @property
    def history(self) -> pd.DataFrame:
        """Return the loss on the batch (nats a masked token) and the learning rate of each step.

        Raises:
            StoreError: where a record had them not.

        """
        try:
            return pd.read_csv(self.folder / HISTORY)
        except FileNotFoundError:
            raise self._not_recorded("losses") from None

    def _not_recorded(self, what: str) -> StoreError:
        return StoreError(
            f"A record had no {what} of {self.folder.name}, only what was measured of it; "
            "the property `whole` of its store is one that trains it again."
        )


class TrainedRun(Run):
    """A run whose result is checkpoints of one model: what measurements of models read."""

    weights = (".safetensors",)

    details = (HISTORY,)

    if TYPE_CHECKING:  # a dataclass would take what stands here for the default of its field

        @property
        def corpus(self) -> CorpusSampling:
            """Return what the model is trained on."""

        @property
        def shape(self) -> Shape:
            """Return its shape."""

        @property
        def checkpoints(self) -> tuple[int, ...]:
            """Return the steps after which weights are kept."""

    def load(self, folder: Path) -> Checkpoints:
        """Open the checkpoints."""
        raise NotImplementedError


def weights_name(step: int) -> str:
    """Return the file name of the weights after a step."""
    return f"step-{step:07}.safetensors"


def save_weights(model: MaskedLanguageModel, path: Path) -> None:
    """Write the weights of a model, wherever they are."""
    weights = {name: value.cpu().contiguous() for name, value in model.state_dict().items()}
    write_atomically(path, save(weights))


def write_history(steps: list[TrainingStep], folder: Path) -> None:
    """Write loss and learning rate of each step, for `Checkpoints.history`."""
    pd.DataFrame(steps, columns=["step", "loss", "lr"]).to_csv(folder / HISTORY, index=False)
