"""The languages of this study with their tasks, and the models that are trained on each (Appendix A.1)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from sameloss.languages import HierarchySpec, HMMSpec, LanguageSpec, PCFGSpec, TeacherSpec
from sameloss.languages.paper import PAPER_HMM, PAPER_LANGUAGE
from sameloss.models.encoder import EncoderShape
from sameloss.models.masked_model import Shape
from sameloss.models.sizes import LSTM_SIZES, SIZES


@dataclass(frozen=True)
class Domain:
    """A language with its tasks, and the models that are trained on it."""

    language: LanguageSpec
    tasks: tuple[str, ...]
    sizes: Mapping[str, Shape]  # those a page shows, smallest first
    compared: str  # the size at which algorithms are compared
    by_name: Mapping[str, Shape] = field(default_factory=dict)  # further ones, to be asked for by name
    exact_share: float = 0.0  # of the steps, the first ones: trained on the exact conditionals
    most_seeds: int | None = None  # of pre-training, where they are fewer than the preset's
    tuned: Mapping[str, float] = field(default_factory=dict)  # by what a size's learning rate is multiplied

    @property
    def shapes(self) -> dict[str, Shape]:
        """Return all shapes that can be asked for, by name."""
        return {**self.sizes, **self.by_name}

    def parameter_count(self, size: str) -> int:
        """Return the true number of parameters of a size on this language."""
        return self.shapes[size].parameter_count(self.language.words, self.language.max_length)

    def dimensions(self, size: str) -> dict[str, int]:
        """Return the width, the layers and what else the family of a size has, by name."""
        return asdict(cast(Any, self.shapes[size]))  # every family is a dataclass, see `Shape`


def some(names: str, family: str) -> dict[str, Shape]:
    """Return the transformers of a family that are named."""
    return {name: SIZES[family][name] for name in names.split()}


LAPTOP_LANGUAGE = HierarchySpec(levels=3, symbols=3, rules=2, smoothing=0.03, seed=9)
"""Where `language_search` ends; see `grammars/laptop.txt`."""

LAPTOP_HMM = HMMSpec(
    states=16,
    words=16,
    length=8,
    blocks=2,
    transition_concentration=0.15,
    emission_concentration=1.0,
    smoothing=0.1,
)
"""Chosen by how close models come to it, and by its states being hard to tell: of a few candidates the one
with the smallest KL, and smoother still. Even the best guess of a hidden state is right half of the time.
"""

LAPTOP_TEACHER = TeacherSpec(scale=0.5, logit_scale=0.7)
"""Sharper ones are too hard: even of this one the smallest model stays 0.03 nats away."""

SMOKE_LANGUAGE = PCFGSpec(
    levels=2,
    start_symbols=3,
    symbols=3,
    start_rules=3,
    rules=3,
    words=6,
    words_per_symbol=3,
    rule_concentration=0.7,
    emission_concentration=0.7,
    smoothing=0.03,
    seed=1,
)

TINY_LANGUAGE = replace(
    SMOKE_LANGUAGE,
    start_symbols=2,
    symbols=2,
    start_rules=2,
    words=3,
    words_per_symbol=2,
    rule_concentration=1.0,
    emission_concentration=1.0,
    smoothing=0.1,
    seed=3,
)
"""Four tokens of three words: everything it can mask, 108 sentences, is a population."""

TINY_SHAPE = EncoderShape(d_model=8, heads=2, layers=1, d_inter=16)
"""A model whose dense Hessian takes seconds."""

SMOKE_HMM = replace(LAPTOP_HMM, states=4, words=6, length=4)

SMOKE_TEACHER = TeacherSpec(words=6, max_length=4, topics=2, d_model=4)


SMOKE = {
    "PCFG": Domain(SMOKE_LANGUAGE, ("root", "span2"), SIZES["smoke"], "3K", LSTM_SIZES["smoke"]),
    "HMM": Domain(SMOKE_HMM, ("state2", "state3"), SIZES["smoke"], "3K", LSTM_SIZES["smoke"]),
    "OPT": Domain(SMOKE_TEACHER, ("topic",), SIZES["smoke"], "3K", LSTM_SIZES["smoke"]),
}

_TWO = some("10K 40K", "laptop")

EXACT_FIRST = 0.75
"""Three quarters of a laptop's training: on sampled labels alone the largest size does not saturate in time.
The stand-in's conditionals take too long."""

# Bare tokens read the third task, `span2`, in all sentences: nothing could be better.
LAPTOP_LONG = {
    "PCFG": Domain(
        LAPTOP_LANGUAGE, ("root", "span4"), SIZES["laptop"], "40K", LSTM_SIZES["laptop"], EXACT_FIRST
    ),
    "HMM": Domain(LAPTOP_HMM, ("state3", "state5"), _TWO, "40K", LSTM_SIZES["laptop"], EXACT_FIRST),
    "OPT": Domain(LAPTOP_TEACHER, ("topic",), _TWO, "40K", LSTM_SIZES["laptop"]),
}

_LARGER = some("40K 155K", "laptop")

LAPTOP = LAPTOP_LONG | {
    "PCFG": replace(LAPTOP_LONG["PCFG"], sizes=_LARGER, by_name={**SIZES["laptop"], **LSTM_SIZES["laptop"]}),
    "OPT": replace(LAPTOP_LONG["OPT"], most_seeds=1),
}
"""In half as many steps 10K does not saturate on the grammar; on the stand-in no size does."""

_LADDER = {"2.8K": SIZES["workstation"]["2.8K"], **SIZES["laptop"], "615K": SIZES["workstation"]["615K"]}
_SMALLEST = some("2M 5M", "paper")

WORKSTATION = {
    "PCFG": replace(
        LAPTOP_LONG["PCFG"], sizes=_LADDER, compared="155K", tuned={"10K": 2.0, "40K": 2.0, "615K": 0.5}
    ),
    "HMM": replace(
        LAPTOP_LONG["HMM"], sizes=_LADDER, compared="155K", tuned=dict.fromkeys(("2.8K", "10K", "40K"), 0.5)
    ),
    "OPT": LAPTOP_LONG["OPT"],
    "HMM-LSTM": Domain(
        LAPTOP_HMM,
        ("state3", "state5"),
        LSTM_SIZES["laptop"],
        "L15K",
        exact_share=EXACT_FIRST,
        most_seeds=3,
        tuned={"L4K": 0.5, "L15K": 2.0},
    ),
    "PCFG-paper": Domain(PAPER_LANGUAGE, ("root", "span16", "span8"), _SMALLEST, "2M", most_seeds=3),
    "HMM-paper": Domain(PAPER_HMM, ("state6", "state10"), _SMALLEST, "2M", most_seeds=3),
}
"""The laptop's languages with a ladder of sizes over two orders of magnitude; the HMM with the paper's own
class of models; and the paper's own languages with the smallest sizes of its Table 3. Of three learning rates
for each size the one with the smallest KL is taken, which `rate_search` has found; the paper's languages were
not searched."""

PAPER = {
    "PCFG": Domain(PAPER_LANGUAGE, ("root", "span16", "span8"), SIZES["paper"], "235M", LSTM_SIZES["paper"]),
    "HMM": Domain(PAPER_HMM, ("state6", "state10"), LSTM_SIZES["paper"], "67M", LSTM_SIZES["paper"]),
    "OPT": Domain(LAPTOP_TEACHER, ("topic",), SIZES["paper"], "235M", LSTM_SIZES["paper"]),
}

GPU = {
    name: replace(domain, sizes=some("2M 5M 9M 13M 41M", "paper"), compared="9M", by_name={})
    for name, domain in PAPER.items()
}
