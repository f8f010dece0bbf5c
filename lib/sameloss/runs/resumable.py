"""The state from which a killed training goes on."""

import hashlib
import io
from pathlib import Path

import torch

from sameloss.device import device_name
from sameloss.errors import StoreError
from sameloss.store.files import write_atomically
from sameloss.store.store import log


class Resumable:
    """The state from which a killed training goes on; how exactly, see `pretrain`.

    It is used again only with the torch version and on the kind of device that saved it, and refused
    elsewhere: hours of a GPU are not thrown away for a version.
    """

    def __init__(
        self, folder: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, *, writes: bool = True
    ) -> None:
        self.path, self.writes = folder / "resume.pt", writes
        self.model, self.optimiser, self.saved = model, optimiser, 0
        self.device = next(model.parameters()).device
        self.origin = f"torch {torch.__version__} on {device_name()}"

    def save(self, step: int, history: list) -> None:
        """Replace the state on disk, led by its hash; of several processes one does."""
        self.saved = step
        if not self.writes:
            return
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
        content = buffer.getbuffer()
        write_atomically(self.path, hashlib.sha256(content).digest(), content)

    def load(self) -> tuple[int, list]:
        """Bring model and optimiser to the saved state; return its step and history."""
        state = self._read()
        if state is None:
            return 0, []
        try:
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
        except (RuntimeError, ValueError):  # torch lists every name and shape
            raise self._foreign(state, "a model of another shape or version of the code") from None
        self.saved = state["step"]
        return self.saved, [(int(s), loss, lr) for s, loss, lr in state["history"].tolist()]

    def _read(self) -> dict | None:
        if not self.path.exists():
            return None
        content = memoryview(self.path.read_bytes())
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            log.warning("The resumable state %s is damaged; training starts over.", self.path.name)
            return None
        state = torch.load(io.BytesIO(content[32:]), map_location=self.device, weights_only=True)
        if state["origin"] != self.origin:
            raise self._foreign(state, f"{state['origin']}, and this is {self.origin}")
        return state

    def _foreign(self, state: dict, origin: str) -> StoreError:
        """Return the refusal of a state from which this training cannot go on."""
        return StoreError(
            f"The saved state {self.path} (step {state['step']}) is of {origin}; go on where it was made, "
            "or delete it to start over."
        )
