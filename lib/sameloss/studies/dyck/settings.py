"""How long the bracket strings are, how wide the models, and how much is searched and trained."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from sameloss.seeds import generator_for
from sameloss.studies.config import Config, param
from sameloss.studies.dyck.language import check_length
from sameloss.studies.dyck.transformer import check_width
from sameloss.studies.parameters import PRESETS as PRESET_NAMES


@dataclass(frozen=True)
class DyckConfig(Config):
    """How long the sentences and how wide the models are, and how much is searched, drawn and trained."""

    key_name: ClassVar[str] = "DyckSettings"

    length: int = param("T, even, 6 to 10; None: 6", 6, name="sentence_length", example="8")
    width: int = param("m, neurons of the trained models, from 2; None: the preset's", 8, most=100_000)
    rank: int = 4  # rows of Q and K of what is trained
    restarts: int = 8
    minimisation_steps: int = 1000
    samples: tuple[int, ...] = (1, 2, 3, 5, 8, 12, 16, 24)  # downstream samples, n
    repetitions: int = 4000  # of drawing n samples
    feature_widths: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    feature_seeds: int = 10
    noises: tuple[float, ...] = (0.0, 0.5, 1.0)  # of the labels, which are 1 and -1
    seeds: int = 10  # of each noise
    training_steps: int = param("of SGD; None: the preset's", 12_000, name="steps")
    batch: int = 16
    lr: float = 0.4
    few: int = 16  # downstream samples that a trained model's head is fitted on
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what Theorem 5.1 is not about."""
        super().__post_init__()
        check_length(self.length)
        check_width(self.width)

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the widths at which the trace is minimised."""
        return tuple(sorted({2, 4, self.width}))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the lengths of which the probability of success is shown."""
        return tuple(sorted({6, 8, self.length}))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Return the steps of training that are measured: every twelfth of it."""
        return tuple(round(self.training_steps * share / 12) for share in range(13))

    def generator(self, use: str) -> torch.Generator:
        """Return random numbers for one use."""
        return generator_for(f"dyck {use}", self.seed)


PRESETS = {name: DyckConfig(name) for name in PRESET_NAMES} | {
    "smoke": DyckConfig(
        "smoke",
        width=4,
        restarts=4,
        minimisation_steps=300,
        samples=(1, 5),
        repetitions=1000,
        feature_widths=(16, 128, 256),
        feature_seeds=3,
        seeds=2,
        training_steps=600,
    ),
    "laptop": DyckConfig("laptop", minimisation_steps=700, feature_seeds=5, training_steps=8000),
}
"""All but the first two are alike: tiny models need no more than a laptop."""
