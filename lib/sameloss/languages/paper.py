"""Languages of the paper's shape, calibrated to the published entropies (App. A.1).

The paper's grammar and HMM are not public, only their dimensions and their masked entropies. So the Dirichlet
concentration of random ones is bisected until the entropy agrees. For grammars, the probability of early
stopping is solved for the published mean length at every concentration.
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
"""Words, symbols (50 with the start) and length as in App. A.1; levels, rules, words per symbol and early
stopping as in the released grammar. The seed is the smallest whose calibrated grammar uses all words.
"""

PAPER_HMM_SHAPE = HMMSpec(
    states=100, words=200, length=16, blocks=4, transition_concentration=1.0, emission_concentration=1.0
)
"""Words, states and length as in App. A.1. The number of blocks is not published; four is the largest
possible, as the entropy of five equal blocks is at most ln 40 = 3.689, below the published one.
"""

PAPER_LANGUAGE = replace(
    PAPER_SHAPE,
    rule_concentration=0.1493,
    emission_concentration=0.1493,
    early_stop=(0.104477, 0.261193),
)
"""Calibrated to the published masked entropy of 3.196 nats and mean length of 17 tokens.

The last spec of `calibrate(pcfg_family(PAPER_SHAPE, 17.0), 3.196, (0.1, 0.25), sentences=20_000)`, its
concentration rounded to four digits.
"""

PAPER_HMM = replace(PAPER_HMM_SHAPE, transition_concentration=0.2642, emission_concentration=0.2642)
"""Calibrated to the published masked entropy of 3.758 nats.

The last spec of `calibrate(hmm_family(PAPER_HMM_SHAPE), 3.758, (0.1, 1.0), sentences=20_000,
tolerance=0.001)`, its concentration rounded to four digits.
"""


EARLY_STOP = (0.1, 0.25)
"""Range of the probabilities of early stopping in the released grammar, which calibration scales."""


class Tried(NamedTuple):
    """A concentration, and the entropy of its language in nats per masked token."""

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
    """Bisect the logarithm of the concentration until the language has a target entropy.

    Args:
        family: the language of each concentration.
        entropy: the target, in nats per masked token.
        concentrations: a lower and an upper one, whose entropies bracket the target.
        tolerance: accepted error in nats; at least one standard error of the estimate is accepted.
        sentences: sentences per estimate.
        seed: seed of the sentences.

    Returns:
        All evaluations in order; the last is the calibrated language.

    Raises:
        LanguageError: if no concentration reaches the target.

    """
    low, high = map(log, concentrations)
    tried: list[Tried] = []

    def excess(at: float) -> float:
        spec, generator = family(exp(at)), torch.Generator().manual_seed(seed)
        language = spec.build()
        estimate = masked_entropy(language, language.sample(sentences, generator), generator)
        tried.append(Tried(exp(at), spec, estimate))
        return estimate.mean - entropy

    if not excess(low) < 0 < excess(high):
        ends = " and ".join(f"{t.entropy.mean:.3f}" for t in tried)
        raise LanguageError(
            f"An entropy of {entropy} nats is not between those of the concentrations "
            f"{concentrations}: {ends}."
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
    """Grammars of one shape and mean length, with the same concentration for rules and emissions."""
    return lambda c: with_mean_length(
        replace(shape, rule_concentration=c, emission_concentration=c), mean_length
    )


def with_mean_length(spec: PCFGSpec, tokens: float) -> PCFGSpec:
    """Scale the probabilities of early stopping until the exact mean length is `tokens`.

    Raises:
        ValueError: if no scale gives this length.

    """

    def stopping(scale: float) -> PCFGSpec:
        low, high = (round(scale * probability, 6) for probability in EARLY_STOP)
        return replace(spec, early_stop=(low, high))

    def excess(scale: float) -> float:
        return stopping(scale).grammar().mean_length - tokens

    return stopping(brentq(excess, 0.0, 3.9, xtol=1e-6))


def hmm_family(shape: HMMSpec) -> Callable[[float], HMMSpec]:
    """HMMs of one shape, with the same concentration for transitions and emissions."""
    return lambda c: replace(shape, transition_concentration=c, emission_concentration=c)
