"""The runs that measure languages themselves: entropy, lengths, words, ceilings, calibration."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import HMMSpec, Language, LanguageSpec, PCFGSpec, Sentences
from sameloss.languages.calibration import calibrate, hmm_family, pcfg_family
from sameloss.languages.entropy import blind_entropy, length_distribution, masked_entropy, word_shares
from sameloss.languages.labels import ceilings
from sameloss.seeds import generator_for
from sameloss.statistics.estimate import Estimate
from sameloss.store.store import Report, Run, Store

NATS_TOLERANCE = 0.005
"""How near to the published entropy a calibration stops, on its own sentences."""


class LanguageStatistics(NamedTuple):
    """The tidy tables that `LanguageMeasurement` makes."""

    entropy: Estimate  # nats a masked token
    blind: float  # entropy of a token given position and length alone; NaN where it cannot be summed
    lengths: pd.DataFrame  # length (tokens), probability, sampled (share of sentences)
    words: pd.DataFrame  # word, share of the tokens
    ceilings: pd.DataFrame  # one row a task: see `Ceilings`

    @property
    def mean_length(self) -> float:
        """The mean number of tokens, exact where the language can sum over all words."""
        column = "sampled" if self.lengths.probability.isna().any() else "probability"
        return float(self.lengths.length @ self.lengths[column])


@dataclass(frozen=True)
class LanguageMeasurement(Run):
    """Entropy, lengths, words and label ceilings of a language."""

    language: LanguageSpec
    tasks: tuple[str, ...]
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw sentences once and measure everything on them."""
        language = self.language.build()
        generator = generator_for("statistics", self.seed)
        sentences = language.sample(self.sentences, generator)
        entropy = masked_entropy(language, sentences, generator)
        tables = {
            "entropy": pd.DataFrame([{**entropy._asdict(), "blind": _blind(language)}]),
            "lengths": _lengths(language, sentences),
            "words": pd.DataFrame({"share": word_shares(language, sentences).tolist()}),
            "ceilings": pd.DataFrame(
                [{"task": task, **ceilings(language, sentences, task)._asdict()} for task in self.tasks],
                columns=["task"] if not self.tasks else None,
            ),
        }
        tables["words"].insert(0, "word", range(1, language.words + 1))
        for name, table in tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)

    def load(self, folder: Path) -> LanguageStatistics:
        """Return the tables."""
        names = ("entropy", "lengths", "words", "ceilings")
        entropy, *tables = (pd.read_csv(folder / f"{name}.csv") for name in names)
        mean, error, count, blind = entropy.iloc[0]
        return LanguageStatistics(Estimate(mean, error, int(count)), blind, *tables)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences * self.language.max_length * self.language.words / 1e7


def _blind(language: Language) -> float:
    try:
        return blind_entropy(language)
    except LanguageError:  # an autoregressive language cannot sum over all tokens
        return float("nan")


def _lengths(language: Language, sentences: Sentences) -> pd.DataFrame:
    sampled = sentences.lengths.bincount(minlength=language.max_length + 1)[1:] / len(sentences.lengths)
    try:
        exact = length_distribution(language).tolist()
    except LanguageError:  # an autoregressive language cannot sum over all tokens
        exact = [float("nan")] * len(sampled)
    length = range(1, language.max_length + 1)
    return pd.DataFrame({"length": length, "probability": exact, "sampled": sampled.tolist()})


@dataclass(frozen=True)
class Calibration(Run):
    """The search for the concentration that gives a language of some shape a wanted entropy."""

    shape: PCFGSpec | HMMSpec
    entropy: float  # nats a masked token
    mean_length: float | None  # tokens; None where all sentences have one length
    concentrations: tuple[float, float]
    sentences: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Search, and write down all that was tried."""
        tried = calibrate(
            self._family(),
            self.entropy,
            self.concentrations,
            tolerance=NATS_TOLERANCE,
            sentences=self.sentences,
            seed=self.seed,
        )
        rows = [{"concentration": t.concentration, **t.entropy._asdict()} for t in tried]
        pd.DataFrame(rows).to_csv(folder / "tried.csv", index=False)

    def _family(self) -> Callable[[float], LanguageSpec]:
        if isinstance(self.shape, HMMSpec):
            return hmm_family(self.shape)
        if self.mean_length is None:
            raise ParameterError("Sentences of a grammar differ in length; give their mean_length.")
        return pcfg_family(self.shape, self.mean_length)

    def load(self, folder: Path) -> pd.DataFrame:
        """Return one row for each language tried: its concentration, and its entropy with the error."""
        return pd.read_csv(folder / "tried.csv")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return self.sentences / 200
