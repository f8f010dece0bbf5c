"""Probabilistic context-free grammars, with exact conditionals by the inside-outside algorithm.

The folder has tables of rules, the chart that sums over derivations, the sampler of sentences and trees,
random grammars like those of the paper (App. A.1), and text formats. To the rest of the library, a grammar
is a `Language` like any other.
"""
