"""Probabilistic context-free grammars, whose sentences have exact conditionals by the inside pass.

Here stand tables of rules, the chart that sums over derivations, the sampler of trees, the random grammars
of the paper (App. A.1) and their text format. A grammar
knows no model and no training; to the rest of the library it is a `Language` like any other.
"""
