"""Distributions over sentences with exactly known conditionals.

A language samples sentences and knows Pr(x_t | x_-t), so the best possible loss is a number and not a
guess. Here stand the protocol that all languages follow, the hidden Markov model, grammars and causal
models in folders of their own, and what is asked of any language: masked sentences, labels of its tasks,
its entropy, its calibration. A language knows no model that is trained on it and no run that stores it.
"""

from sameloss.languages.autoregressive import TeacherSpec
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.grammars.layered import HierarchySpec, PCFGSpec
from sameloss.languages.grammars.pcfg import PCFG
from sameloss.languages.hmm import HMM, HMMSpec
from sameloss.languages.language import MASK, Language, LanguageSpec, Sentences, substituted_conditionals
from sameloss.languages.masking import mask_one

__all__ = [
    "HMM",
    "MASK",
    "PCFG",
    "Grammar",
    "HMMSpec",
    "HierarchySpec",
    "Language",
    "LanguageSpec",
    "PCFGSpec",
    "Sentences",
    "TeacherSpec",
    "mask_one",
    "substituted_conditionals",
]
