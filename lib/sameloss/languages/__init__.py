"""Distributions over sentences with exactly known conditionals."""

from sameloss.languages.language import MASK, Language, Sentences, mask_one
from sameloss.languages.pcfg import LayeredPCFG, PCFGSpec

__all__ = ["MASK", "Language", "LayeredPCFG", "PCFGSpec", "Sentences", "mask_one"]
