"""How much is run along the minimisers, and the tiny languages it is run on."""

from dataclasses import dataclass, replace
from typing import ClassVar

from sameloss.languages import HMMSpec
from sameloss.studies.config import Config, param
from sameloss.studies.parameters import PRESETS as PRESET_NAMES


@dataclass(frozen=True)
class FlowConfig(Config):
    """Rates, batches and lengths of the runs of Section 3; times are rate² × steps / batch."""

    key_name: ClassVar[str] = "FlowSettings"

    learning_rate: float = param(
        "the largest of SGD with batch size 1; each next is half; None: 0.2", 0.2, kind=float, example="0.1"
    )
    halvings: int = 3
    batches: tuple[int, ...] = (1, 4, 8)
    relative_rates: tuple[float, ...] = (1.0, 2.0, 2.0)  # of each batch, to those of batch 1
    replicas: int = param(  # of batch B, this over its root
        "independent runs of SGD at each rate; None: the preset's", 300, most=100_000
    )
    horizon: float = 6.0
    finite_rate: float = 0.5  # not small, with ever larger batches
    finite_batches: tuple[int, ...] = (1, 4, 16, 64)
    adam_rates: tuple[float, ...] = (0.02, 0.01, 0.005)
    adam_forgetting: float = 0.1  # 1 - β2, over the rate
    adam_batch: int = 4
    adam_epsilon: float = 0.02
    adam_replicas: int = 40
    adam_horizon: float = 0.6  # of Adam beside its flow
    end_horizon: float = 6.0  # of Adam to its end
    flat_horizon: float = 64.0  # of the flows to the flattest points
    landscape_steps: int = 8000

    def rates(self, batch: int) -> list[float]:
        """Return a batch's learning rates, largest first."""
        largest = self.learning_rate * self.relative_rates[self.batches.index(batch)]
        return [largest / 2**k for k in range(self.halvings + 1)]

    def replicas_of(self, batch: int) -> int:
        """Return how many replicas: a larger batch scatters less."""
        return max(8, int(self.replicas / batch**0.5))


FLOW_LANGUAGE = HMMSpec(
    states=2,
    words=3,
    length=2,
    blocks=1,
    transition_concentration=0.1,
    emission_concentration=0.3,
    smoothing=0.1,
    seed=2,
)
"""Two tokens of three words: six masked sentences, on which Theorem 3.3 can be watched."""

ZEROS_LANGUAGE = replace(
    FLOW_LANGUAGE, states=4, words=4, blocks=2, transition_concentration=0.3, emission_concentration=0.5,
    smoothing=0.0,
)  # fmt: skip
"""Half of its conditionals are zero: a word tells the block of the other."""

SMOOTH_LANGUAGE = replace(ZEROS_LANGUAGE, smoothing=FLOW_LANGUAGE.smoothing)
"""The same without zeros."""


PRESETS = {name: FlowConfig(name) for name in PRESET_NAMES} | {
    "smoke": FlowConfig(
        "smoke",
        halvings=2,
        batches=(1, 4),
        relative_rates=(1.0, 2.0),
        replicas=60,
        horizon=2.0,
        finite_batches=(1, 4, 16),
        adam_rates=(0.02, 0.01),
        adam_replicas=16,
        adam_horizon=0.1,
        end_horizon=1.0,
        flat_horizon=4.0,
        landscape_steps=2000,
    ),
    # Without SGD's smallest rates, which take most of its steps. The limit of Adam needs all of its three.
    "laptop": FlowConfig("laptop", halvings=2),
}
"""All but the first two are alike: tiny models need no more than a laptop."""
