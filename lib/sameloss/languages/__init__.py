"""Distributions over sentences with exactly known conditionals."""

from sameloss.languages.grammar import Grammar
from sameloss.languages.hmm import HMM, HMMSpec
from sameloss.languages.language import (
    MASK,
    Language,
    LanguageSpec,
    Sentences,
    mask_one,
    substituted_conditionals,
)
from sameloss.languages.layered import PCFGSpec
from sameloss.languages.opt_teacher import TeacherSpec
from sameloss.languages.pcfg import PCFG, Task

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
