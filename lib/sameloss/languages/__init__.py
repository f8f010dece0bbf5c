"""Distributions over sentences with exactly known conditionals."""

from sameloss.languages.autoregressive.teacher import TeacherSpec
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.grammars.layered import PCFGSpec
from sameloss.languages.grammars.pcfg import PCFG, Task
from sameloss.languages.hmm import HMM, HMMSpec
from sameloss.languages.language import MASK, Language, LanguageSpec, Sentences, substituted_conditionals
from sameloss.languages.masking import mask_one

__all__ = [
    "HMM",
    "MASK",
    "PCFG",
    "Grammar",
    "HMMSpec",
    "Language",
    "LanguageSpec",
    "PCFGSpec",
    "Sentences",
    "Task",
    "TeacherSpec",
    "mask_one",
    "substituted_conditionals",
]
