"""Published facts that are no claims."""

ENTROPY = {"PCFG": 3.196, "HMM": 3.758, "OPT": 1.865}
"""Masked entropy of the paper's languages, nats a token: the best possible loss (Section 2.3)."""

MEAN_LENGTH = {"PCFG": 17.0, "HMM": 16.0, "OPT": 16.0}
"""Mean tokens of a sentence, from the numbers of tokens and sentences (App. A.1).

For the HMM the paper prints 1.6e7 tokens in 1e7 sentences of 16 tokens: a slip for 1.6e8.
"""
