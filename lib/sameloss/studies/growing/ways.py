"""Ways to stack: a model grown stage after stage, from a few layers to all of them."""

from dataclasses import dataclass

from sameloss.languages import LanguageSpec
from sameloss.models.encoder import EncoderShape
from sameloss.models.grow import Filling
from sameloss.models.layer_maps import grid, stacked
from sameloss.studies.growing.operators import Operator
from sameloss.training.loop import Optimisation
from sameloss.training.moments import Carried


@dataclass(frozen=True)
class StackingSettings:
    """A model grown stage after stage, from a few layers to all of them."""

    language: LanguageSpec
    shape: EncoderShape  # of the first stage
    added: int  # layers of each later stage
    every: tuple[int, ...]  # of each later stage: tried at every so many-th index
    steps: int  # of each stage but the last
    last_steps: int
    lag: int  # steps after which a stage's operator is chosen
    optimisation: Optimisation  # of the first stage; its rate goes on
    label_noise: float
    seeds: int
    sentences: int
    carried: Carried = "mapped"
    first_seed: int = 0
    looked: int = 4  # times at the last stage, the last at its end

    def __post_init__(self) -> None:
        """Refuse stages that cannot be."""
        for layers in self.depths[:-1]:
            stacked(layers, self.added)

    @property
    def depths(self) -> tuple[int, ...]:
        """Return the number of layers of every stage.

        >>> from sameloss.studies.growing.settings import PRESETS
        >>> PRESETS["laptop"].stacking.depths
        (1, 2, 3, 4)
        """
        return tuple(self.shape.layers + self.added * stage for stage in range(len(self.every) + 1))

    @property
    def longest_lag(self) -> int:
        """Return the largest number of steps after which a stage's operator can be chosen."""
        return min(self.steps, self.looks[0] - 1)

    @property
    def looks(self) -> tuple[int, ...]:
        """Return the steps of the last stage after which the model is kept and looked at."""
        return tuple(round(self.last_steps * look / self.looked) for look in range(1, self.looked + 1))

    def tried(self, way: str, stage: int) -> tuple[Operator, ...]:
        """Return the operators among which a way to stack chooses in a stage, the first one being 1."""
        layers = self.depths[stage - 1]
        top = layers - self.added
        if way == "adaptive":
            places = grid(layers, self.added, self.every[stage - 1])
            return tuple(Operator(index, block, "duplicate") for index, block in places)
        fixed: dict[str, tuple[int, Filling]] = {
            "last": (top, "duplicate"),
            "middle": (top // 2, "duplicate"),
            "random": (top, "random"),
        }
        index, filling = fixed[way]
        return (Operator(index, self.added, filling),)

    @property
    def all_seeds(self) -> range:
        """Return the seeds of the first stage."""
        return range(self.first_seed, self.first_seed + self.seeds)


WAYS = {
    "adaptive": "adaptive (LAG at every stage)",
    "last": "last layers on top",
    "middle": "middle layers repeated",
    "random": "random layers on top",
}
"""Ways to stack: adaptive and last are the thesis' (Table C.2), random its other baseline; repeating the
middle is that of Saunshi et al. (2024)."""
