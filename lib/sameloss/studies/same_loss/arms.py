"""All comparisons of the book as one: every language and every algorithm, computed when asked for."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sameloss.store.store import Run
from sameloss.studies.same_loss.groups import Setting
from sameloss.studies.same_loss.results import Results, collect_all, saturated
from sameloss.training.algorithms import label


@dataclass(frozen=True)
class Arm:
    """One group of pre-trainings, all seeds of it."""

    algorithm: str | None = None  # None: ordinary training of all sizes, as long as the preset says
    strength: float | None = None
    language: str = "PCFG"
    two_sizes: bool = False  # the two smallest; an algorithm is otherwise studied at one size
    full_length: bool = False  # as many steps as ordinary training; a study otherwise has fewer

    def setting(self, base: Setting) -> Setting:
        """Return the arm's setting."""
        on = base.on(self.language)
        if self.algorithm is None:
            return on
        studied = on.study(self.algorithm, self.strength, full_length=self.full_length)
        return studied.across(on.sizes[:2]) if self.two_sizes else studied

    @property
    def label(self) -> str:
        """Name the arm in tables."""
        return label(self.algorithm or "adamw", self.strength)


MAIN, HMM, OPT = Arm(), Arm(language="HMM"), Arm(language="OPT")

ADAMW, SOFT, SGD = Arm("adamw"), Arm("soft"), Arm("sgd")

AFTER, AFTER_HMM = (Arm("sgd-after", language=name, full_length=True) for name in ("PCFG", "HMM"))

POST_LN = Arm("post-ln")

ADVERSARIAL = tuple(Arm("adversarial", weight) for weight in (0.003, 0.006, 0.012))

NOISE = tuple(Arm("sgd-noise", scale) for scale in (0.0, 0.5, 1.0))

SAM, PENALTY = Arm("sam"), Arm("trace-penalty")

REGULARISED = (Arm("dropout"), Arm("weight-decay"))

ONE_MASK, MASK_RATE = Arm("adamw", two_sizes=True), Arm("mask-rate", two_sizes=True)

EVERYWHERE = [MAIN, HMM, OPT]

TRAINED = [ADAMW, *ADVERSARIAL, SOFT, SGD, *REGULARISED]

ARMS: dict[str, list[Arm]] = {
    "01_introduction": [*EVERYWHERE, ADAMW, *ADVERSARIAL, *NOISE],
    "02_existence": EVERYWHERE,
    "04_flatness": [*EVERYWHERE, AFTER, AFTER_HMM, ADAMW, *ADVERSARIAL],
    "a3_models": [ADAMW, POST_LN],
    "a4_algorithms": [*TRAINED, *NOISE],
    "b2_enlargement": [MAIN],
    "d_practice": [ADAMW, SAM, PENALTY, *REGULARISED, *ADVERSARIAL, SOFT],
    "e_mask_rate": [MASK_RATE, ONE_MASK],
}
"""What each chapter compares."""

ARMS["verdicts"] = list(dict.fromkeys(arm for arms in ARMS.values() for arm in arms))


@dataclass
class Study:
    """The results of a setting's arms, each gathered once.

    A page about all sizes that is asked for one of them shows ordinary training of that one alone.
    """

    setting: Setting
    arms: list[Arm]
    _found: dict[Arm, Results] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep what goes with one size, and what the preset trains."""
        if MAIN in self.arms and len(self.setting.sizes) == 1:
            self.arms = [MAIN]
        self.arms = self.present(self.arms)

    def present(self, arms: Iterable[Arm]) -> list[Arm]:
        """Return those of the arms that the preset does not leave out."""
        return [arm for arm in arms if arm.label not in self.setting.preset.left_out]

    def of(self, arm: Arm) -> Results:
        """Return the results of an arm."""
        self.prepare([arm])
        return self._found[arm]

    def prepare(self, arms: Iterable[Arm] | None = None) -> None:
        """Compute what is missing of several arms (all where None) together."""
        missing = [arm for arm in dict.fromkeys(arms or self.arms) if arm not in self._found]
        if missing:
            found = collect_all([arm.setting(self.setting) for arm in missing])
            self._found.update(zip(missing, found, strict=True))

    def runs(self, arms: Iterable[Arm] | None = None) -> list[Run]:
        """Return the runs that several arms (all where None) read."""
        return [run for arm in arms or self.arms for run in arm.setting(self.setting).runs()]

    def strongest_saturated(self, arms: tuple[Arm, ...]) -> Arm | None:
        """Return the last of the arms, ordered by strength, whose seeds all end saturated.

        The rule by which one of a sweep is judged: it looks at the loss alone.
        """
        sweep = self.present(arms)
        self.prepare(sweep)
        good = [arm for arm in sweep if saturated(self.of(arm), *self.of(arm).sizes)]
        return good[-1] if good else None
