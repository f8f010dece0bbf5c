"""The models along a pre-training, on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from safetensors.torch import load_file, save

from sameloss.device import best_device
from sameloss.errors import ParameterError, StoreError
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.models.shape import Shape
from sameloss.runs.sampling import CorpusSampling
from sameloss.store.files import write_atomically
from sameloss.store.store import Run
from sameloss.training.loop import TrainingStep

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
