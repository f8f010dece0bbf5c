"""The paper's languages (App. A.1): their shapes, and the members calibrated to the published entropies.

The paper's grammar and HMM are not public, only their dimensions and the entropy of their masked
conditionals. So the concentration of our random ones is searched until the entropy agrees; that of
grammars with the mass of early stop solved for the mean length at every concentration tried.
"""

from collections.abc import Callable
from dataclasses import replace
from math import exp, log
from typing import NamedTuple

import torch
from scipy.optimize import brentq

from sameloss.errors import LanguageError
from sameloss.languages.entropy import masked_entropy
from sameloss.languages.grammars.layered import PCFGSpec
from sameloss.languages.hmm import HMMSpec
from sameloss.languages.language import LanguageSpec
from sameloss.statistics.intervals import Estimate

PAPER_SHAPE = PCFGSpec(
    levels=5,
    start_symbols=9,
    symbols=8,
    start_rules=1,
    rules=20,
    words=200,
    words_per_symbol=100,
    rule_concentration=1.0,
    emission_concentration=1.0,
    seed=1,
)
"""Words, symbols (50 with the start) and length as in App. A.1; levels, rules, words a symbol and early
stop as in the released grammar. The seed is the first from 0 on whose calibrated grammar uses all words.
"""

PAPER_HMM_SHAPE = HMMSpec(
    states=100, words=200, length=16, blocks=4, transition_concentration=1.0, emission_concentration=1.0
)
"""Words, states and length as in App. A.1. The number of blocks is not published: five equal ones could
not have the published entropy (ln 40 = 3.689), so these are the most there can be.
"""

PAPER_LANGUAGE = replace(
    PAPER_SHAPE,
    rule_concentration=0.1493,
    emission_concentration=0.1493,
    early_stop=(0.104477, 0.261193),
)
"""Calibrated: its masked entropy is the published 3.196 nats, its mean length 17 tokens.

The last spec of `calibrate(pcfg_family(PAPER_SHAPE, 17.0), 3.196, (0.1, 0.25), sentences=20_000)`, its
concentration rounded to four digits.
"""

PAPER_HMM = replace(PAPER_HMM_SHAPE, transition_concentration=0.2642, emission_concentration=0.2642)
"""Calibrated: its masked entropy is the published 3.758 nats.

The last spec of `calibrate(hmm_family(PAPER_HMM_SHAPE), 3.758, (0.1, 1.0), sentences=20_000,
tolerance=0.001)`, its concentration rounded to four digits.
"""


# The search.

EARLY_STOP = (0.1, 0.25)
"""The range in the released grammar; a calibrated one is a multiple of it."""


class Tried(NamedTuple):
    """A concentration with the entropy of the language it gives, in nats a masked token."""

    concentration: float
    spec: LanguageSpec
    entropy: Estimate


def calibrate(
    family: Callable[[float], LanguageSpec],
    entropy: float,
    concentrations: tuple[float, float],
    *,
    tolerance: float = 0.005,
    sentences: int = 10_000,
    seed: int = 0,
) -> list[Tried]:
    """Bisect the concentration, on a logarithmic scale, until the entropy is as wanted.

    Args:
        family: a function from a concentration to a language.
        entropy: the wanted one, in nats a masked token.
        concentrations: two whose entropies lie below and above the wanted one.
        tolerance: accepted error in nats; an estimate's standard error is tolerated in any case.
        sentences: number of sentences of each estimate.
        seed: seed of the sentences.

    Returns:
        All that was tried, in order; the last is the calibrated language.

    Raises:
        LanguageError: where the entropy cannot be reached.

    """
    low, high = map(log, concentrations)
    tried: list[Tried] = []

    def excess(at: float) -> float:
        language, generator = (spec := family(exp(at))).build(), torch.Generator().manual_seed(seed)
        found = masked_entropy(language, language.sample(sentences, generator), generator)
        tried.append(Tried(exp(at), spec, found))
        return found.mean - entropy

    if not excess(low) < 0 < excess(high):
        found = " and ".join(f"{t.entropy.mean:.3f}" for t in tried)
        raise LanguageError(
            f"An entropy of {entropy} nats is not between those of the concentrations "
            f"{concentrations}: {found}."
        )
    while abs(tried[-1].entropy.mean - entropy) > max(tolerance, tried[-1].entropy.standard_error):
        middle = (low + high) / 2
        if high - low < 1e-6:
            raise LanguageError(
                f"The entropy jumps over {entropy} nats near {exp(middle):.4g}; try another seed."
            )
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return tried


def pcfg_family(shape: PCFGSpec, mean_length: float) -> Callable[[float], PCFGSpec]:
    """Return the grammars of one shape and mean length whose rules and emissions share a concentration."""

    def member(concentration: float) -> PCFGSpec:
        spec = replace(shape, rule_concentration=concentration, emission_concentration=concentration)
        return with_mean_length(spec, mean_length)

    return member


def with_mean_length(spec: PCFGSpec, tokens: float) -> PCFGSpec:
    """Scale the mass of early stop until the exact mean length is as wanted.

    Args:
        spec: the grammar.
        tokens: the wanted mean length.

    Raises:
        LanguageError: where no mass of early stop gives it.

    """

    def stopping(scale: float) -> PCFGSpec:
        least, most = (round(scale * mass, 6) for mass in EARLY_STOP)
        return replace(spec, early_stop=(least, most))

    def excess(scale: float) -> float:
        return stopping(scale).grammar().mean_length - tokens

    if excess(0.0) < 0 or excess(3.9) > 0:
        raise LanguageError(
            f"A mean length of {tokens} tokens is not reached; it lies between "
            f"{excess(3.9) + tokens:.3g} and {excess(0.0) + tokens:.3g}."
        )
    return stopping(brentq(excess, 0.0, 3.9, xtol=1e-6))


def hmm_family(shape: HMMSpec) -> Callable[[float], HMMSpec]:
    """Return the HMMs of one shape whose transitions and emissions share a concentration."""
    return lambda c: replace(shape, transition_concentration=c, emission_concentration=c)
