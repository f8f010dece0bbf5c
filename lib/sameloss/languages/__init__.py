"""Distributions over sentences with exactly known conditionals.

A language samples sentences and computes Pr(x_t | x_-t), so the lowest possible loss is known exactly. The
folder has the protocol of all languages, three families of them (grammars, hidden Markov models,
autoregressive transformers), and functions of any language: masked sentences, task labels, entropies,
calibration. Languages do not depend on the models that are trained on them or on stored runs.
"""

from sameloss.languages.autoregressive import TeacherSpec
from sameloss.languages.grammars.layered import HierarchySpec, PCFGSpec
from sameloss.languages.grammars.pcfg import PCFG
from sameloss.languages.hmm import HMMSpec
from sameloss.languages.language import Language, LanguageSpec, Sentences, substituted_conditionals
from sameloss.languages.masking import mask_one

__all__ = [
    "PCFG",
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
