"""The paper's languages (App. A.1): their shapes, and the members calibrated to the published entropies."""

from dataclasses import replace

from sameloss.languages.grammars.layered import PCFGSpec
from sameloss.languages.hmm import HMMSpec

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
